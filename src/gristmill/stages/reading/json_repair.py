"""Repairs two faults in JSON that would otherwise cost a record: lone surrogates and NaN.

JavaScript cuts strings between the halves of a surrogate pair, and Python writes NaN; both pass their own parsers. A
lone surrogate becomes U+FFFD; NaN and Infinity become null. `_mended` in the row, and so in the document's `meta`,
lists the repairs that this and other readers made. Such documents are counted, and the run reports them.
"""

import re
from typing import Any

import orjson

# Escapes are matched one by one from the left, so that `\\ud800` (a backslash, then letters) is left alone.
_HIGH, _LOW = rb"u[dD][89abAB][0-9a-fA-F]{2}", rb"u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(rb"\\(?:%b\\%b|(%b|%b)|.)" % (_HIGH, _LOW, _HIGH, _LOW), re.DOTALL)
# The closing quote may be missing; otherwise a line of `\"\"\"…` would be searched again from each quote.
_OUTSIDE = re.compile(rb'"(?:[^"\\]|\\.)*+"?|-?\b(?:NaN|Infinity)\b', re.DOTALL)

REPAIRED = "_mended"


def repaired(line: bytes) -> Any:
    """The parsed line if a repair makes it valid JSON, else None."""
    notes = []
    if b"\\ud" in line or b"\\uD" in line:
        fixed = _ESCAPE.sub(lambda found: rb"\ufffd" if found[1] else found[0], line)
        if fixed != line:
            notes.append("lone surrogates")
            line = fixed
    if b"NaN" in line or b"Infinity" in line:
        fixed = _OUTSIDE.sub(lambda found: found[0] if found[0][:1] == b'"' else b"null", line)
        if fixed != line:
            notes.append("not a number")
            line = fixed
    if not notes:
        return None
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if type(row) is dict:
        row[REPAIRED] = notes
    return row

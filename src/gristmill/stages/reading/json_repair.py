"""Two faults in JSON that cost a record elsewhere and need not: halves of surrogate pairs, and NaN.

JavaScript cuts strings between the halves of a pair and Python writes NaN; both then pass their own parsers. A lone
half becomes U+FFFD, NaN and Infinity become null. `_mended` in the row, and so in the document's `meta`, says what was
put right while it was read, here and in other readers; such documents are counted, and a run tells of them.
"""

import re
from typing import Any

import orjson

# Escapes are taken one by one from the left, so that `\\ud800` (a backslash, then letters) is left alone.
_HIGH, _LOW = rb"u[dD][89abAB][0-9a-fA-F]{2}", rb"u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(rb"\\(?:%b\\%b|(%b|%b)|.)" % (_HIGH, _LOW, _HIGH, _LOW), re.DOTALL)
# The closing quote may be missing: else a line of `\"\"\"…` is searched again from each of them.
_OUTSIDE = re.compile(rb'"(?:[^"\\]|\\.)*+"?|-?\b(?:NaN|Infinity)\b', re.DOTALL)

MENDED = "_mended"


def mended(line: bytes) -> Any:
    """The parsed line if mending makes it JSON, else None."""
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
        row[MENDED] = notes
    return row

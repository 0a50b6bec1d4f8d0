"""Parses one JSON text as a row, for the readers of lines and of arrays.

Two faults that would otherwise cost a record are repaired: lone surrogates and NaN. JavaScript cuts strings between the
halves of a surrogate pair, and Python writes NaN; both pass their own parsers. A lone surrogate becomes U+FFFD; NaN and
Infinity become null. `_mended` in the row, and so in the document's `meta`, lists the repairs that this and other
readers made. Such documents are counted, and the run reports them.
"""

import re
from typing import Any

import orjson

from gristmill.stages.reading.decompress import ReadFault

BOM = b"\xef\xbb\xbf"
# Escapes are matched one by one from the left, so that `\\ud800` (a backslash, then letters) is left alone.
_HIGH, _LOW = rb"u[dD][89abAB][0-9a-fA-F]{2}", rb"u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(rb"\\(?:%b\\%b|(%b|%b)|.)" % (_HIGH, _LOW, _HIGH, _LOW), re.DOTALL)
# The closing quote may be missing; otherwise a line of `\"\"\"…` would be searched again from each quote.
_OUTSIDE = re.compile(rb'"(?:[^"\\]|\\.)*+"?|-?\b(?:NaN|Infinity)\b', re.DOTALL)

REPAIRED = "_mended"


def parsed(data: bytes | ReadFault, first: bool) -> dict[str, Any]:
    """The object in the bytes; raises `ReadFault` for anything else. Only the first one of a file may have a byte order
    mark. A `ReadFault` instead of bytes is raised unchanged."""
    try:
        row = orjson.loads(data)  # type: ignore[arg-type]  # a ReadFault fails here as bad bytes do
    except orjson.JSONDecodeError as error:
        row = _parsed_with_care(data, first, error)
    if type(row) is not dict:
        raise ReadFault("not_an_object", f"{kind_of(row)}, and a record is an object")
    return row


_KINDS = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list", dict: "an object"}


def kind_of(value: Any) -> str:
    """What JSON calls the type of a value."""
    return "null" if value is None else _KINDS.get(type(value), f"of type {type(value).__name__}")


def _parsed_with_care(data: bytes | ReadFault, first: bool, error: orjson.JSONDecodeError) -> Any:
    """Parses what orjson rejects but can still be read."""
    if isinstance(data, ReadFault):
        raise data
    if first and data.startswith(BOM):
        data = data.removeprefix(BOM)
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError as after_bom:
            error = after_bom
    try:
        data.decode()
    except UnicodeDecodeError as undecodable:
        at = f"byte {undecodable.start} of the record: {undecodable.reason}"
        raise ReadFault("invalid_utf8", at) from undecodable
    if (row := repaired(data)) is not None:
        return row
    raise ReadFault("invalid_json", f"{error.msg}: column {error.colno}") from error


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

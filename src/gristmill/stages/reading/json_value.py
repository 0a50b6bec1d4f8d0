"""Parses one JSON text as a row, for the readers of lines and of arrays."""

from typing import Any

import orjson

from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.json_repair import repaired

BOM = b"\xef\xbb\xbf"


def parsed(data: bytes | ReadFault, first: bool) -> dict[str, Any]:
    """The object in the bytes; raises `ReadFault` for anything else. Only the first one of a file may have a byte order
    mark. A `ReadFault` instead of bytes is raised unchanged."""
    try:
        row = orjson.loads(data)  # type: ignore[arg-type]  # a ReadFault fails here as bad bytes do
    except orjson.JSONDecodeError as error:
        row = _parsed_with_care(data, first, error)
    if type(row) is not dict:
        raise ReadFault("not_an_object", f"{json_word(row)}, and a record is an object")
    return row


def json_word(value: Any) -> str:
    """The JSON name of a value that is not an object."""
    if value is None or isinstance(value, bool):
        return orjson.dumps(value).decode()
    return "a string" if isinstance(value, str) else "an array" if isinstance(value, list) else "a number"


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

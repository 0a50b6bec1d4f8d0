"""One JSON text as a row: what the readers of lines and of arrays share."""

from typing import Any

import orjson

from gristmill.stages.reading.decompress import Fault
from gristmill.stages.reading.json_repair import mended

BOM = b"\xef\xbb\xbf"


def parsed(data: bytes | Fault, first: bool) -> dict[str, Any]:
    """The object that the bytes are; raises `Fault` for anything else. Only the first of a file may have a mark of its
    byte order. A fault in the place of bytes is raised as it is.
    """
    try:
        row = orjson.loads(data)  # type: ignore[arg-type]  # a Fault fails here as bad bytes do
    except orjson.JSONDecodeError as error:
        row = _parsed_with_care(data, first, error)
    if type(row) is not dict:
        raise Fault("not_an_object", f"{json_word(row)}, and a record is an object")
    return row


def json_word(value: Any) -> str:
    """What JSON calls a value that is no object."""
    if value is None or isinstance(value, bool):
        return orjson.dumps(value).decode()
    return "a string" if isinstance(value, str) else "an array" if isinstance(value, list) else "a number"


def _parsed_with_care(data: bytes | Fault, first: bool, error: orjson.JSONDecodeError) -> Any:
    """What orjson refuses and can be read all the same."""
    if isinstance(data, Fault):
        raise data
    if first and data.startswith(BOM):
        data = data.removeprefix(BOM)
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError as behind_bom:
            error = behind_bom
    try:
        data.decode()
    except UnicodeDecodeError as undecodable:
        at = f"byte {undecodable.start} of the record: {undecodable.reason}"
        raise Fault("invalid_utf8", at) from undecodable
    if (row := mended(data)) is not None:
        return row
    raise Fault("invalid_json", f"{error.msg}: column {error.colno}") from error

"""Maps the fields of a row to the columns of a document, for the readers of JSONL and Parquet.

If a value cannot be used (a list instead of a license, an unreadable date), it stays in `meta` under its own name: the
row is kept, and nothing is lost. Only the text and the markup decide whether a row is dropped.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Self

import orjson
import pyarrow as pa
from pydantic import model_validator

from gristmill.schema import Record
from gristmill.stages.contract import Bytes, StageConfig
from gristmill.stages.reading.json_value import REPAIRED, kind_of
from gristmill.stages.reading.timestamps import microseconds


class Fields(StageConfig):
    """Paths into a row. `meta.url` is the key `meta.url` if the row has one, else `url` within `meta`; a number selects
    an element of a list (`messages.0.content`). null maps nothing."""

    text: str | None = "text"
    """Plain text. A row needs text or html: without both it is `missing_text`; if both are empty, `empty_text`."""
    html: str | None = "html"
    """Markup for an extractor."""
    url: str | None = "url"
    """Where the document was published."""
    key: str | None = None
    """The name of the row within its file: string or integer. It is in the locator, and stays in `meta` under its own
    name. null: the row's position."""
    timestamp: str | None = "timestamp"
    """A date: ISO 8601, a mail date, or a number since 1970 in seconds, milliseconds, microseconds or nanoseconds."""
    license: str | None = "license"
    """An SPDX expression, or the input's own name of a license."""
    title: str | None = "title"
    """The document's title."""
    language: str | None = "language"
    """The language as the input states it."""

    @model_validator(mode="after")
    def _some_text(self) -> Self:
        if self.text is None and self.html is None:
            raise ValueError("fields.text and fields.html are both null, so no row would have text; set one of them")
        if "" in dict(self).values():
            raise ValueError("a field is mapped to an empty path; write the name of a field, or null")
        return self

    def paths(self) -> dict[str, str]:
        """The mapped columns and their paths."""
        return {column: path for column, path in self if path is not None}


class RowConfig(StageConfig):
    """How rows become documents."""

    fields: Fields = Fields()
    """Maps fields to columns. If a table lacks a column that is named here, the file is dropped as `missing_column`.
    The defaults may be missing, but text or html must be there."""
    keep_meta: bool = True
    """Keep the fields that are not mapped, as JSON in `meta`."""
    max_record_bytes: Bytes = 64 << 20
    """A longer record is dropped as `record_too_large` and not held in memory. Bytes, decompressed; of Parquet, of the
    text."""


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _key(value: Any) -> str | None:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else _string(value)


_CONVERT: dict[str, Callable[[Any], Any]] = {
    "url": _string,
    "key": _key,
    "timestamp": microseconds,
    "license": _string,
    "title": _string,
    "language": _string,
}
_COLUMN = {"timestamp": "timestamp_us", "language": "language_hint"}
_BIT = {column: 1 << number for number, column in enumerate(Fields.model_fields)}  # in `Record.fields`


def mapper(fields: Fields, keep_meta: bool) -> Callable[[int, dict[str, Any]], Record]:
    """A function from a position and a row to a record. It removes the mapped fields from the row, except the key."""
    paths = fields.paths()
    text_path = paths.pop("text", None)
    html_path = paths.pop("html", None)
    others = [(path, _COLUMN.get(column, column), _CONVERT[column], _BIT[column]) for column, path in paths.items()]

    def record(position: int, row: dict[str, Any]) -> Record:
        found = Record(position)
        spent: list[tuple[Any, Any]] = []
        text, html = locate(row, text_path), locate(row, html_path)
        has = (_BIT["text"] if text else 0) | (_BIT["html"] if html else 0)
        _body(found, text, html, spent)
        if found.drop == "missing_text":
            paths = [path for path in (text_path, html_path) if path is not None]
            nulls = [path for path in paths if locate(row, path) is not None]
            found.detail = nothing_under(paths, field_names(row), nulls)
        elif found.drop == "bad_field_type":
            below = [name for path in (text_path, html_path) for name in _strings_below(row, path)]
            found.detail = f"{found.detail}{_there(below) if below else ''}"
        for path, column, convert, bit in others:
            # `in` first: most rows are flat, and most lack some of the fields.
            place = (row, path) if path in row else locate(row, path) if "." in path else None
            if place is not None:
                has |= bit
                value = convert(place[0][place[1]])
                if value is not None:
                    setattr(found, column, value)
                    if column != "key":  # the locator has it together with the file's name; in meta it can be queried
                        spent.append(place)
        found.fields = has
        if keep_meta:
            for container, name in spent:
                if isinstance(container, dict):
                    container.pop(name, None)
                else:
                    container[name] = None  # keeps the neighbours' numbers
            if row:
                found.meta = dump(row)
        elif REPAIRED in row:
            found.meta = dump({REPAIRED: row[REPAIRED]})
        return found

    return record


def locate(row: Any, path: str | None) -> tuple[Any, Any] | None:
    """The container and the name or number at which a path ends, or None if the row has no such path."""
    if path is None:
        return None
    if path in row:
        return row, path
    *steps, last = path.split(".")
    for step in steps:
        if isinstance(row, dict) and step in row:
            row = row[step]
        elif isinstance(row, list) and step.isdecimal() and int(step) < len(row):
            row = row[int(step)]
        else:
            return None
    if isinstance(row, dict) and last in row:
        return row, last
    if isinstance(row, list) and last.isdecimal() and int(last) < len(row):
        return row, int(last)
    return None


def _body(
    record: Record, text: tuple[Any, Any] | None, html: tuple[Any, Any] | None, spent: list[tuple[Any, Any]]
) -> None:
    """Sets text and markup, or the reason why there is neither. A mapped null counts as missing."""
    fault = None
    for column, place in (("text", text), ("html", html)):
        value = place[0][place[1]] if place else None
        if place is None or value is None:
            continue
        if not isinstance(value, str):
            fault = fault or f"{column} is {kind_of(value)}, not a string"
        elif value and not value.isspace():
            setattr(record, column, value)
            spent.append(place)
        else:
            spent.append(place)
            record.drop, record.detail = "empty_text", f"{column} has {len(value)} characters, none of them visible"
    if record.text is not None:
        record.drop = record.detail = None
    elif fault is not None:
        record.drop, record.detail = "bad_field_type", fault
    elif record.html is not None:
        record.drop = record.detail = None
    elif record.drop is None:
        record.drop = "missing_text"


MOST_NAMES = 40
MOST_NAME_CHARACTERS = 60
_HAS = "; there are "


def missing_paths(fields: Fields, is_there: Callable[[str], bool]) -> list[str]:
    """The paths that a file with known columns lacks. Default paths may be missing, but text or html must be there."""
    paths, usual = fields.paths(), Fields().paths()
    bodies = [paths[column] for column in ("text", "html") if column in paths]
    if not any(map(is_there, bodies)):
        return bodies
    return [path for column, path in paths.items() if path != usual.get(column) and not is_there(path)]


def unique_names(columns: Iterable[str]) -> list[str]:
    """The names of columns; one that an earlier column has gets its number: `text` and `text_2`."""
    names: dict[str, None] = {}
    for number, name in enumerate(columns, 1):
        names[f"{name}_{number}" if name in names else name] = None
    return list(names)


def field_names(row: Mapping[str, Any]) -> list[str]:
    """The fields of a row that a path could name: those with a value, and those one level down."""
    found: list[str] = []
    for name, value in row.items():
        if len(found) >= MOST_NAMES:
            break
        if isinstance(value, dict) and value:
            found += [f"{name}.{below}" for below, one in islice(value.items(), MOST_NAMES) if one is not None]
        elif value is not None:
            found.append(str(name))
    return found


def count_fields(config: StageConfig, found: Mapping[int | None, int], metas: pa.Array) -> dict[str, dict[str, Any]]:
    """How many records have each column, from {`Record.fields`: records}, and the names of unmapped fields."""
    if not isinstance(getattr(config, "fields", None), Fields):
        return {}
    mapped = {bits: records for bits, records in found.items() if bits is not None}
    has = {column: sum(count for bits, count in mapped.items() if bits & bit) for column, bit in _BIT.items()}
    rows = (orjson.loads(meta) for meta in metas[:MOST_NAMES].to_pylist() if meta)
    names = dict.fromkeys(name[:MOST_NAME_CHARACTERS] for row in rows for name in field_names(row) if name != REPAIRED)
    there = {"names": json.dumps(list(names)[:MOST_NAMES])} if names else {}
    return {"fields": {"rows": sum(found.values()), "mapped": sum(mapped.values()), **has, **there}}


def nothing_under(paths: Sequence[str], names: Sequence[str], nulls: Sequence[str] = ()) -> str:
    """The detail of a record or file that lacks all of the paths; some may be null."""
    absent = [path for path in paths if path not in nulls]
    facts = [f"{' and '.join(nulls)} {'is' if len(nulls) == 1 else 'are'} null"] if nulls else []
    facts += [f"nothing under {' or '.join(absent)}"] if absent else []
    return f"{', '.join(facts)}{_there(names)}"


def _there(names: Sequence[str]) -> str:
    """The fields that are there instead."""
    some = [name[:MOST_NAME_CHARACTERS] for name in names[:MOST_NAMES]]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{_HAS}{json.dumps(some, ensure_ascii=False)}{more}" if names else f"{_HAS}no fields with a value"


def _strings_below(row: dict[str, Any], path: str | None) -> list[str]:
    """Paths of the strings one level below a path, which may be an object, a list, or a list of objects."""
    place = locate(row, path)
    value = place[0][place[1]] if place else None
    if isinstance(value, list) and value:
        path, value = f"{path}.0", value[0]
        if isinstance(value, str):
            return [path]
    fields = islice(value.items(), MOST_NAMES) if isinstance(value, dict) else ()
    return [f"{path}.{name}" for name, one in fields if isinstance(one, str)]


def names_there(detail: str) -> list[str]:
    """The field names that a detail lists."""
    listed = detail.partition(_HAS)[2]
    end = listed.rfind("]") + 1
    try:
        found = orjson.loads(listed[:end])
    except orjson.JSONDecodeError:
        return []
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def dump(row: dict[Any, Any]) -> str:
    """A row as JSON. Values without a JSON type are written as text; more than 254 nested levels are not (orjson)."""
    try:
        return orjson.dumps(row, default=_spell, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError as error:
        return orjson.dumps({"_unwritable": str(error)}).decode()


def _spell(value: Any) -> str | list[Any]:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    return str(value)

"""Checks what a stage returns: it must be exactly what the stage declares, or the run stops.

Compiled code of a later step would misread a column of another type, and crash far from the fault. So nothing is cast
and nothing is guessed here, whether the stage is Gristmill's or the user's.
"""

import math
import numbers
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from gristmill.counted import counted
from gristmill.errors import BrokenPromise, UserError
from gristmill.schema import Record, spelt
from gristmill.stages.contract import Piece
from gristmill.stages.own_code import OF, is_own

KEY = pa.field("key", pa.uint64())
ORIGIN = (pa.field("part", pa.uint64()), pa.field("row", pa.int64()))
"""How a record of an exchange names its row."""
_RECORD_TYPES: dict[str, type] = dict.fromkeys(Record.__slots__, str)
_RECORD_TYPES |= {"position": int, "timestamp_us": int, "fields": int, "doc_id": bytes, "more": tuple}
_DOC_ID_BYTES = 16


def check_answers(answers: object, rows: int, module: str, promised: pa.Schema) -> pa.RecordBatch:
    """Check what `apply` returned: one row for each row, with the columns of its schema."""
    where = label_of(module, "apply")
    found = _checked(answers, promised, where, "schema", pa.RecordBatch)
    if found.num_rows != rows:
        raise BrokenPromise(
            f"{where} returned {counted(found.num_rows, 'row')} for {rows}, but it must give a verdict on every row "
            "and remove none. Return one row for each, in order; a reason in `drop` removes a document."
        )
    return found


def check_emitted(records: Any, rows: int, module: str, keyed: pa.Schema) -> pa.RecordBatch:
    """Check what `emit` of an exchange returned: its record_schema, a key and a row of the batch."""
    where = label_of(module, "emit")
    row = records.schema.field("row") if _has(records, "row") else pa.field("row", pa.int64())
    if not pa.types.is_integer(row.type):
        row = pa.field("row", pa.int64())
    found = _checked(records, pa.schema([KEY, row, *keyed]), where, "record_schema (with key and row)", pa.RecordBatch)
    _whole(found, ("key", "row"), where)
    _below(found.column("row"), rows, where, "row", f"the rows of a batch are 0 to {rows - 1}")
    return found


def check_sent(records: object, entries: int, module: str, keyed: pa.Schema, rows: int | None = None) -> pa.RecordBatch:
    """Check what `emit` of a sink returned: its record_schema, and the number of an entry of the layout; if records
    carry rows, also a row of the batch, which has `rows` rows.
    """
    where = label_of(module, "emit")
    if rows is None:
        found = _checked(records, pa.schema([KEY, *keyed]), where, "record_schema (with key)", pa.RecordBatch)
        _whole(found, ("key",), where)
    else:
        found = check_emitted(records, rows, module, keyed)
    _below(
        found.column("key"),
        entries,
        where,
        "key",
        f"the layout of this source has {counted(entries, 'entry', 'entries')}",
    )
    return found


def check_round(found: object, module: str, verb: str, promised: pa.Schema | None) -> tuple[pa.Table, dict[str, Any]]:
    """Check what a round of an exchange returned, and its counts; in the last round, `promised` is its schema."""
    where = label_of(module, verb)
    records, counts = found if isinstance(found, tuple) and len(found) == 2 else (found, {})
    if promised is None:
        if not _has(records, "key") or not isinstance(records, pa.Table):
            raise _wrong_kind(where, records, pa.Table, "a new `key`")
        schema = pa.schema([KEY if item.name == "key" else item for item in records.schema])
        table = _checked(records, schema, where, "the contract", pa.Table)
        _whole(table, ("key",), where)
    else:
        table = _checked(records, pa.schema([*ORIGIN, *promised]), where, "schema (with part and row)", pa.Table)
        _whole(table, ("part", "row"), where)
    return table, check_counts(counts, module, verb)


def check_places(at: Any, rows: int, module: str) -> None:
    """Check which rows the answers of an exchange belong to: at most one answer per row."""
    where = label_of(module, "reduce")
    _below(pa.array(at), rows, where, "row", f"the rows of the part are 0 to {rows - 1}")
    if len(np.unique(at)) != len(at):
        raise BrokenPromise(f"{where} returned two answers for a row. Return at most one for each part and row.")


DEEPEST = 16
"""How deep counts may be nested."""
MOST = 2**63


def check_tally(counts: object, module: str) -> dict[str, Any]:
    """Check counts over all documents. Tasks end in any order, and only whole numbers always add up to the same sum."""
    plain = check_counts(counts, module, "tally")
    _refuse_fractions(plain, module)
    return plain


def _refuse_fractions(counts: Mapping[str, Any], module: str) -> None:
    for name, value in counts.items():
        if isinstance(value, Mapping):
            _refuse_fractions(value, module)
        elif isinstance(value, float):
            raise BrokenPromise(
                f"{label_of(module, 'tally')} gave {value} as {name!r}. Sums of fractions depend on the order in which "
                "tasks end. Count in whole numbers."
            )


def check_counts(counts: object, module: str, verb: str, depth: int = 0) -> dict[str, Any]:
    """Counts that a stage returned, as plain numbers."""
    if depth > DEEPEST:
        raise BrokenPromise(
            f"{label_of(module, verb)} returned counts that are nested more than {DEEPEST} deep. Return them flatter."
        )
    if not isinstance(counts, Mapping):
        raise BrokenPromise(
            f"{label_of(module, verb)} returned {_kind_of(counts)} as its counts, but counts are names with numbers. "
            "Return a dict."
        )
    plain: dict[str, Any] = {}
    for name, value in counts.items():
        if isinstance(value, Mapping):
            plain[_name(name, module, verb)] = check_counts(value, module, verb, depth + 1)
        elif isinstance(value, numbers.Integral | np.bool_) and -MOST <= int(value) < MOST:
            plain[_name(name, module, verb)] = int(value)
        elif isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral) and math.isfinite(value):
            plain[_name(name, module, verb)] = float(value)
        else:
            raise BrokenPromise(
                f"{label_of(module, verb)} returned {_kind_of(value)} as its count {name!r}, but a count is a number "
                "of up to 64 bits. Return numbers, or dicts of numbers."
            )
    return plain


def _name(name: object, module: str, verb: str) -> str:
    if not _is_text(str(name)):
        raise BrokenPromise(
            f"{label_of(module, verb)} returned a count with an invalid name ({str(name)!r}). Rename it."
        )
    return str(name)


def check_facts(facts: object, module: str) -> dict[str, Any]:
    """Check the facts that a sink returned about all its files: a JSON object."""
    where = label_of(module, "facts")
    if not isinstance(facts, Mapping):
        raise BrokenPromise(f"{where} returned {_kind_of(facts)}, but facts are names with values. Return a dict.")
    plain: dict[str, Any] = _json(dict(facts), where)
    return plain


def check_totals(totals: object, module: str) -> dict[str, Any]:
    """Check what the rounds of an exchange get about all documents: a JSON object."""
    where = label_of(module, "totals")
    if not isinstance(totals, Mapping):
        raise BrokenPromise(f"{where} returned {_kind_of(totals)}, but totals are names with values. Return a dict.")
    if _has_none_finite(totals):
        raise BrokenPromise(f"{where} returned NaN or infinity, which JSON cannot represent. Return finite numbers.")
    plain: dict[str, Any] = _json(dict(totals), where)
    return plain


def _has_none_finite(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_none_finite, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_has_none_finite, value))
    return isinstance(value, float) and not math.isfinite(value)


def check_layout(layout: object, module: str) -> dict[str, list[dict[str, Any]]]:
    """Check the sets of files that a sink wants to write."""
    where = label_of(module, "layout")
    if not isinstance(layout, Mapping) or not all(
        isinstance(entries, list | tuple) and all(isinstance(entry, Mapping) for entry in entries)
        for entries in layout.values()
    ):
        raise BrokenPromise(f"{where} returned {_kind_of(layout)}. Return {{source: [entry, ...]}}, each entry a dict.")
    plain: dict[str, list[dict[str, Any]]] = _json(
        {str(name): [dict(entry) for entry in entries] for name, entries in layout.items()}, where
    )
    return plain


def check_files(folder: Path, names: Sequence[str], module: str, verb: str) -> None:
    """Check that a stage wrote its files."""
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise BrokenPromise(
            f"{label_of(module, verb)} did not write {', '.join(missing)}. Write it to the path in its arguments."
        )


def check_records(records: object, module: str, piece: Piece, columns: int) -> Iterator[Record]:
    """Check the records of a user's own reader, which adds so many columns."""
    if not isinstance(records, Iterable):
        raise BrokenPromise(f"{label_of(module, 'read')} returned {_kind_of(records)}. Yield a Record for each record.")
    last = piece.start - 1
    for record in records:
        yield _checked_record(record, module, last, piece.stop, columns)
        last = record.position


def _checked_record(record: object, module: str, after: int, stop: int | None, columns: int) -> Record:
    """Check that the fields of a record have their types, and that its position comes after the last one's."""
    where = label_of(module, "read")
    if not isinstance(record, Record):
        raise BrokenPromise(f"{where} yielded {_kind_of(record)}. Yield Record(position, ...) of gristmill.schema.")
    for name, kind in _RECORD_TYPES.items():
        value = getattr(record, name)
        if (value is not None or name == "position") and (not isinstance(value, kind) or isinstance(value, bool)):
            fix = "Decode it" if isinstance(value, bytes) else "Convert it"
            raise BrokenPromise(
                f"{where} returned {name} as {type(value).__name__}, but a Record has {kind.__name__}. {fix}, or "
                "omit it."
            )
        if isinstance(value, str) and not _is_text(value):
            raise BrokenPromise(
                f"{where} returned {name} with a lone surrogate (half a character), which no file can store. Decode "
                'with errors="replace".'
            )
    if record.doc_id is not None and len(record.doc_id) != _DOC_ID_BYTES:
        size = len(record.doc_id)
        raise BrokenPromise(f"{where} returned a doc_id of {size} bytes. Return {_DOC_ID_BYTES}, or none.")
    if record.more and len(record.more) != columns:
        raise BrokenPromise(
            f"{where} returned more with {counted(len(record.more), 'value')}, but its columns are {columns}. Return "
            "one value for each column that Reader declares."
        )
    if record.position <= after or (stop is not None and record.position >= stop):
        raise BrokenPromise(
            f"{where} returned the position {record.position} after {after}, but positions must rise within a file"
            + (f" and be below the piece's stop, {stop}." if stop is not None else ".")
            + " Yield the records of [piece.start, piece.stop) in order."
        )
    return record


def _checked(given: Any, promised: pa.Schema, where: str, promise: str, kind: Any) -> Any:
    """The columns of `promised`, in its order; raises BrokenPromise if others were given, or other types."""
    if not isinstance(given, kind):
        raise _wrong_kind(where, given, kind, f"the columns {', '.join(promised.names)}")
    names = given.schema.names
    for name in names:
        if name not in promised.names:
            raise BrokenPromise(
                f"{where} wrote the column {name} ({given.schema.field(names.index(name)).type}), which its {promise} "
                f"does not declare: {', '.join(promised.names)}. Declare it, or omit it."
            )
        if names.count(name) > 1:
            raise BrokenPromise(f"{where} wrote the column {name} twice. Write it once.")
    for item in promised:
        if item.name not in names:
            raise BrokenPromise(
                f"{where} did not write the column {item.name}, which its {promise} declares as {item.type}. Write it, "
                "or remove it from the declaration."
            )
    for item in promised:
        wrong = given.schema.field(item.name).type
        if wrong != item.type:
            raise BrokenPromise(
                f"{where} wrote the column {item.name} as {wrong}, but its {promise} declares {item.type}. Convert the "
                f"column with .cast({spelt(item.type)}), or declare {wrong}."
            )
    if is_own(where):
        try:
            given.validate(full=True)
        except pa.ArrowInvalid as error:
            raise BrokenPromise(
                f"{where} wrote columns with invalid data ({error}). Make them with pa.array."
            ) from None
    return kind.from_arrays([given.column(item.name) for item in promised], schema=promised)


def _wrong_kind(where: str, given: Any, kind: Any, what: str) -> BrokenPromise:
    name = f"pyarrow.{kind.__name__}"
    return BrokenPromise(
        f"{where} returned {_kind_of(given)} instead of a {name} with {what}. Return pa.{kind.__name__}.from_arrays("
        "[...], names=[...])."
    )


def _has(given: object, name: str) -> bool:
    return isinstance(given, pa.Table | pa.RecordBatch) and given.schema.names.count(name) == 1


def _whole(found: Any, names: Sequence[str], where: str) -> None:
    for name in names:
        if found.column(name).null_count:
            raise BrokenPromise(f"{where} wrote the column {name} with nulls. Give every record a {name}.")


def _below(column: Any, stop: int, where: str, name: str, bound: str) -> None:
    values = column.to_numpy(zero_copy_only=False)
    if len(values) and (int(values.min()) < 0 or int(values.max()) >= stop):
        wrong = next(int(value) for value in values if not 0 <= int(value) < stop)
        raise BrokenPromise(f"{where} wrote {wrong} in the column {name}, but {bound}. Correct it.")


def _json(value: object, where: str) -> Any:
    try:
        return orjson.loads(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY))
    except TypeError as error:
        raise BrokenPromise(f"{where} returned what is not JSON ({error}). Return numbers, texts, lists.") from None


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _kind_of(value: object) -> str:
    return "nothing (None)" if value is None else f"a {type(value).__module__}.{type(value).__qualname__}"


def label_of(module: str, verb: str) -> str:
    """A stage's function as its author knows it; a step that is a function has only one name."""
    return module.replace(OF, ".") if OF in module else f"{module}.{verb}"


def check_destinations(answers: Iterable[int], known: Collection[int], step: str, module: str) -> None:
    """Refuse answers for a part that does not exist: they would be lost silently."""
    unknown = [destination for destination in answers if destination not in known]
    if unknown:
        raise UserError(
            f"{step}: {module} returned answers for part {unknown[0]}, but no part has that number, so they "
            "would be lost. Nothing more was run. Answer with the `part` and `row` that records came with."
        )

"""Reads Parquet: one document per row, row group by row group, only the columns that are needed.

A record's position is its row number. A row group that cannot be read loses its rows and becomes one row with the
reason; the groups before and after it are kept. Strings are checked: Parquet files may hold bytes that are not UTF-8,
and Arrow passes them on.

A dictionary of a kilobyte can give a million rows the same text of 8 MB. So the dictionaries of a row group are read
first, with one row, and their longest text bounds the rows of a batch. Arrow does not show those within lists.
"""

import errno
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as is_type

from gristmill.schema import Record
from gristmill.stages.contract import Piece, Reader
from gristmill.stages.ingest.plain_types import plain, selected
from gristmill.stages.ingest.sniff import HEAD_BYTES, refuse_packed
from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.fields import (
    RowConfig,
    field_names,
    locate,
    mapper,
    missing_paths,
    nothing_under,
    unique_names,
)
from gristmill.stages.reading.head import Head
from gristmill.stages.reading.json_value import REPAIRED
from gristmill.stages.reading.stream import decompressed, peek

_BATCH_BYTES = 16 << 20
_BATCH_ROWS = 4096
_BATCH_ROWS_OF_LISTS = 64
_SHARED_BYTES = 1 << 27
"""The most that a batch may hold if every row has the longest text of its dictionaries."""
_OPTIONS = {"buffer_size": 1 << 20, "pre_buffer": False, "coerce_int96_timestamp_unit": "us"}
_LOSSY = re.compile("float|double|binary|extension")  # column types that may hold what JSON cannot
_TEXTS = ("NONE", "UTF8", "JSON", "ENUM", "BSON")
"""What the bytes of a column may mean for it to be read as a dictionary; the others are decimals."""
MOST_RATIO = 4096
MOST_ROWS_BYTES = 1 << 30
"""A row group may hold this many bytes of text, plus `MOST_RATIO` for each byte of the file. Deflate reaches 1,032;
only a dictionary, which in a few bytes gives a million rows the same text, can exceed that."""
# All exceptions that damaged bytes caused in pyarrow; its own errors are subclasses of these.
_DAMAGE = (pa.ArrowException, OSError, ValueError, IndexError, KeyError, TypeError, MemoryError, OverflowError)


class Config(RowConfig):
    """How rows become documents. Without `keep_meta`, only the mapped columns are read."""


def read(piece: Piece, config: Config) -> Iterator[Record]:
    """Reasons: `empty_file`, `not_parquet`, `corrupt_parquet`, `missing_column`, `record_too_large`, `invalid_utf8`,
    `missing_text`, `empty_text`, `bad_field_type`, `unpacks_too_large`.
    """
    build = mapper(config.fields, config.keep_meta)
    with piece.open() as file:
        try:
            table = _open(file)
            columns = _columns(table.schema_arrow, config)
        except ReadFault as fault:
            if piece.start == 0 and piece.stop != 0:
                yield Record(0, drop=fault.reason, detail=fault.detail)
            return
        for position, row in _rows(file, table, columns, piece.start, piece.stop):
            if isinstance(row, dict):
                row = _checked(row, config)
            if isinstance(row, ReadFault):
                yield Record(position, drop=row.reason, detail=row.detail)
            else:
                yield build(position, row)


def rows(file: IO[bytes], pick: Callable[[list[str]], list[str]]) -> Iterator[tuple[int, dict[str, Any] | ReadFault]]:
    """Every row unchanged with its number, within the same bounds, for callers that do not read documents. `pick`
    chooses the columns. Yields a fault for rows that cannot be read; raises `ReadFault` for a whole file."""
    table = _open(file)
    yield from _rows(file, table, pick(list(table.schema_arrow.names)), 0, None)


def _open(file: IO[bytes]) -> pq.ParquetFile:
    magic = file.read(4)
    file.seek(0)
    if not magic:
        raise ReadFault("empty_file", "0 bytes")
    reason = "corrupt_parquet" if magic in (b"PAR1", b"PARE") else "not_parquet"
    if reason == "not_parquet":
        is_plain, chunks = decompressed(file)
        refuse_packed(peek(chunks, HEAD_BYTES)[0], is_plain, reason)
    try:
        table = pq.ParquetFile(file, page_checksum_verification=True, **_OPTIONS)
        rows = table.metadata.num_rows
        table.schema_arrow  # noqa: B018  # parsed on first use, and damaged as often as the rest
    except _DAMAGE as error:
        raise _fault(reason, error) from None
    if rows <= 0:
        raise ReadFault("empty_file", f"{rows} rows")
    return table


def _columns(schema: pa.Schema, config: Config) -> list[str]:
    """The columns to read. Checks that the file has what the recipe names."""
    missing = missing_paths(config.fields, lambda path: selected(schema, path) is not None)
    if missing:
        nested = {field.name: field.type for field in schema if is_type.is_struct(field.type)}
        inner = {name: {below.name: "" for below in kind} for name, kind in nested.items()}
        names = field_names({**dict.fromkeys(schema.names, ""), **inner})
        raise ReadFault("missing_column", nothing_under(missing, names))
    if config.keep_meta:
        return list(schema.names)
    found = (selected(schema, path) for path in config.fields.paths().values())
    return [name for name in found if name is not None]


_Row = tuple[int, dict[str, Any] | ReadFault]


def _rows(file: IO[bytes], table: pq.ParquetFile, columns: list[str], start: int, stop: int | None) -> Iterator[_Row]:
    """The rows from `start` to `stop`, and the reason for those that cannot be read."""
    end = table.metadata.num_rows if stop is None else stop
    most_bytes = MOST_ROWS_BYTES + MOST_RATIO * (file.seek(0, 2) // max(table.num_row_groups, 1))
    first = 0
    for group in range(table.num_row_groups):
        last = first + max(table.metadata.row_group(group).num_rows, 0)
        position, left = first, most_bytes
        if first < end and last > start:
            try:
                for batch in _batches(file, table, group, columns):
                    left -= batch.nbytes
                    if left < 0:
                        raise ReadFault("unpacks_too_large", f"more than {MOST_RATIO} bytes for each byte in the file")
                    yield from (row for row in _written_out(batch, position) if start <= row[0] < end)
                    position += batch.num_rows
                if position < last:
                    raise ReadFault("corrupt_parquet", "the pages end before the row group's last row")
            except ReadFault as fault:
                if start <= position < end:
                    lost = f"row group {group}, {last - position} rows from row {position} on: {fault.detail}"
                    yield position, ReadFault(fault.reason, lost)
        first = last
    if start <= first < min(end, table.metadata.num_rows):
        detail = f"the footer tells of {table.metadata.num_rows} rows, and its row groups hold {first}"
        yield first, ReadFault("corrupt_parquet", detail)


def _batches(file: IO[bytes], table: pq.ParquetFile, group: int, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a row group, as many at a time as `_BATCH_BYTES` allow."""
    stated = table.metadata.row_group(group)
    if isinstance(file, Head):
        file.check_rows(stated.total_byte_size)
    some: dict[str, Any] = {"row_groups": [group], "columns": columns, "use_threads": False}
    leaves = [table.metadata.schema.column(number) for number in range(len(table.metadata.schema))]
    leaves = [leaf for leaf in leaves if leaf.physical_type == "BYTE_ARRAY" and leaf.converted_type in _TEXTS]
    try:
        most_rows = _BATCH_ROWS_OF_LISTS if any(leaf.max_repetition_level for leaf in leaves) else _BATCH_ROWS
        texts = [leaf.path for leaf in leaves if leaf.max_repetition_level == 0]
        shared = pq.ParquetFile(file, metadata=table.metadata, read_dictionary=texts, **_OPTIONS)
        for row in shared.iter_batches(1, **some):
            most_rows = min(most_rows, _SHARED_BYTES // max(sum(map(_longest_text, row.columns)), 1))
            break
        # The footer gives the uncompressed size, which a damaged one guesses wrong without harm.
        most_rows = min(most_rows, _BATCH_BYTES * max(stated.num_rows, 1) // max(stated.total_byte_size, 1))
        for batch in table.iter_batches(max(most_rows, 1), **some):
            yield batch
            if isinstance(file, Head):
                file.unpacked_rows(batch.nbytes)
    except _DAMAGE as error:
        raise _fault("corrupt_parquet", error) from None


def _longest_text(column: pa.Array) -> int:
    """The longest text in the dictionaries of a column, which every row of its row group may have."""
    if is_type.is_struct(column.type):
        return sum(map(_longest_text, column.flatten()))
    return pc.max(pc.binary_length(column.dictionary)).as_py() or 0 if is_type.is_dictionary(column.type) else 0


def _written_out(batch: pa.RecordBatch, position: int) -> Iterator[_Row]:
    """The rows of a batch as Python values. Splits it in halves until a bad row is alone."""
    names, half = batch.schema.names, batch.num_rows // 2
    try:
        if half and batch.nbytes > _BATCH_BYTES:
            raise OverflowError
        batch = pa.RecordBatch.from_arrays([plain(column) for column in batch.columns], names)
        batch.validate(full=True)  # text that is not UTF-8, and damaged offsets, must not reach Python
        values = [column.to_pylist() for column in batch.columns]
    except (pa.ArrowException, ValueError, OverflowError) as error:
        if half:
            yield from _written_out(batch.slice(0, half), position)
            yield from _written_out(batch.slice(half), position + half)
        elif any(map(is_type.is_temporal, batch.schema.types)):  # dates after the year 9999, which Python has not
            dates = [column.cast(pa.string()) if is_type.is_temporal(column.type) else column for column in batch]
            yield from _written_out(pa.RecordBatch.from_arrays(dates, names), position)
        else:
            yield position, _fault("invalid_utf8" if "utf" in str(error).lower() else "bad_field_type", error)
        return
    lossy = [name for name, kind in zip(names, batch.schema.types, strict=True) if _LOSSY.search(str(kind))]
    fields = unique_names(names)
    for number, row in enumerate(zip(*values, strict=True)):
        document = dict(zip(fields, row, strict=True))
        if lossy and (notes := set(filter(None, (_lost(document[name]) for name in lossy)))):
            document[REPAIRED] = sorted(notes)
        yield position + number, document


def _fault(reason: str, error: BaseException, lost: str = "") -> ReadFault:
    """The fault of a file. Errors of a connection are raised: they have their own class or a number, which pyarrow's
    have not. EINVAL is damage: an offset before the start of the file."""
    if isinstance(error, OSError) and (type(error) is not OSError or error.errno not in (None, errno.EINVAL)):
        raise error
    return ReadFault(reason, lost + (" ".join(str(error).split())[:300] or type(error).__name__))


def _lost(value: Any) -> str | None:
    """The first thing in a value that JSON cannot hold: NaN becomes null, bytes that are not UTF-8 become U+FFFD."""
    if isinstance(value, float):
        return None if math.isfinite(value) else "not a number"
    if isinstance(value, bytes):
        return None if value.decode(errors="ignore").encode() == value else "bytes that are not UTF-8"
    if isinstance(value, dict):
        value = value.values()
    within = map(_lost, value) if isinstance(value, Iterable) and not isinstance(value, str) else ()
    return next(filter(None, within), None)


def _checked(row: dict[str, Any], config: Config) -> dict[str, Any] | ReadFault:
    """The row with text that came as bytes decoded, or why it is dropped."""
    for path in (config.fields.text, config.fields.html):
        if (place := locate(row, path)) is None:
            continue
        container, name = place
        value = container[name]
        if not isinstance(value, str | bytes):
            continue
        # A character has at most 4 bytes, so most texts need no count.
        if len(value) * 4 > config.max_record_bytes:
            size = len(value if isinstance(value, bytes) else value.encode())
            if size > config.max_record_bytes:
                return ReadFault("record_too_large", f"{size} bytes, max_record_bytes = {config.max_record_bytes}")
        if isinstance(value, bytes):
            try:
                container[name] = value.decode()
            except UnicodeDecodeError as error:
                return ReadFault("invalid_utf8", f"byte {error.start}: {error.reason}")
    return row


STAGE = Reader(version=11, config=Config, libraries=("orjson", "pyarrow"), positions="rows", read=read)

"""Reads Parquet: one document per row, row group by row group, only the columns that are needed.

A record's position is its row number. A row group that cannot be read loses its rows and becomes one row with the
reason; the groups before and after it are kept. Strings are checked: Parquet files may hold bytes that are not UTF-8,
and Arrow passes them on.
"""

import errno
import math
import re
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.errors import UserError
from gristmill.schema import Record
from gristmill.stages.contract import Bytes, Piece, Reader, StageConfig
from gristmill.stages.ingest.parquet_footer import Unreadable, dictionary_bytes
from gristmill.stages.ingest.plain_types import plain, selected
from gristmill.stages.ingest.row_sizes import row_bytes
from gristmill.stages.ingest.sniff import HEAD_BYTES, refuse_packed
from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.fields import Fields, field_names, locate, mapper, missing_paths, nothing_under
from gristmill.stages.reading.head import Head
from gristmill.stages.reading.json_repair import REPAIRED
from gristmill.stages.reading.stream import decompressed, peek

_BATCH_BYTES = 16 << 20
_BATCH_ROWS = 4096
_SPELLED_BYTES = 1 << 27
"""The most that a batch may hold if every row has the largest text of a dictionary."""
_LOSSY = re.compile("float|double|binary|extension")  # column types that may hold what JSON cannot
MOST_RATIO = 4096
MOST_ROWS_BYTES = 1 << 30
"""A row group may hold this many bytes of text, plus `MOST_RATIO` for each byte of the file. Deflate reaches 1,032;
only a dictionary, which in a few bytes gives a million rows the same text, can exceed that."""


class Config(StageConfig):
    """How rows become documents."""

    fields: Fields = Fields()
    """Maps columns. If a file lacks a column that is named here, the file is dropped as `missing_column`. The defaults
    may be missing, but text or html must be there."""
    keep_meta: bool = True
    """Keep the columns that are not mapped, as JSON in `meta`. false reads only the mapped columns."""
    max_record_bytes: Bytes = 64 << 20
    """A row with a longer text or markup is dropped as `record_too_large`. Bytes of UTF-8."""


def splittable(name: str) -> bool:
    """False: positions are rows, which a byte range cannot split."""
    return False


def read(piece: Piece, config: Config) -> Iterator[Record]:
    """Reasons: `empty_file`, `not_parquet`, `corrupt_parquet`, `missing_column`, `record_too_large`, `invalid_utf8`,
    `missing_text`, `empty_text`, `bad_field_type`, `unpacks_too_large`.
    """
    with _Watched(piece.open()) as file:
        try:
            table = _open(file)
            columns = _columns(table.schema_arrow, config)
            spelled = _spelled(file, table)
        except ReadFault as fault:
            if piece.start == 0 and piece.stop != 0:
                yield Record(0, drop=fault.reason, detail=fault.detail)
            return
        build = mapper(config.fields, config.keep_meta)
        first = 0
        for group in range(table.num_row_groups):
            count = max(table.metadata.row_group(group).num_rows, 0)
            if piece.stop is not None and first >= piece.stop:
                return
            if first + count > piece.start:
                for record in _group(table, group, first, count, columns, config, file, spelled[group], build):
                    if record.position >= piece.start and (piece.stop is None or record.position < piece.stop):
                        yield record
            first += count
        if first < table.metadata.num_rows and piece.start <= first and (piece.stop is None or first < piece.stop):
            lost = f"the footer tells of {table.metadata.num_rows} rows, and its row groups hold {first}"
            yield Record(first, drop="corrupt_parquet", detail=lost)


def rows(file: IO[bytes], pick: Callable[[list[str]], list[str]]) -> Iterator[tuple[int, dict[str, Any] | ReadFault]]:
    """Every row unchanged with its number, within the same bounds, for callers that do not read documents. `pick`
    chooses the columns. Yields a fault for rows that cannot be read; raises `ReadFault` for a whole file."""
    watched = _Watched(file)
    table = _open(watched)
    columns, spelled, first = pick(list(table.schema_arrow.names)), _spelled(watched, table), 0
    for group in range(table.num_row_groups):
        count = max(table.metadata.row_group(group).num_rows, 0)
        for found in _group(table, group, first, count, columns, Config(), watched, spelled[group], _unchanged):
            if isinstance(found, Record):
                yield found.position, ReadFault(found.drop or "corrupt_parquet", found.detail or "")
            else:
                yield found
        first += count
    if first < table.metadata.num_rows:
        detail = f"{table.metadata.num_rows} rows in the footer, {first} in its row groups"
        yield first, ReadFault("corrupt_parquet", detail)


def _unchanged(position: int, row: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    return position, row


class _Watched:
    """A file that remembers its own errors: a broken connection is not damage and must not be recorded as such."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.error: OSError | UserError | None = None
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        try:
            return self.file.read(size)
        except (OSError, UserError) as error:
            self.error = error
            raise

    def seek(self, offset: int, whence: int = 0) -> int:
        try:
            return self.file.seek(offset, whence)
        except OSError as error:
            # A damaged offset points before the start of the file.
            if error.errno != errno.EINVAL:
                self.error = error
            raise

    def tell(self) -> int:
        return self.file.tell()

    def size(self) -> int:
        return self.seek(0, 2)

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return True

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True
        self.file.close()

    def __enter__(self) -> "_Watched":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# All exceptions that damaged bytes caused in pyarrow; its own errors are subclasses of these.
_DAMAGE = (pa.ArrowException, OSError, ValueError, IndexError, KeyError, TypeError, MemoryError, OverflowError)


def _fault(file: _Watched, reason: str, error: BaseException, extra: str = "") -> ReadFault:
    if file.error is not None:
        raise file.error
    line = " ".join(str(error).split())[:300] or type(error).__name__
    return ReadFault(reason, extra + line)


def _open(file: _Watched) -> pq.ParquetFile:
    magic = file.read(4)
    file.seek(0)
    if not magic:
        raise ReadFault("empty_file", "0 bytes")
    reason = "corrupt_parquet" if magic in (b"PAR1", b"PARE") else "not_parquet"
    if reason == "not_parquet":
        is_plain, chunks = decompressed(file.file)
        refuse_packed(peek(chunks, HEAD_BYTES)[0], is_plain, reason)
    try:
        table = pq.ParquetFile(
            file,
            buffer_size=1 << 20,
            pre_buffer=False,
            page_checksum_verification=True,
            coerce_int96_timestamp_unit="us",
        )
        rows = table.metadata.num_rows
        table.schema_arrow  # noqa: B018  # parsed on first use, and damaged as often as the rest
    except _DAMAGE as error:
        raise _fault(file, reason, error) from error
    if rows <= 0:
        raise ReadFault("empty_file", f"{rows} rows")
    return table


def _columns(schema: pa.Schema, config: Config) -> list[str]:
    """The columns to read. Checks that the file has what the recipe names."""
    missing = missing_paths(config.fields, lambda path: selected(schema, path) is not None)
    if missing:
        nested = {field.name: field.type for field in schema if pa.types.is_struct(field.type)}
        inner = {name: {below.name: "" for below in kind} for name, kind in nested.items()}
        names = field_names({**dict.fromkeys(schema.names, ""), **inner})
        raise ReadFault("missing_column", nothing_under(missing, names))
    if config.keep_meta:
        return list(schema.names)
    found = (selected(schema, path) for path in config.fields.paths().values())
    return [name for name in found if name is not None]


def _group(
    table: pq.ParquetFile,
    group: int,
    first: int,
    rows: int,
    columns: list[str],
    config: Config,
    file: _Watched,
    spelled: int,
    build: Callable[[int, dict[str, Any]], Any],
) -> Iterator[Any]:
    """Yields `build` of each row, and a `Record` with the reason for rows that cannot be read."""
    position = first
    if isinstance(file.file, Head):
        file.file.check_rows(table.metadata.row_group(group).total_byte_size)
    # The footer gives the uncompressed size, so it determines how many rows make a batch. A damaged one is a harmless
    # guess.
    mean_bytes = max(table.metadata.row_group(group).total_byte_size // max(rows, 1), 1)
    batch_rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES // mean_bytes, _SPELLED_BYTES // max(spelled, 1)))
    left = MOST_ROWS_BYTES + MOST_RATIO * (file.size() // max(table.num_row_groups, 1))
    batches = table.iter_batches(batch_rows, row_groups=[group], columns=columns, use_threads=False)
    while position < first + rows:
        try:
            batch = next(batches, None)
            if batch is None or batch.num_rows == 0:
                raise pa.ArrowInvalid("the pages end before the row group's last row")
        except _DAMAGE as error:
            lost = f"row group {group}, {first + rows - position} rows from row {position} on: "
            fault = _fault(file, "corrupt_parquet", error, lost)
            yield Record(position, drop=fault.reason, detail=fault.detail)
            return
        sizes = _sizes(batch)
        for start, stop in _slices(sizes):
            left -= int(sizes[start:stop].sum())
            if left < 0:
                lost = f"row group {group}, {first + rows - position - start} rows from row {position + start} on"
                detail = f"{lost}: more than {MOST_RATIO} bytes of text for each byte in the file"
                yield Record(position + start, drop="unpacks_too_large", detail=detail)
                return
            yield from _batch(batch.slice(start, stop - start), position + start, build, config)
        position += batch.num_rows
        if isinstance(file.file, Head):
            file.file.unpacked_rows(int(sizes.sum()))


def _spelled(file: _Watched, table: pq.ParquetFile) -> list[int]:
    """The size of the largest dictionary of each row group. If it is unknown, the size of the whole group."""
    groups = table.num_row_groups
    try:
        found = dictionary_bytes(file, file.size())
    except Unreadable:
        found = []
    if len(found) == groups:
        return found
    return [max(table.metadata.row_group(group).total_byte_size, 0) for group in range(groups)]


def _sizes(batch: pa.RecordBatch) -> Any:
    try:
        return sum((row_bytes(column) for column in batch.columns), np.zeros(batch.num_rows, np.int64))
    except _DAMAGE:  # damaged offsets or indices; the check of the batch reports them
        return np.zeros(batch.num_rows, np.int64)


def _slices(sizes: Any) -> Iterator[tuple[int, int]]:
    """Ranges of rows of about `_BATCH_BYTES`, or of one larger row."""
    start, ends = 0, np.cumsum(sizes)
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _BATCH_BYTES, "right")))
        yield start, stop
        start = stop


def _batch(batch: pa.RecordBatch, position: int, build: Any, config: Config) -> Iterator[Any]:
    names = batch.schema.names
    try:
        batch.validate(full=True)  # damaged offsets must not reach Python
        values = [plain(column).to_pylist() for column in batch.columns]
    except (pa.ArrowException, ValueError, OverflowError) as error:
        if batch.num_rows == 1:
            # The other values that Arrow can hold and Python cannot are dates after the year 9999.
            reason = "invalid_utf8" if "utf" in str(error).lower() else "bad_field_type"
            yield Record(position, drop=reason, detail=" ".join(str(error).split())[:300])
            return
        # Split in halves until the bad row is alone.
        half = batch.num_rows // 2
        yield from _batch(batch.slice(0, half), position, build, config)
        yield from _batch(batch.slice(half), position + half, build, config)
        return
    paths = [path for path in (config.fields.text, config.fields.html) if path is not None]
    lossy = [name for name, kind in zip(names, batch.schema.types, strict=True) if _LOSSY.search(str(kind))]
    for row in zip(*values, strict=True):
        document = dict(zip(names, row, strict=True))
        fault = None
        for path in paths:
            place = locate(document, path)
            fault = fault or (place and _decode(*place, config.max_record_bytes))
        if fault is None:
            if lossy and (notes := set(filter(None, (_lost(document[name]) for name in lossy)))):
                document[REPAIRED] = sorted(notes)
            yield build(position, document)
        else:
            yield Record(position, drop=fault.reason, detail=fault.detail)
        position += 1


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


def _decode(container: Any, name: Any, limit_bytes: int) -> ReadFault | None:
    """Decodes text that came as bytes, in place."""
    value = container[name]
    if isinstance(value, bytes):
        size = len(value)
    elif isinstance(value, str):
        # A character has at most 4 bytes, so most texts need no count.
        size = len(value) if len(value) * 4 <= limit_bytes else len(value.encode())
    else:
        return None
    if size > limit_bytes:
        return ReadFault("record_too_large", f"{size} bytes, max_record_bytes = {limit_bytes}")
    if isinstance(value, bytes):
        try:
            container[name] = value.decode()
        except UnicodeDecodeError as error:
            return ReadFault("invalid_utf8", f"byte {error.start}: {error.reason}")
    return None


STAGE = Reader(
    version=9, config=Config, libraries=("orjson", "pyarrow"), positions="rows", splittable=splittable, read=read
)

"""Reading input files into document parts: the engine's side of a reader.

Parts are cut by the data alone: a part ends with the row group that brings it to `part_bytes` of content or of images
(or to PART_SHARE times that in all columns, for records that are mostly meta), and a row group ends with the record
that brings it to ROW_GROUP_CHARACTERS or ROW_GROUP_ROWS. Only one batch is in memory, in addition to the compressed
part.

A document's id is a hash of its source, file, position and key: unique whatever keys a user's records have. Its locator
is for people: the file's name and the key, or the position if there is no key.
"""

import hashlib
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from gristmill.engine.files.sampling import Named, take
from gristmill.engine.work.borders import check_records
from gristmill.engine.work.rows import CRASHED, count_reasons, count_repaired
from gristmill.engine.work.task import Read, Result, add_counts
from gristmill.errors import UserError
from gristmill.places import exact, shown
from gristmill.schema import DOCUMENTS, MEASURED, Record, documents_schema
from gristmill.stages.contract import Piece, Reader
from gristmill.stages.declarations import stage_of
from gristmill.stages.own_code import is_own
from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.fields import count_fields
from gristmill.stages.reading.markup import count_markup
from gristmill.stages.reading.views import Faults
from gristmill.store.parquet import PartWriter, text_bytes
from gristmill.store.store import Store

ROW_GROUP_CHARACTERS = 8 << 20
"""Characters of a row group in all columns: large enough for Parquet, small enough to hold several in memory."""
MARKUP_WEIGHT = 4
"""Markup counts a quarter: only one step reads it, and leaves about a sixth of it as text to all others."""
ROW_GROUP_ROWS = 1 << 16
MOST_RECORD_CHARACTERS = 1 << 28
"""A record with more characters in all its fields becomes a row without content: a column of Arrow has at most 2 GiB,
and a character up to four bytes. Readers limit the text themselves (`max_record_bytes`), and most limit the rest."""
MOST_KEY_CHARACTERS = 1 << 12
"""The longest key that such a row keeps."""
EXAMPLE_CHARACTERS = 120
"""The length of a repeated key in messages."""
PART_SHARE = 4
ITEM_CHARACTERS = 40
"""What an item of a list counts, such as a block of a page: a file may have a million of them."""
_COMMON = len(DOCUMENTS) - len(MEASURED)
"""Columns of a record that all documents have."""
MARKUP_ROWS = 1000
"""Rows at the start of each task whose texts are checked for markup; checking all would cost too much."""
RUN_KEYS = 1 << 17
"""Records within which a repeated key is noticed: a few megabytes of memory, and more records than most files have."""


def perform_read(work: Read, store: Store, probe: bool) -> Result:
    result = Result(metrics={"rows": 0, "bytes_in": 0, "bytes_out": 0, "dropped": {}, "repeated_keys": 0, "mended": 0})
    parts = _Parts(work, store, result)
    processed = 0
    if work.share is not None:
        result.metrics["seen"] = {"rows": 0, "dropped": {}}
    files: dict[str, int] = {}
    for group in _groups(work, result.metrics.get("seen"), files):
        processed += group.batch.num_rows
        if not probe:
            parts.add(group)
    parts.end()
    result.files = {exact(name): count for name, count in files.items()}
    result.cost["write_cpu_s"] = round(parts.write_cpu_s, 6)
    return Result(values=[processed]) if probe else result


class _RowGroup(NamedTuple):
    """A row group."""

    batch: pa.RecordBatch
    held: int
    """Characters in all columns."""
    repeated_keys: int
    repeated_key: str | None
    """The locator of one of them: the first in alphabetical order."""
    fields: dict[int | None, int]
    """`Record.fields` -> records."""


class _Parts:
    """Writes the parts of a task."""

    def __init__(self, work: Read, store: Store, result: Result) -> None:
        self._work, self._store, self._result = work, store, result
        self._reader = stage_of(work.module, Reader)
        self._writer: PartWriter | None = None
        self._held = 0
        self.write_cpu_s = 0.0
        """CPU seconds that grow with the records that are taken, and not with those that a sample skips."""

    def add(self, group: _RowGroup) -> None:
        begun = time.process_time()
        self._add(group)
        self.write_cpu_s += time.process_time() - begun

    def _add(self, group: _RowGroup) -> None:
        if self._writer is None:
            self._writer = PartWriter(group.batch.schema, self._identity())
        payload_bytes = sum(pc.sum(group.batch.column(name)).as_py() for name in MEASURED)
        self._writer.write(group.batch, payload_bytes)
        self._held += group.held + (PART_SHARE - 1) * _image_bytes(group.batch)  # images cannot be compressed
        counts: dict[str, Any] = {"rows": group.batch.num_rows, "bytes_in": payload_bytes, "bytes_out": payload_bytes}
        counts["repeated_keys"] = group.repeated_keys
        more: dict[str, Any] = {} if group.repeated_key is None else {"repeated_key": group.repeated_key}
        counts["mended"] = count_repaired(group.batch)
        counts |= self._reader.metrics(group.batch, self._work.config) if self._reader.metrics else {}
        if not self._result.metrics["rows"]:
            counts |= count_markup(group.batch.slice(0, MARKUP_ROWS))
        more |= count_fields(self._work.config, group.fields, group.batch.column("meta"))
        add_counts(self._result.metrics, {**counts, **more, "dropped": count_reasons(group.batch.column("drop"))})
        if self._writer.payload_bytes >= self._work.part_bytes or self._held >= PART_SHARE * self._work.part_bytes:
            self.end()

    def end(self) -> None:
        if self._writer is not None:
            self._result.rows_hashes.append(self._writer.rows_hash)
            self._result.parts.append(self._writer.close(self._store))
            self._writer, self._held = None, 0

    def _identity(self) -> bytes:
        """Bytes that no other part has, whatever its rows: source, first file, start in it, number of the part."""
        first = self._work.pieces[0]
        return _bytes(f"{self._work.source}\0{first.name}\0{first.start}\0{len(self._result.parts)}")


def _image_bytes(batch: pa.RecordBatch) -> int:
    return sum(column.nbytes for column in batch.columns if column.type == pa.list_(pa.binary()))


def id_of(source: str, name: str, record: Record) -> bytes:
    """The id of the document made from a record in a file of a source."""
    if record.doc_id is not None:
        return record.doc_id
    # These texts are distinct: names of sources and files have no NUL, and a position has only digits.
    identity = f"{source}\0{name}\0{record.position}\0{record.key if record.key is not None else ''}"
    return hashlib.blake2b(_bytes(identity), digest_size=16).digest()


class _Keys:
    """Counts records whose key an earlier record of their file has, among about the last RUN_KEYS records."""

    def __init__(self) -> None:
        self._name: str | None = None
        self._known: set[bytes] = set()
        self.repeated = 0
        self.example: str | None = None

    def add(self, name: str, key: str) -> None:
        if name != self._name or len(self._known) >= RUN_KEYS:
            self._name = name
            self._known.clear()
        digest = hashlib.blake2b(_bytes(key), digest_size=8).digest()
        if digest in self._known:
            self.repeated += 1
            locator = f"{shown(name)}#{shown(key)}"[:EXAMPLE_CHARACTERS]
            self.example = locator if self.example is None else min(locator, self.example)
        self._known.add(digest)

    def drain(self) -> tuple[int, str | None]:
        """The count since the last call, and an example."""
        counted, self.repeated, self.example = (self.repeated, self.example), 0, None
        return counted


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _groups(work: Read, all_read: dict[str, Any] | None, files: dict[str, int]) -> Iterator[_RowGroup]:
    """Row groups of the records; `files` gets the number of rows of each file."""
    schema = _schema(work)
    rows: dict[str, list[Any]] = {name: [] for name in schema.names if name not in MEASURED}
    keys, fields = _Keys(), Counter[int | None]()
    held = markup = 0
    for name, record in _taken(work, all_read):
        held += _add_row(rows, work, name, record)
        files[name] = files.get(name, 0) + 1
        fields[record.fields] += 1
        markup += len(rows["html"][-1] or "")
        keys.add(name, str(record.position) if record.key is None else record.key)  # as in the locator
        weight = held - markup + markup // MARKUP_WEIGHT
        if weight >= ROW_GROUP_CHARACTERS or len(rows["doc_id"]) >= ROW_GROUP_ROWS:
            yield _RowGroup(_batch_of(rows, schema), held, *keys.drain(), fields)
            fields = Counter()
            for column in rows.values():
                column.clear()
            held = markup = 0
    if rows["doc_id"]:
        yield _RowGroup(_batch_of(rows, schema), held, *keys.drain(), fields)


def _schema(work: Read) -> pa.Schema:
    return documents_schema(stage_of(work.module, Reader).columns_of(work.config))


def _batch_of(rows: dict[str, list[object]], schema: pa.Schema) -> pa.RecordBatch:
    columns = {name: _array(values, schema.field(name).type) for name, values in rows.items()}
    columns |= {name: text_bytes(columns[measured]) for name, measured in MEASURED.items()}
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """A column; bytes in a string column are valid UTF-8, which the reader guarantees, and are used as they are."""
    if kind != pa.string() or bytes not in set(map(type, values)):
        return pa.array(values, kind)
    held = [value.encode() if isinstance(value, str) else value for value in values]
    # Through 64-bit offsets: a column too large for 32 bits is then refused, and not written with wrong offsets.
    return pa.array(held, pa.large_binary()).view(pa.large_string()).cast(pa.string())


def rows_of(work: Read, records: Iterable[Named]) -> pa.RecordBatch:
    """The rows for a few records."""
    schema = _schema(work)
    rows: dict[str, list[object]] = {column: [] for column in schema.names if column not in MEASURED}
    for name, record in records:
        _add_row(rows, work, name, record)
    return _batch_of(rows, schema)


def _taken(work: Read, all_read: dict[str, Any] | None) -> Iterator[Named]:
    """The records that become rows."""
    records = records_of(work)
    if work.share is not None and all_read is not None:
        records = take(_counted(records, all_read), work.share)
    return islice(records, work.limit)


def _counted(records: Iterator[Named], all_read: dict[str, Any]) -> Iterator[Named]:
    """Count all records: those that a sample skips also show whether a source can be read."""
    for name, record in records:
        all_read["rows"] += 1
        if record.drop is not None:
            all_read["dropped"][record.drop] = all_read["dropped"].get(record.drop, 0) + 1
        yield name, record


def records_of(work: Read) -> Iterator[Named]:
    """All records of the pieces, with the names of their files, before any sample or limit."""
    reader = stage_of(work.module, Reader)
    poisoned = {(name, position): detail for name, position, detail in work.poisoned}
    for piece in work.pieces:
        at = (exact(piece.name), piece.start)
        if at in poisoned and piece.stop == piece.start:
            yield piece.name, Record(piece.start, drop=CRASHED, detail=poisoned[at])
            continue
        for record in _read_piece(reader, piece, work):
            yield piece.name, record


def _read_piece(reader: Reader[Any], piece: Piece, work: Read) -> Iterator[Record]:
    companions = work.companions.get(piece.name)
    more = {"companions": companions} if companions is not None else {}
    if isinstance(piece.view, Faults):
        rows = enumerate(piece.view.rows)
        yield from (Record(position, drop=reason, detail=detail) for position, (reason, detail) in rows)
        return
    after = piece.start
    try:
        records = reader.read(piece, work.config, **more)
        # Gristmill's readers are not checked: the check would cost more than some of them take for a record.
        if is_own(work.module):
            columns = len(reader.columns_of(work.config))
            records = check_records(records, work.module, piece, columns)
        if piece.view is None:
            yield from records
            return
        for record in records:
            after = record.position + 1
            yield record
    except ReadFault as fault:  # of a view; readers handle the faults of their formats
        yield Record(after, drop=fault.reason, detail=fault.detail)
    except FileNotFoundError:
        raise UserError(
            f"{shown(piece.uri)} existed when the run began and is gone now. Finished work is kept. "
            "Put it back, or run again without it."
        ) from None
    except OSError as error:
        raise UserError(
            f"{shown(piece.uri)} cannot be read: {error}. Finished work is kept. Repair it, or exclude it, and run "
            "again."
        ) from None


def _add_row(rows: dict[str, list[object]], work: Read, name: str, record: Record) -> int:
    """Add the row of a record; returns the number of characters in the row."""
    held = _characters(record)
    if held > MOST_RECORD_CHARACTERS:
        key = record.key if record.key is not None and len(record.key) <= MOST_KEY_CHARACTERS else None
        detail = f"{held} characters in all fields, the most is {MOST_RECORD_CHARACTERS}"
        more = tuple(None if _held(value) > MOST_KEY_CHARACTERS else value for value in record.more)
        record = Record(record.position, key, drop="record_too_large", detail=detail, doc_id=record.doc_id, more=more)
        held = _characters(record)
    locator = f"{shown(name)}#{record.key if record.key is not None else record.position}"
    rows["doc_id"].append(id_of(work.source, name, record))
    rows["source"].append(work.source)
    rows["locator"].append(locator)
    rows["url"].append(record.url)
    rows["snapshot"].append(record.snapshot if record.snapshot is not None else work.snapshot)
    rows["timestamp"].append(record.timestamp_us)
    rows["license"].append(record.license if record.license is not None else work.license)
    rows["language_hint"].append(record.language_hint)
    rows["title"].append(record.title)
    rows["content_type"].append(record.content_type)
    rows["charset"].append(record.charset)
    rows["html"].append(record.html)
    rows["text"].append(record.text)
    rows["meta"].append(record.meta)
    rows["drop"].append(record.drop)
    rows["detail"].append(record.detail)
    if len(rows) > _COMMON:
        for at, column in enumerate(list(rows)[_COMMON:]):
            rows[column].append(record.more[at] if record.more else None)
    return held + len(locator)


def _characters(record: Record) -> int:
    short = (
        record.license,
        record.snapshot,
        record.language_hint,
        record.content_type,
        record.charset,
        record.drop,
        record.detail,
    )
    long = (record.html, record.text, record.meta, record.url, record.title, record.key)
    return sum(len(field) for field in (*long, *short) if field) + sum(map(_held, record.more))


def _held(value: object) -> int:
    """About the characters or bytes in a value of a reader's own column; those of a list are in its items."""
    if isinstance(value, list):
        return sum(len(one) if isinstance(one, str | bytes) else ITEM_CHARACTERS for one in value)
    return len(value) if isinstance(value, str | bytes) else 0

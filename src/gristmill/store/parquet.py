"""Parts of rows: Parquet with zstd, one row group per batch, and a hash that identifies the rows.

Layers of a document part have the same row groups, so a join needs no keys: row i of a layer belongs to row i of the
documents. Each file stores `gristmill.rows`, a hash of the identity of the part and of its document ids in order. No
two document parts share it, and files with different hashes are never joined. Each part has a small part with its
verdicts (`verdicts.py`); if only those are needed, only that one is opened.
"""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.store.store import CorruptPart, Part, Store
from gristmill.store.verdicts import ROWS_HASH, SMALL, Chunk, SparsePart, rows_hash_of, write_verdicts

BULKY = ("html", "text", "meta", "ids")
"""Columns of long values: a dictionary or min/max statistics would cost time without any use."""


MUCH_OF = 4
"""A local part is read as a whole if at least a fourth of its bytes is needed."""


class Misaligned(Exception):
    """Two layers have different rows. Joining them would mix up documents."""


class PartWriter:
    """Collects batches in memory, compressed, and stores them as one part."""

    def __init__(self, schema: pa.Schema, identity: bytes = b"") -> None:
        """`identity` is unique to this document part; it is part of `rows_hash`."""
        self.schema = schema
        self.rows = 0
        self.payload_bytes = 0
        self._ids = hashlib.sha256(hashlib.sha256(identity).digest())
        self._sink = pa.BufferOutputStream()
        small = [name for name in schema.names if name not in BULKY]
        self._writer = pq.ParquetWriter(
            self._sink, schema, compression="zstd", use_dictionary=small, write_statistics=small
        )

    def write(self, batch: pa.RecordBatch, payload_bytes: int = 0) -> None:
        """Add one row group."""
        if batch.num_rows == 0:
            return
        self._writer.write_batch(batch, row_group_size=batch.num_rows)
        self.rows += batch.num_rows
        self.payload_bytes += payload_bytes
        if "doc_id" in batch.schema.names:
            ids = batch.column("doc_id")
            self._ids.update(memoryview(ids.buffers()[1])[16 * ids.offset : 16 * (ids.offset + len(ids))])

    @property
    def rows_hash(self) -> str:
        """A hash of the identity and of the document ids written so far, in order."""
        return self._ids.hexdigest()

    def close(self, store: Store, rows_hash: str | None = None) -> Part:
        """Finish the file and store it; a layer passes the hash of its document part."""
        mark = rows_hash if rows_hash is not None else self.rows_hash
        self._writer.add_key_value_metadata({ROWS_HASH: mark.encode()})
        self._writer.close()
        data = self._sink.getvalue()
        part = store.put_part(data, "parquet", self.rows, self.payload_bytes)
        return replace(part, verdicts=write_verdicts(store, data))


class PartReader:
    """One part: its metadata, and its columns, which are fetched and checked when they are read.

    A local part is mapped and hashed as a whole if many of its bytes are needed. Small columns, such as the URLs of
    pages, are read as ranges, as from a remote store.
    """

    def __init__(self, store: Store, part: Part) -> None:
        self.part = part
        self.store = store
        self._opened = None if part.verdicts is None else SparsePart(store, part)
        self._reading = self._whole() if self._opened is None else None
        metadata = self._file.metadata if self._opened is None else self._opened.metadata
        self.groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        self.rows_hash = rows_hash_of(metadata)
        self.schema: pa.Schema = metadata.schema.to_arrow_schema() if self._opened is None else self._opened.schema
        self.names: list[str] = self.schema.names

    @property
    def _file(self) -> pq.ParquetFile:
        """Opened for the first column that is read: many readers are used for rows and names only."""
        if self._reading is None:
            assert self._opened is not None
            self._reading = _through(self._opened)
        return self._reading

    def _whole(self) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(pa.BufferReader(self.store.get_part(self.part)))
        except (pa.ArrowInvalid, OSError) as error:
            raise CorruptPart(self.part.hash, f"is not Parquet ({error})") from None

    def missing(self, columns: Collection[str], group: int | None) -> list[list[Chunk]]:
        """The chunks to fetch before these columns can be read, in one row group or in all."""
        if self._opened is None or set(SMALL).issuperset(columns):
            return []
        runs = self._opened.missing(columns, group)
        wanted = sum(run[-1].stop - run[0].start for run in runs)
        if self.store.is_local and wanted * MUCH_OF >= self.part.file_bytes:
            self._reading, self._opened = self._whole(), None
            return []
        return runs

    def take(self, chunks: Sequence[Chunk], data: bytes) -> None:
        assert self._opened is not None
        self._opened.take(chunks, data)

    def read_group(self, index: int, columns: Sequence[str]) -> pa.Table:
        _fetch([(self, columns)], index)
        return self._file.read_row_group(index, columns=list(columns), use_threads=False)

    def read(self, columns: Sequence[str]) -> pa.Table:
        """All rows."""
        _fetch([(self, columns)])
        return self._file.read(list(columns), use_threads=False)


def _through(opened: SparsePart) -> pq.ParquetFile:
    # No pre_buffer: it would also read the bytes between two columns.
    return pq.ParquetFile(pa.PythonFile(opened, mode="r"), metadata=opened.metadata, pre_buffer=False)


def open_parts(store: Store, parts: Sequence[Part]) -> list[PartReader]:
    """Readers of the layers of a document part."""
    return list(store.each(partial(PartReader, store), parts))


def _fetch(wanted: Sequence[tuple[PartReader, Collection[str]]], group: int | None = None) -> None:
    """Fetch columns of some parts with one round of parallel requests."""
    fetches = [(reader, run) for reader, columns in wanted for run in reader.missing(columns, group)]
    if not fetches:
        return
    store = fetches[0][0].store

    def fetch(one: tuple[PartReader, list[Chunk]]) -> None:
        reader, run = one
        store.get_range(reader.part, run[0].start, run[-1].stop, partial(reader.take, run))

    for _ in store.each(fetch, fetches):
        pass


def join(
    layers: Sequence[PartReader], columns: Sequence[tuple[int, str, str]], groups: Sequence[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """Batches of columns from aligned layers, one batch per row group: of all, or of some.

    `columns` lists (layer, column, name in the batch). Raises Misaligned if the layers have different rows.
    """
    first = layers[0]
    for other in layers[1:]:
        if other.rows_hash != first.rows_hash or other.groups != first.groups:
            raise Misaligned(
                f"part {other.part.hash[:12]} has rows {other.rows_hash[:12]} in groups {other.groups}, "
                f"but part {first.part.hash[:12]} has rows {first.rows_hash[:12]} in groups {first.groups}"
            )
    wanted: list[list[str]] = [[] for _ in layers]
    for layer, column, _ in columns:
        if column not in wanted[layer]:
            wanted[layer].append(column)
    if groups is None:
        _fetch(list(zip(layers, wanted, strict=True)))
    for group in range(len(first.groups)) if groups is None else groups:
        tables = [
            reader.read_group(group, names) if names else None for reader, names in zip(layers, wanted, strict=True)
        ]
        arrays = [_one_array(tables[layer][column]) for layer, column, _ in columns]  # type: ignore[index]
        yield pa.RecordBatch.from_arrays(arrays, names=[name for _, _, name in columns])


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def text_bytes(column: pa.Array) -> pa.Array:
    """The length of each string in bytes; 0 for null."""
    return pc.fill_null(pc.binary_length(column), 0).cast(pa.int64())

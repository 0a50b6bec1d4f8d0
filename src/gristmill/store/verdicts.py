"""The verdicts part that accompanies a part of rows: its verdicts, text lengths, and the hash of every column chunk.

A part of rows is a Parquet file: column chunks, then a footer with their offsets. Most readers of a layer need only its
`drop` column. So each part has a second part of a few kilobytes with the footer, the chunks of the SMALL columns and
the SHA-256 of all chunks. A reader that needs no other column opens only that part. A reader of a remote store fetches
only the chunks of the columns that it needs and can still verify them.

The file is an Arrow IPC stream with one row per chunk, group by group: its hash and, for SMALL columns, its bytes. The
last row has the footer.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.store.store import VERDICTS, CorruptPart, Part, Store, Verdicts

SMALL = ("drop", "text_bytes", "html_bytes")
"""The columns that later stages need for gating and for metrics."""
ROWS_HASH = b"gristmill.rows"
NEAR_BYTES = 1 << 16
"""Chunks with a gap of at most this are fetched together: one more request takes as long as a megabyte."""
_SCHEMA = pa.schema([("hash", pa.binary(32)), ("data", pa.binary())])
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
_READ_OPTIONS = pa.ipc.IpcReadOptions(use_threads=False)


class Chunk(NamedTuple):
    """The byte range of one column in one row group."""

    group: int
    path: str
    """The Parquet path of the column: its name, then a dot and the nested field."""
    start: int
    stop: int

    def is_of(self, columns: Collection[str]) -> bool:
        return self.path in columns or any(self.path.startswith(f"{name}.") for name in columns)


def write_verdicts(store: Store, data: pa.Buffer) -> Verdicts:
    """Store the verdicts part for a part of rows with these bytes."""
    metadata = pq.read_metadata(pa.BufferReader(data))
    view = memoryview(data)
    chunks = list(_chunks_of(metadata))
    hashes = [hashlib.sha256(view[chunk.start : chunk.stop]).digest() for chunk in chunks]
    small = [bytes(view[chunk.start : chunk.stop]) if chunk.is_of(SMALL) else None for chunk in chunks]
    footer = bytes(view[chunks[-1].stop if chunks else 4 :])
    rows = pa.record_batch([pa.array([*hashes, None], pa.binary(32)), pa.array([*small, footer])], schema=_SCHEMA)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _SCHEMA, options=_OPTIONS) as writer:
        writer.write_batch(rows)
    part = store.put_part(sink.getvalue(), VERDICTS)
    drop = _drop_hash(metadata, metadata.schema.to_arrow_schema(), chunks, hashes)
    return Verdicts(part.hash, part.file_bytes, drop)


class SparsePart:
    """A part of rows as a file object that holds only the chunks fetched so far; it starts from the verdicts part."""

    def __init__(self, store: Store, part: Part) -> None:
        """Open the verdicts of `part`, which must have some, and check them against both hashes."""
        assert part.verdicts is not None
        self._part, beside = part, part.verdicts.part
        with pa.ipc.open_stream(store.get_part(beside), options=_READ_OPTIONS) as stream:
            rows = stream.read_all()
        data = [value.as_buffer() for value in rows["data"]]
        self.footer = bytes(data[-1])
        """The bytes of the part after its last chunk."""
        self.metadata = pq.read_metadata(pa.BufferReader(data[-1]))
        self.schema: pa.Schema = self.metadata.schema.to_arrow_schema()
        self.chunks = list(_chunks_of(self.metadata))
        self._hashes: list[bytes] = rows["hash"].to_pylist()[:-1]
        if _drop_hash(self.metadata, self.schema, self.chunks, self._hashes) != part.verdicts.drop:
            raise CorruptPart(beside.hash, "has verdicts that differ from its record")
        self._starts = [chunk.start for chunk in self.chunks]
        small = zip(self.chunks, data[:-1], strict=True)
        self._there = {chunk.start: memoryview(found) for chunk, found in small if found is not None}
        self._at = 0

    def missing(self, columns: Collection[str], group: int | None) -> list[list[Chunk]]:
        """The chunks of columns, in one group or in all, that still have to be fetched; neighbours are grouped."""
        runs: list[list[Chunk]] = []
        for chunk in self.chunks:
            if chunk.start in self._there or group not in (None, chunk.group) or not chunk.is_of(columns):
                continue
            if runs and chunk.start - runs[-1][-1].stop <= NEAR_BYTES:
                runs[-1].append(chunk)
            else:
                runs.append([chunk])
        return runs

    def take(self, chunks: Sequence[Chunk], data: bytes) -> None:
        """Add fetched bytes that span these chunks, from the first to the last."""
        first, view = chunks[0].start, memoryview(data)
        for chunk in chunks:
            self._there[chunk.start] = self.checked(chunk, view[chunk.start - first : chunk.stop - first])

    def checked(self, chunk: Chunk, data: memoryview) -> memoryview:
        """The bytes of a chunk. Raises CorruptPart if the hash differs."""
        if hashlib.sha256(data).digest() != self._hashes[bisect_right(self._starts, chunk.start) - 1]:
            raise CorruptPart(self._part.hash, f"does not match the hash of a column chunk ({chunk.path})")
        return data

    def known(self, chunk: Chunk) -> memoryview | None:
        """The bytes of a chunk if they are already here."""
        return self._there.get(chunk.start)

    def within(self, start: int, stop: int) -> list[Chunk]:
        """The chunks that overlap a byte range of the part."""
        first = max(bisect_right(self._starts, start) - 1, 0)
        return [chunk for chunk in self.chunks[first : bisect_right(self._starts, stop - 1)] if chunk.stop > start]

    # The file interface for Arrow

    closed = False

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._part.file_bytes)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int) -> memoryview:
        place = bisect_right(self._starts, self._at) - 1
        found = self._there.get(self._starts[place]) if place >= 0 else None
        start = self._at - self._starts[place]
        if found is None or start + size > len(found):
            raise EOFError(f"bytes {self._at} to {self._at + size} of part {self._part.hash[:12]} were not fetched")
        self._at += size
        return found[start : start + size]

    def close(self) -> None:
        """Do nothing: the bytes live as long as the reader."""


def _chunks_of(metadata: pq.FileMetaData) -> Iterator[Chunk]:
    paths = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    for group in range(metadata.num_row_groups):
        found = metadata.row_group(group)
        for number, path in enumerate(paths):
            column = found.column(number)
            start = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
            yield Chunk(group, path, start, start + column.total_compressed_size)


def _drop_hash(metadata: pq.FileMetaData, schema: pa.Schema, chunks: Sequence[Chunk], hashes: Sequence[bytes]) -> str:
    """A hash of the rows, their row groups and their `drop` values: of everything that depends only on verdicts."""
    kind = schema.field("drop").type if "drop" in schema.names else None
    groups = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    found = hashlib.sha256(repr((rows_hash_of(metadata), groups, str(kind))).encode())
    for chunk, digest in zip(chunks, hashes, strict=True):
        if chunk.path == "drop":
            found.update(digest)
    return found.hexdigest()[:32]


def rows_hash_of(metadata: pq.FileMetaData) -> str:
    """The hash of the documents that the rows of a part belong to."""
    mark: bytes = (metadata.metadata or {}).get(ROWS_HASH, b"")
    return mark.decode()

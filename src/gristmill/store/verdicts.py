"""The small part beside a part of rows: its verdicts, its lengths, and the hash of every stretch of it.

A part of rows is Parquet: column chunks one behind the other, and a footer that says where each of them lies. Most who
open a layer want `drop` of it and nothing else. So beside it lies a part of some kilobytes that has the footer, the
chunks of SMALL and the SHA-256 of all chunks. Whoever wants no more opens that one alone. Whoever wants more of a store
at the other end of a network takes the chunks of the columns that it reads, and what is read is still what was hashed.

Its file is an Arrow IPC stream: a row for each chunk, group by group, with its hash and, if it is small, its bytes; in
the last row the footer.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.store.store import VERDICTS, CorruptPart, Part, Store, Verdicts

SMALL = ("drop", "text_bytes", "html_bytes")
"""The columns that later stages gate and measure by."""
ROWS_HASH = b"gristmill.rows"
NEAR_BYTES = 1 << 16
"""Chunks with no more than this between them are fetched at once: another question takes as long as a megabyte."""
_SCHEMA = pa.schema([("hash", pa.binary(32)), ("data", pa.binary())])
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
_READ_OPTIONS = pa.ipc.IpcReadOptions(use_threads=False)


class Chunk(NamedTuple):
    """The values of a column in a row group, as a stretch of the file."""

    group: int
    path: str
    """Of the column in Parquet: its name, and behind a dot what lies inside of it."""
    start: int
    stop: int

    def is_of(self, columns: Collection[str]) -> bool:
        return self.path in columns or any(self.path.startswith(f"{name}.") for name in columns)


def write_verdicts(store: Store, data: pa.Buffer) -> Verdicts:
    """Store what goes beside a part of rows with these bytes."""
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
    return Verdicts(part.hash, part.file_bytes, _drop_hash(metadata, chunks, hashes))


class SparsePart:
    """A part of rows, seen through the small part beside it: a file that has the stretches that were fetched."""

    def __init__(self, store: Store, part: Part) -> None:
        """`part` has verdicts; they are checked against their name, and against what the part says of them."""
        assert part.verdicts is not None
        self._part, beside = part, part.verdicts.part
        with pa.ipc.open_stream(store.get_part(beside), options=_READ_OPTIONS) as stream:
            rows = stream.read_all()
        data = [value.as_buffer() for value in rows["data"]]
        self.footer = bytes(data[-1])
        """What stands behind the last chunk of the part."""
        self.metadata = pq.read_metadata(pa.BufferReader(data[-1]))
        self.chunks = list(_chunks_of(self.metadata))
        self._hashes: list[bytes] = rows["hash"].to_pylist()[:-1]
        if _drop_hash(self.metadata, self.chunks, self._hashes) != part.verdicts.drop:
            raise CorruptPart(beside.hash, "has other verdicts than its record says")
        self._starts = [chunk.start for chunk in self.chunks]
        small = zip(self.chunks, data[:-1], strict=True)
        self._there = {chunk.start: memoryview(found) for chunk, found in small if found is not None}
        self._at = 0

    def missing(self, columns: Collection[str], group: int | None) -> list[list[Chunk]]:
        """Chunks of columns, in one group or in all, that have to be fetched; those that are neighbours together."""
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
        """Have the bytes from the first of these chunks to the last."""
        first, view = chunks[0].start, memoryview(data)
        for chunk in chunks:
            self._there[chunk.start] = self.checked(chunk, view[chunk.start - first : chunk.stop - first])

    def checked(self, chunk: Chunk, data: memoryview) -> memoryview:
        """The bytes of a chunk, if they are what was written."""
        if hashlib.sha256(data).digest() != self._hashes[bisect_right(self._starts, chunk.start) - 1]:
            raise CorruptPart(self._part.hash, f"does not match the hash of a stretch of it ({chunk.path})")
        return data

    def known(self, chunk: Chunk) -> memoryview | None:
        """The bytes of a chunk that is small, or was taken."""
        return self._there.get(chunk.start)

    def within(self, start: int, stop: int) -> list[Chunk]:
        """Chunks of which a byte lies in that stretch of the part."""
        first = max(bisect_right(self._starts, start) - 1, 0)
        return [chunk for chunk in self.chunks[first : bisect_right(self._starts, stop - 1)] if chunk.stop > start]

    # What Arrow asks of a file

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
        """The bytes stay until the reader goes."""


def _chunks_of(metadata: pq.FileMetaData) -> Iterator[Chunk]:
    paths = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    for group in range(metadata.num_row_groups):
        found = metadata.row_group(group)
        for number, path in enumerate(paths):
            column = found.column(number)
            start = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
            yield Chunk(group, path, start, start + column.total_compressed_size)


def _drop_hash(metadata: pq.FileMetaData, chunks: Sequence[Chunk], hashes: Sequence[bytes]) -> str:
    """Of whose rows they are, in which groups, and what `drop` says of each: all that depends on verdicts alone."""
    schema = metadata.schema.to_arrow_schema()
    kind = schema.field("drop").type if "drop" in schema.names else None
    groups = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    found = hashlib.sha256(repr((rows_hash_of(metadata), groups, str(kind))).encode())
    for chunk, digest in zip(chunks, hashes, strict=True):
        if chunk.path == "drop":
            found.update(digest)
    return found.hexdigest()[:32]


def rows_hash_of(metadata: pq.FileMetaData) -> str:
    """Which documents the rows of a part speak of."""
    mark: bytes = (metadata.metadata or {}).get(ROWS_HASH, b"")
    return mark.decode()

"""Exchange files: one file a task, a segment for each destination, each segment hashed by itself.

A reader takes its own stretch of every file and nothing else, and its task key holds only the hashes of those
stretches: a reducer runs again only when a segment that it reads has changed. A segment is an Arrow IPC stream.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gristmill.store.store import CorruptPart, Part, Store

_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of an exchange file."""

    file: Part
    offset: int
    length: int
    hash: str
    rows: int


ROW = np.dtype([("to", "<u8"), ("file", "<u4"), ("offset", "<u8"), ("length", "<u8"), ("rows", "<u8"), ("hash", "V32")])
"""A segment in a table: its destination, the number of its file, and the rest as above."""


@dataclass(frozen=True, eq=False)
class SegmentList(Sequence[Segment]):
    """Segments as rows of a table: tens of thousands are sent to a reducer at once."""

    table: npt.NDArray[np.void]
    files: Sequence[Part]

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return SegmentList(self.table[place], self.files)
        _, file, offset, length, rows, digest = self.table[place].item()
        return Segment(self.files[file], offset, length, digest.hex(), rows)

    @property
    def hashes(self) -> list[str]:
        text = self.table["hash"].tobytes().hex()
        return [text[start : start + 64] for start in range(0, len(text), 64)]


def write_segments(store: Store, tables: Iterable[tuple[str, pa.Table]]) -> tuple[Part, dict[str, Segment]]:
    """Store one file with a segment for every destination that has rows."""
    sink = pa.BufferOutputStream()
    stretches: list[tuple[str, int, int, int]] = []
    for destination, table in tables:
        if table.num_rows == 0:
            continue
        start = sink.tell()
        with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as writer:
            writer.write_table(table)
        stretches.append((destination, start, sink.tell(), table.num_rows))
    buffer = sink.getvalue()
    view = memoryview(buffer)
    part = store.put_part(buffer, "segments", rows=sum(rows for *_, rows in stretches))
    return part, {
        destination: Segment(part, start, stop - start, hashlib.sha256(view[start:stop]).hexdigest(), rows)
        for destination, start, stop, rows in stretches
    }


def read_segment(store: Store, segment: Segment) -> pa.Table:
    data = store.get_range(segment.file, segment.offset, segment.offset + segment.length)
    if hashlib.sha256(data).hexdigest() != segment.hash:
        raise CorruptPart(segment.file.hash, "does not match the hash of one of its segments")
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()

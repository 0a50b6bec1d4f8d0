"""Exchange files: one file per task, with a separately hashed segment for each destination.

Segments are concatenated, followed by a table with the length, size and hash of each. A reference to a file includes
the hash of its table, so a reader can fetch the table and the segments that it needs and verify both. A segment is an
Arrow IPC stream.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gristmill.store.store import CorruptPart, Part, Store
from gristmill.store.verdicts import NEAR_BYTES

Table = npt.NDArray[np.void]

_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
_READ_OPTIONS = pa.ipc.IpcReadOptions(use_threads=False)
ROW = np.dtype([("to", "<u8"), ("length", "<u8"), ("memory", "<u8"), ("rows", "<u8"), ("hash", "V32")])
"""A segment in the table of its file: destination, bytes in the file, bytes in memory, rows, SHA-256."""


WINDOW_BYTES = 32 << 20
"""The most bytes of segments that are held while they are read."""


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """An exchange file, with what is needed to read its segments."""

    part: Part
    segments: int
    table: str
    """SHA-256 of its table."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A byte range of an exchange file."""

    file: Part
    offset: int
    length: int
    hash: str
    memory: int


_PLACED = np.dtype([("file", "<u4"), ("offset", "<u8"), ("length", "<u8"), ("memory", "<u8"), ("hash", "V32")])


@dataclass(frozen=True, eq=False)
class SegmentList(Sequence[Segment]):
    """Segments as rows of an array, which is compact: a worker receives thousands of them."""

    rows: Table
    files: Mapping[int, Part]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return SegmentList(self.rows[place], self.files)
        file, offset, length, memory, digest = self.rows[place].item()
        return Segment(self.files[file], offset, length, digest.hex(), memory)

    @property
    def hashes(self) -> list[str]:
        text = self.rows["hash"].tobytes().hex()
        return [text[start : start + 64] for start in range(0, len(text), 64)]

    @property
    def memory(self) -> int:
        """The bytes of all segments in memory."""
        return int(self.rows["memory"].sum())


class SegmentTable:
    """The segments of some files, in the order of the files, found by destination."""

    def __init__(self, files: Sequence[SegmentFile], tables: Sequence[Table]) -> None:
        self._files = [file.part for file in files]
        to = _joined([table["to"] for table in tables], np.uint64)
        order = np.argsort(to, kind="stable")
        self._to = to[order]
        self._rows = np.empty(len(order), _PLACED)
        # Column by column: whole rows would be in memory three times.
        self._rows["file"] = np.repeat(np.arange(len(tables)), [len(table) for table in tables])[order]
        offsets = [np.cumsum(table["length"]) - table["length"] for table in tables]
        self._rows["offset"] = _joined(offsets, np.uint64)[order]
        for name in ("length", "memory", "hash"):
            self._rows[name] = _joined([table[name] for table in tables], ROW[name])[order]

    def destinations(self) -> list[int]:
        return [int(one) for one in np.unique(self._to)]

    def sizes(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
        """The sorted destinations, and the bytes in memory for each."""
        known, of = np.unique(self._to, return_inverse=True)
        sizes = np.bincount(of, self._rows["memory"].astype(np.float64), len(known)).astype(np.int64)
        return known, sizes

    def to(self, first: int, last: int | None = None) -> SegmentList:
        """The segments for one destination, or for all from `first` to `last`."""
        begin = np.searchsorted(self._to, np.uint64(first), "left")
        end = np.searchsorted(self._to, np.uint64(first if last is None else last), "right")
        rows = self._rows[begin:end]
        return SegmentList(rows, {number: self._files[number] for number in rows["file"].tolist()})


def _joined(columns: Sequence[npt.NDArray[Any]], kind: npt.DTypeLike) -> npt.NDArray[Any]:
    return np.concatenate(columns) if columns else np.empty(0, kind)


def write_segments(store: Store, tables: Iterable[tuple[int, pa.Table]]) -> SegmentFile:
    """Store one file with a segment for every destination that has rows; `tables` is sorted by destination."""
    sink = pa.BufferOutputStream()
    found: list[tuple[int, int, int, int, bytes]] = []
    for destination, table in tables:
        if table.num_rows == 0:
            continue
        segment = pa.BufferOutputStream()
        with pa.ipc.new_stream(segment, table.schema, options=_OPTIONS) as writer:
            writer.write_table(table)
        content = segment.getvalue()
        sink.write(content)
        found.append(
            (destination, content.size, table.nbytes, table.num_rows, hashlib.sha256(memoryview(content)).digest())
        )
    rows = np.array(found, ROW)
    sink.write(rows.tobytes())
    part = store.put_part(sink.getvalue(), "segments", rows=int(rows["rows"].sum()))
    return SegmentFile(part, len(rows), hashlib.sha256(rows.tobytes()).hexdigest())


def read_table(store: Store, file: SegmentFile) -> Table:
    """The table of a file: one row for each segment, in file order."""
    size = file.segments * ROW.itemsize

    def check(data: bytes) -> Table:
        if hashlib.sha256(data).hexdigest() != file.table:
            raise CorruptPart(file.part.hash, "does not match the hash of its table of segments")
        return np.frombuffer(data, ROW)

    return store.get_range(file.part, file.part.file_bytes - size, file.part.file_bytes, check) if size else check(b"")


def read_segments(store: Store, segments: Iterable[Segment]) -> Iterator[pa.Table]:
    """Read segments in order. Adjacent ones are fetched together, and many files in parallel from a remote store."""
    window: list[Segment] = []
    held = 0
    for segment in segments:
        if window and held + segment.length > WINDOW_BYTES:
            yield from _read_window(store, window)
            window, held = [], 0
        window.append(segment)
        held += segment.length
    yield from _read_window(store, window)


def _read_window(store: Store, window: Sequence[Segment]) -> Iterator[pa.Table]:
    runs: list[list[int]] = []
    for place in sorted(range(len(window)), key=lambda at: (window[at].file.hash, window[at].offset)):
        before, one = window[runs[-1][-1]] if runs else None, window[place]
        if before and before.file == one.file and one.offset - before.offset - before.length <= NEAR_BYTES:
            runs[-1].append(place)
        else:
            runs.append([place])

    def fetch(run: list[int]) -> list[memoryview]:
        first, last = window[run[0]], window[run[-1]]

        def check(data: bytes) -> list[memoryview]:
            view, found = memoryview(data), []
            for one in (window[place] for place in run):
                start = one.offset - first.offset
                found.append(_right(view[start : start + one.length], one.file, one.hash))
            return found

        return store.get_range(first.file, first.offset, last.offset + last.length, check)

    stretches: dict[int, memoryview] = {}
    for run, found in zip(runs, store.each(fetch, runs), strict=True):
        stretches.update(zip(run, found, strict=True))
    for place in range(len(window)):
        yield _opened(stretches.pop(place))


def read_span(store: Store, file: SegmentFile, first: int, last: int) -> Iterator[pa.Table]:
    """The segments of a file for the destinations from `first` to `last`: they are adjacent, so one read is enough."""
    table = read_table(store, file)
    begin, end = np.searchsorted(table["to"], np.array([first, last + 1], np.uint64))
    ends = np.cumsum(table["length"], dtype=np.int64)
    starts = ends - table["length"].astype(np.int64)
    if begin == end:
        return

    def check(data: bytes) -> list[memoryview]:
        first, view = starts[begin], memoryview(data)
        stretches = [view[int(starts[place] - first) : int(ends[place] - first)] for place in range(begin, end)]
        hashes = [table["hash"][place].tobytes().hex() for place in range(begin, end)]
        return [_right(stretch, file.part, one) for stretch, one in zip(stretches, hashes, strict=True)]

    for stretch in store.get_range(file.part, int(starts[begin]), int(ends[end - 1]), check):
        yield _opened(stretch)


def _right(data: memoryview, file: Part, expected: str) -> memoryview:
    if hashlib.sha256(data).hexdigest() != expected:
        raise CorruptPart(file.hash, "does not match the hash of one of its segments")
    return data


def _opened(data: memoryview) -> pa.Table:
    with pa.ipc.open_stream(data, options=_READ_OPTIONS) as reader:
        return reader.read_all()

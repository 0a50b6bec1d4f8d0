"""Exchange files: one file a task, a segment for each destination, each segment hashed by itself.

Segments lie one behind the other, and behind them a table says how long each is, what it holds and its hash. Who names
a file names the hash of its table too, so a reader takes the table and the stretches that it wants and nothing else,
and what it has read is what was hashed. A segment is an Arrow IPC stream.
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
"""Of segments that are read at once, beside what is made of them."""


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """An exchange file and what is needed to read pieces of it."""

    part: Part
    segments: int
    table: str
    """SHA-256 of its table."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of an exchange file."""

    file: Part
    offset: int
    length: int
    hash: str
    memory: int


_PLACED = np.dtype([("file", "<u4"), ("offset", "<u8"), ("length", "<u8"), ("memory", "<u8"), ("hash", "V32")])


@dataclass(frozen=True, eq=False)
class SegmentList(Sequence[Segment]):
    """Segments as rows of an array: thousands are sent to a worker at once."""

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
        """Bytes of all of them in memory."""
        return int(self.rows["memory"].sum())


class SegmentTable:
    """The segments of some files, in the order of the files, found by destination."""

    def __init__(self, files: Sequence[SegmentFile], tables: Sequence[Table]) -> None:
        self._files = [file.part for file in files]
        to = _joined([table["to"] for table in tables], np.uint64)
        order = np.argsort(to, kind="stable")
        self._to = to[order]
        self._rows = np.empty(len(order), _PLACED)
        # Column by column: all of them at once would be in memory three times.
        self._rows["file"] = np.repeat(np.arange(len(tables)), [len(table) for table in tables])[order]
        offsets = [np.cumsum(table["length"]) - table["length"] for table in tables]
        self._rows["offset"] = _joined(offsets, np.uint64)[order]
        for name in ("length", "memory", "hash"):
            self._rows[name] = _joined([table[name] for table in tables], ROW[name])[order]

    def destinations(self) -> list[int]:
        return [int(one) for one in np.unique(self._to)]

    def sizes(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
        """The destinations, sorted, and the bytes in memory of all that goes to each."""
        known, of = np.unique(self._to, return_inverse=True)
        sizes = np.bincount(of, self._rows["memory"].astype(np.float64), len(known)).astype(np.int64)
        return known, sizes

    def to(self, first: int, last: int | None = None) -> SegmentList:
        """What goes to a destination, or to all from `first` to `last`."""
        begin = np.searchsorted(self._to, np.uint64(first), "left")
        end = np.searchsorted(self._to, np.uint64(first if last is None else last), "right")
        rows = self._rows[begin:end]
        return SegmentList(rows, {number: self._files[number] for number in rows["file"].tolist()})


def _joined(columns: Sequence[npt.NDArray[Any]], kind: npt.DTypeLike) -> npt.NDArray[Any]:
    return np.concatenate(columns) if columns else np.empty(0, kind)


def write_segments(store: Store, tables: Iterable[tuple[int, pa.Table]]) -> SegmentFile:
    """Store one file with a segment for every destination that has rows; destinations come in their order."""
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
    """The table of a file: a row for each of its segments, in the order in which they lie there."""
    size = file.segments * ROW.itemsize

    def check(data: bytes) -> Table:
        if hashlib.sha256(data).hexdigest() != file.table:
            raise CorruptPart(file.part.hash, "does not match the hash of its table of segments")
        return np.frombuffer(data, ROW)

    return store.get_range(file.part, file.part.file_bytes - size, file.part.file_bytes, check) if size else check(b"")


def read_segments(store: Store, segments: Iterable[Segment]) -> Iterator[pa.Table]:
    """Segments in their order. Those that lie side by side in a file are asked for at once, and many files at the same
    time where the store is at the other end of a network.
    """
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
    """The segments of a file for the destinations from `first` to `last`, which lie side by side: read at once."""
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

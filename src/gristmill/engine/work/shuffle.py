"""Shuffles records: cuts them by destination, merges many files into one, and spills what does not fit into memory.

A destination is the top bits of a number that records carry: their key, or the number of their part. The sender cuts
coarsely; if there are many records, `merge` combines files of many parts and cuts them finer.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gristmill.engine.work.task import Merge, Result, sent
from gristmill.errors import BrokenPromise
from gristmill.kernels.hash.radix import sort_order
from gristmill.store.segments import Segment, SegmentFile, read_segments, read_span, write_segments
from gristmill.store.store import Store

IN_MEMORY = 160 << 20
"""Bytes of records that a reducer loads at once; sorting takes three times as much."""
SENT_BYTES = 64 << 20
"""Bytes of answers in memory before they are written."""
SPILL_WAYS = 64
"""Files that records are spilled to at once."""
HOT_SHARE, HOT_RECORDS = 0.1, 1000
"""A key with at least this share of a reducer's records, and this many, is reported."""

Numbers = npt.NDArray[np.uint64]


def cut(records: pa.Table, column: str, shift: int, keeps: bool = True) -> Iterator[tuple[int, pa.Table]]:
    """Records by destination, in the order of destinations; records of one destination keep their order."""
    if not records.num_rows:
        return
    records = records.combine_chunks()
    destination = numbers(records, column) >> np.uint64(shift) if shift < 64 else np.zeros(len(records), np.uint64)
    order = sort_order(destination)
    if not keeps:
        records = records.drop_columns([column])
    for start, stop in runs(destination[order]):
        # Taken, not sliced: a slice keeps bits of its neighbours in its bitmaps, and equal records must be equal bytes.
        yield int(destination[order[start]]), records.take(pa.array(order[start:stop])).combine_chunks()


def numbers(records: pa.Table, column: str) -> Numbers:
    found: Numbers = records.column(column).combine_chunks().to_numpy().astype(np.uint64, copy=False)
    return found


def runs(values: Numbers) -> Iterator[tuple[int, int]]:
    """Start and end of each run of equal values."""
    starts = np.flatnonzero(np.diff(values, prepend=~values[:1]))
    return zip(starts.tolist(), [*starts[1:].tolist(), len(values)], strict=True)


def perform_merge(work: Merge, store: Store) -> Result:
    spans = store.each(lambda file: list(read_span(store, file, work.first, work.last)), work.files)
    records = one_table(table for span in spans for table in span)
    return sent([write_segments(store, cut(records, work.column, work.shift, work.keeps))])


def one_table(tables: Iterable[pa.Table]) -> pa.Table:
    """The concatenation of some tables, at least one."""
    try:
        return pa.concat_tables(list(tables)).combine_chunks()
    except pa.ArrowInvalid as error:
        raise BrokenPromise(
            f"The previous round wrote different columns for different keys ({error}). Always write the same columns."
        ) from None


def read_all(segments: Sequence[Segment], store: Store) -> pa.Table | None:
    """The concatenated records of some segments; None if there are no segments."""
    return one_table(read_segments(store, segments)) if segments else None


class Outgoing:
    """Writes the answers of a task to files of bounded size."""

    def __init__(self, store: Store, column: str, shift: int) -> None:
        self._store, self._column, self._shift = store, column, shift
        self._tables: list[pa.Table] = []
        self._memory = 0
        self._files: list[SegmentFile] = []
        self.rows = 0

    def add(self, answers: pa.Table) -> None:
        self._tables.append(answers)
        self._memory += answers.nbytes
        self.rows += answers.num_rows
        if self._memory > SENT_BYTES:
            self._write()

    def close(self) -> list[SegmentFile]:
        if self._tables or not self._files:
            self._write()
        return self._files

    def _write(self) -> None:
        found = cut(one_table(self._tables), self._column, self._shift) if self._tables else ()
        self._tables, self._memory = [], 0
        self._files.append(write_segments(self._store, found))


class RecordBlock:
    """Records that a reducer gets at once, sorted by key, part and row."""

    def __init__(self, records: pa.Table, others: pa.Table | None = None) -> None:
        names = [name for name in ("key", "part", "row") if name in records.schema.names]
        self.records = records.take(pa.array(sort_order(*(numbers(records, name) for name in names))))
        self.others = others
        """The stage's summary of the other records of their key, if the key has too many for one block."""


class HotKey:
    """The key with the most records of a reducer. Counts of a key that is split over blocks are added up."""

    def __init__(self) -> None:
        self._all = self._most = self._last = 0
        self._key = self._last_key = -1

    def add(self, records: pa.Table) -> None:
        """Count the next block, which is sorted by key."""
        key = numbers(records, "key")
        if not len(key):
            return
        starts = np.flatnonzero(np.diff(key, prepend=~key[:1]))
        counts = np.diff(starts, append=len(key))
        if int(key[0]) == self._last_key:
            counts[0] += self._last
        most = int(counts.argmax())
        if int(counts[most]) > self._most:
            self._most, self._key = int(counts[most]), int(key[starts[most]])
        self._all += len(key)
        self._last, self._last_key = int(counts[-1]), int(key[-1])

    def result(self) -> tuple[str, int] | None:
        """The key in hexadecimal and the number of its records; None if they are not many."""
        return (f"{self._key:016x}", self._most) if self._most >= max(HOT_RECORDS, HOT_SHARE * self._all) else None


class Spill:
    """Records of a range of keys on disk, until they are cut into ranges that fit into memory."""

    def __init__(self, folder: Path, name: str = "0") -> None:
        self._folder, self._name = folder, name
        self.memory = 0
        self._least, self._most = 2**64, -1
        self._path = folder / f"{name}.arrow"
        self._file: Any = None
        self._writer: Any = None

    def add(self, records: pa.Table) -> None:
        if self._writer is None:
            self._file = pa.OSFile(str(self._path), "wb")
            self._writer = pa.ipc.new_stream(self._file, records.schema)
        try:
            self._writer.write_table(records)
        except pa.ArrowInvalid:
            one_table([records, *self._closed()])  # says that columns differ
            raise
        key = numbers(records, "key")
        self.memory += records.nbytes
        self._least, self._most = min(self._least, int(key.min())), max(self._most, int(key.max()))

    def _closed(self) -> Iterator[pa.Table]:
        """The spilled records, batch by batch."""
        self.end()
        with pa.memory_map(str(self._path)) as file, pa.ipc.open_stream(file) as reader:
            for batch in reader:
                yield pa.Table.from_batches([batch])

    def end(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._file.close()
            self._writer = None

    def blocks(self, limit: int, summary: object) -> Iterator[RecordBlock]:
        """Blocks of whole keys that fit into memory. A larger key is split into several blocks, each with the `summary`
        of the others; without a summary function it stays whole.
        """
        if self.memory <= limit or (self._least == self._most and summary is None):
            yield RecordBlock(one_table(self._closed()))
            self._path.unlink()
        elif self._least == self._most:
            yield from self._pieces(limit // 2, summary)
        else:
            for part in self._cut():
                yield from part.blocks(limit, summary)

    def _cut(self) -> list["Spill"]:
        """The same records in ranges of keys; the most frequent key of the first batch gets its own range."""
        width = (self._most - self._least) // SPILL_WAYS + 1
        frequent: int | None = None
        found: dict[int, Spill] = {}
        for records in self._closed():
            key = numbers(records, "key")
            if frequent is None:
                values, counts = np.unique(key, return_counts=True)
                frequent = int(values[counts.argmax()])
            way = ((key - np.uint64(self._least)) // np.uint64(width)).astype(np.int64)
            way[key == np.uint64(frequent)] = SPILL_WAYS
            order = np.argsort(way, kind="stable")
            for start, stop in runs(way[order].astype(np.uint64)):
                number = int(way[order[start]])
                if number not in found:
                    found[number] = Spill(self._folder, f"{self._name}.{number}")
                found[number].add(records.take(pa.array(order[start:stop])))
        for part in found.values():
            part.end()
        self._path.unlink()
        return [found[number] for number in sorted(found)]

    def _pieces(self, limit: int, summary: Any) -> Iterator[RecordBlock]:
        summaries = [summary(piece.records) for piece in self._in_memory(limit)]
        for number, piece in enumerate(self._in_memory(limit)):
            piece.others = one_table(summaries[:number] + summaries[number + 1 :]) if len(summaries) > 1 else None
            yield piece
        self._path.unlink()

    def _in_memory(self, limit: int) -> Iterator[RecordBlock]:
        held: list[pa.Table] = []
        held_bytes = 0
        for records in self._closed():
            size = records.nbytes  # computed once: Arrow goes through all buffers
            if held and held_bytes + size > limit:
                yield RecordBlock(pa.concat_tables(held).combine_chunks())
                held, held_bytes = [], 0
            held.append(records)
            held_bytes += size
        if held:
            yield RecordBlock(pa.concat_tables(held).combine_chunks())


def blocks_of(
    segments: Sequence[Segment], memory: int, store: Store, folder: Path, summary: object, limit: int = IN_MEMORY
) -> Iterator[RecordBlock]:
    """All records of a reducer, in blocks of whole keys."""
    if memory <= limit:
        if segments:
            yield RecordBlock(one_table(read_segments(store, segments)))
        return
    spill = Spill(folder)
    for records in read_segments(store, segments):
        spill.add(records)
    spill.end()
    yield from spill.blocks(limit, summary)

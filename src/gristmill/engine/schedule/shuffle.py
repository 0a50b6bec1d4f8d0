"""How many reducers there are, and what comes to each: from the bytes that were sent, and from nothing else.

Every task cuts what it sends into 64 ranges of a number (a key, a part, an entry). Where there is little, a reducer
reads some of these ranges from every file. Where there is much, files of many parts are merged first: a merge takes a
span of ranges, wide enough to make at most FAN_OUT finer ones of it, from as many files as make MERGED_BYTES. So at
4 TB a reducer reads a few hundred stretches and not one from each of 62,500 files, and what the coordinator holds at a
time is the tables of one span, or of as many as it takes to keep all workers of a cluster busy.

Borders between reducers, and between groups of merged files, are found by halving until what is left is small enough.
So a document that goes away moves a border only where a half was just too large: the others read what they read before.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from gristmill.engine.plan.graph import Node
from gristmill.engine.schedule.run_context import RunContext
from gristmill.engine.work.task import Merge
from gristmill.store.segments import SegmentFile, SegmentTable, Table, read_table
from gristmill.store.store import Store

RANGES = 64
FEW_FILES = 256
"""Files that reducers read without a merge."""
FEW_SEGMENTS = 1 << 16
"""The same, segments in all."""
LEAST_BYTES, MOST_BYTES = 4 << 20, 128 << 20
"""Of a reducer, in memory: at least, so that tasks are worth their while; at most, where no single key has more."""
MERGED_BYTES = 128 << 20
MERGED_FILES = 1024
"""What a merge reads, at most."""
FAN_OUT = 256
"""Segments of a merged file, about."""
FINEST = 1024
"""Into how many a range is cut at most: 65,536 in all."""
FEW_MORE = 2
"""Merges, reducers and builds that wait for a worker, beside those that run: each holds the names of all it reads."""
HELD_SEGMENTS = 1 << 22
"""Of all spans that are worked on at once: some 120 bytes each."""

Answer = TypeVar("Answer")
Sizes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Route:
    """What records go by, and how it was cut where they were sent."""

    column: str
    coarse: int
    """Bits by which it was shifted; 0: a file has a segment for each destination itself."""
    merges: bool = True
    """Whether files are merged before anybody reads them; they have at most RANGES segments then."""
    keeps: bool = True
    """Whether the column goes on with merged records."""

    @classmethod
    def to_each(cls, column: str, files: int, destinations: int, bits: int, keeps: bool = True) -> "Route":
        """To every single destination, which is a number of so many bits, from so many files."""
        merges = files * destinations > FEW_SEGMENTS
        return cls(column, max(0, bits - (RANGES.bit_length() - 1)) if merges else 0, merges, keeps)


class Sent:
    """Files that tasks sent, in the order of the tasks."""

    def __init__(self) -> None:
        self._files: list[tuple[tuple[int, ...], SegmentFile]] = []

    def add(self, place: tuple[int, ...], files: Iterable[SegmentFile]) -> None:
        """Of the task at `place` among all, whenever it comes."""
        self._files += [((*place, number), file) for number, file in enumerate(files) if file.segments]

    def files(self) -> list[SegmentFile]:
        self._files.sort(key=lambda item: item[0])
        return [file for _, file in self._files]


@dataclass(frozen=True)
class Spans:
    """What was sent, and into what it has to be cut."""

    files: Sequence[SegmentFile]
    sizes: Sizes
    """Bytes in memory, by file and range."""
    target: int
    """Bytes of a reducer."""
    finer: int
    """Into how many, a power of two, each range is cut."""

    @property
    def reducers(self) -> int:
        """About how many there will be."""
        return max(RANGES, int(self.sizes.sum()) // self.target)

    @property
    def is_large(self) -> bool:
        return self.finer > 1 or len(self.files) > FEW_FILES


async def weigh(run: RunContext, files: Sequence[SegmentFile]) -> Spans:
    """How much there is for every range of keys."""
    sizes = np.zeros((len(files), RANGES), np.int64)
    for start in range(0, len(files), FEW_FILES):
        tables = await run.tasks.ask_in_thread(_tables, run.store, files[start : start + FEW_FILES])
        for number, table in enumerate(tables, start):
            sizes[number, table["to"].astype(np.int64)] = table["memory"]
    by_range = sizes.sum(axis=0)
    total = int(by_range.sum())
    target = min(max((1 << total.bit_length()) // RANGES, LEAST_BYTES), MOST_BYTES)
    crowded = int(by_range.max(initial=0)) if total > RANGES * LEAST_BYTES else 0
    finer = 1
    while finer < FINEST and finer * target < crowded:
        finer *= 2
    return Spans(files, sizes, target, finer)


Consume = Callable[[SegmentTable], Awaitable[Answer | None]]
"""What is done with the segments of a span; None where a dry run would have to run something."""


async def by_range(
    run: RunContext, node: Node, name: str, spans: Spans, route: Route, consume: Callable[[SegmentTable, int], Any]
) -> bool:
    """Do something with the segments of every range of keys, span by span, and by how many bits a key is shifted to
    give the range; False where a dry run would have to run something first.
    """
    if not spans.is_large:
        tables = await run.tasks.ask_in_thread(_tables, run.store, spans.files)
        return await consume(SegmentTable(spans.files, tables), route.coarse) is not None
    shift = route.coarse - (spans.finer.bit_length() - 1)
    width = _width(spans.finer * RANGES)
    found = await _each_span(run, node, name, spans, width, route, shift, lambda table: consume(table, shift))
    return found is not None


async def by_destination(
    run: RunContext,
    node: Node,
    name: str,
    files: Sequence[SegmentFile],
    route: Route,
    destinations: int,
    consume: Consume[Answer],
) -> list[Answer] | None:
    """What is made of the segments of every single destination, span by span, in their order; None where a dry run
    would have to run something first.
    """
    if not route.merges:
        table = SegmentTable(files, await run.tasks.ask_in_thread(_tables, run.store, files))
        made = await consume(table)
        return None if made is None else [made]
    spans = await weigh(run, files)
    return await _each_span(run, node, name, spans, _width(destinations), route, 0, consume)


async def _each_span(
    run: RunContext, node: Node, name: str, spans: Spans, width: int, route: Route, shift: int, consume: Consume[Answer]
) -> list[Answer] | None:
    """One span after the other, where its tasks keep the executor busy; else so many at once that they do."""
    stopped = False

    async def one(first: int) -> Answer | None:
        nonlocal stopped
        if stopped:
            return None
        here = spans.sizes[:, first : first + width].sum(axis=1)
        table = await _merged(run, node, name, spans.files, here, (first, first + width - 1), route, shift)
        made = None if table is None else await consume(table)
        stopped |= made is None
        return made

    sizes = {first: spans.sizes[:, first : first + width] for first in range(0, RANGES, width)}
    full = [first for first, here in sizes.items() if here.any()]
    found = await run.each(map(one, full), at_once=_spans_at_once(run, spans, width))
    return None if stopped else [made for made in found if made is not None]


def _spans_at_once(run: RunContext, spans: Spans, width: int) -> int:
    if run.tasks.dry:
        return 1
    merges = max(1, int(spans.sizes.sum()) * width // RANGES // MERGED_BYTES, len(spans.files) // MERGED_FILES)
    return max(1, min(run.slots // merges, HELD_SEGMENTS // (merges * FAN_OUT)))


def _width(destinations: int) -> int:
    """Ranges of a span, a power of two: so many that a merged file has about FAN_OUT destinations."""
    wide = max(1, RANGES * FAN_OUT // max(1, destinations))
    return min(RANGES, 1 << (wide.bit_length() - 1))


def packed(table: SegmentTable, target: int) -> list[tuple[int, int]]:
    """The first and the last destination of every reducer: ranges of up to `target` bytes, or one destination."""
    known, sizes = table.sizes()
    return [(int(known[begin]), int(known[end - 1])) for begin, end in halved(known, sizes, target)]


def halved(places: npt.NDArray[np.uint64], sizes: Sizes, limit: int, most: int | None = None) -> list[tuple[int, int]]:
    """Rising places cut where ranges of them are halved, until a range has no more than `limit` bytes and `most` of
    them, or is a single place: begin and end of each that holds something.
    """
    before = np.concatenate([[0], np.cumsum(sizes)])
    found: list[tuple[int, int]] = []

    def halve(first: int, width: int) -> None:
        begin = int(np.searchsorted(places, np.uint64(first)))
        end = int(np.searchsorted(places, np.uint64(first + width - 1), "right"))
        if begin == end:
            return
        if width == 1 or (before[end] - before[begin] <= limit and (most is None or end - begin <= most)):
            found.append((begin, end))
        else:
            halve(first, width // 2)
            halve(first + width // 2, width // 2)

    if len(places):
        halve(0, 1 << int(places[-1]).bit_length())
    return found


async def _merged(
    run: RunContext,
    node: Node,
    name: str,
    files: Sequence[SegmentFile],
    sizes: Sizes,
    span: tuple[int, int],
    route: Route,
    shift: int,
) -> SegmentTable | None:
    groups = _groups(files, sizes)
    run.listener.expect(node, len(groups))
    made = await run.each(
        (_merge(run, node, name, group, span, route, shift, number) for number, group in enumerate(groups)),
        at_once=run.slots + FEW_MORE,
    )
    whole = [file for file in made if file is not None]
    if len(whole) < len(made):
        return None
    return SegmentTable(whole, await run.tasks.ask_in_thread(_tables, run.store, whole))


def _groups(files: Sequence[SegmentFile], sizes: Sizes) -> list[list[SegmentFile]]:
    """Neighbouring files that are merged together."""
    full = np.flatnonzero(sizes)
    stretches = halved(full.astype(np.uint64), sizes[full], MERGED_BYTES, MERGED_FILES)
    return [[files[place] for place in full[begin:end]] for begin, end in stretches]


async def _merge(
    run: RunContext,
    node: Node,
    name: str,
    files: Sequence[SegmentFile],
    span: tuple[int, int],
    route: Route,
    shift: int,
    number: int,
) -> SegmentFile | None:
    work = Merge(tuple(files), *span, route.column, shift, route.keeps)
    inputs: dict[str, Any] = {
        "verb": "merge",
        "files": [file.part.hash for file in files],
        "span": span,
        "column": route.column,
        "shift": shift,
        "keeps": route.keeps,
    }
    label = f"{name} merge {span[0]}-{span[1]}.{number}"
    _, result = await run.tasks.obtain(node, work, inputs, label, (span[0], number))
    return None if result is None else result.segment_files[0]


def _tables(store: Store, files: Sequence[SegmentFile]) -> list[Table]:
    return list(store.each(partial(read_table, store), files))

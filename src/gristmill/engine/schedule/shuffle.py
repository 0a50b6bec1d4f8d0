"""Decides how many reducers there are, and what each gets, from the bytes that were sent and nothing else.

Every task cuts what it sends into 64 ranges of a number (a key, a part, an entry). If there are few records, a reducer
reads some of these ranges from every file. If there are many, files of many parts are merged first: a merge takes a
span of ranges, wide enough to be cut into at most FAN_OUT finer ones, from as many files as add up to MERGED_BYTES. So
at 4 TB a reducer reads a few hundred segments and not one from each of 62,500 files, and the coordinator only holds the
tables of one span at a time, or of as many as keep all workers of a cluster busy.

Borders between reducers, and between groups of merged files, are found by halving ranges until they are small enough.
So if a document is removed, a border only moves where a half was just too large; other reducers are not affected.
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
"""The most files that reducers read without a merge."""
FEW_SEGMENTS = 1 << 16
"""The most segments, in the same case."""
LEAST_BYTES, MOST_BYTES = 4 << 20, 128 << 20
"""Bytes in memory per reducer: at least, so that tasks are worthwhile; at most, unless a single key has more."""
MERGED_BYTES = 128 << 20
MERGED_FILES = 1024
"""The most bytes and files that a merge reads."""
FAN_OUT = 256
"""About how many segments a merged file has."""
FINEST = 1024
"""The most parts that a range is cut into, which gives 65,536 in all."""
FEW_MORE = 2
"""Merges, reducers and builds that wait for a worker, not counting running ones: each holds the names of its inputs."""
HELD_SEGMENTS = 1 << 22
"""The most segments of all spans in progress, at about 120 bytes each."""

Answer = TypeVar("Answer")
Sizes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Route:
    """The number that determines where records go, and how it was cut when they were sent."""

    column: str
    coarse: int
    """Bits by which it was shifted; 0 means that a file has a segment for each destination."""
    merges: bool = True
    """Whether files are merged before they are read; they have at most RANGES segments then."""
    keeps: bool = True
    """Whether merged records keep the column."""

    @classmethod
    def to_each(cls, column: str, files: int, destinations: int, bits: int, keeps: bool = True) -> "Route":
        """The route to every single destination, which is a number with `bits` bits, from `files` files."""
        merges = files * destinations > FEW_SEGMENTS
        return cls(column, max(0, bits - (RANGES.bit_length() - 1)) if merges else 0, merges, keeps)


class Sent:
    """Files that tasks sent, in the order of the tasks."""

    def __init__(self) -> None:
        self._files: list[tuple[tuple[int, ...], SegmentFile]] = []

    def add(self, order: tuple[int, ...], files: Iterable[SegmentFile]) -> None:
        """Add the files of the task at position `order`; tasks may end in any order."""
        self._files += [((*order, number), file) for number, file in enumerate(files) if file.segments]

    def files(self) -> list[SegmentFile]:
        self._files.sort(key=lambda item: item[0])
        return [file for _, file in self._files]


@dataclass(frozen=True)
class Spans:
    """What was sent, and how it must be cut."""

    files: Sequence[SegmentFile]
    sizes: Sizes
    """Bytes in memory, by file and range."""
    target: int
    """Bytes per reducer."""
    finer: int
    """Into how many parts, a power of two, each range is cut."""

    @property
    def reducers(self) -> int:
        """About how many reducers there will be."""
        return max(RANGES, int(self.sizes.sum()) // self.target)

    @property
    def is_large(self) -> bool:
        return self.finer > 1 or len(self.files) > FEW_FILES


async def weigh(run: RunContext, files: Sequence[SegmentFile]) -> Spans:
    """The number of bytes for every range of keys."""
    sizes = np.zeros((len(files), RANGES), np.int64)
    for start in range(0, len(files), FEW_FILES):
        tables = await run.tasks.call_in_thread(_tables, run.store, files[start : start + FEW_FILES])
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
"""Processes the segments of a span; None if a dry run would have to run something."""


async def by_range(
    run: RunContext, node: Node, name: str, spans: Spans, route: Route, consume: Callable[[SegmentTable, int], Any]
) -> bool:
    """Process the segments of every range of keys, span by span; `consume` also gets by how many bits a key is shifted
    to get the range. False if a dry run would have to run something first.
    """
    if not spans.is_large:
        tables = await run.tasks.call_in_thread(_tables, run.store, spans.files)
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
    """The results for the segments of every single destination, span by span, in order; None if a dry run would have to
    run something first.
    """
    if not route.merges:
        table = SegmentTable(files, await run.tasks.call_in_thread(_tables, run.store, files))
        result = await consume(table)
        return None if result is None else [result]
    spans = await weigh(run, files)
    return await _each_span(run, node, name, spans, _width(destinations), route, 0, consume)


async def _each_span(
    run: RunContext, node: Node, name: str, spans: Spans, width: int, route: Route, shift: int, consume: Consume[Answer]
) -> list[Answer] | None:
    """Process one span after the other, or as many at once as it takes to keep the executor busy."""
    stopped = False

    async def one(first: int) -> Answer | None:
        nonlocal stopped
        if stopped:
            return None
        here = spans.sizes[:, first : first + width].sum(axis=1)
        table = await _merged(run, node, name, spans.files, here, (first, first + width - 1), route, shift)
        result = None if table is None else await consume(table)
        stopped |= result is None
        return result

    sizes = {first: spans.sizes[:, first : first + width] for first in range(0, RANGES, width)}
    full = [first for first, here in sizes.items() if here.any()]
    found = await run.each(map(one, full), at_once=_spans_at_once(run, spans, width))
    return None if stopped else [result for result in found if result is not None]


def _spans_at_once(run: RunContext, spans: Spans, width: int) -> int:
    if run.tasks.dry:
        return 1
    merges = max(1, int(spans.sizes.sum()) * width // RANGES // MERGED_BYTES, len(spans.files) // MERGED_FILES)
    return max(1, min(run.slots // merges, HELD_SEGMENTS // (merges * FAN_OUT)))


def _width(destinations: int) -> int:
    """Ranges per span, a power of two, chosen so that a merged file has about FAN_OUT destinations."""
    wide = max(1, RANGES * FAN_OUT // max(1, destinations))
    return min(RANGES, 1 << (wide.bit_length() - 1))


def packed(table: SegmentTable, target: int) -> list[tuple[int, int]]:
    """The first and last destination of every reducer: ranges of up to `target` bytes, or a single destination."""
    known, sizes = table.sizes()
    return [(int(known[begin]), int(known[end - 1])) for begin, end in halved(known, sizes, target)]


def halved(values: npt.NDArray[np.uint64], sizes: Sizes, limit: int, most: int | None = None) -> list[tuple[int, int]]:
    """Cut ascending values by halving ranges of them, until a range has at most `limit` bytes and `most` values, or is
    a single value. Returns begin and end of each range that is not empty.
    """
    before = np.concatenate([[0], np.cumsum(sizes)])
    found: list[tuple[int, int]] = []

    def halve(first: int, width: int) -> None:
        begin = int(np.searchsorted(values, np.uint64(first)))
        end = int(np.searchsorted(values, np.uint64(first + width - 1), "right"))
        if begin == end:
            return
        if width == 1 or (before[end] - before[begin] <= limit and (most is None or end - begin <= most)):
            found.append((begin, end))
        else:
            halve(first, width // 2)
            halve(first + width // 2, width // 2)

    if len(values):
        halve(0, 1 << int(values[-1]).bit_length())
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
    merged = await run.each(
        (_merge(run, node, name, group, span, route, shift, number) for number, group in enumerate(groups)),
        at_once=run.slots + FEW_MORE,
    )
    whole = [file for file in merged if file is not None]
    if len(whole) < len(merged):
        return None
    return SegmentTable(whole, await run.tasks.call_in_thread(_tables, run.store, whole))


def _groups(files: Sequence[SegmentFile], sizes: Sizes) -> list[list[SegmentFile]]:
    """Neighbouring files that are merged together."""
    full = np.flatnonzero(sizes)
    ranges = halved(full.astype(np.uint64), sizes[full], MERGED_BYTES, MERGED_FILES)
    return [[files[number] for number in full[begin:end]] for begin, end in ranges]


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

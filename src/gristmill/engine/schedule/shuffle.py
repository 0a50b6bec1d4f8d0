"""How many reducers there are, and what comes to each: from the bytes that were sent, and from nothing else.

Every task cuts what it sends into 64 ranges of a number (a key, a part, an entry). Where there is little, a reducer
reads some of these ranges from every file. Where there is much, files of many parts are merged first: a merge takes a
span of ranges, wide enough to make at most FAN_OUT finer ones of it, from as many files as make MERGED_BYTES. So at
4 TB a reducer reads a few hundred stretches and not one from each of 62,500 files, and what the coordinator holds at a
time is the tables of one span.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gristmill.engine.plan.graph import Node
from gristmill.engine.work.task import Merge
from gristmill.store.segments import SegmentFile, SegmentTable, Table, read_table
from gristmill.store.store import REMOTE_AT_ONCE, Store

if TYPE_CHECKING:
    from gristmill.engine.schedule.run import Run

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
FAN_OUT = 1024
"""Segments of a merged file, about."""
FINEST = 1024
"""Into how many a range is cut at most: 65,536 in all."""

Sizes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Route:
    """What records go by, and how it was cut where they were sent."""

    column: str
    coarse: int
    """Bits by which it was shifted: a file has at most RANGES segments, or one for each destination if it is 0."""
    keeps: bool = True
    """Whether the column goes on with the records."""


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


async def weigh(run: "Run", files: Sequence[SegmentFile]) -> Spans:
    """How much there is for every range of keys."""
    sizes = np.zeros((len(files), RANGES), np.int64)
    for start in range(0, len(files), FEW_FILES):
        tables = await run.tasks.ask_in_thread(_tables, run.store, files[start : start + FEW_FILES])
        for number, table in enumerate(tables, start):
            sizes[number, table["to"].astype(np.int64)] = table["memory"]
    by_range = sizes.sum(axis=0)
    total = int(by_range.sum())
    target = min(max(total // RANGES, LEAST_BYTES), MOST_BYTES)
    finer = 1
    while finer < FINEST and finer * target < by_range.max(initial=0) and total > RANGES * LEAST_BYTES:
        finer *= 2
    return Spans(files, sizes, target, finer)


async def by_range(
    run: "Run", node: Node, name: str, spans: Spans, route: Route
) -> AsyncIterator[tuple[SegmentTable, int] | None]:
    """The segments of every range of keys, span by span, and by how many bits a key is shifted to give the range. None
    where a dry run would have to merge first.
    """
    if not spans.is_large:
        tables = await run.tasks.ask_in_thread(_tables, run.store, spans.files)
        yield SegmentTable(spans.files, tables), route.coarse
        return
    shift = route.coarse - (spans.finer.bit_length() - 1)
    width = max(1, min(RANGES, FAN_OUT // spans.finer))
    for first in range(0, RANGES, width):
        here = spans.sizes[:, first : first + width].sum(axis=1)
        found = await _merged(run, node, name, spans.files, here, (first, first + width - 1), route, shift)
        yield None if found is None else (found, shift)


async def by_destination(
    run: "Run", node: Node, name: str, files: Sequence[SegmentFile], route: Route, destinations: int
) -> AsyncIterator[SegmentTable | None]:
    """The segments of every single destination, span by span. None where a dry run would have to merge first."""
    if not route.coarse:
        yield SegmentTable(files, await run.tasks.ask_in_thread(_tables, run.store, files))
        return
    spans = await weigh(run, files)
    width = max(1, min(RANGES, RANGES * FAN_OUT // destinations))
    for first in range(0, RANGES, width):
        here = spans.sizes[:, first : first + width].sum(axis=1)
        if here.any():
            yield await _merged(run, node, name, files, here, (first, first + width - 1), route, 0)


def coarse(files: int, destinations: int, bits: int) -> int:
    """By how many bits tasks shift a number of so many bits that says where a record goes; 0: to the place itself."""
    return 0 if files * destinations <= FEW_SEGMENTS else max(0, bits - (RANGES.bit_length() - 1))


def packed(table: SegmentTable, target: int) -> list[tuple[int, int]]:
    """Stretches of neighbouring destinations with no more than `target` bytes, or one."""
    found: list[tuple[int, int]] = []
    held = 0
    for destination, size in zip(*(column.tolist() for column in table.sizes()), strict=True):
        if found and held + size <= target:
            found[-1] = (found[-1][0], destination)
            held += size
        else:
            found.append((destination, destination))
            held = size
    return found


async def _merged(
    run: "Run",
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
        (_merge(run, node, name, group, span, route, shift, number) for number, group in enumerate(groups)), large=True
    )
    whole = [file for file in made if file is not None]
    if len(whole) < len(made):
        return None
    return SegmentTable(whole, await run.tasks.ask_in_thread(_tables, run.store, whole))


def _groups(files: Sequence[SegmentFile], sizes: Sizes) -> list[list[SegmentFile]]:
    """Neighbouring files that are merged together."""
    groups: list[list[SegmentFile]] = []
    held = 0
    for file, size in zip(files, sizes.tolist(), strict=True):
        if not size:
            continue
        if not groups or held + size > MERGED_BYTES or len(groups[-1]) == MERGED_FILES:
            groups.append([])
            held = 0
        groups[-1].append(file)
        held += size
    return groups


async def _merge(
    run: "Run",
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
    if store.is_local:
        return [read_table(store, file) for file in files]
    with ThreadPoolExecutor(REMOTE_AT_ONCE) as pool:
        return list(pool.map(read_table, [store] * len(files), files))

"""Computes the location of a global sample (phase, group, epoch, shard and row) without tables.

Group g is at position i = (its samples in all earlier phases) + (its index in the blend of this phase). Its epoch is
i // samples. The remainder selects a shard in the order of the shards, then a sample in the order inside that shard.
Shards hold random documents of their group, so this is as random as one permutation of all samples, but a reader
finishes one shard before it opens the next.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from gristmill.loader.permute import key_of, permuted, permuted_all
from gristmill.shardformat.blend import Tree, drawn, grow, place, places
from gristmill.shardformat.manifest import Manifest

Array = np.ndarray[Any, Any]


class SampleLocation(NamedTuple):
    """The location of a sample; all numbers count from 0 in the manifest."""

    phase: int
    group: int
    epoch: int
    shard: int
    row: int


@dataclass(frozen=True, slots=True)
class SampleLocations:
    """The locations of many samples: five arrays of int64."""

    phase: Array
    group: Array
    epoch: Array
    shard: Array
    row: Array

    def __getitem__(self, rows: slice) -> "SampleLocations":
        return SampleLocations(*(getattr(self, name)[rows] for name in SampleLocation._fields))


class Order:
    """The order of all samples of a manifest."""

    def __init__(self, manifest: Manifest, seed: int | None = None) -> None:
        self.manifest = manifest
        self.seed = manifest.seed if seed is None else seed
        self.starts = [0, *accumulate(phase.samples for phase in manifest.phases)]
        self.samples = self.starts[-1]
        numbers = manifest.numbers
        self._trees: list[Tree | None] = []
        self._before: list[list[int]] = [[0] * len(manifest.groups)]
        for phase in manifest.phases:
            tree = grow(phase.weights, numbers) if phase.samples else None
            counts = list(self._before[-1])
            for group, count in drawn(tree, phase.samples) if tree else ():
                counts[group] += count
            self._trees.append(tree)
            self._before.append(counts)
        self._sizes = [np.array([shard.samples for shard in group.shards], np.int64) for group in manifest.groups]
        # A block of samples may contain two epochs of each group.
        self.layout = lru_cache(maxsize=max(16, 3 * len(manifest.groups)))(self._layout)

    def phase_of(self, sample: int) -> int:
        return bisect_right(self.starts, sample) - 1

    def place(self, sample: int) -> SampleLocation:
        """The location of one sample."""
        phase = self.phase_of(sample)
        group, index = place(self._tree(phase), sample - self.starts[phase])
        epoch, rest = divmod(self._before[phase][group] + index, self.manifest.groups[group].samples)
        shards, ends = self.layout(group, epoch)
        turn = int(np.searchsorted(ends, rest, "right"))
        shard = int(shards[turn])
        count = self.manifest.groups[group].shards[shard].samples
        key = key_of(self.seed, self.manifest.groups[group].name, epoch, shard)
        return SampleLocation(phase, group, epoch, shard, permuted(rest - int(ends[turn]) + count, count, key))

    def places(self, first: int, offsets: Array) -> SampleLocations:
        """The locations of the samples first + offsets (offsets: int64, ascending)."""
        found = [np.empty(len(offsets), np.int64) for _ in range(5)]
        cuts = [int(np.searchsorted(offsets, start - first)) for start in self.starts]
        for phase, (begin, end) in enumerate(pairwise(cuts)):
            if begin < end:
                base = int(offsets[begin])
                steps = offsets[begin:end] - base
                groups, indices = places(self._tree(phase), first + base - self.starts[phase], steps)
                indices += np.array(self._before[phase], np.int64)[groups]
                found[0][begin:end], found[1][begin:end], found[2][begin:end] = phase, groups, indices
        self._locate(*found[1:])
        return SampleLocations(*found)

    def counts(self, sample: int) -> list[int]:
        """How many samples of each group come before a sample."""
        phase = min(self.phase_of(sample), len(self._trees) - 1)
        counts = list(self._before[phase])
        tree = self._trees[phase]
        for group, count in drawn(tree, sample - self.starts[phase]) if tree else ():
            counts[group] += count
        return counts

    def seen(self, group: int, shard: int, row: int) -> Iterator[int]:
        """The global samples that draw a row of a shard, in order: the inverse of `place`."""
        info = self.manifest.groups[group]
        count, rows = info.shards[shard].samples, np.arange(info.shards[shard].samples)
        for epoch in range(-(-self._before[-1][group] // info.samples) if info.samples else 0):
            key = key_of(self.seed, info.name, epoch, shard)
            turn = int(np.flatnonzero(permuted_all(rows, None, [count], [key]) == row)[0])
            shards, ends = self.layout(group, epoch)
            begins = int(ends[np.flatnonzero(shards == shard)[0]]) - count
            position = epoch * info.samples + begins + turn
            if position < self._before[-1][group]:
                yield self._sample_at(group, position)

    def _sample_at(self, group: int, position: int) -> int:
        """The global sample that draws a position of a group: the first after which it is counted."""
        low, high = 0, self.samples - 1
        while low < high:
            middle = (low + high) // 2
            if self.counts(middle + 1)[group] > position:
                high = middle
            else:
                low = middle + 1
        return low

    def _tree(self, phase: int) -> Tree:
        tree = self._trees[phase]
        assert tree is not None
        return tree

    def _locate(self, group: Array, epoch: Array, shard: Array, row: Array) -> None:
        """Fill in epoch, shard and row; on entry, `epoch` holds positions."""
        which = np.empty(len(group), np.int64)
        counts: list[int] = []
        keys: list[int] = []
        for number, slots in _runs(group):
            info = self.manifest.groups[number]
            epoch[slots], rest = np.divmod(epoch[slots], info.samples)
            for turn_epoch, inside in _runs(epoch[slots]):
                shards, ends = self.layout(number, turn_epoch)
                here, left = slots[inside], rest[inside]
                turns = np.searchsorted(ends, left, "right")
                shard[here] = shards[turns]
                for turn, run in _runs(turns):
                    chosen, there = int(shards[turn]), here[run]
                    count = info.shards[chosen].samples
                    row[there], which[there] = left[run] - int(ends[turn]) + count, len(counts)
                    counts.append(count)
                    keys.append(key_of(self.seed, info.name, turn_epoch, chosen))
        row[:] = permuted_all(row, which, counts, keys)

    def _layout(self, group: int, epoch: int) -> tuple[Array, Array]:
        """The shards of a group in the order of an epoch, and the position where each ends."""
        info = self.manifest.groups[group]
        key = key_of(self.seed, info.name, epoch)
        shards = permuted_all(np.arange(len(info.shards)), None, [len(info.shards)], [key])
        return shards, np.cumsum(self._sizes[group][shards])


def _runs(values: Array) -> Iterator[tuple[int, Array]]:
    """(value, its indices in ascending order) for each value that occurs."""
    if len(values) and values[0] == values[-1] and (values == values[0]).all():
        yield int(values[0]), np.arange(len(values))
        return
    by_value = np.argsort(values, kind="stable")
    ordered = values[by_value]
    cuts = np.flatnonzero(np.diff(ordered)) + 1
    for slots in np.split(by_value, cuts) if len(values) else ():
        yield int(values[slots[0]]), slots

"""Counts of kept and removed documents by groups, in memory that does not depend on the size of the corpus.

Every group has counts for each of BUCKETS buckets of hosts, by hash. With fewer hosts, a bucket is about one host, as
intervals need (`intervals.py`); with more, it is a random group of hosts, which also gives the variance (Wolter,
Introduction to Variance Estimation, chapter 2).
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gristmill_bias.intervals import Ints, Share, share_of

BUCKETS = 1024
MOST_GROUPS = 1000
"""Groups of one kind; further ones are counted together, as OTHER."""
NONE, OTHER = "(none)", "(other)"
LENGTHS = 6
"""Groups by length, with about equal numbers of documents."""
_EDGES = np.unique(np.ceil(2.0 ** (np.arange(8 * 40) / 8)).astype(np.int64))
"""Start of fine bins in bytes, an eighth of an octave each: groups by length are combined from them."""
_DOCUMENTS, _KEPT, _BYTES, _KEPT_BYTES = range(4)


@dataclass(frozen=True)
class GroupRows:
    """Documents that reached a step."""

    kept: npt.NDArray[np.bool_]
    sizes: Ints
    """Bytes of their texts."""
    buckets: Ints

    def take(self, places: npt.NDArray[np.bool_] | Ints) -> "GroupRows":
        return GroupRows(self.kept[places], self.sizes[places], self.buckets[places])


@dataclass(frozen=True)
class BiasGroup:
    """A group of documents that reached a step, and the share that it kept."""

    by: str
    name: str
    documents: Share
    bytes: Share
    hosts: int
    """Distinct hosts, at most BUCKETS; a document without a URL counts as its own host."""

    def under_half(self, whole: "BiasGroup") -> str | None:
        """The measure, `documents` or `bytes`, whose interval is entirely below half of the overall share."""
        for measure in ("documents", "bytes"):
            own, of_all = getattr(self, measure), getattr(whole, measure)
            if own.all and own.high < of_all.value / 2:
                return measure
        return None


class GroupTally:
    """The groups of one kind."""

    def __init__(self, by: str) -> None:
        self.by = by
        self.names: dict[str, int] = {}
        self._counts = np.zeros((4, BUCKETS, 4), np.int64)

    def add(self, name: str | None, rows: GroupRows) -> None:
        """Add documents of one group."""
        self._add(np.full(len(rows.kept), self._number(name), np.int64), rows)

    def add_column(self, names: pa.Array, rows: GroupRows) -> None:
        """Add documents, each with the name of its group or null."""
        coded = names.dictionary_encode()
        places = np.array([*map(self._number, coded.dictionary.to_pylist()), 0], np.int64)
        if coded.indices.null_count:
            places[-1] = self._number(None)
        self._add(places[coded.indices.fill_null(len(places) - 1).to_numpy()], rows)

    def _number(self, name: str | None) -> int:
        name = NONE if name is None else name
        if name not in self.names and len(self.names) >= MOST_GROUPS:
            name = OTHER
        number = self.names.setdefault(name, len(self.names))
        if number >= len(self._counts):
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        return number

    def _add(self, places: Ints, rows: GroupRows) -> None:
        flat = self._counts.reshape(-1, 4)
        cells, own = np.unique(places * BUCKETS + rows.buckets, return_inverse=True)
        for column, chosen, weights in (
            (_DOCUMENTS, slice(None), np.ones_like(rows.sizes)),
            (_KEPT, rows.kept, np.ones_like(rows.sizes)),
            (_BYTES, slice(None), rows.sizes),
            (_KEPT_BYTES, rows.kept, rows.sizes),
        ):
            sums = np.zeros(len(cells), np.int64)
            np.add.at(sums, own[chosen], weights[chosen])
            flat[cells, column] += sums

    def groups(self) -> list[BiasGroup]:
        """The largest first."""
        found = [self._group(name, self._counts[index]) for name, index in self.names.items()]
        return sorted(found, key=lambda group: (-group.documents.all, group.name))

    def _group(self, name: str, counts: Ints) -> BiasGroup:
        documents = int(counts[:, _DOCUMENTS].sum())
        return BiasGroup(
            self.by,
            name,
            share_of(counts[:, _KEPT], counts[:, _DOCUMENTS], documents),
            share_of(counts[:, _KEPT_BYTES], counts[:, _BYTES], documents),
            int((counts[:, _DOCUMENTS] > 0).sum()),
        )


class Lengths(GroupTally):
    """Groups by bytes of text, with bounds that give about equal numbers of documents."""

    def add_sizes(self, rows: GroupRows) -> None:
        bins, own = np.unique(np.searchsorted(_EDGES, rows.sizes, side="right"), return_inverse=True)
        self._add(np.array([self._number(str(one)) for one in bins], np.int64)[own], rows)

    def groups(self) -> list[BiasGroup]:
        """From the shortest to the longest."""
        order = sorted(self.names, key=int)
        counts = np.stack([self._counts[self.names[name]] for name in order])
        ends = np.cumsum(counts[:, :, _DOCUMENTS].sum(axis=1))
        cuts = sorted({int(np.searchsorted(ends, ends[-1] * part / LENGTHS)) + 1 for part in range(1, LENGTHS)})
        bounds = [0, *(cut for cut in cuts if cut < len(order)), len(order)]
        found = []
        for start, stop in itertools.pairwise(bounds):
            low = None if start == 0 else int(_EDGES[int(order[start]) - 1])
            high = None if stop == len(order) else int(_EDGES[int(order[stop]) - 1])
            found.append(self._group(_length_name(low, high), counts[start:stop].sum(axis=0)))
        return found


def _length_name(low: int | None, high: int | None) -> str:
    """The name of a group with at least `low` and less than `high` bytes."""
    if low is None:
        return "any bytes" if high is None else f"under {high:,} bytes"
    return f"{low:,} bytes or more" if high is None else f"{low:,} to {high - 1:,} bytes"


def merge_note(tallies: Sequence[GroupTally]) -> list[str]:
    """Notes about groups that were merged, because there were too many."""
    full = [tally.by for tally in tallies if OTHER in tally.names]
    return [f"Groups by {by} after the first {MOST_GROUPS:,} are counted together, as {OTHER}." for by in full]

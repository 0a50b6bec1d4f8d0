"""Documents whose texts are read: a sample, and those at the edge of a cutoff, which a step kept with the worst scores
or removed with the best.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gristmill_bias.groups import GroupRows

Floats = npt.NDArray[np.float64]
Array = np.ndarray[Any, Any]
_ROW = np.dtype([("score", np.float64), ("rank", np.uint64), ("part", np.int64), ("row", np.int64)])


@dataclass(frozen=True)
class EdgeDocument:
    """A document to show."""

    side: str
    """`kept` or `removed`."""
    scores: dict[str, float | None]
    doc_id: str
    source: str
    url: str | None
    locator: str
    language: str | None
    register: str
    reason: str | None
    text_bytes: int
    excerpt: str


class Smallest:
    """The rows with the smallest scores, and among equal scores the smallest ranks."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._kept = np.empty(0, _ROW)

    def add(self, score: Floats, rank: Array, part: int, row: Array) -> None:
        if not self._number:
            return
        new = np.empty(len(score), _ROW)
        new["score"], new["rank"], new["part"], new["row"] = score, rank, part, row
        both = np.concatenate([self._kept, new])
        self._kept = both[np.lexsort((both["rank"], both["score"]))[: self._number]]

    @property
    def places(self) -> list[tuple[int, int]]:
        """Part and row, the smallest first."""
        return list(zip(self._kept["part"].tolist(), self._kept["row"].tolist(), strict=True))


class Edge:
    """Both sides of a cutoff. The better end of a score, that of the kept documents, is only known at the end."""

    def __init__(self, number: int) -> None:
        self._low = {side: Smallest(number) for side in (True, False)}
        self._high = {side: Smallest(number) for side in (True, False)}
        self._sums = {True: [0.0, 0], False: [0.0, 0]}

    def add(self, score: Floats, kept: npt.NDArray[np.bool_], rank: Array, part: int, row: Array) -> None:
        """Add documents; those without a score are ignored."""
        for side in (True, False):
            chosen = (kept == side) & ~np.isnan(score)
            values = score[chosen]
            self._low[side].add(values, rank[chosen], part, row[chosen])
            self._high[side].add(-values, rank[chosen], part, row[chosen])
            self._sums[side][0] += float(np.clip(values, -1e300, 1e300).sum())
            self._sums[side][1] += len(values)

    def sides(self) -> dict[bool, list[tuple[int, int]]]:
        """GroupRows by whether they are kept, those closest to the cutoff first."""
        (kept, some_kept), (removed, some_removed) = self._sums[True], self._sums[False]
        low_is_better = bool(some_kept and some_removed) and kept / some_kept < removed / some_removed
        worst, best = (self._high, self._low) if low_is_better else (self._low, self._high)
        return {True: worst[True].places, False: best[False].places}


class Drawn:
    """The documents with the smallest hashes of their ids."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._columns: list[Array] = [np.empty(0, kind) for kind in (np.uint64, np.int64, np.int64, np.bool_)]
        self._columns += [np.empty(0, np.int64), np.empty(0, np.int64)]

    @property
    def size(self) -> int:
        return len(self._columns[0])

    def add(self, ranks: Array, part: int, places: Array, rows: GroupRows) -> None:
        if not self._number:
            return
        if self.size == self._number:
            below = np.flatnonzero(ranks <= self._columns[0][-1])
            ranks, places, rows = ranks[below], places[below], rows.take(below)
        new = (ranks, np.full(len(ranks), part), places, rows.kept, rows.sizes, rows.buckets)
        both = [np.concatenate(pair) for pair in zip(self._columns, new, strict=True)]
        chosen = np.lexsort((both[2], both[1], both[0]))[: self._number]
        self._columns = [column[chosen] for column in both]

    def by_part(self) -> dict[int, tuple[Array, GroupRows]]:
        """The rows of each part in order, and their facts."""
        _, part, place, kept, sizes, buckets = self._columns
        found = {}
        for number in np.unique(part).tolist():
            own = np.flatnonzero(part == number)
            own = own[np.argsort(place[own])]
            found[number] = (place[own], GroupRows(kept[own], sizes[own], buckets[own]))
        return found

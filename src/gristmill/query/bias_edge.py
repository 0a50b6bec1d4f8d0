"""Documents at the edge of a cutoff: those that a step kept with the worst scores, and removed with the best."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Array = np.ndarray[Any, Any]
_PLACE = np.dtype([("score", np.float64), ("rank", np.uint64), ("part", np.int64), ("row", np.int64)])


@dataclass(frozen=True)
class EdgeDocument:
    """One to be read."""

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


class Least:
    """The places with the least scores of all that were added, and of equal ones those with the least ranks."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._kept = np.empty(0, _PLACE)

    def add(self, score: Floats, rank: Array, part: int, row: Array) -> None:
        if not self._number:
            return
        new = np.empty(len(score), _PLACE)
        new["score"], new["rank"], new["part"], new["row"] = score, rank, part, row
        both = np.concatenate([self._kept, new])
        self._kept = both[np.lexsort((both["rank"], both["score"]))[: self._number]]

    @property
    def places(self) -> list[tuple[int, int]]:
        """Part and row, the least first."""
        return list(zip(self._kept["part"].tolist(), self._kept["row"].tolist(), strict=True))


class Edge:
    """Both sides of a cutoff. Which end of a score is the better one is known when all are seen: that of what is kept."""

    def __init__(self, number: int) -> None:
        self._low = {side: Least(number) for side in (True, False)}
        self._high = {side: Least(number) for side in (True, False)}
        self._sums = {True: [0.0, 0], False: [0.0, 0]}

    def add(self, score: Floats, kept: npt.NDArray[np.bool_], rank: Array, part: int, row: Array) -> None:
        """Documents without a score are at no edge."""
        for side in (True, False):
            chosen = (kept == side) & ~np.isnan(score)
            values = score[chosen]
            self._low[side].add(values, rank[chosen], part, row[chosen])
            self._high[side].add(-values, rank[chosen], part, row[chosen])
            self._sums[side][0] += float(np.clip(values, -1e300, 1e300).sum())
            self._sums[side][1] += len(values)

    def sides(self) -> dict[bool, list[tuple[int, int]]]:
        """Places by whether they are kept, those nearest to the cutoff first."""
        (kept, some_kept), (removed, some_removed) = self._sums[True], self._sums[False]
        low_is_better = bool(some_kept and some_removed) and kept / some_kept < removed / some_removed
        worst, best = (self._high, self._low) if low_is_better else (self._low, self._high)
        return {True: worst[True].places, False: best[False].places}

"""Shifts of measured columns between two versions: medians, quartiles, and the Kolmogorov-Smirnov distance, which is
the largest difference between the shares of documents below any value.

Only kept documents are compared; in a large corpus every k-th row, of shared parts the same rows in both versions.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.query.documents.histograms import Values, draw, find_measures

MOST_ROWS = 1 << 16
"""About how many documents of a version are compared: enough for an accuracy of half a percent."""
MOVED = 0.01
"""The smallest distance that is reported."""


@dataclass(frozen=True)
class Shift:
    """The shift of one column, over the kept documents of each version."""

    column: str
    """`signals.words`, or a formula over columns that a rule compares."""
    before: tuple[float, float, float]
    now: tuple[float, float, float]
    """Lower quartile, median, upper quartile."""
    distance: float
    rows: tuple[int, int]
    """The number of compared documents in each version."""
    every: int
    """The sampling interval: one of `every` rows was compared."""


def find_shifts(before: CorpusView, now: CorpusView) -> list[Shift]:
    """The measured columns of both versions that shifted, the largest shift first."""
    return sorted(_shifts(before, now), key=lambda shift: (-shift.distance, shift.column))


def _shifts(before: CorpusView, now: CorpusView) -> Iterator[Shift]:
    known = {one.value for one in find_measures(before, every_number=True)}
    measures = [one for one in find_measures(now, every_number=True) if one.value in known]
    sides = [draw(view, measures, MOST_ROWS) for view in (before, now)]
    for measure in measures:
        values = ((side.values[measure.title], side.is_kept) for side in sides)
        old, new = (np.sort(one[is_kept & np.isfinite(one)]) for one, is_kept in values)
        if len(old) and len(new) and (moved := distance(old, new)) >= MOVED:
            every = max(side.every for side in sides)
            yield Shift(measure.value, _quartiles(old), _quartiles(new), moved, (len(old), len(new)), every)


def _quartiles(ordered: Values) -> tuple[float, float, float]:
    low, middle, high = (float(ordered[int(share * (len(ordered) - 1))]) for share in (0.25, 0.5, 0.75))
    return low, middle, high


def distance(old: Values, new: Values) -> float:
    """The Kolmogorov-Smirnov distance of two sorted arrays."""
    values = np.concatenate([old, new])
    shares = [np.searchsorted(one, values, "right") / len(one) for one in (old, new)]
    return float(np.abs(shares[0] - shares[1]).max())

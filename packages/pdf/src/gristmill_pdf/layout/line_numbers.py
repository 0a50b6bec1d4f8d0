"""Numbers of lines in the margin: a column of numbers that increase by a constant step, for each line or every
fifth. They are left out before lines are joined."""

from typing import Any

import numpy as np

from gristmill_pdf.kernels.glyphs import BASE_Y, CODE, LEFT, RIGHT, SIZE, TOP, TURN, UNITS

Array = np.ndarray[Any, Any]

LEAST_SMALL, LEAST_OUTSIDE = 5, 10
"""So many numbers of a column are numbers of lines: if they are smaller than the text of their lines, or in the margin
of the whole page. The first column of a table is neither."""
MOST_COLUMNS = 8
"""No page has more columns of such numbers; the longest ones are examined."""
SMALL_SHARE = 80
MOST_DIGITS = 5


def without_line_numbers(glyphs: Array) -> Array:
    """The glyphs of a page without the numbers of its lines."""
    is_digit = (glyphs[:, CODE] >= 48) & (glyphs[:, CODE] < 58) & (glyphs[:, TURN] == 0)
    if np.count_nonzero(is_digit) < LEAST_SMALL:
        return glyphs
    ink = np.flatnonzero((glyphs[:, CODE] > 32) & (glyphs[:, CODE] != 0xA0))
    shown, is_digit = glyphs[ink], is_digit[ink]
    gap = shown[1:, LEFT] - shown[:-1, RIGHT]
    is_apart = (
        (shown[1:, BASE_Y] != shown[:-1, BASE_Y])
        | (2 * gap > np.maximum(shown[1:, SIZE], shown[:-1, SIZE]))
        | (gap < -shown[1:, SIZE])
    )
    starts = np.flatnonzero(np.concatenate([[True], is_apart]))
    stops = np.concatenate([starts[1:], [len(shown)]])
    chosen = (np.add.reduceat(is_digit.astype(np.int64), starts) == stops - starts) & (stops - starts <= MOST_DIGITS)
    starts, stops = starts[chosen], stops[chosen]
    if len(starts) < LEAST_SMALL:
        return glyphs
    values = np.array([int("".join(map(chr, shown[a:b, CODE]))) for a, b in zip(starts, stops, strict=True)], np.int64)
    lefts, rights, bases = shown[starts, LEFT], shown[stops - 1, RIGHT], shown[starts, BASE_Y]
    is_left_out = np.zeros(len(shown), bool)
    for edges in (rights, lefts):
        order = np.lexsort((bases, edges // UNITS))
        groups = np.split(order, np.flatnonzero(np.diff(edges[order] // UNITS)) + 1)
        counted = [one for one in groups if len(one) >= LEAST_SMALL and _counts(values[one], bases[one])]
        for group in sorted(counted, key=len, reverse=True)[:MOST_COLUMNS]:
            rows = np.zeros(len(shown), bool)
            for at in group:
                rows[starts[at] : stops[at]] = True
            if _is_margin(shown, rows, len(group)):
                is_left_out |= rows
    kept = np.ones(len(glyphs), bool)
    kept[ink[is_left_out]] = False
    return glyphs[kept] if is_left_out.any() else glyphs


def _counts(values: Array, bases: Array) -> bool:
    """Whether numbers increase down the page, nearly all by the same step."""
    steps = np.diff(values)
    if steps.min() <= 0 or np.diff(bases).min() <= 0:
        return False
    return bool(10 * np.count_nonzero(steps == np.median(steps)) >= 9 * len(steps))


def _is_margin(shown: Array, rows: Array, count: int) -> bool:
    """Whether a column of numbers has no text above or below it in the page, or is small and has none between."""
    column, others = shown[rows], shown[~rows]
    others = others[others[:, TURN] == 0]
    first, last = column[:, LEFT].min(), column[:, RIGHT].max()
    top, bottom = column[:, TOP].min(), column[:, BASE_Y].max()
    across = others[(others[:, LEFT] < last) & (others[:, RIGHT] > first)]
    if np.any((across[:, BASE_Y] > top) & (across[:, TOP] < bottom)):
        return False
    levels = np.sort(column[:, BASE_Y])
    place = np.minimum(np.searchsorted(levels, others[:, BASE_Y] - UNITS), len(levels) - 1)
    beside = others[np.abs(levels[place] - others[:, BASE_Y]) <= UNITS]
    if not len(beside):
        return False
    if 100 * np.median(column[:, SIZE]) <= SMALL_SHARE * np.median(beside[:, SIZE]):
        return True
    height = others[:, BASE_Y].max() - others[:, BASE_Y].min()
    return count >= LEAST_OUTSIDE and not len(across) and bool(2 * (bottom - top) >= height)

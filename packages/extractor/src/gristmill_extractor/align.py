"""Finds the words of a page that are in its gold text, by an alignment that prefers long runs."""

import numpy as np
from numba import njit

_MATCH, _RUN = 2, 4
"""The score of a pair of equal words, and of one that continues a run. A run of three is worth more than four single
words, so a word in a menu does not replace the same word in a sentence."""
_NONE = -(1 << 30)


@njit(nogil=True, cache=True)
def align(page: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """For each word of the page, 1 if it is aligned with a word of the gold text, else 0. Words are numbers.

    Memory in bytes is the product of both lengths.
    """
    rows, columns = page.size, gold.size
    back = np.zeros((rows + 1, columns + 1), np.uint8)
    best = np.zeros(columns + 1, np.int32)
    matched = np.full(columns + 1, _NONE, np.int32)
    for row in range(1, rows + 1):
        corner, corner_matched = best[0], matched[0]
        for column in range(1, columns + 1):
            above, above_matched = best[column], matched[column]
            value, step = above, 0
            if best[column - 1] > value:
                value, step = best[column - 1], 1
            if page[row - 1] == gold[column - 1]:
                here, on = corner + _MATCH, 0
                if corner_matched + _RUN > here:
                    here, on = corner_matched + _RUN, 4
                if here >= value:
                    value, step = here, 2
                matched[column] = here
                step |= on
            else:
                matched[column] = _NONE
            back[row, column] = step
            best[column] = value
            corner, corner_matched = above, above_matched
    found = np.zeros(rows, np.uint8)
    row, column = rows, columns
    in_run = False
    while row > 0 and column > 0:
        step = back[row, column]
        if in_run or step & 3 == 2:
            found[row - 1] = 1
            in_run = step & 4 != 0
            row -= 1
            column -= 1
        elif step & 3 == 0:
            row -= 1
        else:
            column -= 1
    return found

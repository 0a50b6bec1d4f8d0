"""Drops hits that cannot count, before their text is read.

Books are full of short questions of a suite (`a knife`). Most of these hits mean nothing: the hashes of the words after
them show that neither the answer nor the choices follow.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.decontaminate.match import FIELDS, TEXT_TO, UNIT
from gristmill.kernels.dedup.shingles import ROLL

Array = np.ndarray[Any, Any]


class Support(NamedTuple):
    """What a unit needs near it to count."""

    least: npt.NDArray[np.int64]
    """For each unit: how many different words of its support are required; 0: it is never dropped."""
    reach: npt.NDArray[np.int64]
    """For each unit: within how many words they must be."""
    starts: npt.NDArray[np.int64]
    """The support of unit u is words[starts[u] : starts[u + 1]], each word once."""
    words: npt.NDArray[np.uint64]


@njit(nogil=True, cache=True)
def _has_support(sums: Array, count: int, behind: int, unit: int, support: Support) -> bool:
    asked = support.least[unit]
    begin, end = support.starts[unit], support.starts[unit + 1]
    last = min(behind + support.reach[unit], count)
    # Count the words of the unit's support that the text has after the hit, until they are enough or cannot be any
    # more.
    for k in range(begin, end):
        if end - k < asked:
            return False
        wanted = support.words[k]
        # Search for the word within the reach.
        for at in range(behind, last):
            if sums[at + 1] - sums[at] * ROLL == wanted:
                asked -= 1
                break
        if asked == 0:
            return True
    return False


@njit(nogil=True, cache=True)
def drop_unsupported(
    sums: Array, count: int, row: int, hits: Array, begin: int, end: int, support: Support, supported: Array
) -> int:
    """Removes the hits of units without support from hits[begin:end], the hits of one text; returns the new end. If one
    hit of a unit has support, all its hits stay.

    `supported` is the last row in which each unit had support; `row` increases from call to call.
    """
    # First find the units with support, since one hit is enough for all.
    for k in range(begin, end):
        unit = hits[k, UNIT]
        if supported[unit] != row and _has_support(sums, count, hits[k, TEXT_TO], unit, support):
            supported[unit] = row
    kept = begin
    # Then move the hits that stay to the front.
    for k in range(begin, end):
        unit = hits[k, UNIT]
        if support.least[unit] == 0 or supported[unit] == row:
            for field in range(FIELDS):
                hits[kept, field] = hits[k, field]
            kept += 1
    return kept

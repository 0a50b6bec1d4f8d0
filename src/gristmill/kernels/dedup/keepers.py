"""Groups of records with equal hashes: their sizes, and the record with the smallest rank."""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes, view

Array = np.ndarray[Any, Any]


@njit(nogil=True, cache=True)
def precedes(ranks: Bytes, width: int, one: int, two: int) -> bool:
    """Whether rank `one` sorts before rank `two`, byte by byte; `ranks` is a view of ranks of `width` bytes."""
    one, two = one * width, two * width
    # The first byte that differs decides.
    for place in range(width):
        difference = ranks[one + place] - ranks[two + place]
        if difference:
            return bool(difference < 0)
    return False


@njit(nogil=True, cache=True)
def keepers(high: Array, low: Array, ranks: Array) -> tuple[Array, Array]:
    """Returns for each record the index of the best record of its group (int64), and the size of the group (int32).

    `high` and `low` are the halves of a hash, uint64; records are sorted by `high`. Different hashes with the same
    `high` are separated by one pass over their run for each.
    """
    count, width = ranks.shape
    address = view(ranks)
    best = np.full(count, -1, np.int64)
    sizes = np.empty(count, np.int32)
    begin = 0
    # Each turn takes a run of equal high halves; nearly always it is one group.
    while begin < count:
        end = begin + 1
        while end < count and high[end] == high[begin]:
            end += 1
        # Each record without a group begins one.
        for first in range(begin, end):
            if best[first] >= 0:
                continue
            chosen, size = first, 0
            # Find the best record of the group.
            for record in range(first, end):
                if low[record] == low[first]:
                    size += 1
                    if precedes(address, width, record, chosen):
                        chosen = record
            # Write it to all records of the group.
            for record in range(first, end):
                if low[record] == low[first]:
                    best[record] = chosen
                    sizes[record] = size
        begin = end
    return best, sizes

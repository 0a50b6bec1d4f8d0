"""Counts the distinct pre-tokens of texts: the scanner and the hash table in one loop."""

from typing import Any

import numpy as np

from gristmill.kernels.bpe.pretokenize import next_ends
from gristmill.kernels.compile import njit
from gristmill.kernels.hash.word_counts import BLOCK, WordCounts, add_block
from gristmill.kernels.memory import view

Array = np.ndarray[Any, Any]

_AT_ONCE = 64
"""Places that `next_ends` requires."""


@njit(nogil=True, cache=True)
def count_pretokens(table: WordCounts, data: Array, offsets: Array, pattern: int, classes: Array) -> WordCounts:
    """Adds the pre-tokens of all texts to the counts of the table and returns the new table.

    Text i is `data[offsets[i]:offsets[i + 1]]`, valid UTF-8; `pattern` and `classes` are those of
    `pretokenize.next_ends`, which reads each text alone. The table that was passed in must not be used again.
    """
    text, kinds = view(data), view(classes)
    bounds = np.empty(BLOCK + 1, np.int64)
    ones = np.ones(BLOCK, np.int64)
    keys = np.empty((BLOCK, 2), np.uint64)
    size = 0
    bounds[0] = offsets[0]
    # Pre-tokens are collected across texts, and counted whenever the block is full.
    for row in range(len(offsets) - 1):
        at, stop = int(np.int64(offsets[row])), int(np.int64(offsets[row + 1]))
        # Each turn adds as many pre-tokens as one call gives.
        while at < stop:
            size += next_ends(text, at, stop, pattern, kinds, bounds[size + 1 :])
            at = int(np.int64(bounds[size]))
            if BLOCK - size < _AT_ONCE:
                table = add_block(table, data, bounds[:size], bounds[1 : size + 1], ones, keys)
                bounds[0] = at
                size = 0
    return add_block(table, data, bounds[:size], bounds[1 : size + 1], ones, keys)

"""Eval items as *units*: lists of words (64-bit hashes) with tables to find them in a text.

Some short windows of each unit, its *seeds*, are in a hash table. A filter of a few hundred kilobytes is in front of
it: each word of a document costs one look into the filter, and one in thirty a look into the table. Seeds are so close
together that every run of `ngram` words contains one: no such run is missed.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.dedup.shingles import ROLL

Array = np.ndarray[Any, Any]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio: a product with it spreads the bits of a seed."""
LENGTH = np.uint64(0xC0AC29B7C97C50DD)
"""Times the number of words, this makes seeds of different lengths differ."""
_ONE = np.uint64(1)
UPPER = np.uint64(0xFFFFFFFF00000000)
LOWER = np.uint64(0xFFFFFFFF)
_SIX_BITS = np.uint64(63)
LAST, GOES_ON = np.uint64(1 << 63), np.uint64(1 << 62)
UNIT_BITS, WORD_BITS, AT_WORD = LOWER, np.uint64((1 << 27) - 1), np.uint64(32)
"""Fields of a posting: flags, the unit, and the word of it where the seed begins. LAST: the last posting of its seed.
GOES_ON: a word beside the seed must agree."""


class Units(NamedTuple):
    """The units to search for; `search_of` of stages/decontaminate/matching/index.py builds them."""

    seed_words: int
    """Words of a seed."""
    filter: npt.NDArray[np.uint64]
    """Each seed sets three bits of one number."""
    slots: npt.NDArray[np.uint64]
    """Hash table of seeds with open addressing: the upper half of a seed, and 1 + its first posting; 0 is free."""
    postings: npt.NDArray[np.uint64]
    """One number for each posting, those of a seed together."""
    starts: npt.NDArray[np.int64]
    """Unit u has the words starts[u] to starts[u + 1]."""
    words: npt.NDArray[np.uint64]
    """Hashes of the words of all units."""
    ngram: npt.NDArray[np.int64]
    """For each unit: the least number of words in a run."""
    allowed: npt.NDArray[np.int64]
    """For each unit: the greatest number of edits in an alignment; -1: alignments are not searched."""


@njit(nogil=True, cache=True)
def three_bits(seed: np.uint64) -> np.uint64:
    """The bits that a seed sets in a number of the filter."""
    one, two, three = seed & _SIX_BITS, seed >> np.uint64(6) & _SIX_BITS, seed >> np.uint64(12) & _SIX_BITS
    return _ONE << one | _ONE << two | _ONE << three


def seeds_of(words: Array, at: Array, length: int) -> Array:
    """The hash of each window of words."""
    total = np.zeros(len(at), np.uint64)
    for k in range(length):
        total = total * ROLL + words[at + k]
    return total + np.uint64(length * int(LENGTH) & (1 << 64) - 1)


@njit(nogil=True, cache=True)
def choose_seeds(starts: Array, counts: Array, width: int, steps: Array) -> tuple[Array, Array]:
    """Returns the units and words where seeds of `width` words begin; counts[i] is how often word i is in all units.

    Two consecutive seeds of a unit are at most its step apart, and the first one is within the first step. Among the
    windows in the later half of a step, the one with the rarest word is taken, the first one of equals.
    """
    most = 0
    for unit in range(len(starts) - 1):
        most += max(starts[unit + 1] - starts[unit] - width + 1, 0)
    of_unit, at_word = np.empty(most, np.int64), np.empty(most, np.int64)
    found = 0
    # Walk along each unit in steps.
    for unit in range(len(starts) - 1):
        begin, last = starts[unit], starts[unit + 1] - starts[unit] - width
        low = 0
        # Each turn chooses one seed from the step that begins at word `low`.
        while low <= last and (low == 0 or low + steps[unit] - 1 <= last):
            best, best_count = low, np.int64(1) << 62
            half = 0 if steps[unit] > last else steps[unit] // 2
            # The count of a window is that of its rarest word.
            for at in range(min(low + half, last), min(low + steps[unit] - 1, last) + 1):
                count = counts[begin + at]
                for k in range(1, width):
                    count = min(count, counts[begin + at + k])
                if count < best_count:
                    best, best_count = at, count
            of_unit[found], at_word[found] = unit, best
            found += 1
            low = best + 1
    return of_unit[:found].copy(), at_word[:found].copy()


@njit(nogil=True, cache=True)
def fill_table(sorted_seeds: Array, filter_: Array, slots: Array) -> None:
    """Puts seeds, sorted like their postings, into the filter and the hash table."""
    mask = len(slots) - 1
    shift = np.uint64(64 - table_bits(len(slots)))
    narrow = np.uint64(64 - table_bits(len(filter_)))
    # Equal seeds are consecutive; the first one leads to all postings.
    for at in range(len(sorted_seeds)):
        seed = sorted_seeds[at]
        if at and seed == sorted_seeds[at - 1]:
            continue
        spread = seed * GOLDEN
        filter_[np.int64(seed >> narrow)] |= three_bits(seed)
        place = np.int64(spread >> shift)
        while slots[place]:
            place = (place + 1) & mask
        slots[place] = seed & UPPER | np.uint64(at + 1)


@njit(nogil=True, cache=True)
def table_bits(size: int) -> int:
    """The number of bits of an index into a table of `size` entries."""
    bits = 0
    while 1 << bits < size:
        bits += 1
    return bits

"""SimHash (Charikar 2002): a document as 64 bits; similar documents have most bits in common.

Bit k of a fingerprint is the majority of bit k over the document's distinct shingles, each with one vote. Fingerprints
of near duplicates differ in a few bits: Manku, Jain and Das Sarma (2007) used 3 of 64 for 8 billion pages.
"""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.dedup.links import join, root_of

Array = np.ndarray[Any, Any]

BITS = 64


@njit(nogil=True, cache=True)
def fingerprints(offsets: Array, values: Array) -> Array:
    """Returns the fingerprint of each set of shingles; a tie is 0."""
    found = np.zeros(len(offsets) - 1, np.uint64)
    votes = np.empty(BITS, np.int32)
    # Sets are independent of each other.
    for number in range(len(found)):
        votes[:] = 0
        # Each shingle votes on each bit.
        for at in range(offsets[number], offsets[number + 1]):
            value = values[at]
            for bit in range(BITS):
                votes[bit] += np.int32((value >> np.uint64(bit)) & np.uint64(1))
        size = offsets[number + 1] - offsets[number]
        # A bit is set if more than half of the shingles have it.
        for bit in range(BITS):
            if 2 * votes[bit] > size:
                found[number] |= np.uint64(1) << np.uint64(bit)
    return found


@njit(nogil=True, cache=True)
def distance(one: np.uint64, other: np.uint64) -> int:
    """Counts the bits in which two fingerprints differ."""
    bits = one ^ other
    bits -= (bits >> np.uint64(1)) & np.uint64(0x5555555555555555)
    bits = (bits & np.uint64(0x3333333333333333)) + ((bits >> np.uint64(2)) & np.uint64(0x3333333333333333))
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    count: int = np.int64((bits * np.uint64(0x0101010101010101)) >> np.uint64(56))  # type: ignore[assignment]
    return count


@njit(nogil=True, cache=True)
def link_prints(groups: Array, prints: Array, most_bits: int, most_comparisons: int) -> tuple[Array, Array, Array, int]:
    """Links the fingerprints of each group that differ in at most `most_bits`; within a group the best are first.

    Returns the two ends of each link, the number of bits in which they differ, and the number of documents that had
    more documents before them than the budget allows: those are compared with the first half of their budget and with
    the nearest before them.
    """
    number = len(prints)
    parents = np.arange(number)
    ones, others, apart = np.empty(number, np.int64), np.empty(number, np.int64), np.empty(number, np.int64)
    links, used_up = 0, 0
    half = (most_comparisons + 1) // 2
    # Groups are independent of each other.
    for group in range(len(groups) - 1):
        begin = groups[group]
        # Compare each document with those before it, within the budget.
        for one in range(begin + 1, groups[group + 1]):
            over = one - begin > most_comparisons
            used_up += over
            # If there are too many, these are the first of the group and the nearest ones.
            for place in range(min(one - begin, most_comparisons)):
                other = begin + place if not over or place < half else one - most_comparisons + place
                bits = distance(prints[one], prints[other])
                if bits > most_bits or root_of(parents, one) == root_of(parents, other):
                    continue
                ones[links], others[links], apart[links] = one, other, bits
                links += 1
                join(parents, one, other)
    return ones[:links], others[:links], apart[:links], used_up

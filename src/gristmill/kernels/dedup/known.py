"""Looks documents up in an index of earlier ones: bands sorted by their hash, and the shingle sets of their owners.

A shingle is stored as the upper 40 bits of its hash, 5 bytes: two different shingles of two documents of 1,000 words
are confused with probability 1e-6, and the set of a document takes about as much space as its text.
"""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes, eight_bytes_at, view

Array = np.ndarray[Any, Any]

SHINGLE_BYTES = 5
PADDING_BYTES = 8 - SHINGLE_BYTES
"""Bytes after the last set, so that every shingle can be read as part of eight bytes."""
_SHIFT = np.uint64(64 - 8 * SHINGLE_BYTES)
_MASK = np.uint64((1 << (8 * SHINGLE_BYTES)) - 1)


@njit(nogil=True, cache=True)
def pack_sets(offsets: Array, values: Array) -> tuple[Array, Array]:
    """Returns sorted sets of 64-bit shingles as stored: where each begins (in shingles), and the bytes."""
    packed = np.empty(len(values) * SHINGLE_BYTES, np.uint8)
    starts = np.zeros(len(offsets), np.int64)
    count = 0
    # Sets are stored without gaps.
    for number in range(len(offsets) - 1):
        # The low bits are cut off, so sorted neighbours may become equal; one of them is kept.
        for at in range(offsets[number], offsets[number + 1]):
            value = values[at] >> _SHIFT
            if at > offsets[number] and value == values[at - 1] >> _SHIFT:
                continue
            for place in range(SHINGLE_BYTES):
                packed[count * SHINGLE_BYTES + place] = np.uint8((value >> np.uint64(8 * place)) & np.uint64(255))
            count += 1
        starts[number + 1] = count
    return starts, packed[: count * SHINGLE_BYTES]


@njit(nogil=True, cache=True)
def _first_at_least(values: Array, wanted: np.uint64) -> int:
    low, high = 0, len(values)
    # Binary search.
    while low < high:
        middle = (low + high) // 2
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True, cache=True)
def _shared(one: Bytes, start: int, stop: int, other: Bytes, begin: int, end: int, least: int) -> int:
    """Counts the shingles that two stored sets share; -1 as soon as they cannot reach `least`."""
    common = 0
    # Merge both sets; stop as soon as too few values are left.
    while start < stop and begin < end:
        if common + min(stop - start, end - begin) < least:
            return -1
        left = eight_bytes_at(one, start * SHINGLE_BYTES) & _MASK
        right = eight_bytes_at(other, begin * SHINGLE_BYTES) & _MASK
        if left == right:
            common += 1
        start += left <= right
        begin += right <= left
    return common if common >= least else -1


@njit(nogil=True, cache=True)
def find_known(
    bands: Array,
    starts: Array,
    packed: Array,
    known_bands: Array,
    known_owners: Array,
    known_starts: Array,
    known_packed: Array,
    over: int,
    under: int,
    most_comparisons: int,
) -> tuple[Array, Array]:
    """Returns for each document the most similar document of the index with a Jaccard of at least over / under (-1 if
    there is none), and that Jaccard. Among equally similar ones, the first of the index is taken. An index comes from a
    file, so its offsets are checked.
    """
    number = len(starts) - 1
    fits = (len(known_packed) - PADDING_BYTES) // SHINGLE_BYTES
    best, similar = np.full(number, -1), np.zeros(number, np.float32)
    one, other = view(packed), view(known_packed)
    tried = np.empty(most_comparisons, np.int64)
    # Documents are independent of each other.
    for document in range(number):
        comparisons, full = 0, False
        best_common, best_union = 0, 1
        # Each band is looked up among the sorted bands of the index.
        for band in range(bands.shape[1]):
            at = _first_at_least(known_bands, bands[document, band])
            # Compare with each document of the index that has this band and was not tried yet, within the bound.
            while at < len(known_bands) and known_bands[at] == bands[document, band] and not full:
                owner = known_owners[at]
                at += 1
                fresh = True
                for place in range(comparisons):
                    fresh &= tried[place] != owner
                if not fresh:
                    continue
                if comparisons == most_comparisons:
                    full = True
                    break
                if owner < 0 or owner + 1 >= len(known_starts):
                    raise ValueError("the index of known documents is damaged: a band names none of them")
                begin, end = known_starts[owner], known_starts[owner + 1]
                if begin < 0 or begin > end or end > fits:
                    raise ValueError("the index of known documents is damaged: a set lies outside of its shingles")
                tried[comparisons] = owner
                comparisons += 1
                size, its_size = starts[document + 1] - starts[document], end - begin
                # |A and B| / |A or B| >= over / under, solved for the intersection and rounded up
                least = -(-(over * (size + its_size)) // (over + under))
                common = _shared(
                    one,
                    starts[document],
                    starts[document + 1],
                    other,
                    begin,
                    end,
                    least,
                )
                if common < 0:
                    continue
                union = size + its_size - common
                ahead = common * best_union - best_common * union
                if ahead > 0 or (ahead == 0 and owner < best[document]):
                    best[document], similar[document] = owner, common / union
                    best_common, best_union = common, union
    return best, similar

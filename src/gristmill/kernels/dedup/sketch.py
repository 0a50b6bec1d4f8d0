"""Sketches of shingle sets: k numbers; two documents share, on average, as large a part of them as their sets are
similar.

Two methods, both with P[number i is equal] = J exactly, where J is the Jaccard similarity of the sets.

- `minhash` (Broder 1997): number i is the least a_i * shingle + b_i. Every shingle is hashed k times.
- `fast`: *Fast Similarity Sketching* (Dahlgaard, Knudsen, Thorup 2017). In round r every shingle draws a bin and a
  value; a bin keeps the least value of the first round that reached it. From round k on, round k + i sends all shingles
  to bin i, so that after 2k rounds no bin is empty. The rounds can stop as soon as no bin is empty, since a later round
  never wins: each bin is the least of one random order over all shingles, as in MinHash, and the share of equal bins
  varies less, if anything. A long text needs one round, a short one about k ln k draws in all, instead of k for each
  shingle.

A *band* is a hash of some numbers of a sketch: two documents share one of b bands of r rows with probability 1 - (1 -
J^r)^b, which is 0.92 for J = 0.8 and 14 bands of 8 rows.
"""

from fractions import Fraction
from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.dedup.shingles import WordTables, room_for, shingles_of
from gristmill.kernels.hash.splitmix import GOLDEN, mix
from gristmill.kernels.memory import borrow

Array = np.ndarray[Any, Any]

FAST, MINHASH = 0, 1
METHODS = {"fast": FAST, "minhash": MINHASH}

_BAND_MUL = np.uint64(0xD6E8FEB86659FD93)
_BAND_SEED = np.uint64(0x2FFD72DBD01ADFB7)
_EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
_HALF = np.uint64(32)
_ONE = np.uint64(1)
_FEW = 64  # values that are sorted by insertion: the tallies of a radix sort cost as much as 64 values
_LARGEST_DENOMINATOR = 10**9  # this number times two sets of four billion values is still below 2^63
_PATIENCE = 3
"""If bins are still empty after this many rounds, many shingles are probably equal, and duplicates are removed."""


@njit(nogil=True, cache=True)
def _radix_sort(values: Array, count: int, scratch: Array) -> None:
    """Sorts values[:count], byte by byte from the lowest; equal values are as fast as others."""
    tally = np.zeros((8, 256), np.int64)
    # Count the values of all eight digits in one pass.
    for at in range(count):
        value = values[at]
        for digit in range(8):
            tally[digit, np.int64(value >> np.uint64(8 * digit)) & 255] += 1
    source, target = borrow(values), borrow(scratch)
    # Sort by each digit, from the lowest; each pass is stable.
    for digit in range(8):
        place = np.int64(0)
        for k in range(256):
            place, tally[digit, k] = place + tally[digit, k], place
        shift = np.uint64(8 * digit)
        # Counts have become places: put each value into the next one.
        for at in range(count):
            value = source[at]
            lane = np.int64(value >> shift) & 255
            target[tally[digit, lane]] = value
            tally[digit, lane] += 1
        source, target = target, source


@njit(nogil=True, cache=True)
def sort_distinct(values: Array, count: int, scratch: Array) -> int:
    """Sorts values[:count] (uint64), moves the distinct ones to the front and counts them.

    `scratch`: uint64, `count` entries.
    """
    if count > _FEW:
        _radix_sort(values, count, scratch)
    else:
        # Insertion sort: the fastest for a few values.
        for at in range(1, count):
            value = values[at]
            place = at
            # Move larger values up.
            while place > 0 and values[place - 1] > value:
                values[place] = values[place - 1]
                place -= 1
            values[place] = value
    distinct = min(count, 1)
    # Equal values are neighbours now.
    for at in range(1, count):
        value = values[at]
        if value != values[distinct - 1]:
            values[distinct] = value
            distinct += 1
    return distinct


@njit(nogil=True, cache=True)
def _shingle_sets(data: Array, offsets: Array, ngram: int, tables: WordTables, longest: int) -> tuple[Array, Array]:
    buffer = np.empty(room_for(longest), np.uint64)
    scratch = np.empty(room_for(longest), np.uint64)
    edge = np.empty(64, np.uint8)
    ends = np.zeros(len(offsets), np.int64)
    values = np.empty(1024, np.uint64)
    used = 0
    # Append the set of each row; the list doubles when it is full.
    for row in range(len(offsets) - 1):
        count = shingles_of(data, offsets[row], offsets[row + 1], ngram, tables, buffer, edge)
        count = sort_distinct(buffer, count, scratch)
        if used + count > len(values):
            more = np.empty(2 * (used + count), np.uint64)
            for at in range(used):
                more[at] = values[at]
            values = more
        for at in range(count):
            values[used + at] = buffer[at]
        used += count
        ends[row + 1] = used
    return ends, values[:used].copy()


def shingle_sets(data: Array, offsets: Array, ngram: int, tables: WordTables) -> tuple[Array, Array]:
    """Returns the sorted distinct shingles of each text: where each set begins (int64, one more than texts), and all
    values.
    """
    data, offsets, longest = _checked(data, offsets, ngram)
    ends, values = _shingle_sets(data, offsets, ngram, tables, longest)
    return ends, values


@njit(nogil=True, cache=True)
def jaccard(one: Array, two: Array) -> tuple[int, int]:
    """Counts the values that are in both sets, and in either; both are sorted, without duplicates."""
    left = right = both = 0
    # Merge both sets.
    while left < len(one) and right < len(two):
        a, b = one[left], two[right]
        both += a == b  # no branch: it would be unpredictable
        left += a <= b
        right += b <= a
    return both, len(one) + len(two) - both


def ratio_of(threshold: float) -> tuple[int, int]:
    """Returns a threshold as the fraction that its decimal digits say, so that 0.8 is 4/5 and not the nearest
    double.
    """
    ratio = Fraction(repr(float(threshold)))
    if not 0 <= ratio <= 1 or ratio.denominator > _LARGEST_DENOMINATOR:
        raise ValueError(f"{threshold} is not a similarity: a number from 0 to 1 with at most nine decimals")
    return ratio.numerator, ratio.denominator


@njit(nogil=True, cache=True)
def reaches(one: Array, two: Array, numerator: int, denominator: int) -> bool:
    """Whether the Jaccard similarity is at least numerator / denominator (`ratio_of`); reads no further than necessary.

    both / (all - both) >= p / q where `all` counts both sets, so both >= all * p / (p + q). So each set may miss only a
    certain number of values: sets of very different sizes are rejected without a look at their values. The loop ends
    before a set does, since a set that is read to its end has missed all but `both`.
    """
    parts = numerator + denominator
    needed = ((len(one) + len(two)) * numerator + parts - 1) // parts
    spare_one, spare_two = len(one) - needed, len(two) - needed
    left = right = both = 0
    # Merge both sets until they cannot reach the threshold, or have reached it.
    while both < needed and left - both <= spare_one and right - both <= spare_two:
        a, b = one[left], two[right]
        both += a == b
        left += a <= b
        right += b <= a
    return both >= needed


@njit(nogil=True, cache=True)
def round_keys(seed: np.uint64, count: int) -> Array:
    """Returns numbers that make the hashes of rounds, or of a MinHash, differ."""
    keys = np.empty(count, np.uint64)
    for number in range(count):
        keys[number] = mix(mix(seed) + np.uint64(number + 1) * GOLDEN)
    return keys


@njit(nogil=True, cache=True)
def _round(shingles: Array, count: int, key: np.uint64, bins: Array) -> None:
    """Sets each bin to the least value drawn for it. The value is the draw itself: its high bits are the bin.

    A branch around the store would be mispredicted at every new least value, several times per bin: 9 ns per shingle
    for a page of 650 shingles, instead of 3.
    """
    bins[:] = _EMPTY
    size = np.uint64(len(bins))
    # The high bits of a draw choose the bin; the least draw stays.
    for at in range(count):
        draw = mix(shingles[at] ^ key)
        place = ((draw >> _HALF) * size) >> _HALF
        bins[place] = min(bins[place], draw)


@njit(nogil=True, cache=True)
def _fill(bins: Array, drawn: Array) -> int:
    """Fills the empty bins from those of a later round, and counts those that are still empty."""
    left = 0
    # Take what the later round drew where the bin is empty.
    for place in range(len(bins)):
        bins[place] = drawn[place] if bins[place] == _EMPTY else bins[place]
        left += bins[place] == _EMPTY
    return left


@njit(nogil=True, cache=True)
def _fast(shingles: Array, count: int, keys: Array, bins: Array, drawn: Array, scratch: Array) -> None:
    """Computes the `fast` sketch. If shingles are few and often repeated, their order changes."""
    size = len(bins)
    _round(shingles, count, keys[0], bins)
    left = _fill(bins, bins)
    number = 1
    # Draw again with the next key until no bin is empty.
    while left and number < size:
        if number == _PATIENCE and count > 2 * size:
            count = sort_distinct(shingles, count, scratch)
        _round(shingles, count, keys[number], drawn)
        left = _fill(bins, drawn)
        number += 1
    # Bins that are still empty take the least draw of all shingles with a key for this bin.
    for place in range(size if left else 0):
        if bins[place] == _EMPTY:
            key = keys[size + place]
            for at in range(count):
                bins[place] = min(bins[place], mix(shingles[at] ^ key))


@njit(nogil=True, cache=True)
def _minhash(shingles: Array, count: int, keys: Array, bins: Array) -> None:
    size = len(bins)
    bins[:] = _EMPTY
    at = 0
    # Four shingles at a time: a bin is loaded and stored once for all of them.
    while at + 4 <= count:
        one, two, three, four = shingles[at], shingles[at + 1], shingles[at + 2], shingles[at + 3]
        # Each bin has its own hash function, times * shingle + plus.
        for place in range(size):
            times, plus = keys[place] | _ONE, keys[size + place]
            least = min(min(one * times + plus, two * times + plus), min(three * times + plus, four * times + plus))
            bins[place] = min(bins[place], least)
        at += 4
    # The shingles that are left.
    while at < count:
        one = shingles[at]
        for place in range(size):
            bins[place] = min(bins[place], one * (keys[place] | _ONE) + keys[size + place])
        at += 1


@njit(nogil=True, cache=True)
def _sketch(shingles: Array, count: int, keys: Array, method: int, bins: Array, drawn: Array, scratch: Array) -> None:
    if method == FAST:
        _fast(shingles, count, keys, bins, drawn, scratch)
    else:
        _minhash(shingles, count, keys, bins)


@njit(nogil=True, cache=True)
def _put_bands(bins: Array, rows: int, salt: np.uint64, bands: Array) -> None:
    """Hashes the bands. Each step is one-to-one in its input, so sketches that differ collide only by chance."""
    # A band is the hash of some consecutive bins.
    for band in range(len(bands)):
        state = mix(salt + np.uint64(band + 1) * GOLDEN) ^ _BAND_SEED
        # Mix the bins in, in order.
        for row in range(band * rows, band * rows + rows):
            state = (state ^ bins[row]) * _BAND_MUL
            state ^= state >> _HALF
        bands[band] = mix(state)


@njit(nogil=True, cache=True)
def _band_hashes_of(
    data: Array,
    offsets: Array,
    ngram: int,
    bands: int,
    rows: int,
    method: int,
    keys: Array,
    salt: Array,
    tables: WordTables,
    longest: int,
) -> Array:
    buffer = np.empty(room_for(longest), np.uint64)
    scratch = np.empty(room_for(longest), np.uint64)
    edge = np.empty(64, np.uint8)
    drawn = np.empty(bands * rows, np.uint64)
    bins = np.empty(bands * rows, np.uint64)
    hashed = np.empty((len(offsets) - 1, bands), np.uint64)
    # Rows are independent of each other.
    for row in range(len(hashed)):
        count = shingles_of(data, offsets[row], offsets[row + 1], ngram, tables, buffer, edge)
        _sketch(buffer, count, keys, method, bins, drawn, scratch)
        _put_bands(bins, rows, salt[row], hashed[row])
    return hashed


def band_hashes_of(
    data: Array,
    offsets: Array,
    ngram: int,
    bands: int,
    rows: int,
    method: str,
    seed: int,
    salt: Array,
    tables: WordTables,
) -> Array:
    """Returns a hash for each band of the sketch of each text: of the band's number, its rows, and the text's salt
    (uint64).

    Texts with different salts share no band, so the salt separates scopes. Memory holds the shingles of one text.
    """
    data, offsets, longest = _checked(data, offsets, ngram)
    number, keys = _method(method, seed, bands * rows)
    if len(salt) != len(offsets) - 1:
        raise ValueError(f"{len(salt)} salts for {len(offsets) - 1} texts")
    return np.asarray(_band_hashes_of(data, offsets, ngram, bands, rows, number, keys, salt, tables, longest))


def _checked(data: Array, offsets: Array, ngram: int) -> tuple[Array, Array, int]:
    """Returns arrays of the one type that kernels are compiled for, and the bytes of the longest text."""
    if ngram < 1:
        raise ValueError(f"a shingle of {ngram} words: at least 1 is needed")
    offsets = np.ascontiguousarray(offsets, np.int64)
    sizes = np.diff(offsets)
    if len(sizes) and (offsets[0] < 0 or offsets[-1] > len(data) or sizes.min() < 0):
        raise ValueError(f"offsets from {offsets[0]} to {offsets[-1]} do not rise within {len(data)} bytes")
    data = np.ascontiguousarray(data, np.uint8).view()
    data.setflags(write=False)
    return data, offsets, int(sizes.max(initial=0))


def _method(name: str, seed: int, hashes: int) -> tuple[int, Array]:
    if name not in METHODS:
        raise ValueError(f"{name} is not a method. Methods: {', '.join(METHODS)}")
    if hashes < 1:
        raise ValueError(f"a sketch of {hashes} hashes: at least 1 is needed")
    return METHODS[name], np.asarray(round_keys(np.uint64(seed & 0xFFFFFFFFFFFFFFFF), 2 * hashes))

"""The lines or paragraphs of a column of texts: how often each occurs in its text, and where some of them are."""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.dedup.line_hash import HALF, hash_unit, next_unit
from gristmill.kernels.memory import view
from gristmill.kernels.text.ascii import LF

Array = np.ndarray[Any, Any]


@njit(nogil=True, cache=True)
def _newlines(text: Array) -> int:
    count = 0
    for byte in text:
        count += 1 if byte == LF else 0
    return count


@njit(nogil=True, cache=True)
def _merge_equal(keys: Array, marks: Array, counts: Array, first: int, last: int, table: Array) -> int:
    """Merges equal units from `first` to `last` and returns the new last."""
    slots: Any = 4
    while slots < 2 * (last - first):
        slots *= 2
    for empty in range(slots):
        table[empty] = -1
    kept = first
    # Move the first unit of each kind to the front, and count the others.
    for place in range(first, last):
        slot = np.int64(keys[place] & np.uint64(slots - 1))
        while table[slot] >= 0 and (keys[table[slot]] != keys[place] or marks[table[slot]] != marks[place]):
            slot = (slot + 1) & (slots - 1)
        if table[slot] >= 0:
            counts[table[slot]] += 1
            continue
        table[slot] = kept
        keys[kept], marks[kept], counts[kept] = keys[place], marks[place], 1
        kept += 1
    return kept


def _scratch(offsets: Array) -> Array:
    """Returns scratch memory for the words of a unit. Eight bytes are written where only one may count, so there are a
    few more.
    """
    return np.empty(int(np.diff(offsets).max(initial=0)) + 16, np.uint8)


@njit(nogil=True, cache=True)
def _count_units(
    text: Array, offsets: Array, paragraphs: bool, min_chars: int, words: Array
) -> tuple[Array, Array, Array, Array]:
    rows = len(offsets) - 1
    data, limit = view(text), len(text)
    most = rows + _newlines(text[offsets[0] : offsets[rows]])
    keys, marks = np.empty(most, np.uint64), np.empty(most, np.uint32)
    owners, counts = np.empty(most, np.int32), np.empty(most, np.int32)
    scratch = view(words)
    table = np.empty(4 * most + 8, np.int64)
    last = 0
    # Count the units of each row, and merge those that are equal.
    for row in range(rows):
        at, stop, first = int(offsets[row]), int(offsets[row + 1]), last
        # Each turn takes the next unit of the row.
        while True:
            _, shown, end, at, chars, says = next_unit(data, at, stop, limit, paragraphs)
            if shown == end:
                break
            one, two, chars = hash_unit(data, shown, end, chars, says, scratch)
            if chars and chars >= min_chars:
                keys[last], marks[last] = one, np.uint32(two >> HALF)
                last += 1
        last = _merge_equal(keys, marks, counts, first, last, table)
        for place in range(first, last):
            owners[place] = row
    return keys[:last], marks[:last], owners[:last], counts[:last]


def count_units(text: Array, offsets: Array, paragraphs: bool, min_chars: int) -> tuple[Array, Array, Array, Array]:
    """Returns the distinct units of every row: hash (uint64), second hash (uint32), row (int32), count in the row
    (int32).
    """
    found: tuple[Array, Array, Array, Array] = _count_units(text, offsets, paragraphs, min_chars, _scratch(offsets))
    return found


@njit(nogil=True, cache=True)
def _find_units(
    text: Array, offsets: Array, firsts: Array, wanted: Array, paragraphs: bool, min_chars: int, words: Array
) -> tuple[Array, Array, Array]:
    rows = len(offsets) - 1
    data, limit = view(text), len(text)
    most = 0
    # Count the lines of the rows that are read, as a bound for the results.
    for row in range(rows):
        if firsts[row] < firsts[row + 1]:
            most += 1 + _newlines(text[offsets[row] : offsets[row + 1]])
    spans, hashes, first = np.empty((most, 3), np.int64), np.empty(most, np.uint64), np.zeros(most, np.bool_)
    seen = np.zeros(len(wanted), np.bool_)
    scratch = view(words)
    count = 0
    # Only rows with wanted units are read.
    for row in range(rows):
        if firsts[row] == firsts[row + 1]:
            continue
        low, high = firsts[row], firsts[row + 1]
        begin, stop = int(offsets[row]), int(offsets[row + 1])
        at = begin
        # Each turn takes the next unit of the row, as above.
        while True:
            start, shown, end, at, chars, says = next_unit(data, at, stop, limit, paragraphs)
            if shown == end:
                break
            one, _, chars = hash_unit(data, shown, end, chars, says, scratch)
            if not chars or chars < min_chars:
                continue
            place, above = low, high
            # Binary search among the wanted hashes of the row.
            while place < above:
                middle = (place + above) >> 1
                if wanted[middle] < one:
                    place = middle + 1
                else:
                    above = middle
            if place < high and wanted[place] == one:
                spans[count, 0], spans[count, 1], spans[count, 2] = row, start - begin, at - begin
                hashes[count], first[count] = one, not seen[place]
                seen[place] = True
                count += 1
    return spans[:count], hashes[:count], first[:count]


def find_units(
    text: Array, offsets: Array, firsts: Array, wanted: Array, paragraphs: bool, min_chars: int
) -> tuple[Array, Array, Array]:
    """Returns where the wanted units of each row are: (row, start, stop) in its text, line ends included; their hashes;
    and which are the first with their hash in the row.

    `wanted[firsts[row] : firsts[row + 1]]`, sorted, are the hashes of row's units.
    """
    scratch = _scratch(offsets)
    found: tuple[Array, Array, Array] = _find_units(text, offsets, firsts, wanted, paragraphs, min_chars, scratch)
    return found

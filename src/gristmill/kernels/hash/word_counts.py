"""Counts hundreds of millions of distinct byte strings: a growing hash table with open addressing.

A slot has 32 bytes, half a cache line. A string of up to 15 bytes is in the slot itself, with its length, so nearly
every word is compared without another memory access. A longer string has 127 bits of hash in its slot and its bytes in
an arena; the bytes are compared as well, so every count is exact. Memory grows with the distinct strings, not with the
text: 43 to 86 bytes each, plus the bytes of the long ones.
"""

from typing import Any, NamedTuple

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes, eight_bytes_at, view
from gristmill.kernels.text.byte_strings import order_of, take_strings

Array = np.ndarray[Any, Any]

BLOCK = 1024
"""Spans that a scanner passes at once: few enough to stay in the first-level cache, enough to make the call cheap."""

_LOW, _HIGH, _COUNT, _AT = range(4)
_INLINE = 15
_LONG = np.uint64(1 << 63)
_SHIFT_LENGTH = np.uint64(56)
_ODD_ONE = np.uint64(0x9FB21C651E98DF25)
_ODD_TWO = np.uint64(0xC2B2AE3D27D4EB4F)
_HALF = np.uint64(32)
_ZERO = np.uint64(0)
_LOW_MASKS = np.array([(1 << 8 * min(n, 8)) - 1 for n in range(_INLINE + 1)], np.uint64)
_HIGH_MASKS = np.array([(1 << 8 * max(n - 8, 0)) - 1 for n in range(_INLINE + 1)], np.uint64)


class WordCounts(NamedTuple):
    """Distinct strings and their counts."""

    slots: Array
    """uint64, four per slot: two of the string or its hash, the count, and the position in the arena."""
    arena: Array
    """uint8: for each long string eight bytes of length, then the string."""
    used: Array
    """int64: the slots and the bytes of the arena that are in use."""


class CountedWords(NamedTuple):
    """Distinct strings in ascending order of their bytes, with their counts."""

    data: Array
    offsets: Array
    """int64, one more than there are strings."""
    counts: Array
    """int64."""


@njit(nogil=True, cache=True)
def no_words(room: int = 1 << 15) -> WordCounts:
    """Returns an empty table with room for some words; it grows."""
    slots = 16
    while slots * 3 < room * 4:
        slots *= 2
    return WordCounts(np.zeros((slots, 4), np.uint64), np.empty(1 << 12, np.uint8), np.zeros(2, np.int64))


@njit(nogil=True, cache=True, forceinline=True)
def _slot(low: np.uint64, high: np.uint64, mask: int) -> int:
    mixed = (low ^ (high >> np.uint64(29)) ^ high * _ODD_TWO) * _ODD_ONE
    return int(np.int64((mixed ^ (mixed >> _HALF)) & np.uint64(mask)))


@njit(nogil=True, cache=True, forceinline=True)
def _hash_long(text: Bytes, begin: int, end: int) -> tuple[np.uint64, np.uint64]:
    """Returns two hashes of 16 bytes or more; the last load overlaps, so that no bytes are left over."""
    low, high = np.uint64(end - begin), np.uint64(0x243F6A8885A308D3)
    at = begin
    # Eight bytes at a time; the last load ends with the string.
    while at < end:
        value = eight_bytes_at(text, min(at, end - 8))
        low = (low ^ value) * _ODD_ONE
        low ^= low >> _HALF
        high = (high + value) * _ODD_TWO
        high ^= high >> np.uint64(29)
        at += 8
    return low, high | _LONG


@njit(nogil=True, cache=True, forceinline=True)
def _key(text: Bytes, begin: int, end: int, size: int) -> tuple[np.uint64, np.uint64]:
    """Returns the first two words of the slot of a string; never two zeros."""
    length = end - begin
    if length > _INLINE:
        return _hash_long(text, begin, end)
    low, high = _ZERO, np.uint64(length + 1) << _SHIFT_LENGTH
    if begin + 16 <= size:
        low = eight_bytes_at(text, begin) & _LOW_MASKS[length]
        return low, high | (eight_bytes_at(text, begin + 8) & _HIGH_MASKS[length])
    # Near the end of the data bytes are read one by one.
    for place in range(length):
        value = np.uint64(text[begin + place]) << np.uint64(8 * (place & 7))
        if place < 8:
            low |= value
        else:
            high |= value
    return low, high


@njit(nogil=True, cache=True)
def _same(arena: Bytes, at: int, text: Bytes, begin: int, length: int) -> bool:
    """Whether a long string is the one at a position of the arena."""
    if int(np.int64(eight_bytes_at(arena, at))) != length:
        return False
    # Eight bytes at a time; the last load ends with the string.
    for place in range(0, length, 8):
        step = min(place, length - 8)
        if eight_bytes_at(arena, at + 8 + step) != eight_bytes_at(text, begin + step):
            return False
    return True


@njit(nogil=True, cache=True)
def _with_room(table: WordCounts, words: int, long_bytes: int) -> WordCounts:
    """Returns the same table with room for more, at most three quarters full."""
    slots, arena, used = table
    if used[1] + long_bytes > len(arena):
        wider = np.empty(max(2 * len(arena), used[1] + long_bytes), np.uint8)
        for at in range(used[1]):
            wider[at] = arena[at]
        arena = wider
    if (used[0] + words) * 4 > len(slots) * 3:
        grown = no_words(max(2 * used[0], used[0] + words)).slots
        mask = len(grown) - 1
        # Move each word to its slot in the larger table.
        for old in range(len(slots)):
            if slots[old, _HIGH] != _ZERO:
                slot = _slot(slots[old, _LOW], slots[old, _HIGH], mask)
                while grown[slot, _HIGH] != _ZERO:
                    slot = (slot + 1) & mask
                for field in range(slots.shape[1]):
                    grown[slot, field] = slots[old, field]
        slots = grown
    return WordCounts(slots, arena, used)


@njit(nogil=True, cache=True)
def _add(
    slots: Array, arena: Array, used: Array, data: Array, begins: Array, ends: Array, keys: Array, counts: Array
) -> None:
    """Counts a block of spans, for which there is room."""
    mask = len(slots) - 1
    text, store = view(data), view(arena)
    # Each span is found or added, and its count goes up.
    for row in range(len(begins)):
        low, high = keys[row, 0], keys[row, 1]
        slot = _slot(low, high, mask)
        # Open addressing: short strings are in the slot, and long ones are compared with the arena.
        while slots[slot, _HIGH] != _ZERO:
            if slots[slot, _HIGH] == high and slots[slot, _LOW] == low:
                at = int(np.int64(slots[slot, _AT]))
                if high < _LONG or _same(store, at, text, begins[row], ends[row] - begins[row]):
                    break
            slot = (slot + 1) & mask
        if slots[slot, _HIGH] == _ZERO:
            slots[slot, _LOW], slots[slot, _HIGH] = low, high
            used[0] += 1
            if high >= _LONG:
                length = ends[row] - begins[row]
                slots[slot, _AT] = np.uint64(used[1])
                for place in range(8):
                    arena[used[1] + place] = (length >> (8 * place)) & 255
                for place in range(length):
                    arena[used[1] + 8 + place] = data[begins[row] + place]
                used[1] += 8 + length
        slots[slot, _COUNT] += np.uint64(counts[row])


@njit(nogil=True, cache=True)
def add_block(table: WordCounts, data: Array, begins: Array, ends: Array, counts: Array, keys: Array) -> WordCounts:
    """Counts up to BLOCK spans of `data`, each with its count; `keys` is scratch, uint64[BLOCK, 2].

    The keys of the whole block are computed first: such a short loop has many loads in flight at once.
    """
    text, size, long_bytes = view(data), len(data), 0
    # Compute keys, and add up the bytes that long strings would need.
    for row in range(len(begins)):
        begin, end = int(np.int64(begins[row])), int(np.int64(ends[row]))
        keys[row, 0], keys[row, 1] = _key(text, begin, end, size)
        if end - begin > _INLINE:
            long_bytes += 8 + end - begin
    table = _with_room(table, len(begins), long_bytes)
    _add(table.slots, table.arena, table.used, data, begins, ends, keys, counts)
    return table


@njit(nogil=True, cache=True)
def add_words(table: WordCounts, data: Array, offsets: Array, counts: Array) -> WordCounts:
    """Counts concatenated words, each with its count. It also merges tables: see `export`."""
    keys = np.empty((BLOCK, 2), np.uint64)
    # Block by block, so the keys of a block stay in the cache.
    for first in range(0, len(counts), BLOCK):
        last = min(first + BLOCK, len(counts))
        begins, ends = offsets[first:last], offsets[first + 1 : last + 1]
        table = add_block(table, data, begins, ends, counts[first:last], keys)
    return table


@njit(nogil=True, cache=True)
def _length(slots: Array, slot: int, arena: Bytes) -> int:
    """Returns the bytes of the word in a slot."""
    high = slots[slot, _HIGH]
    if high >= _LONG:
        return int(np.int64(eight_bytes_at(arena, np.int64(slots[slot, _AT]))))
    return int(np.int64(high >> _SHIFT_LENGTH)) - 1


@njit(nogil=True, cache=True)
def _gather(slots: Array, arena: Array, min_count: int) -> tuple[Array, Array, Array]:
    """Returns all words with a minimum count, in the order of their slots."""
    store = view(arena)
    kept = np.flatnonzero((slots[:, _HIGH] != _ZERO) & (slots[:, _COUNT] >= np.uint64(max(min_count, 0))))
    offsets, counts = np.zeros(len(kept) + 1, np.int64), np.empty(len(kept), np.int64)
    # First where each word begins.
    for word in range(len(kept)):
        counts[word] = slots[kept[word], _COUNT]
        offsets[word + 1] = offsets[word] + _length(slots, kept[word], store)
    data = np.empty(offsets[-1], np.uint8)
    # Then the bytes: long words are in the arena, short ones in their slot.
    for word in range(len(kept)):
        low, high = slots[kept[word], _LOW], slots[kept[word], _HIGH]
        begin, length = offsets[word], offsets[word + 1] - offsets[word]
        if high >= _LONG:
            at = int(np.int64(slots[kept[word], _AT])) + 8
            for place in range(length):
                data[begin + place] = arena[at + place]
        else:
            # A short word has its first eight bytes in one number, and the others in the next.
            for place in range(length):
                value = low if place < 8 else high
                data[begin + place] = (value >> np.uint64(8 * (place & 7))) & np.uint64(255)
    return data, offsets, counts


def export(table: WordCounts, min_count: int = 1) -> CountedWords:
    """Returns the words with a count of at least `min_count`, sorted by their bytes: the order of adding does not
    matter.
    """
    data, offsets, counts = _gather(table.slots, table.arena, min_count)
    order = order_of(data, offsets)
    data, offsets = take_strings(data, offsets, order)
    return CountedWords(data, offsets, counts[order])

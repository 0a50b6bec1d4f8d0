"""The merges of a byte-pair encoding, applied to one pre-token.

The rule is that of `tokenizers`: of all neighbours that have a merge, join the pair with the lowest rank, the leftmost
of equals, until no pair has one. A merge is one number, `rank << 32 | id`; NEVER means that a pair has none. Pairs of
single bytes, where every pre-token begins, have their own table (512 KB, without hashing). All other pairs are in a
hash table with open addressing and 16 bytes per slot. A bitmap in front of it stays in the processor's cache: most
neighbours have no merge, and the bitmap rules out nine of ten of them (8 to 16 bits per merge).

A pre-token of up to FEW bytes keeps `rank << 8 | place` for every pair in an array, and the least number is the next
merge: the compiler turns that loop into vector instructions. For a longer pre-token this would be quadratic (minutes
for a megabyte of spaces), so it uses a heap: O(n log n).
"""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes, Ints, view

Array = np.ndarray[Any, Any]

signed: Callable[[Any], int] = cast(Any, np.int64)
"""Converts a number to the int64 of compiled code, which mypy knows as `int`."""

NEVER = signed(0x7FFFFFFFFFFFFFFF)
FEW = 255
"""The most bytes of a pre-token that is merged in the array, where a place is one byte. Even at this length the array
is twice as fast as the heap."""
ROOM = 256
"""Places are numbered with one byte."""
MOST_MERGES = (1 << 23) - 1
"""A rank and a place share 31 bits."""

_LAST: Any = np.int32(0x7FFFFFFF)
_EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
_ODD = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_LOW = signed(0xFFFFFFFF)
_ONE = np.uint64(1)
_SIX = np.uint64(6)
_SIXTY_THREE = np.uint64(63)


class Merges(NamedTuple):
    """The merges of pairs of neighbours."""

    byte_ids: Array
    """int32: the token of each byte."""
    byte_pairs: Array
    """int64: the merge of two bytes, at index `first << 8 | second`."""
    pairs: Array
    """uint64: slots of `left << 32 | right` and the merge of that pair."""
    seen: Array
    """uint64: one bit for the hash of each pair that has a merge."""
    slot_shift: np.uint64
    bit_shift: np.uint64
    """A hash shifted right by these numbers of bits is the index of its slot and of its bit."""


# Parts of the array that `merge_few` works in; each has a place for every byte.
_SYMBOLS, _RANKS, _MADE, _AFTER, _BEFORE = (np.uint64(part * ROOM) for part in range(5))


def make_bench() -> Array:
    """Returns the scratch array of `merge_few`."""
    return np.zeros(5 * ROOM, np.int32)


@njit(nogil=True, cache=True)
def pair_value(tables: Merges, left: int, right: int) -> int:
    """Returns `rank << 32 | id` of the merge of two neighbours, or NEVER."""
    key = np.uint64(left) << _HALF | np.uint64(right)
    mixed = key * _ODD
    bit = mixed >> tables.bit_shift
    if not (tables.seen[bit >> _SIX] >> (bit & _SIXTY_THREE)) & _ONE:
        return NEVER
    mask = (_ONE << (_SIXTY_THREE - tables.slot_shift + _ONE)) - _ONE
    slot = mixed >> tables.slot_shift
    # Open addressing: look at slot after slot until the pair or a free slot turns up.
    while True:
        found = tables.pairs[slot << _ONE]
        if found == key:
            return signed(tables.pairs[slot << _ONE | _ONE])
        if found == _EMPTY:
            return NEVER
        slot = (slot + _ONE) & mask


@njit(nogil=True, cache=True)
def _fill(merges: Merges, left: Array, right: Array, rank: Array, made: Array) -> None:
    pairs, mask = merges.pairs, np.uint64((len(merges.pairs) >> 1) - 1)
    # Put each merge into the hash table, and set its bit in the filter that is read before the table.
    for merge in range(len(left)):
        key = np.uint64(left[merge]) << _HALF | np.uint64(right[merge])
        mixed = key * _ODD
        slot, bit = mixed >> merges.slot_shift, mixed >> merges.bit_shift
        while pairs[slot << _ONE] != _EMPTY and pairs[slot << _ONE] != key:
            slot = (slot + _ONE) & mask
        pairs[slot << _ONE] = key
        pairs[slot << _ONE | _ONE] = np.uint64(rank[merge]) << _HALF | np.uint64(made[merge])
        merges.seen[bit >> _SIX] |= _ONE << (bit & _SIXTY_THREE)
    tables, byte_ids = view(merges), merges.byte_ids
    # Most merges begin with two single bytes; their values are looked up once for all pairs of bytes.
    for one in range(256):
        for two in range(256):
            merges.byte_pairs[one << 8 | two] = pair_value(tables, signed(byte_ids[one]), signed(byte_ids[two]))


def make_merges(byte_ids: Array, left: Array, right: Array, rank: Array, made: Array) -> Merges:
    """Builds the tables of all merges. If a pair has two merges, the later one counts."""
    if len(left) > MOST_MERGES or (len(left) and int(np.max(rank)) > MOST_MERGES):
        raise ValueError(f"{len(left)} merges are too many; {MOST_MERGES} fit")
    bits = max(6, len(left).bit_length() + 1)  # between a quarter and half full
    merges = Merges(
        np.ascontiguousarray(byte_ids, np.int32),
        np.empty(1 << 16, np.int64),
        np.full(2 << bits, _EMPTY, np.uint64),
        np.zeros(1 << (bits + 2 - 6), np.uint64),
        np.uint64(64 - bits),
        np.uint64(64 - bits - 2),
    )
    _fill(merges, *(np.ascontiguousarray(values, np.int64) for values in (left, right, rank, made)))
    return merges


@njit(nogil=True, cache=True)
def merge_few(text: Bytes, begin: int, end: int, tables: Merges, bench: Array, ids: Ints, count: int) -> int:
    """Writes the ids of a pre-token of at most FEW bytes to `ids` from `count` on; returns the new count."""
    size = np.uint64(end - begin)
    last = text[begin]
    bench[_SYMBOLS] = tables.byte_ids[last]
    # Link all bytes into a list, and enter the rank of each pair of neighbours; the lowest byte of a rank is its place.
    for at in range(_ONE, size):
        before = at - _ONE
        byte = text[begin + signed(at)]
        value = tables.byte_pairs[last << 8 | byte]
        bench[_SYMBOLS + at] = tables.byte_ids[byte]
        bench[_MADE + before] = value & _LOW
        bench[_RANKS + before] = (value >> 32) << 8 | signed(before) if value != NEVER else _LAST
        bench[_AFTER + before] = at
        bench[_BEFORE + at] = before
        last = byte
    bench[_AFTER + size - _ONE] = size
    # Each turn merges the pair with the lowest rank, the leftmost of equals, and looks up its two new neighbours.
    while True:
        best = _LAST
        for at in range(_RANKS, _RANKS + size - _ONE):
            best = min(best, bench[at])
        if best == _LAST:
            break
        place = np.uint64(best & 255)
        gone = np.uint64(bench[_AFTER + place])
        behind = np.uint64(bench[_AFTER + gone])
        symbol = signed(bench[_MADE + place])
        bench[_SYMBOLS + place] = symbol
        bench[_AFTER + place] = behind
        bench[_RANKS + gone] = _LAST
        bench[_RANKS + place] = _LAST
        if behind < size:
            bench[_BEFORE + behind] = place
            value = pair_value(tables, symbol, signed(bench[_SYMBOLS + behind]))
            if value != NEVER:
                bench[_MADE + place] = value & _LOW
                bench[_RANKS + place] = (value >> 32) << 8 | signed(place)
        if place > 0:
            before = np.uint64(bench[_BEFORE + place])
            value = pair_value(tables, signed(bench[_SYMBOLS + before]), symbol)
            bench[_MADE + before] = value & _LOW
            bench[_RANKS + before] = (value >> 32) << 8 | signed(before) if value != NEVER else _LAST
    place = np.uint64(0)
    # Follow the links: each symbol that is left is an id.
    while place < size:
        ids[count] = bench[_SYMBOLS + place]
        count += 1
        place = np.uint64(bench[_AFTER + place])
    return count


@njit(nogil=True, cache=True)
def _sink(heap: Array, size: int, hole: int, entry: int) -> None:
    """Puts an entry into the hole at `hole`, or further down if smaller entries are below it."""
    # Move smaller children up until the entry fits.
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= entry:
            break
        heap[hole] = heap[child]
        hole = child
    heap[hole] = entry


@njit(nogil=True, cache=True)
def _rise(heap: Array, hole: int, entry: int) -> None:
    # Move larger parents down until the entry fits.
    while hole > 0 and heap[(hole - 1) >> 1] > entry:
        heap[hole] = heap[(hole - 1) >> 1]
        hole = (hole - 1) >> 1
    heap[hole] = entry


@njit(nogil=True, cache=True)
def merge_many(text: Bytes, begin: int, end: int, tables: Merges, ids: Ints, count: int) -> int:
    """Does the same for any length, with 44 bytes of memory per byte of the pre-token.

    An entry of the heap is `rank << 32 | place`. It is stale if the pair at its place has another rank by now.
    """
    size = end - begin
    symbols = np.empty(size, np.int32)
    values = np.empty(size, np.int64)
    after = np.empty(size, np.int32)
    before = np.empty(size, np.int32)
    heap = np.empty(3 * size, np.int64)
    waiting = 0
    # Link all bytes into a list, and collect the pairs that have a merge.
    for at in range(size):
        byte = text[begin + at]
        symbols[at] = tables.byte_ids[byte]
        before[at] = at - 1
        after[at] = at + 1
        values[at] = NEVER
        if at + 1 < size:
            values[at] = tables.byte_pairs[byte << 8 | text[begin + at + 1]]
        if values[at] != NEVER:
            heap[waiting] = values[at] & ~_LOW | at
            waiting += 1
    for hole in range((waiting >> 1) - 1, -1, -1):
        _sink(heap, waiting, hole, heap[hole])
    # Each turn merges the pair with the lowest rank. An entry whose rank has changed since is skipped.
    while waiting > 0:
        entry = heap[0]
        waiting -= 1
        if waiting > 0:
            _sink(heap, waiting, 0, heap[waiting])
        place = entry & _LOW
        if values[place] & ~_LOW != entry & ~_LOW:
            continue
        gone = after[place]
        symbols[place] = values[place] & _LOW
        values[gone] = NEVER
        after[place] = after[gone]
        if after[place] < size:
            before[after[place]] = place
        # The merged symbol makes a new pair with each neighbour.
        for at in (signed(before[place]), place):
            if at < 0 or after[at] >= size:
                continue
            values[at] = pair_value(tables, signed(symbols[at]), signed(symbols[after[at]]))
            if values[at] != NEVER:
                _rise(heap, waiting, values[at] & ~_LOW | at)
                waiting += 1
        if after[place] >= size:
            values[place] = NEVER
    at = 0
    # Follow the links: each symbol that is left is an id.
    while at < size:
        ids[count] = symbols[at]
        count += 1
        at = after[at]
    return count

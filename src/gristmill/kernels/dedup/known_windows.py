"""Finds windows of N bytes that were seen before: a tree of contexts in a hash table, exact, one entry for many
windows.

Every window has one anchor: of the `w` stretches of L = N - w + 1 bytes in it, the one with the least hash. Equal
windows have equal anchors at the same place, so a window is only searched among those with the same anchor. A common
stretch (a footer of 450 bytes on every page of a site) is the anchor of windows that all differ further out, and every
page would have to walk the whole list of its positions. So windows are separated by where they differ:

    a node is a core: the bytes of an anchor and some bytes on both sides; it has the first position where it was seen
    windows with this core that differ from that position do so at some nearest byte, left or right of the core;
    they are searched under a larger core, which includes that byte

The path of a window through the tree depends on its bytes and on positions that never change, so a later equal window
finds the first one. A window at a position with a new core needs no entry: the one entry of the core covers all windows
around that position. A walk ends after at most w steps, as each adds a byte; in prose it takes log(copies).
"""

from typing import Any, NamedTuple

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes, eight_bytes_at, trailing_zeros

Array = np.ndarray[Any, Any]

TAG, ROW, AT, SHAPE = range(4)
"""Columns of the table (uint32): half of the hash; row + 1, or 0 for an empty slot; where the anchor begins in its
text; the bytes of the core left and right of the anchor, 16 bits each."""

MOST_CONTEXT = (1 << 16) - 1
"""The most bytes of a core on one side of the anchor: SHAPE has 16 bits for them."""

_LOW, _HIGH, _LEFT, _RIGHT, _HASH_LEFT, _HASH_RIGHT = range(6)
_FOUND = np.int64(-1)
_ODD = np.uint64(0x9FB21C651E98DF25)
_MIX_ONE = np.uint64(0xBF58476D1CE4E5B9)
_MIX_TWO = np.uint64(0x94D049BB133111EB)
_HALF = np.uint64(32)


class Windows(NamedTuple):
    """The windows of all texts."""

    offsets: Array
    """Where each text begins in the data, and the end."""
    size: int
    """Bytes of a window."""
    anchor_bytes: int
    within: bool
    """Whether windows that the same text has further up count, without overlap."""


class Anchor(NamedTuple):
    """The stretch with the least hash of some windows."""

    row: int
    at: int
    """The position of its first byte in the data."""
    hash: np.uint64


class WindowSearch(NamedTuple):
    """The memory of a search."""

    table: Array
    stack: Array
    spans: Array
    """What was found: row, start, stop; positions in the data."""


def new_table(entries: int) -> Array:
    """Returns an empty table that takes `entries` before it grows."""
    return np.zeros((max(64, entries * 3 // 2), 4), np.uint32)


def new_stack(width: int) -> Array:
    """Returns memory for the branches of one walk: each has different windows, and a run has `width` of them."""
    return np.empty((2 * width + 4, 6), np.int64)


@njit(nogil=True, cache=True)
def same_ahead(data: Bytes, one: int, two: int, most: int) -> int:
    """Counts the equal bytes from `one` and from `two` on."""
    count = 0
    # First 32 bytes at a time, without a branch for each word.
    while count + 32 <= most:
        differing = np.uint64(0)
        for step in range(0, 32, 8):
            differing |= eight_bytes_at(data, one + count + step) ^ eight_bytes_at(data, two + count + step)
        if differing != np.uint64(0):
            break
        count += 32
    # Then eight at a time; the first bit that differs gives the byte.
    while count + 8 <= most:
        differing = eight_bytes_at(data, one + count) ^ eight_bytes_at(data, two + count)
        if differing != np.uint64(0):
            return count + int(trailing_zeros(differing) >> 3)
        count += 8
    while count < most and data[one + count] == data[two + count]:
        count += 1
    return count


@njit(nogil=True, cache=True)
def _same_behind(data: Bytes, one: int, two: int, most: int) -> int:
    """Counts the equal bytes before `one` and before `two`."""
    count = 0
    while count + 8 <= most and (eight_bytes_at(data, one - count - 8) == eight_bytes_at(data, two - count - 8)):
        count += 8
    while count < most and data[one - count - 1] == data[two - count - 1]:
        count += 1
    return count


@njit(nogil=True, cache=True)
def _tag(anchor: np.uint64, left: int, right: int) -> np.uint64:
    """Returns 32 bits for a core, from the hashes of its anchor and of the bytes on both sides."""
    mixed = (anchor + np.uint64(left) * _ODD) * _MIX_ONE
    mixed = (mixed ^ (mixed >> _HALF)) + np.uint64(right)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * _MIX_TWO
    return mixed >> _HALF


@njit(nogil=True, cache=True)
def _fold(value: int, byte: int) -> np.int64:
    """Returns the hash of the bytes on one side of an anchor, with the next byte further out."""
    return np.int64((np.uint64(value) + np.uint64(byte + 1)) * _ODD)


@njit(nogil=True, cache=True)
def _first_slot(tag: np.uint64, slots: int) -> np.int64:
    return np.int64((tag * np.uint64(slots)) >> _HALF)


@njit(nogil=True, cache=True)
def _next_slot(slot: np.int64, slots: int) -> np.int64:
    return np.int64(slot + 1 if slot + 1 < slots else 0)


@njit(nogil=True, cache=True)
def grown(table: Array) -> Array:
    """Returns the same entries in a table of twice the size."""
    larger = np.zeros((2 * len(table), 4), np.uint32)
    # Move each entry to its slot in the larger table.
    for old in range(len(table)):
        if table[old, ROW]:
            slot = _first_slot(np.uint64(table[old, TAG]), len(larger))
            while larger[slot, ROW]:
                slot = _next_slot(slot, len(larger))
            for column in range(4):
                larger[slot, column] = table[old, column]
    return larger


@njit(nogil=True, cache=True)
def _add_span(spans: Array, count: int, row: int, start: int, stop: int) -> int:
    """Adds a span; starts increase within a row, and spans that touch are joined."""
    if count and spans[count - 1, 0] == row and start <= spans[count - 1, 2]:
        spans[count - 1, 2] = max(spans[count - 1, 2], stop)
        return count
    spans[count, 0], spans[count, 1], spans[count, 2] = row, start, stop
    return count + 1


@njit(nogil=True, cache=True)
def look_up(
    data: Bytes, windows: Windows, found_anchor: Anchor, low: int, high: int, search: WindowSearch, count: int
) -> tuple[int, int, int]:
    """Searches the windows that begin at low..high, all with this anchor, and adds the new ones to the table.

    The bytes of windows that an earlier row has are added to the `count` spans. Returns the number of spans, the number
    of new entries of the table, and the position up to which the text is known: the end of the match, which may be far
    after the windows.
    """
    offsets, size, length, within = windows
    row, anchor, anchor_hash = found_anchor
    table, stack, spans = search
    slots = len(table)
    begin = offsets[row]
    added = known = 0
    depth = 1
    stack[0, _LOW], stack[0, _HIGH] = low, high
    stack[0, _LEFT] = stack[0, _RIGHT] = stack[0, _HASH_LEFT] = stack[0, _HASH_RIGHT] = 0
    # The stack has ranges of windows that share a core around the anchor. Each turn looks a core up: the windows that
    # match become spans, and those beyond the match on either side go back with a longer core.
    while depth:
        depth -= 1
        first, last, left, right = stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3]
        if left == _FOUND:
            count = _add_span(spans, count, row, first, last + size)
            known = max(known, last + size)
            continue
        first = max(first, known - size + 1)
        if first > last:
            continue
        hash_left, hash_right = stack[depth, _HASH_LEFT], stack[depth, _HASH_RIGHT]
        tag = _tag(anchor_hash, hash_left, hash_right)
        shape = np.int64(left << 16 | right)
        core = left + length + right
        slot = _first_slot(tag, slots)
        other = there = np.int64(-1)
        # Find an entry with the same bytes, or a free slot.
        while table[slot, ROW]:
            if np.uint64(table[slot, TAG]) == tag and np.int64(table[slot, SHAPE]) == shape:
                other = np.int64(table[slot, ROW]) - 1
                there = offsets[other] + np.int64(table[slot, AT])
                if same_ahead(data, anchor - left, there - left, core) == core:
                    break
            slot = _next_slot(slot, slots)
        if not table[slot, ROW]:
            table[slot, TAG], table[slot, ROW] = np.uint32(tag), np.uint32(row + 1)
            table[slot, AT], table[slot, SHAPE] = np.uint32(anchor - begin), np.uint32(shape)
            added += 1
            continue
        most = min(anchor - left - first, there - left - offsets[other])
        behind = left + _same_behind(data, anchor - left, there - left, most)
        end, end_there = anchor + length + right, there + length + right
        needed, room = last + size - end, offsets[other + 1] - end_there
        ahead = right + same_ahead(data, end, end_there, min(needed, room))
        from_here, to_here = max(first, anchor - behind), min(last, anchor + length + ahead - size)
        beyond = max(from_here, to_here + 1)
        if beyond <= last:
            value = hash_right
            for at in range(anchor + length + right, anchor + length + ahead + 1):
                value = _fold(value, data[at])
            stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = beyond, last, left, ahead + 1
            stack[depth, _HASH_LEFT], stack[depth, _HASH_RIGHT] = hash_left, value
            depth += 1
        if from_here <= to_here and (other != row or (within and anchor - there >= size)):
            if to_here == last:
                end, end_there = last + size, there + (last + size - anchor)
                rest = min(offsets[row + 1] - end, offsets[other + 1] - end_there)
                to_here = last + same_ahead(data, end, end_there, rest)
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = from_here, to_here, _FOUND
            depth += 1
        if first < anchor - behind:
            value = hash_left
            for back in range(left + 1, behind + 2):
                value = _fold(value, data[anchor - back])
            stack[depth, 0], stack[depth, 1] = first, min(last, anchor - behind - 1)
            stack[depth, 2], stack[depth, 3] = behind + 1, right
            stack[depth, _HASH_LEFT], stack[depth, _HASH_RIGHT] = value, hash_right
            depth += 1
    return count, added, known

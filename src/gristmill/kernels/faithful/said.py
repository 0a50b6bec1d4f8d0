"""A table of counts by key: all that a parent says, and what the text itself says.

A slot is a key's upper 40 bits and a count of 24 bits. Some two of n keys share their 40 bits with a chance of about
n² / 2^41: with 2,000 keys, in one document of 500,000. Then something new may be taken for known.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Ints, Uint64s, view

_LEAST_BITS = 8
_COUNT = np.uint64((1 << 24) - 1)
_TAG = ~_COUNT
_NONE, _ONE = np.uint64(0), np.uint64(1)
_BASE = np.uint64(0x9E3779B97F4A7C15)

# What a key in the table is about.
_ABOUT = [np.uint64(0xA0761D6478BD642F * number % (1 << 64)) for number in range(1, 24)]
SAID_WORD, SAID_NAME, SAID_INITIALS, SAID_NGRAM, SAID_CODE, SAID_PAIR, SAID_ADDRESS, SAID_CONTEXT = _ABOUT[:8]
SAID_NUMBER, SAID_QUANTITY, SAID_BARE, SAID_UNIT, SAID_TIME, SAID_WEEKDAY, SAID_DATE, SAID_DAY = _ABOUT[8:16]
SAID_YEARLESS, SAID_MONTH, SAID_MONTHLY, SAID_LONE_MONTH, SAID_LOOP, OWN_NUMBER, OWN_LOOP = _ABOUT[16:]

BY_PARENT, BY_TEXT = np.uint64(1), np.uint64(2)
"""Marks of words and 3-grams, instead of a count: which of the two texts has them."""


class SaidTable(NamedTuple):
    """The slots, and how many of them are used; a slot is 0 if it is free."""

    slots: npt.NDArray[np.uint64]
    state: npt.NDArray[np.int64]
    """The binary logarithm of the slots in use, and the number of entries."""


class SaidViews(NamedTuple):
    """Views of the arrays of `SaidTable`."""

    slots: Uint64s
    state: Ints
    shift: Any
    mask: Any


@njit(nogil=True, cache=True)
def said_views(table: Any) -> SaidViews:
    """Views of a `SaidTable`, which the caller's caller keeps alive."""
    bits = np.uint64(table.state[0])
    return SaidViews(view(table.slots), view(table.state), np.uint64(64) - bits, (_ONE << bits) - _ONE)


@njit(nogil=True, cache=True)
def _bits_for(entries: int) -> int:
    """Returns the bits of a table that is at most three quarters full."""
    bits = _LEAST_BITS
    while 3 << bits < 4 * entries:
        bits += 1
    return bits


@njit(nogil=True, cache=True)
def new_table() -> SaidTable:
    """Returns an empty table."""
    state = np.zeros(2, np.int64)
    state[0] = _LEAST_BITS
    return SaidTable(np.zeros(1 << _LEAST_BITS, np.uint64), state)


@njit(nogil=True, cache=True)
def emptied(table: SaidTable, entries: int) -> SaidTable:
    """Returns the table without its entries, with room for so many."""
    bits = _bits_for(entries)
    table.state[0], table.state[1] = bits, 0
    if len(table.slots) < 1 << bits:
        return SaidTable(np.zeros(1 << bits, np.uint64), table.state)
    table.slots[: 1 << bits] = 0
    return table


@njit(nogil=True, cache=True)
def copied(table: SaidTable, old: SaidTable) -> SaidTable:
    """Returns a copy of the table, in the memory of `old` if that is enough."""
    size = 1 << table.state[0]
    slots = old.slots if len(old.slots) >= size else np.empty(size, np.uint64)
    slots[:size] = table.slots[:size]
    old.state[:] = table.state
    return SaidTable(slots, old.state)


@njit(nogil=True, cache=True)
def with_room(table: SaidTable, entries: int) -> SaidTable:
    """Returns the table with room for so many more entries."""
    bits, old_size = _bits_for(table.state[1] + entries), 1 << table.state[0]
    if bits <= table.state[0]:
        return table
    slots = np.zeros(1 << bits, np.uint64)
    mask = len(slots) - 1
    # Move each entry to its slot in the larger table.
    for one in range(old_size):
        held = table.slots[one]
        if held:
            slot = np.int64(held >> np.uint64(64 - bits))
            while slots[slot]:
                slot = (slot + 1) & mask
            slots[slot] = held
    table.state[0] = bits
    return SaidTable(slots, table.state)


@njit(nogil=True, cache=True, forceinline=True)
def _slot(table: SaidViews, key: np.uint64) -> Any:
    """Returns the slot of a key, or the free one for it."""
    slot = key >> table.shift
    # Open addressing: the tag of an entry decides.
    while True:
        held = table.slots[slot]
        if held == _NONE or (held ^ key) & _TAG == _NONE:
            return slot
        slot = (slot + _ONE) & table.mask


@njit(nogil=True, cache=True, forceinline=True)
def add(table: SaidViews, about: np.uint64, what: np.uint64) -> Any:
    """Counts a key once more; returns how often it was there before."""
    key = (what ^ about) * _BASE
    slot = _slot(table, key)
    held = table.slots[slot]
    if held == _NONE:
        table.slots[slot] = key & _TAG | _ONE
        table.state[1] += 1
        return 0
    count = held & _COUNT
    table.slots[slot] = held + np.uint64(count < _COUNT)
    return np.int64(count)


@njit(nogil=True, cache=True, forceinline=True)
def mark(table: SaidViews, about: np.uint64, what: np.uint64, bit: np.uint64) -> np.uint64:
    """Sets a mark of a key; returns the marks that it had."""
    key = (what ^ about) * _BASE
    slot = _slot(table, key)
    held = table.slots[slot]
    table.state[1] += held == _NONE
    table.slots[slot] = key & _TAG | held & _COUNT | bit
    return held & _COUNT


@njit(nogil=True, cache=True, forceinline=True)
def count_of(table: SaidViews, about: np.uint64, what: np.uint64) -> Any:
    """Returns the count or the marks of a key."""
    return np.int64(table.slots[_slot(table, (what ^ about) * _BASE)] & _COUNT)


@njit(nogil=True, cache=True, forceinline=True)
def has(table: SaidViews, about: np.uint64, what: np.uint64) -> bool:
    """Whether a key was counted."""
    return bool(count_of(table, about, what) > 0)


@njit(nogil=True, cache=True, forceinline=True)
def has_word(table: SaidViews, key: np.uint64) -> bool:
    """Whether the parent has a word."""
    return bool(count_of(table, SAID_WORD, key) & np.int64(BY_PARENT))


@njit(nogil=True, cache=True, forceinline=True)
def has_gram(table: SaidViews, one: np.uint64, two: np.uint64, last: np.uint64) -> bool:
    """Whether the parent has three words in this order."""
    return bool(count_of(table, SAID_NGRAM, three(one, two, last)) & np.int64(BY_PARENT))


@njit(nogil=True, cache=True, forceinline=True)
def three(one: np.uint64, two: np.uint64, last: np.uint64) -> np.uint64:
    """Returns a key of three words in this order."""
    return (one * _BASE + two) * _BASE + last

"""Tables to look up n-grams: one slot of eight bytes each, found by a hash.

A slot has 32 bits of the hash, the logarithm of the probability and the backoff of the n-gram. The upper half of the
hash determines its place; it is there or some slots after it, so usually one cache line is read. Slots are filled in
the order of the hash, so that they can be written from a sorted stream; after the last place there is room for n-grams
that are pushed further. A missing n-gram is mistaken for a stored one with probability 1e-9.

Logarithms are to base 10, in steps of 1/4096: a sum of them is an integer, the same in any order.
"""

from typing import Any, NamedTuple

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.hash.splitmix import mix
from gristmill.kernels.memory import Uint64s, view

Array = np.ndarray[Any, Any]

STEPS = 4096
"""Steps of a logarithm for a factor of 10."""
LEAST_PROBABILITY = 65535
"""Steps: 10**-16 and less."""
LARGEST_BACKOFF = 32767
"""Steps, up and down: a factor of 10**8."""

LEAST_WALK = 4
LONGEST_WALK = 1 << 16
"""Slots that a lookup may visit; with half of the slots filled it is some dozen."""

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_ROLL = np.uint64(0xBE5466CF34E90C6D)
_EMPTY = np.uint64(0)
_16 = np.uint64(16)
_ONE = np.uint64(1)


class Tables(NamedTuple):
    """The n-grams of a language model, as arrays for kernels."""

    slots: Array
    """uint64: hash << 32 | probability << 16 | backoff, 0 if it is empty; order after order."""
    shape: Array
    """int64, a row for each order: its first slot, the number of places, and the number of slots that a lookup may
    visit."""
    special: Array
    """uint64: the hashes of <unk>, <s> and </s>."""


@njit(nogil=True, cache=True, forceinline=True)
def longer(hashed: np.uint64, word: np.uint64) -> np.uint64:
    """Returns the hash of an n-gram with one more word before it."""
    return hashed * _ROLL + word


@njit(nogil=True, cache=True, forceinline=True)
def place_of(mixed: np.uint64, places: int) -> int:
    return np.int64((mixed >> _HALF) * np.uint64(places) >> _HALF)  # type: ignore[return-value]


@njit(nogil=True, cache=True, forceinline=True)
def find(slots: Uint64s, first: int, places: int, walk: int, mixed: np.uint64) -> np.uint64:
    """Returns the slot of an n-gram with a mixed hash; 0 if it is missing. `slots` is a view.

    Four slots are compared without a branch, which would be unpredictable; less than one in ten lookups continues from
    there.
    """
    mark = max(mixed & _LOW, _ONE)
    at = first + place_of(mixed, places)
    one, two = slots[at], slots[at + 1]
    three, four = slots[at + 2], slots[at + 3]
    found = four if four >> _HALF == mark else _EMPTY
    found = three if three >> _HALF == mark else found
    found = two if two >> _HALF == mark else found
    found = one if one >> _HALF == mark else found
    ends = (one == _EMPTY) | (two == _EMPTY) | (three == _EMPTY) | (four == _EMPTY) | (found != _EMPTY)
    if not ends:
        # Go on to the next free slot, within the longest distance in the table.
        for step in range(at + LEAST_WALK, at + walk):
            slot = slots[step]
            if slot == _EMPTY or slot >> _HALF == mark:
                return slot
    return found


@njit(nogil=True, cache=True)
def hash_ngrams(ids: Array, hashes: Array) -> Array:
    """Returns the mixed hashes of n-grams, a row of word numbers each, first word first; `hashes` are those of the
    words.
    """
    found = np.empty(len(ids), np.uint64)
    # The hash of an n-gram begins with its last word.
    for row in range(len(ids)):
        hashed = hashes[ids[row, ids.shape[1] - 1]]
        for place in range(ids.shape[1] - 2, -1, -1):
            hashed = longer(hashed, hashes[ids[row, place]])
        found[row] = mix(hashed)
    return found


@njit(nogil=True, cache=True)
def values_of(mixed: Array, order: int, tables: Tables) -> Array:
    """Returns for n-grams of one order: probability << 16 | backoff as in the table, or -1."""
    found = np.empty(len(mixed), np.int64)
    first, places, walk = tables.shape[order - 1]
    # Look each n-gram up alone.
    for row in range(len(mixed)):
        slot = find(view(tables.slots), first, places, walk, mixed[row])
        found[row] = -1 if slot == _EMPTY else np.int64(slot & _LOW)
    return found


@njit(nogil=True, cache=True)
def lay_out(mixed: Array, values: Array, places: int, free: int, slots: Array, begin: int) -> tuple[int, int]:
    """Puts sorted n-grams into `slots`, which begin with slot `begin` of the table; `free` is the first free slot.
    Returns the first free slot afterwards, and the longest distance of an n-gram from its place, plus one; -1 if there
    is no room.
    """
    furthest = 0
    # In the order of their places, each n-gram takes its place or the next free one.
    for row in range(len(mixed)):
        place = place_of(mixed[row], places)
        at = max(place, free)
        if at - begin >= len(slots):
            return free, -1
        slots[at - begin] = max(mixed[row] & _LOW, _ONE) << _HALF | values[row]
        furthest = max(furthest, at - place + 1)
        free = at + 1
    return free, furthest


def packed(probability: Array, backoff: Array) -> Array:
    """Returns the lower half of slots, from base-10 logarithms (float64)."""
    steps = np.clip(np.rint(-probability * STEPS), 0, LEAST_PROBABILITY).astype(np.uint64)
    back = np.clip(np.rint(backoff * STEPS), -LARGEST_BACKOFF, LARGEST_BACKOFF).astype(np.int16)
    values: Array = steps << _16 | back.view(np.uint16).astype(np.uint64)
    return values


def unpacked(values: Array) -> tuple[Array, Array]:
    """Returns the logarithms of the probability and the backoff; exact."""
    probability = -((values >> 16) & 0xFFFF).astype(np.float64) / STEPS
    return probability + 0.0, (values & 0xFFFF).astype(np.uint16).view(np.int16).astype(np.float64) / STEPS


def log10(values: Array) -> Array:
    """Returns base-10 logarithms of positive numbers (float64), with a relative error below 1e-15.

    It uses operations that every processor rounds alike; system libraries differ in the last bit.
    """
    mantissa, exponent = np.frexp(values)
    low = mantissa < 0.7071067811865476
    mantissa, exponent = np.where(low, 2 * mantissa, mantissa), exponent - low
    part = (mantissa - 1) / (mantissa + 1)
    square = part * part
    total = np.zeros_like(part)
    for power in range(23, 0, -2):  # |part| < 0.172: the first term left out is below 1e-19
        total = total * square + 1.0 / power
    natural: Array = 2 * part * total
    return natural * 0.4342944819032518 + exponent * 0.3010299956639812

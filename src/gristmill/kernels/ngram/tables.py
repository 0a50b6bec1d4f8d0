"""Tables of n-grams for looking up: one slot of eight bytes each, found by a hash.

A slot holds 32 bits of the hash, the logarithm of the probability and the backoff of the n-gram. The upper half of the
hash says where it belongs; it lies there or some slots behind, so that mostly one line of memory is read. Slots are
filled in the order of the hash, so that they can be written from a sorted stream; behind the last place there is room
for what is pushed further. An n-gram that is not there is taken for one that is with a chance of 1e-9.

Logarithms are to the base 10, in steps of 1/4096: a sum of them is a whole number, the same in any order.
"""

from typing import Any, NamedTuple

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.hash.splitmix import mix
from gristmill.kernels.memory import Uint64s, view

Array = np.ndarray[Any, Any]

STEPS = 4096
"""Of a logarithm, to a factor of 10."""
LEAST_PROBABILITY = 65535
"""Steps: 10**-16, and what is less."""
LARGEST_BACKOFF = 32767
"""Steps, up and down: a factor of 10**8."""

LEAST_WALK = 4
LONGEST_WALK = 1 << 16
"""Slots that a look-up may pass; with half of the slots filled it is some dozen."""

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_ROLL = np.uint64(0xBE5466CF34E90C6D)
_EMPTY = np.uint64(0)
_16 = np.uint64(16)
_ONE = np.uint64(1)


class Tables(NamedTuple):
    """The n-grams of a language model, as kernels take them."""

    slots: Array
    """uint64: hash << 32 | probability << 16 | backoff, 0 where it is empty; order after order."""
    shape: Array
    """int64, a row for each order: its first slot, how many places there are, how many slots a look-up may pass."""
    special: Array
    """uint64: the hashes of <unk>, <s> and </s>."""


@njit(nogil=True, cache=True, forceinline=True)
def longer(hashed: np.uint64, word: np.uint64) -> np.uint64:
    """The hash of an n-gram with one more word before it."""
    return hashed * _ROLL + word


@njit(nogil=True, cache=True, forceinline=True)
def place_of(mixed: np.uint64, places: int) -> int:
    return np.int64((mixed >> _HALF) * np.uint64(places) >> _HALF)  # type: ignore[return-value]


@njit(nogil=True, cache=True, forceinline=True)
def find(slots: Uint64s, first: int, places: int, walk: int, mixed: np.uint64) -> np.uint64:
    """What stands in the slot of an n-gram whose hash is mixed; 0 where it is not there. `slots` is an address.

    Four slots are compared without a branch, which nobody could predict; hardly one in ten look-ups goes on from there.
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
        for step in range(at + LEAST_WALK, at + walk):
            slot = slots[step]
            if slot == _EMPTY or slot >> _HALF == mark:
                return slot
    return found


@njit(nogil=True, cache=True)
def hash_ngrams(ids: Array, hashes: Array) -> Array:
    """The mixed hashes of n-grams, a row of word numbers each, first word first; `hashes` are those of the words."""
    found = np.empty(len(ids), np.uint64)
    for row in range(len(ids)):
        hashed = hashes[ids[row, ids.shape[1] - 1]]
        for place in range(ids.shape[1] - 2, -1, -1):
            hashed = longer(hashed, hashes[ids[row, place]])
        found[row] = mix(hashed)
    return found


@njit(nogil=True, cache=True)
def values_of(mixed: Array, order: int, tables: Tables) -> Array:
    """Of n-grams of an order: probability << 16 | backoff as they stand in the table, or -1."""
    found = np.empty(len(mixed), np.int64)
    first, places, walk = tables.shape[order - 1]
    for row in range(len(mixed)):
        slot = find(view(tables.slots), first, places, walk, mixed[row])
        found[row] = -1 if slot == _EMPTY else np.int64(slot & _LOW)
    return found


@njit(nogil=True, cache=True)
def lay_out(mixed: Array, values: Array, places: int, free: int, slots: Array, begin: int) -> tuple[int, int]:
    """Puts sorted n-grams into `slots`, which begin with slot `begin` of the table; `free`: the first that nothing has
    taken yet. The first free one afterwards, and how far from its place the furthest lies, plus one; -1 where there is
    no room.
    """
    furthest = 0
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
    """The lower half of slots, of logarithms to the base 10 (float64)."""
    steps = np.clip(np.rint(-probability * STEPS), 0, LEAST_PROBABILITY).astype(np.uint64)
    back = np.clip(np.rint(backoff * STEPS), -LARGEST_BACKOFF, LARGEST_BACKOFF).astype(np.int16)
    values: Array = steps << _16 | back.view(np.uint16).astype(np.uint64)
    return values


def unpacked(values: Array) -> tuple[Array, Array]:
    """Logarithms of the probability and the backoff; exact."""
    probability = -((values >> 16) & 0xFFFF).astype(np.float64) / STEPS
    return probability + 0.0, (values & 0xFFFF).astype(np.uint16).view(np.int16).astype(np.float64) / STEPS


def log10(values: Array) -> Array:
    """Logarithms of positive numbers (float64) to the base 10, within 1e-15 of their size.

    Made of steps that every processor rounds alike; those of system libraries differ in the last bit.
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

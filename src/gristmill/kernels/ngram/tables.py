"""Tables to look up n-grams: one slot of eight bytes each, found by a hash.

A slot has 32 bits of the hash, the logarithm of the probability and the backoff of the n-gram. The upper half of the
hash determines its place; it is there or some slots after it, so usually one cache line is read. Slots are filled in
the order of the hash, so that they can be written from a sorted stream; after the last place there is room for n-grams
that are pushed further. A missing n-gram is mistaken for a stored one with probability 1e-9.

Logarithms are to base 10, in steps of 1/4096: a sum of them is an integer, the same in any order.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.hash.splitmix import mix
from gristmill.kernels.memory import Uint64s, view
from gristmill.kernels.text.words import hash_bytes

Array = np.ndarray[Any, Any]

HIGHEST_ORDER = 5
"""Words of the longest n-grams."""
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


def mixed_hashes(words: Sequence[Array]) -> Array:
    """Returns the mixed hashes of n-grams; `words` are the hashes of their first words, of their second words, ...

    The hash of an n-gram begins with its last word.
    """
    hashes = words[-1]
    for earlier in reversed(words[:-1]):
        hashes = hashes * _ROLL + earlier
    mixed: Any = mix.py_func(hashes)  # type: ignore[arg-type]
    return np.asarray(mixed)


@njit(nogil=True, cache=True)
def hash_strings(data: Array, offsets: Array) -> Array:
    """Returns the hashes of concatenated words."""
    text = view(data)
    hashes = np.empty(len(offsets) - 1, np.uint64)
    for row in range(len(hashes)):
        hashes[row] = hash_bytes(text, offsets[row], offsets[row + 1])
    return hashes


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

"""Sorts byte strings: by their bytes, a prefix before the longer string."""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes, eight_bytes_at, view

Array = np.ndarray[Any, Any]


@njit(nogil=True, cache=True)
def _prefixes(data: Array, offsets: Array) -> Array:
    """Returns the first eight bytes of each string as a number that sorts like them, padded with zeros."""
    text = view(data)
    keys = np.zeros(len(offsets) - 1, np.uint64)
    # Strings are independent of each other.
    for row in range(len(keys)):
        begin, end = offsets[row], offsets[row + 1]
        # Big-endian, so that numbers sort like bytes.
        for place in range(8):
            byte = text[begin + place] if begin + place < end else 0
            keys[row] = keys[row] << np.uint64(8) | np.uint64(byte)
    return keys


@njit(nogil=True, cache=True)
def _after(text: Bytes, offsets: Array, one: int, other: int) -> bool:
    """Whether a string sorts after another."""
    begin, length = offsets[one], offsets[one + 1] - offsets[one]
    second, second_length = offsets[other], offsets[other + 1] - offsets[other]
    shared, at = min(length, second_length), 0
    while at + 8 <= shared and eight_bytes_at(text, begin + at) == eight_bytes_at(text, second + at):
        at += 8
    # The rest byte by byte: fewer than eight are left, or one of the next eight differs.
    while at < shared:
        byte, second_byte = text[begin + at], text[second + at]
        if byte != second_byte:
            return bool(byte > second_byte)
        at += 1
    return bool(length > second_length)


@njit(nogil=True, cache=True)
def _merge_sort(text: Bytes, offsets: Array, order: Array, spare: Array) -> None:
    """Sorts row numbers by their strings."""
    width = 1
    # Merge runs of `width` into runs of twice that.
    while width < len(order):
        # Each turn merges two neighbours.
        for first in range(0, len(order), 2 * width):
            middle, last = min(first + width, len(order)), min(first + 2 * width, len(order))
            left, right = first, middle
            # Take the smaller of both fronts; of equals the left one.
            for place in range(first, last):
                if left == middle or (right < last and _after(text, offsets, order[left], order[right])):
                    spare[place] = order[right]
                    right += 1
                else:
                    spare[place] = order[left]
                    left += 1
            for place in range(first, last):
                order[place] = spare[place]
        width *= 2


@njit(nogil=True, cache=True)
def _sort_ties(data: Array, offsets: Array, keys: Array, order: Array) -> None:
    """Sorts within each group of strings that begin with the same eight bytes."""
    text = view(data)
    spare = np.empty_like(order)
    first = 0
    # Each turn takes a run of equal beginnings.
    while first < len(order):
        last = first + 1
        while last < len(order) and keys[order[last]] == keys[order[first]]:
            last += 1
        if last - first > 1:
            _merge_sort(text, offsets, order[first:last], spare[first:last])
        first = last


@njit(nogil=True, cache=True)
def take_strings(data: Array, offsets: Array, order: Array) -> tuple[Array, Array]:
    """Returns the strings of some rows, concatenated, and their offsets."""
    ends = np.zeros(len(order) + 1, np.int64)
    for row in range(len(order)):
        ends[row + 1] = ends[row] + offsets[order[row] + 1] - offsets[order[row]]
    taken = np.empty(ends[-1], np.uint8)
    for row in range(len(order)):
        taken[ends[row] : ends[row + 1]] = data[offsets[order[row]] : offsets[order[row] + 1]]
    return taken, ends


def order_of(data: Array, offsets: Array) -> Array:
    """Returns the row numbers (int64) in the order of their strings; equal strings stay in the order of their rows."""
    keys = np.asarray(_prefixes(data, offsets))
    order = np.argsort(keys, kind="stable")
    _sort_ties(data, offsets, keys, order)
    return order

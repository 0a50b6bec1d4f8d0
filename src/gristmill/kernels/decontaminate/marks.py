"""Where code may be: around *marks*, words of which every code of an eval item has one, where they are no prose."""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.dedup.shingles import ROLL
from gristmill.kernels.memory import byte_at, eight_bytes_at, trailing_zeros
from gristmill.kernels.memory_blocks import BLOCK, wide_bits, word_bits

Array = np.ndarray[Any, Any]

_NEAR = 16
"""Bytes on both sides of a word that are looked at for signs of code."""
_NOTHING, _LETTER, _COMMA, _SIGN = range(4)


def _kinds() -> Array:
    """What a byte is beside a word of code, or of prose."""
    kinds = np.zeros(256, np.uint8)
    kinds[[one for one in range(128) if chr(one).isalpha()]] = _LETTER
    kinds[np.frombuffer(b",.", np.uint8)] = _COMMA
    kinds[np.frombuffer(b"=;:(){}[]<>", np.uint8)] = _SIGN
    return kinds


_KINDS = _kinds()


@njit(nogil=True, cache=True)
def is_in(table: int, mask: int, word: np.uint64) -> bool:
    """Whether a hash is in a table that `fill_kept` made."""
    place = int(np.int64(word >> np.uint64(40))) & mask
    while True:
        held = eight_bytes_at(table, 8 * place)
        if held == word or not held:
            return bool(held)
        place = (place + 1) & mask


@njit(nogil=True, cache=True)
def _is_prose(text: int, begin: int, end: int, at: int) -> bool:
    """Whether the word at a place of text[begin:end] is one of a sentence or a command of TeX, and none of code: words
    are on both sides of it in its line, behind a comma or a stop at most, and no sign of code is near.
    """
    stop = at
    while stop < end and (
        _KINDS[byte_at(text, stop)] == _LETTER or 48 <= byte_at(text, stop) <= 57 or byte_at(text, stop) == 95
    ):
        stop += 1
    before = byte_at(text, at - 1) if at > begin else 10
    behind = byte_at(text, stop) if stop < end else 10
    if before == 92 or (before == 123 and behind == 125):  # \lambda, \begin{enumerate}
        return True
    low, high = max(at - _NEAR, begin), min(stop + _NEAR, end)
    first, last = at - 1, stop
    while first > low and byte_at(text, first) == 32:
        first -= 1
    while last < high - 1 and byte_at(text, last) == 32:
        last += 1
    if first < low or last >= high or first == at - 1:
        return False
    left, right = _KINDS[byte_at(text, first)], _KINDS[byte_at(text, last)]
    signs = 0
    for place in range(low, high):
        signs += _KINDS[byte_at(text, place)] == _SIGN
    return bool(left in (_LETTER, _COMMA) and right in (_LETTER, _COMMA) and not signs)


@njit(nogil=True, cache=True)
def leads_to_code(
    text: int,
    begin: int,
    end: int,
    size: int,
    at: int,
    sums: int,
    first: int,
    maybe: int,
    low: int,
    high: int,
    marks: int,
    mask: int,
) -> bool:
    """Whether one of the words of the stretch that begins at `at` is a mark, and no word of prose. The words of the
    stretch begin with number `first`; places of those that may be marks are in `maybe`, from `low` to `high`.

    Words are counted once, from mark to mark. Behind a character outside ASCII, and at the end of all texts, nobody
    counts, and every mark leads to code.
    """
    starts = inside = np.uint64(0)
    block, counted = at - BLOCK, first  # where the block begins, and words before what is left of its `starts`
    for k in range(low, high):
        place = int(np.int64(eight_bytes_at(maybe, 8 * k)))
        word = eight_bytes_at(sums, 8 * (place + 1)) - eight_bytes_at(sums, 8 * place) * ROLL
        if not is_in(marks, mask, word):
            continue
        if is_in(marks + 8 * (mask + 1), mask, word):
            return True
        while counted < place or not starts:
            while starts and counted < place:
                starts &= starts - np.uint64(1)
                counted += 1
            if not starts:
                block += BLOCK
                if block + BLOCK > size or wide_bits(text, block):
                    return True
                words = word_bits(text, block)
                starts = words & ~(words << np.uint64(1) | inside)
                inside = words >> np.uint64(63)
        if not _is_prose(text, begin, end, block + int(trailing_zeros(starts))):
            return True
    return False

"""Finds the end of a word, and the keys of the word and of its stem, without regard to case.

Most words are ASCII, shorter than 16 letters, and followed by white space or a mark: one or two loads of eight bytes
give their length and both keys.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes, eight_bytes_at, trailing_zeros, view
from gristmill.kernels.text.ascii import APOSTROPHE, NINE, UPPER_A, UPPER_Z
from gristmill.kernels.text.unicode_classes import (
    LETTER,
    UNIT,
    WORD,
    UnicodeTables,
    UnicodeViews,
    lower_change,
    unicode_tables,
    unicode_views,
)
from gristmill.kernels.text.utf8 import put_utf8
from gristmill.kernels.text.words import class_at, decode

MAX_WORD_BYTES = 64
"""Longer words are compared as they are written."""
STEM_CHARACTERS = 5
RIGHT_QUOTE = 0x2019
BLOCK = 8
"""Bytes of one load."""
CASE = np.uint64(0x2020202020202020)
"""The bit that tells lower from upper case; ASCII digits and apostrophes have it, too."""
AS_WRITTEN = np.uint64(0)
_LETTER_S = ord("s")
_MUL = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xD6E8FEB86659FD93)
_HALF, _BYTE, _ONE = np.uint64(32), np.uint64(8), np.uint64(1)
_LOW_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_HIGH_BITS = np.uint64(0x8080808080808080)
_TO_A = np.uint64((0x80 - ord("a")) * 0x0101010101010101)
_PAST_Z = np.uint64((0x7F - ord("z")) * 0x0101010101010101)
_TO_0 = np.uint64((0x80 - ord("0")) * 0x0101010101010101)
_PAST_9 = np.uint64((0x7F - ord("9")) * 0x0101010101010101)


class WordKeys(NamedTuple):
    """A word, without regard to case."""

    key: np.uint64
    stem: np.uint64
    """Its first STEM_CHARACTERS characters, as bytes; of eight bytes or more, their hash."""
    characters: int


class WordEnd(NamedTuple):
    """Where a word ends."""

    end: int
    last: int
    """Its end without a final `'s`."""
    has_digit: bool
    is_ascii: bool


@njit(nogil=True, cache=True, forceinline=True)
def ascii_run(block: np.uint64) -> tuple[int, bool]:
    """Counts how many of eight bytes, from the lowest on, are ASCII letters or digits; whether one is a digit."""
    low = block & _LOW_BITS
    folded = low | CASE
    letters = (folded + _TO_A) & ~(folded + _PAST_Z) & ~block & _HIGH_BITS
    digits = (low + _TO_0) & ~(low + _PAST_9) & ~block & _HIGH_BITS
    others = ~(letters | digits) & _HIGH_BITS
    return trailing_zeros(others) >> 3, digits & (others ^ (others - _ONE)) != np.uint64(0)


@njit(nogil=True, cache=True, forceinline=True)
def _first_bytes(block: np.uint64, size: int) -> np.uint64:
    """Returns the lowest `size` bytes, fewer than eight."""
    return block & ((_ONE << (np.uint64(size) * _BYTE)) - _ONE)


@njit(nogil=True, cache=True, forceinline=True)
def _finish(state: np.uint64, rest: np.uint64) -> np.uint64:
    state = (state ^ rest) * _MUL
    state ^= state >> _HALF
    state *= _MIX
    return max(state ^ (state >> _HALF), _ONE)


@njit(nogil=True, cache=True, forceinline=True)
def ascii_keys(data: Bytes, at: int, size: int, block: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Returns key and stem of a word of fewer than 16 ASCII letters and digits; `block` is its first eight bytes."""
    state, block = np.uint64(size) * _MUL, block | CASE
    stem = _first_bytes(block, min(size, STEM_CHARACTERS))
    if size < BLOCK:
        return _finish(state, _first_bytes(block, size)), stem
    if size > BLOCK:
        state = (state ^ block) * _MUL
        state ^= state >> _HALF
    return _finish(state, eight_bytes_at(data, at + size - BLOCK) | CASE), stem


@njit(nogil=True, cache=True, forceinline=True)
def character_key(data: Bytes, at: int, size: int) -> np.uint64:
    """Returns the key, which is also the stem, of a word of one character without case, if eight bytes are there."""
    return _finish(np.uint64(size) * _MUL, _first_bytes(eight_bytes_at(data, at), size))


@njit(nogil=True, cache=True)
def hash_word(data: Bytes, begin: int, end: int, case: np.uint64) -> np.uint64:
    """Returns a 64-bit hash of the bytes, of eight or more each with the bits of `case`; never 0."""
    size = end - begin
    state = np.uint64(size) * _MUL
    if size < BLOCK:
        rest = np.uint64(0)
        for at in range(size):
            rest |= np.uint64(data[begin + at]) << (np.uint64(at) * _BYTE)
        return _finish(state, rest)
    at = begin
    while at < end - BLOCK:
        state = (state ^ (eight_bytes_at(data, at) | case)) * _MUL
        state ^= state >> _HALF
        at += BLOCK
    return _finish(state, eight_bytes_at(data, end - BLOCK) | case)


@njit(nogil=True, cache=True)
def keys_of(data: Bytes, begin: int, end: int, is_ascii: bool, unicode: UnicodeViews, out: Bytes) -> WordKeys:
    """Returns the keys of any word. `out` has room for a word in lower case."""
    size = end - begin
    if size > MAX_WORD_BYTES:
        key = hash_word(data, begin, end, AS_WRITTEN)
        return WordKeys(key, key, size)
    if is_ascii and size >= BLOCK:
        stem = _first_bytes(eight_bytes_at(data, begin) | CASE, STEM_CHARACTERS)
        return WordKeys(hash_word(data, begin, end, CASE), stem, size)
    # Writes the word in lower case to `out`.
    size, at, characters, end_of_stem = 0, begin, 0, 0
    while at < end:
        byte = data[at]
        if byte < 0x80:
            out[size] = byte + 32 if UPPER_A <= byte <= UPPER_Z else byte
            size += 1
            at += 1
        else:
            point, at = decode(data, at, end)
            size = put_utf8(out, size, APOSTROPHE if point == RIGHT_QUOTE else point + lower_change(unicode, point))
        characters += 1
        if characters <= STEM_CHARACTERS:
            end_of_stem = size
    block = eight_bytes_at(out, 0)
    if size < BLOCK:
        key = _finish(np.uint64(size) * _MUL, _first_bytes(block, size))
    else:
        key = hash_word(out, 0, size, AS_WRITTEN)
    if end_of_stem < BLOCK:
        return WordKeys(key, _first_bytes(block, end_of_stem), characters)
    return WordKeys(key, hash_word(out, 0, end_of_stem, AS_WRITTEN), characters)


@njit(nogil=True, cache=True)
def word_end(data: Bytes, at: int, stop: int, unicode: UnicodeViews) -> WordEnd:
    """Returns the end of the word whose first character ends at `at`."""
    has_digit, is_ascii = False, True
    while at < stop:
        if at + BLOCK <= stop:
            run, has_more = ascii_run(eight_bytes_at(data, at))
            has_digit |= has_more
            at += run
            if run == BLOCK:
                continue
        byte = data[at]
        if byte < 0x80:
            bits = unicode.classes[byte]
            if bits & WORD:
                has_digit |= byte <= NINE
                at += 1
                continue
            if byte != APOSTROPHE:
                break
            after = at + 1
        else:
            bits, point, after = class_at(data, at, stop, unicode)
            if bits & WORD:
                if bits & UNIT:
                    break
                is_ascii = False
                at = after
                continue
            if point != RIGHT_QUOTE:
                break
        # An apostrophe: the word goes on if a letter follows, and ends before a final s.
        if after >= stop:
            break
        bits, _, over = class_at(data, after, stop, unicode)
        if not bits & LETTER or bits & UNIT:
            break
        if data[after] | 32 == _LETTER_S and (over >= stop or not class_at(data, over, stop, unicode)[0] & WORD):
            return WordEnd(over, at, has_digit, is_ascii)
        is_ascii &= byte == APOSTROPHE and data[after] < 0x80
        at = over
    return WordEnd(at, at, has_digit, is_ascii)


@njit(nogil=True, cache=True)
def _key_of(text: npt.NDArray[np.uint8], tables: UnicodeTables, buffer: npt.NDArray[np.uint8]) -> np.uint64:
    return keys_of(view(text), 0, len(text), False, unicode_views(tables), view(buffer)).key


def word_key(word: str) -> int:
    """Returns the key of a word, for a lexicon."""
    text = np.frombuffer(word.encode(), np.uint8)
    return int(_key_of(text, unicode_tables(), np.zeros(4 * MAX_WORD_BYTES, np.uint8)))

"""Finds the end of a word, and the keys of the word and of its stem, without regard to case.

Most words are ASCII, shorter than 16 letters, and followed by white space or a mark: one or two loads of eight bytes
give their length and both keys.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes, eight_bytes_at, trailing_zeros, view
from gristmill.kernels.text.ascii import APOSTROPHE, NINE
from gristmill.kernels.text.unicode_classes import LETTER, UNIT, WORD, UnicodeTables, class_of, lower_change
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
_LETTER_S = ord("s")
_MUL = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xD6E8FEB86659FD93)
_HALF, _BYTE, _NONE, _ONE = np.uint64(32), np.uint64(8), np.uint64(0), np.uint64(1)
_ALL = ~_NONE
_STEM = np.uint64((1 << 8 * STEM_CHARACTERS) - 1)
_LOW_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_HIGH_BITS = np.uint64(0x8080808080808080)
_TO_A = np.uint64((0x80 - ord("a")) * 0x0101010101010101)
_PAST_Z = np.uint64((0x7F - ord("z")) * 0x0101010101010101)
_TO_0 = np.uint64((0x80 - ord("0")) * 0x0101010101010101)
_PAST_9 = np.uint64((0x7F - ord("9")) * 0x0101010101010101)


class WideWord(NamedTuple):
    """A word of any characters, without regard to case."""

    end: int
    has_digit: bool
    key: np.uint64
    stem: np.uint64
    """Its first STEM_CHARACTERS characters, as bytes; of eight bytes or more, their hash."""
    characters: int


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
def _short_key(size: int, first: np.uint64, rest: np.uint64) -> np.uint64:
    """Returns the hash of fewer than 16 bytes: the first eight, and the others; bytes after the end are 0."""
    state = (np.uint64(size) * _MUL ^ first) * _MUL
    state = (state ^ (state >> _HALF) ^ rest) * _MIX
    return max(state ^ (state >> _HALF), _ONE)


@njit(nogil=True, cache=True, forceinline=True)
def ascii_keys(size: int, block: np.uint64, more: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Returns key and stem of a word of 1 to 15 ASCII letters and digits, which begins the bytes of `block` and `more`.

    There is no branch: the length of the next word cannot be predicted.
    """
    first = (block | CASE) & (_ALL >> (np.uint64(BLOCK - min(size, BLOCK)) * _BYTE))
    rest = _first_bytes(more | CASE, max(size - BLOCK, 0))
    return _short_key(size, first, rest), first & _STEM


@njit(nogil=True, cache=True, forceinline=True)
def character_key(data: Bytes, at: int, size: int) -> np.uint64:
    """Returns the key, which is also the stem, of a word of one character without case, if eight bytes are there."""
    return _short_key(size, _first_bytes(eight_bytes_at(data, at), size), _NONE)


@njit(nogil=True, cache=True)
def hash_word(data: Bytes, begin: int, end: int) -> np.uint64:
    """Returns a 64-bit hash of the bytes; never 0."""
    size = end - begin
    if size < BLOCK:
        first = _NONE
        for at in range(size):
            first |= np.uint64(data[begin + at]) << (np.uint64(at) * _BYTE)
        return _short_key(size, first, _NONE)
    last = eight_bytes_at(data, end - BLOCK)
    if size < 2 * BLOCK:
        rest = last >> (np.uint64(2 * BLOCK - size) * _BYTE) if size > BLOCK else _NONE
        return _short_key(size, eight_bytes_at(data, begin), rest)
    state = np.uint64(size) * _MUL
    # All groups of eight bytes but the last, which may overlap the one before.
    for at in range(begin, end - BLOCK, BLOCK):
        state = (state ^ eight_bytes_at(data, at)) * _MUL
        state ^= state >> _HALF
    return _short_key(size, state, last)


@njit(nogil=True, cache=True)
def _goes_on(data: Bytes, at: int, stop: int, unicode: UnicodeTables) -> tuple[bool, int]:
    """Returns whether a word goes on with the letter at `at`, after an apostrophe; and where a final `s` ends, or 0."""
    if at >= stop:
        return False, 0
    bits, _, over = class_at(data, at, stop, unicode)
    if not bits & LETTER or bits & UNIT:
        return False, 0
    is_final = data[at] | 32 == _LETTER_S and (over >= stop or not class_at(data, over, stop, unicode)[0] & WORD)
    return not is_final, over if is_final else 0


@njit(nogil=True, cache=True)
def read_word(data: Bytes, begin: int, stop: int, unicode: UnicodeTables, out: Bytes) -> WideWord:
    """Reads the word at `begin`, whose first character belongs to a word and is not one alone. `out` has room for it in
    lower case.
    """
    at, end, size, characters, end_of_stem = begin, 0, 0, 0, 0
    has_digit = False
    # Each turn reads one character and writes its lower case. An apostrophe belongs to the word if a letter follows.
    while at < stop:
        point, after = data[at], at + 1
        if point < 0x80:
            is_word = unicode.classes[point] & WORD != 0
            has_digit |= is_word & (point <= NINE)
            point |= is_word << 5  # to lower case; digits have this bit
        else:
            if 0xC0 <= point < 0xE0 and after < stop:  # Latin with accents, Greek, Cyrillic
                point, after = (point & 0x1F) << 6 | data[after] & 0x3F, at + 2
            else:
                point, after = decode(data, at, stop)
            bits = class_of(unicode, point)
            if bits & UNIT:
                break
            is_word = bits & WORD != 0
            point = APOSTROPHE if point == RIGHT_QUOTE else point + lower_change(unicode, point)
        if not is_word:
            if point != APOSTROPHE:
                break
            is_inside, end = _goes_on(data, after, stop, unicode)
            if not is_inside:
                break
        if at < begin + MAX_WORD_BYTES:
            if point < 0x80:
                out[size] = point
                size += 1
            elif point < 0x800:
                out[size], out[size + 1] = 0xC0 | point >> 6, 0x80 | point & 0x3F
                size += 2
            else:
                size = put_utf8(out, size, point)
            characters += 1
            if characters <= STEM_CHARACTERS:
                end_of_stem = size
        at = after
    end = max(end, at)
    if at - begin > MAX_WORD_BYTES:
        key = hash_word(data, begin, at)
        return WideWord(end, has_digit, key, key, characters)
    return WideWord(end, has_digit, hash_word(out, 0, size), _stem_of(out, end_of_stem), characters)


@njit(nogil=True, cache=True)
def _stem_of(out: Bytes, size: int) -> np.uint64:
    return hash_word(out, 0, size) if size >= BLOCK else _first_bytes(eight_bytes_at(out, 0), size)


@njit(nogil=True, cache=True)
def _key_of(text: npt.NDArray[np.uint8]) -> np.uint64:
    return hash_word(view(text), 0, len(text))


def word_key(word: str) -> int:
    """Returns the key of a word in lower case, for a lexicon."""
    return int(_key_of(np.frombuffer(word.encode(), np.uint8)))

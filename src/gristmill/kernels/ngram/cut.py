"""Splits a text into words for n-gram language models.

A word is a run of letters and numbers in lower case, with the marks that belong to them. A letter of a script without
spaces (UNIT and PIECE: Han, kana, Thai and related scripts) is a word with its marks. Every decimal digit is written
`0`, as in CCNet; otherwise each year and price would be another word. Signs and white space are not words; a line feed
ends a sentence. Lower case maps one character to one. Nothing is composed or decomposed.

Words of more than LONGEST bytes are cut short and are unknown to every model, so no text can make a word of any size.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes, eight_bytes_at, trailing_zeros
from gristmill.kernels.memory_writes import put_eight_bytes
from gristmill.kernels.text import unicode_classes
from gristmill.kernels.text.ascii import LF
from gristmill.kernels.text.utf8 import put_utf8
from gristmill.kernels.text.words import decode

Array = np.ndarray[Any, Any]

LONGEST = 120
"""The most bytes of a word in lower case; the longest words of dictionaries have 60 letters."""
ROOM = 512
"""Words that are split at once: their bytes stay in the first-level cache until they are hashed."""
ROOM_BYTES = ROOM * (LONGEST + 16)

_NONE, _BREAK, _MARK, _PART, _ALONE = range(5)
"""The role of a character: outside of words; ends a sentence; inside a word that has begun; part of a word; a word
alone."""
_ZERO = ord("0")

_ONES = 0x0101010101010101
_LOW_BITS, _HIGH_BITS, _CASE_BITS = (np.uint64(byte * _ONES) for byte in (0x7F, 0x80, 0x20))
_TO_A, _PAST_Z = np.uint64((0x80 - ord("a")) * _ONES), np.uint64((0x7F - ord("z")) * _ONES)
_TO_0, _PAST_9 = np.uint64((0x80 - ord("0")) * _ONES), np.uint64((0x7F - ord("9")) * _ONES)
_VALUE = np.uint64(0x0F)


class CutTables(NamedTuple):
    """The classes and lower case of characters; `cut_tables()` builds it."""

    plain: npt.NDArray[np.uint8]
    """For ASCII: the byte that is written; 0: none; 10: a sentence ends."""
    unicode: unicode_classes.UnicodeTables


@lru_cache(maxsize=1)
def cut_tables() -> CutTables:
    """Returns read-only tables of one Unicode version (`unicode_data.UNICODE_VERSION`)."""
    plain = np.zeros(128, np.uint8)
    # Digits become 0 and letters lower case; any other sign separates words.
    for point in range(128):
        letter = chr(point)
        plain[point] = _ZERO if letter.isdigit() else ord(letter.lower()) if letter.isalpha() else 0
    plain[10] = 10
    plain.setflags(write=False)
    return CutTables(plain, unicode_classes.unicode_tables())


@njit(nogil=True, cache=True)
def _wide(point: int, unicode: unicode_classes.UnicodeTables) -> tuple[int, int]:
    """Returns the role of a non-ASCII character, and the code point that is written for it."""
    bits = unicode_classes.class_of(unicode, point)
    if bits & unicode_classes.ALONE:
        return _ALONE, point
    if bits & unicode_classes.DIGIT:
        return _PART, _ZERO
    if bits & (unicode_classes.LETTER | unicode_classes.NUMBER):
        if bits & unicode_classes.LOWER:
            return _PART, point
        return _PART, point + unicode_classes.lower_change(unicode, point)
    return (_MARK if bits & unicode_classes.MARK else _NONE), point


@njit(nogil=True, cache=True, forceinline=True)
def _eight(block: np.uint64) -> tuple[int, np.uint64]:
    """Counts how many of eight bytes, from the lowest on, are ASCII letters or digits, and returns the bytes to write
    for them. It handles all bytes at once, in their highest bits: a loop would mispredict its end at every word.
    """
    low = block & _LOW_BITS
    folded = low | _CASE_BITS
    letters = (folded + _TO_A) & ~(folded + _PAST_Z) & ~block & _HIGH_BITS
    digits = (low + _TO_0) & ~(low + _PAST_9) & ~block & _HIGH_BITS
    run = trailing_zeros(~(letters | digits) & _HIGH_BITS) >> 3
    return run, (block | letters >> np.uint64(2)) & ~((digits >> np.uint64(7)) * _VALUE)


@njit(nogil=True, cache=True)
def cut_some(
    data: Bytes, at: int, stop: int, tables: CutTables, out: Bytes, spans: Array, is_first: bool
) -> tuple[int, int, bool]:
    """Splits off up to ROOM words from `at` on. Their bytes go to `out`, ROOM_BYTES; spans[i] is begin and end there of
    word i, and whether a sentence begins with it.

    `is_first`: whether a sentence begins with the next word. Returns where to continue, the number of words, and the
    new `is_first`.
    """
    plain, unicode = tables
    count = write = 0
    begin = -1
    alone = False
    # Each turn reads eight ASCII bytes of a word at once, or one character.
    while at < stop:
        if at + 8 <= stop and not alone:
            run, written = _eight(eight_bytes_at(data, at))
            if run:
                begin = write if begin < 0 else begin
                if write - begin <= LONGEST:
                    put_eight_bytes(out, write, written)
                    write += run
                at += run
                continue
        byte = data[at]
        after = at + 1
        if byte < 0x80:
            point = plain[byte]
            kind = _PART if point > LF else _BREAK if point else _NONE
        else:
            point, after = decode(data, at, stop)
            kind, point = _wide(point, unicode)
        if begin >= 0 and (kind <= _BREAK or kind >= (_PART if alone else _ALONE)):
            spans[count, 0], spans[count, 1], spans[count, 2] = begin, write, is_first
            count += 1
            is_first = alone = False
            begin = -1
            if count == ROOM:
                break
        at = after
        if begin < 0:
            if kind <= _MARK:
                is_first |= kind == _BREAK
                continue
            begin = write
            alone = kind == _ALONE
        if write - begin <= LONGEST:
            write = put_utf8(out, write, point)
    if begin >= 0:
        spans[count, 0], spans[count, 1], spans[count, 2] = begin, write, is_first
        count += 1
        is_first = False
    return at, count, is_first

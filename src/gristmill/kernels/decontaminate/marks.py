"""Finds where code may be: around *marks* that are not used in prose. Every code of an eval item has one of these
words.
"""

from typing import Any, NamedTuple

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.dedup.shingles import word_at
from gristmill.kernels.memory import Bytes, Uint64s, tail, trailing_zeros, view
from gristmill.kernels.memory_blocks import BLOCK, wide_bits, word_bits
from gristmill.kernels.text.ascii import NINE, SP, UNDERSCORE, ZERO

Array = np.ndarray[Any, Any]

_NEAR = 16
"""Bytes on both sides of a word that are searched for signs of code."""
_NOTHING, _LETTER, _COMMA, _SIGN = range(4)


def _kinds() -> Array:
    """Returns the class of each byte next to a word of code or of prose."""
    kinds = np.zeros(256, np.uint8)
    kinds[[one for one in range(128) if chr(one).isalpha()]] = _LETTER
    kinds[np.frombuffer(b",.", np.uint8)] = _COMMA
    kinds[np.frombuffer(b"=;:(){}[]<>", np.uint8)] = _SIGN
    return kinds


_KINDS = _kinds()


class TextSpan(NamedTuple):
    """The text data[begin:end], as a view of all data."""

    text: Bytes
    begin: int
    end: int
    size: int
    """Bytes of all data: nothing is read after them."""


class MarkViews(NamedTuple):
    """The two hash tables of marks; each has mask + 1 slots."""

    all: Uint64s
    always: Uint64s
    """Marks that lead to code wherever they are, even in prose."""
    mask: int


@njit(nogil=True, cache=True)
def mark_views(marks: Array) -> MarkViews:
    """Views of a table that the caller's caller keeps alive; its second half has the marks of `always`."""
    half = len(marks) // 2
    return MarkViews(view(marks), tail(view(marks), half), half - 1)


@njit(nogil=True, cache=True)
def is_in(table: Uint64s, mask: int, word: np.uint64) -> bool:
    """Whether a hash is in a table that `fill_kept` filled."""
    place = int(np.int64(word >> np.uint64(40))) & mask
    # Open addressing: the hash or a free slot ends the search.
    while True:
        held = table[place]
        if held == word or not held:
            return bool(held)
        place = (place + 1) & mask


@njit(nogil=True, cache=True)
def _is_prose(text: Bytes, begin: int, end: int, at: int) -> bool:
    """Whether the word at `at` is part of a sentence, or a command of TeX, and not code: it has words on both sides in
    its line, with at most a comma or a stop between, and no sign of code is near.
    """
    stop = at
    while stop < end and (_KINDS[text[stop]] == _LETTER or ZERO <= text[stop] <= NINE or text[stop] == UNDERSCORE):
        stop += 1
    before = text[at - 1] if at > begin else 10
    behind = text[stop] if stop < end else 10
    if before == 92 or (before == 123 and behind == 125):  # \lambda, \begin{enumerate}
        return True
    low, high = max(at - _NEAR, begin), min(stop + _NEAR, end)
    first, last = at - 1, stop
    while first > low and text[first] == SP:
        first -= 1
    while last < high - 1 and text[last] == SP:
        last += 1
    if first < low or last >= high or first == at - 1:
        return False
    left, right = _KINDS[text[first]], _KINDS[text[last]]
    signs = 0
    for place in range(low, high):
        signs += _KINDS[text[place]] == _SIGN
    return bool(left in (_LETTER, _COMMA) and right in (_LETTER, _COMMA) and not signs)


@njit(nogil=True, cache=True)
def leads_to_code(
    span: TextSpan,
    at: int,
    sums: Uint64s,
    first: int,
    maybe: Uint64s,
    low: int,
    high: int,
    marks: MarkViews,
) -> bool:
    """Whether a word of the stretch that begins at `at` is a mark outside of prose. The first word of the stretch has
    the number `first`; the words that may be marks are maybe[low:high].

    Words are counted once, from mark to mark. After a character outside ASCII, and at the end of all data, words are
    not counted, and every mark leads to code.
    """
    starts = inside = np.uint64(0)
    block, counted = at - BLOCK, first  # where the block begins; words before the rest of its `starts`
    # Each candidate is looked up; the first one that is a mark outside of prose decides.
    for k in range(low, high):
        place = int(np.int64(maybe[k]))
        word = word_at(sums, place)
        if not is_in(marks.all, marks.mask, word):
            continue
        if is_in(marks.always, marks.mask, word):
            return True
        # Count words forward to the candidate, block by block.
        while counted < place or not starts:
            # Each set bit is the beginning of a word.
            while starts and counted < place:
                starts &= starts - np.uint64(1)
                counted += 1
            if not starts:
                block += BLOCK
                if block + BLOCK > span.size or wide_bits(span.text, block):
                    return True
                words = word_bits(span.text, block)
                starts = words & ~(words << np.uint64(1) | inside)
                inside = words >> np.uint64(63)
        if not _is_prose(span.text, span.begin, span.end, block + int(trailing_zeros(starts))):
            return True
    return False

"""Finds the ends of many ASCII pre-tokens at once: 64 bytes as bit masks, and the rules as bit arithmetic.

A scan by character mispredicts a branch at most pre-tokens, which costs more than everything else (measured on English:
30 ns per pre-token; 5 ns with masks). Here each class of 64 bytes is one word, where bit i is byte `at + i`, and each
rule of `pretokenize` is a few operations on words: `x << 1` is the character before, `x >> 1` the character after, and
an addition carries through a run. A pre-token begins at `at`, so nothing before it matters.
"""

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes, trailing_zeros
from gristmill.kernels.memory_blocks import bytes_in

NUMBER_CHARS = 3
"""Mask of the most characters in a number; 0: no limit."""
SPACED = 4
"""GPT-2: only a space may precede a word or a number, contractions are lower-case, newlines are plain white space."""
CASED = 8
"""o200k: words are cut before an upper-case letter that follows a lower-case one, and include the contraction after
them."""
TAIL = 16
"""White space at the end of the text is one pre-token."""

_WIDTH = 64
_NONE = np.uint64(0)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_THREE = np.uint64(3)


def _reversed_bits(context: Any, value: Any) -> Any:
    """Returns the bits of a uint64 in the opposite order."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitreverse(args[0])

    return types.uint64(types.uint64), codegen


reversed_bits: Any = intrinsic(_reversed_bits)


@njit(nogil=True, cache=True)
def contraction_end(data: Bytes, at: int, stop: int, caseless: int) -> int:
    """Returns the end of the contraction that begins at the apostrophe at `at`, or `at` if there is none."""
    if at + 1 >= stop:
        return at
    fold = 0x20 if caseless else 0
    first = data[at + 1] | fold
    if first == ord("s") or first == ord("t") or first == ord("m") or first == ord("d"):
        return at + 2
    if at + 2 >= stop:
        return at
    second = data[at + 2]
    if caseless and data[at + 1] == 0xC5 and second == 0xBF:  # U+017F
        return at + 3
    second |= fold
    if first == ord("l"):
        return at + 3 if second == ord("l") else at
    if first == ord("r") or first == ord("v"):
        return at + 3 if second == ord("e") else at
    return at


@njit(nogil=True, cache=True)
def _with_contractions(
    starts: np.uint64, candidates: np.uint64, letters: np.uint64, known: np.uint64, data: Bytes, at: int, pattern: int
) -> np.uint64:
    """Adds the contractions at the apostrophes of `candidates` to `starts`, and cuts `starts` where one extends past
    the known bytes.
    """
    size = trailing_zeros(~known)
    cased = pattern & CASED != 0
    done = 0
    # Each turn takes one apostrophe, from left to right.
    while candidates:
        place = trailing_zeros(candidates)
        candidates &= candidates - _ONE
        if place < done or (cased and place == done and done > 0):
            continue  # after a contraction, an apostrophe begins a word
        bit = _ONE << np.uint64(place)
        if place + 3 >= size:
            # Everything before the apostrophe is certain. A pre-token also begins with it, unless the apostrophe can
            # end a word.
            return starts & (bit - _ONE if cased else bit | (bit - _ONE))
        end = contraction_end(data, at + place, at + size, not pattern & SPACED) - at
        if end > place:
            after = _ONE << np.uint64(end)
            starts &= ~(after - (bit if cased else bit << _ONE))
            starts |= after & letters
            done = end
    return starts


@njit(nogil=True, cache=True)
def starts_ahead(data: Bytes, at: int, pattern: int) -> np.uint64:
    """Returns a mask: bit i is set if a pre-token begins at byte `at + i`, for as many of 64 readable bytes as are
    certain.

    A pre-token must begin at `at`. 0 or 1: nothing is certain. The highest bit is where the next call continues.
    """
    wide: np.uint64 = bytes_in(data, at, 0, 0x80, 0x80)
    known = ~wide & (wide - _ONE)
    letters: np.uint64 = bytes_in(data, at, 0x20, ord("a"), 26) & known
    numbers = bytes_in(data, at, 0, ord("0"), 10) & known
    blank = bytes_in(data, at, 0, 0x20, 1) & known
    spaces = (bytes_in(data, at, 0, 0x09, 5) & known) | blank
    symbols = known & ~(letters | numbers | spaces)
    apostrophes = bytes_in(data, at, 0, 0x27, 1)
    newlines = _NONE
    if not pattern & SPACED:
        newlines = (bytes_in(data, at, 0, 0x0A, 1) | bytes_in(data, at, 0, 0x0D, 1)) & known
        # Newlines after symbols, and in o200k the slashes among them, belong to the symbols.
        glue = newlines
        if pattern & CASED:
            glue |= bytes_in(data, at, 0, 0x2F, 1) & known
        first = symbols << _ONE & newlines
        glued = (~(glue + first) & glue) | first
        spaces &= ~glued
        newlines &= ~glued
        symbols &= ~glued

    # White space begins a pre-token. Its last character begins another one if it is not a newline and something else
    # follows; the run of such characters is separate from the newlines before it.
    starts: np.uint64 = spaces & ~(spaces << _ONE)
    tail = spaces & ~newlines & ~(spaces >> _ONE) & known >> _ONE
    starts |= tail
    plain = spaces & ~newlines
    if newlines << _ONE & plain:
        backward = reversed_bits(plain)
        run = reversed_bits(~(backward + reversed_bits(tail)) & backward)
        starts |= run & ~(run << _ONE)

    single = symbols & ~(symbols << _ONE) & ~(blank << _ONE)
    starts |= single
    single &= ~(symbols >> _ONE)
    word = letters & ~(letters << _ONE)
    if pattern & SPACED:
        starts |= (word | numbers & ~(numbers << _ONE)) & ~(blank << _ONE)
    else:
        starts |= word & ~(plain << _ONE) & ~(single << _ONE)
        number = numbers & ~(numbers << _ONE)
        if pattern & NUMBER_CHARS == 1:
            number = numbers
        else:
            inner = numbers & numbers << _ONE & numbers << _TWO & numbers << _THREE
            more = number << _THREE & inner
            # Numbers have at most three digits: from each beginning, go on in steps of three while three more digits
            # follow.
            while more:
                number |= more
                more = more << _THREE & inner
        starts |= number
    starts |= _ONE
    if pattern & CASED:
        upper = bytes_in(data, at, 0, ord("A"), 26) & letters
        starts |= upper & (letters & ~upper) << _ONE
        candidates = apostrophes & letters << _ONE
    else:
        candidates = apostrophes & single
    candidates &= (letters >> _ONE) | ~(known >> _THREE)
    if candidates & known:
        starts = _with_contractions(starts, candidates & known, letters, known, data, at, pattern)
    return starts

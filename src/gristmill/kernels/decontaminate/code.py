"""Finds eval items that are code, by their tokens (`tokens.py`).

Prose is skipped: only stretches with many brackets, `=` and `;` are read.
"""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.decontaminate.literals import DIGIT, KINDS, WORD
from gristmill.kernels.decontaminate.match import FIELDS, ROW, TEXT_FROM, TEXT_TO, make_scratch, match
from gristmill.kernels.decontaminate.sift import follow, sift
from gristmill.kernels.decontaminate.tokens import sums_of_tokens
from gristmill.kernels.decontaminate.units import Units
from gristmill.kernels.memory import Bytes, view
from gristmill.kernels.memory_blocks import BLOCK, code_signs
from gristmill.kernels.text.ascii import CR, EQUALS, LEFT_BRACE, LEFT_BRACKET, LEFT_PAREN, LF, RIGHT_BRACE, SEMICOLON

Array = np.ndarray[Any, Any]

_GROUP = 8
"""Blocks that are judged together: 512 bytes."""
_DENSE = 3
"""Signs of code in a group, or in two consecutive ones: calls, indexes, `=`, `;`, braces, and colons at the end of a
line, which count twice. Prose has one sometimes; a function of two lines has three."""


@njit(nogil=True, cache=True)
def _sign(before: int, byte: int) -> int:
    """The signs of code that a byte after another one counts for, as in `code_signs`."""
    if byte == LEFT_PAREN or byte == LEFT_BRACKET:
        return int(before < 128 and (KINDS[before] == WORD or KINDS[before] == DIGIT))
    if byte == LF or byte == CR:
        return 2 * int(before == 58)
    return int(byte == SEMICOLON or byte == EQUALS or LEFT_BRACE <= byte <= RIGHT_BRACE)


@njit(nogil=True, cache=True)
def _signs(text: Bytes, at: int, begin: int, end: int) -> int:
    """Counts the signs of code in the group that begins at `at`; bytes before `begin` are unknown."""
    stop = min(at + _GROUP * BLOCK, end)
    signs = 0
    if at == begin:
        signs = _sign(10, text[at])
        at += 1
    # Whole blocks at once, then the rest byte by byte.
    while at + BLOCK <= stop:
        signs += code_signs(text, at)
        at += BLOCK
    # The bytes after the last whole block.
    while at < stop:
        signs += _sign(text[at - 1], text[at])
        at += 1
    return signs


@njit(nogil=True, cache=True)
def match_code(data: Array, offsets: Array, ranges: Array, kept: Array, units: Units) -> tuple[Array, Array]:
    """Returns the hits in ranges of bytes of texts (row, begin, end; sorted), with positions in bytes of the text, and
    the rows in which the bound on work was reached.
    """
    text = view(data)
    room = 1 << 16
    starts = np.empty(room, np.int64)
    sums = np.zeros(room + 1, np.uint64)
    maybe = np.empty(room, np.uint64)
    leads = np.empty((room, 2), np.int64)
    scratch = make_scratch(units)
    hits = np.empty((64, FIELDS), np.int64)
    found = 0
    bounded = np.zeros(len(offsets) - 1, np.bool_)
    # Each range is read in groups of blocks; only those dense with signs of code become tokens.
    for number in range(len(ranges)):
        row, begin, end = ranges[number, 0], ranges[number, 1], ranges[number, 2]
        if end - begin + 1 > room:
            room = 2 * (end - begin)
            starts = np.empty(room, np.int64)
            sums = np.zeros(room + 1, np.uint64)
            maybe = np.empty(room, np.uint64)
            leads = np.empty((room, 2), np.int64)
        count = 0
        read = begin  # end of the part that was read
        before = 0
        at = begin
        # Each turn reads one group, and more if it is dense.
        while at < end:
            signs = _signs(text, at, begin, end)
            stop = min(at + _GROUP * BLOCK, end)
            if before + signs >= _DENSE:
                # The groups before and after are read as well: a listing begins and ends somewhere in them.
                first = max(read, at - _GROUP * BLOCK)
                last = stop
                # A listing goes on while its groups are dense; the first one that is not is read as well.
                while last < end:
                    signs = _signs(text, last, begin, end)
                    last = min(last + _GROUP * BLOCK, end)
                    if signs < _DENSE:
                        break
                count = sums_of_tokens(data, first, last, kept, sums, starts, count)
                read = stop = last
                signs = 0
            before = signs
            at = stop
        if count < units.seed_words:
            continue
        known = sift(sums, 0, count - units.seed_words + 1, units, maybe)
        led = follow(sums, count, maybe, known, units, leads)
        if not led:
            continue
        was = found
        # Each range is matched alone: what was seen of a unit in another range of the same text does not matter.
        hits, found, is_bounded = match(sums, count, number, leads[:led], units, scratch, hits, found)
        # Turn positions in words into positions in bytes of the text.
        for k in range(was, found):
            stop = starts[hits[k, TEXT_TO]] if hits[k, TEXT_TO] < count else end
            hits[k, ROW] = row
            hits[k, TEXT_FROM] = starts[hits[k, TEXT_FROM]] - offsets[row]
            hits[k, TEXT_TO] = stop - offsets[row]
        bounded[row] |= is_bounded
    return hits[:found].copy(), bounded

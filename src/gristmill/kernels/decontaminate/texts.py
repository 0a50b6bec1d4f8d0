"""The words of texts: matched with units (`match`), as hashes, and as spans.

Books are full of short questions of a suite (`a knife`). Most of these hits mean nothing: the hashes of the words after
them show that neither the answer nor the choices follow, and they are dropped before their text is read.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.decontaminate.match import FIELDS, TEXT_TO, UNIT, make_scratch, match
from gristmill.kernels.decontaminate.sift import make_buffers, read_text, text_search
from gristmill.kernels.decontaminate.units import Units
from gristmill.kernels.dedup.shingles import ROLL, WordTables, room_for, sums_of
from gristmill.kernels.memory import view
from gristmill.kernels.memory_blocks import BLOCK
from gristmill.kernels.text.ascii import UNDERSCORE
from gristmill.kernels.text.look_alikes import IGNORED
from gristmill.kernels.text.unicode_classes import ALONE, LETTER, MARK, NUMBER, UnicodeTables, class_of

Array = np.ndarray[Any, Any]


class Support(NamedTuple):
    """What a unit needs near it to count."""

    least: npt.NDArray[np.int64]
    """For each unit: how many different words of its support are required; 0: it is never dropped."""
    reach: npt.NDArray[np.int64]
    """For each unit: within how many words they must be."""
    starts: npt.NDArray[np.int64]
    """The support of unit u is words[starts[u] : starts[u + 1]], each word once."""
    words: npt.NDArray[np.uint64]


@njit(nogil=True, cache=True)
def _has_support(sums: Array, count: int, behind: int, unit: int, support: Support) -> bool:
    asked = support.least[unit]
    begin, end = support.starts[unit], support.starts[unit + 1]
    last = min(behind + support.reach[unit], count)
    # Count the words of the unit's support that the text has after the hit, until they are enough or cannot be any
    # more.
    for k in range(begin, end):
        if end - k < asked:
            return False
        wanted = support.words[k]
        # Search for the word within the reach.
        for at in range(behind, last):
            if sums[at + 1] - sums[at] * ROLL == wanted:
                asked -= 1
                break
        if asked == 0:
            return True
    return False


@njit(nogil=True, cache=True)
def drop_unsupported(
    sums: Array, count: int, row: int, hits: Array, begin: int, end: int, support: Support, supported: Array
) -> int:
    """Removes the hits of units without support from hits[begin:end], the hits of one text; returns the new end. If one
    hit of a unit has support, all its hits stay.

    `supported` is the last row in which each unit had support; `row` increases from call to call.
    """
    # First find the units with support, since one hit is enough for all.
    for k in range(begin, end):
        unit = hits[k, UNIT]
        if supported[unit] != row and _has_support(sums, count, hits[k, TEXT_TO], unit, support):
            supported[unit] = row
    kept = begin
    # Then move the hits that stay to the front.
    for k in range(begin, end):
        unit = hits[k, UNIT]
        if support.least[unit] == 0 or supported[unit] == row:
            for field in range(FIELDS):
                hits[kept, field] = hits[k, field]
            kept += 1
    return kept


class TextHits(NamedTuple):
    """What `match_texts` finds, each in the order of rows."""

    hits: npt.NDArray[np.int64]
    """Hits with units of several words (`match`)."""
    short_hits: npt.NDArray[np.int64]
    """Hits with units that have seeds of one word, without those that lack support."""
    bounded: npt.NDArray[np.bool_]
    """Whether the bound on work was reached, for each row."""


@njit(nogil=True, cache=True)
def match_texts(
    data: Array, offsets: Array, tables: WordTables, units: Units, short: Units, support: Support
) -> TextHits:
    """Reads each text once, and matches what the seeds of both lengths lead to."""
    longest = 0
    for row in range(len(offsets) - 1):
        longest = max(longest, offsets[row + 1] - offsets[row])
    buffers, search = make_buffers(longest), text_search(tables, units, short)
    scratch, scratch_short = make_scratch(units), make_scratch(short)
    supported = np.full(max(len(short.ngram), 1), -1, np.int64)
    hits, hits_short = np.empty((64, FIELDS), np.int64), np.empty((64, FIELDS), np.int64)
    count = count_short = 0
    bounded = np.zeros(len(offsets) - 1, np.bool_)
    # Each turn reads one text, and matches what its seeds lead to.
    for row in range(len(offsets) - 1):
        begin, end = int(offsets[row]), int(offsets[row + 1])
        counts = read_text(data, begin, end, search, buffers)
        first_short = count_short
        if counts.leads:
            leads = buffers.leads[: counts.leads]
            hits, count, bounded[row] = match(buffers.sums, counts.words, row, leads, units, scratch, hits, count)
        if counts.leads_short:
            leads = buffers.leads_short[: counts.leads_short]
            hits_short, count_short, is_bounded = match(
                buffers.sums, counts.words, row, leads, short, scratch_short, hits_short, count_short
            )
            bounded[row] |= is_bounded
            if count_short > first_short:
                count_short = drop_unsupported(
                    buffers.sums, counts.words, row, hits_short, first_short, count_short, support, supported
                )
    return TextHits(hits[:count].copy(), hits_short[:count_short].copy(), bounded)


@njit(nogil=True, cache=True)
def words_of(data: Array, offsets: Array, tables: WordTables) -> tuple[Array, Array]:
    """Returns where the words of each text begin in the list of all words, and the hashes of all words."""
    longest = 0
    for row in range(len(offsets) - 1):
        longest = max(longest, offsets[row + 1] - offsets[row])
    sums = np.empty(room_for(longest), np.uint64)
    edge = np.empty(BLOCK, np.uint8)
    starts = np.zeros(len(offsets), np.int64)
    sums[0] = 0
    for row in range(len(offsets) - 1):
        starts[row + 1] = starts[row] + sums_of(data, offsets[row], offsets[row + 1], tables, sums, 0, edge)
    words = np.empty(starts[-1], np.uint64)
    # Read again to write the hashes: the difference of consecutive sums.
    for row in range(len(offsets) - 1):
        count = sums_of(data, offsets[row], offsets[row + 1], tables, sums, 0, edge)
        for k in range(count):
            words[starts[row] + k] = sums[k + 1] - sums[k] * ROLL
    return starts, words


@njit(nogil=True, cache=True)
def _kind(point: int, unicode: UnicodeTables) -> int:
    """0: outside of words; 1: a mark inside a word, or ignored; 2: part of a word; 3: a word alone."""
    if point == UNDERSCORE:
        return 2
    bits = class_of(unicode, point)
    if bits & ALONE:
        return 3
    if bits & (LETTER | NUMBER):
        return 2
    return 1 if bits & (MARK | IGNORED) else 0


@njit(nogil=True, cache=True)
def word_spans(data: Array, begin: int, end: int, tables: WordTables) -> Array:
    """Returns first and last byte (exclusive) of each word of data[begin:end], relative to `begin`; the words are those
    of `sums_of`.
    """
    text, unicode = view(data), view(tables.unicode)
    spans = np.empty((room_for(end - begin), 2), np.int64)
    count = 0
    started = -1
    alone = False
    at = begin
    # Character by character: a word ends at a blank, and each character of kind 3 is a word.
    while at < end:
        byte = text[at]
        length = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
        if at + length > end:
            break
        point = byte & (0xFF if length == 1 else 0x7F >> length)
        for k in range(1, length):
            point = point << 6 | text[at + k] & 0x3F
        point = min(point, 0x10FFFF)
        kind = _kind(point, unicode)
        if started >= 0 and (kind == 0 or kind >= (2 if alone else 3)):
            spans[count, 0], spans[count, 1] = started - begin, at - begin
            count += 1
            started = -1
        if started < 0 and kind >= 2:
            started, alone = at, kind == 3
        at += length
    if started >= 0:
        spans[count, 0], spans[count, 1] = started - begin, at - begin
        count += 1
    return spans[:count].copy()

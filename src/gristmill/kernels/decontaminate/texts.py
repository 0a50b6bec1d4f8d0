"""The words of texts: matched with units (`match`), as hashes, and where they stand."""

from typing import Any

import numpy as np
from numba import njit

from gristmill.kernels.decontaminate.code import is_kept
from gristmill.kernels.decontaminate.match import FIELDS, Units, make_scratch, match, sift
from gristmill.kernels.dedup.shingles import ROLL, WordTables, room_for, sums_of
from gristmill.kernels.memory import address_of, byte_at, half_at
from gristmill.kernels.memory_blocks import BLOCK
from gristmill.kernels.text.unicode_classes import LETTER, MARK, NUMBER, PIECE, UNIT

Array = np.ndarray[Any, Any]


_STRETCH = 1024
"""Bytes of text whose words are looked for before the next are read: their sums stay in the first-level cache."""


@njit(nogil=True, cache=True)
def _cut(data: Array, at: int, end: int) -> int:
    """The end of a stretch: a space, which is in no word, or that of the text."""
    stop = at + _STRETCH
    while stop < end and data[stop] != 32:
        stop += 1
    return min(stop, end)


@njit(nogil=True, cache=True)
def _add(threes: Array, known: int, row: int, one: int, two: int) -> tuple[Array, int]:
    if known == len(threes):
        grown = np.empty((2 * known, 3), np.int64)
        grown[:known] = threes
        threes = grown
    threes[known, 0], threes[known, 1], threes[known, 2] = row, one, two
    return threes, known + 1


@njit(nogil=True, cache=True)
def _add_range(ranges: Array, known: int, row: int, begin: int, end: int) -> tuple[Array, int]:
    """Ranges with one more, which begins no earlier than the last; two that meet are one."""
    if known and ranges[known - 1, 0] == row and begin <= ranges[known - 1, 2]:
        ranges[known - 1, 2] = max(ranges[known - 1, 2], end)
        return ranges, known
    return _add(ranges, known, row, begin, end)


@njit(nogil=True, cache=True)
def match_texts(
    data: Array, offsets: Array, tables: WordTables, units: Units, short: Units, marks: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """The hits of all texts with units and with those that one word leads to, each in order of their rows; of texts
    with hits some places (row, byte, word); ranges of bytes around words of `marks` (row, begin, end), where code may
    be; and in which rows the bound on work was reached.
    """
    longest = 0
    for row in range(len(offsets) - 1):
        longest = max(longest, offsets[row + 1] - offsets[row])
    sums = np.empty(room_for(longest), np.uint64)
    edge = np.empty(BLOCK, np.uint8)
    maybe, maybe_short = np.empty(len(sums), np.int64), np.empty(len(sums), np.int64)
    seen, rows = make_scratch(units)
    seen_short, rows_short = make_scratch(short)
    hits, hits_short = np.empty((64, FIELDS), np.int64), np.empty((64, FIELDS), np.int64)
    ranges, places = np.empty((64, 3), np.int64), np.empty((64, 3), np.int64)
    found = found_short = known = placed = 0
    bounded = np.zeros(len(offsets) - 1, np.bool_)
    sums[0] = 0
    for row in range(len(offsets) - 1):
        begin, end = int(offsets[row]), int(offsets[row + 1])
        at = begin
        count = sifted = candidates = shorts = 0
        hits_before, places_before = found + found_short, placed
        while at < end:
            stop = _cut(data, at, end)
            places, placed = _add(places, placed, row, at - begin, count)
            before = count
            count = sums_of(data, at, stop, tables, sums, count, edge)
            last = max(count - units.seed_words + 1, sifted)
            candidates = sift(sums, sifted, last, units.seed_words, units.filter, maybe, candidates)
            sifted = last
            was = shorts
            shorts = sift(sums, before, count, 1, short.filter, maybe_short, shorts)
            is_marked = False
            for k in range(was, shorts):
                word = sums[maybe_short[k] + 1] - sums[maybe_short[k]] * ROLL
                is_marked |= is_kept(word, marks)
            if is_marked:
                ranges, known = _add_range(ranges, known, row, max(at - _STRETCH, begin), min(stop + _STRETCH, end))
            at = stop
        if candidates:
            hits, found, bounded[row] = match(
                sums, count, row, units.seed_words, maybe[:candidates], units, seen, rows, hits, found
            )
        if shorts:
            hits_short, found_short, is_bounded = match(
                sums, count, row, 1, maybe_short[:shorts], short, seen_short, rows_short, hits_short, found_short
            )
            bounded[row] |= is_bounded
        if found + found_short == hits_before:
            placed = places_before
    return hits[:found].copy(), hits_short[:found_short].copy(), places[:placed].copy(), ranges[:known].copy(), bounded


@njit(nogil=True, cache=True)
def words_of(data: Array, offsets: Array, tables: WordTables) -> tuple[Array, Array]:
    """Where the words of each text begin in the list of all words, and the hashes of all words."""
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
    for row in range(len(offsets) - 1):
        count = sums_of(data, offsets[row], offsets[row + 1], tables, sums, 0, edge)
        for k in range(count):
            words[starts[row] + k] = sums[k + 1] - sums[k] * ROLL
    return starts, words


@njit(nogil=True, cache=True)
def _kind(point: int, pages: int, classes: int) -> int:
    """0: outside of words; 1: a mark, part of a word that has begun; 2: part of a word; 3: a word by itself."""
    if point == 0x5F:
        return 2
    bits = half_at(classes, byte_at(pages, point >> 8) << 8 | point & 255)
    if bits & (UNIT | PIECE):
        return 3
    if bits & (LETTER | NUMBER):
        return 2
    return 1 if bits & MARK else 0


@njit(nogil=True, cache=True)
def word_spans(data: Array, begin: int, end: int, tables: WordTables) -> Array:
    """First and last byte (exclusive) of each word of data[begin:end], counted from `begin`; as `sums_of` has them."""
    text, pages, classes = address_of(data), address_of(tables.pages), address_of(tables.classes)
    spans = np.empty((room_for(end - begin), 2), np.int64)
    count = 0
    started = -1
    alone = False
    at = begin
    while at < end:
        byte = byte_at(text, at)
        length = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
        if at + length > end:
            break
        point = byte
        if length > 1:
            point = byte & (0x7F >> length)
            for k in range(1, length):
                point = point << 6 | byte_at(text, at + k) & 0x3F
            point = min(point, 0x10FFFF)
        kind = _kind(point, pages, classes)
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

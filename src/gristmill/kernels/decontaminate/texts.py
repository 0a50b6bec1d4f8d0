"""The words of texts: matched with units (`match`), as hashes, and where they stand."""

from typing import Any

import numpy as np
from numba import njit

from gristmill.kernels.decontaminate.match import FIELDS, Units, make_scratch, match, sift
from gristmill.kernels.dedup.shingles import ROLL, WordTables, room_for, sums_of
from gristmill.kernels.memory import address_of, byte_at, half_at
from gristmill.kernels.memory_blocks import BLOCK
from gristmill.kernels.text.unicode_classes import LETTER, MARK, NUMBER, PIECE, UNIT

Array = np.ndarray[Any, Any]


_STRETCH = 8192
"""Bytes of text whose words are looked for before the next are read: their sums stay in the first-level cache."""


@njit(nogil=True, cache=True)
def _cut(data: Array, at: int, end: int) -> int:
    """The end of a stretch: a space, which is in no word, or that of the text."""
    stop = at + _STRETCH
    while stop < end and data[stop] != 32:
        stop += 1
    return min(stop, end)


@njit(nogil=True, cache=True)
def match_texts(data: Array, offsets: Array, tables: WordTables, units: Units) -> tuple[Array, Array]:
    """The hits of all texts, in order of their rows; and in which rows the bound on work was reached."""
    longest = 0
    for row in range(len(offsets) - 1):
        longest = max(longest, offsets[row + 1] - offsets[row])
    sums = np.empty(room_for(longest), np.uint64)
    edge = np.empty(BLOCK, np.uint8)
    maybe = np.empty(len(sums), np.int64)
    seen, rows = make_scratch(units)
    hits = np.empty((64, FIELDS), np.int64)
    found = 0
    bounded = np.zeros(len(offsets) - 1, np.bool_)
    sums[0] = 0
    for row in range(len(offsets) - 1):
        at, end = offsets[row], offsets[row + 1]
        count = 0
        sifted = 0
        candidates = 0
        while at < end:
            stop = _cut(data, at, end)
            count = sums_of(data, at, stop, tables, sums, count, edge)
            last = max(count - units.seed_words + 1, sifted)
            candidates = sift(sums, sifted, last, units.seed_words, units.filter, maybe, candidates)
            sifted = last
            at = stop
        if candidates:
            hits, found, is_bounded = match(
                sums, count, row, units.seed_words, maybe[:candidates], units, seen, rows, hits, found
            )
            bounded[row] = is_bounded
    return hits[:found].copy(), bounded


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

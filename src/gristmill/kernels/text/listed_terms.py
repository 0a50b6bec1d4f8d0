"""Finds words and phrases of a list in texts, at word boundaries.

Words are those of `kernels.dedup.shingles`: runs of letters, numbers and `_` in lower case, with their marks, and each
letter of a script without spaces. So `ass` is not found in `class`, and a term in Han, kana or Thai is found wherever
its letters are consecutive, with two exceptions that would be found inside other words: one such letter is not a term,
and katakana, which is written in runs, is not found inside a longer run.

A phrase is found if its words are consecutive and separated by white space, hyphens and apostrophes, or by exactly the
signs of the list: `s&m` is `S & M` and not `s. m.`. A sign at the edge of a term must be in the text, too: `@ss` is not
`SS`.

A text is filtered first: the shingles of its words against those of the list, at the speed of the scan. Only a text
that contains some sequence of words is read again, word by word, for the separators and positions.
"""

from typing import Any, NamedTuple

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.dedup.shingles import WordTables, roll_power, room_for, shingle_at, sums_of
from gristmill.kernels.hash.hashset import count_lines, next_entry
from gristmill.kernels.hash.splitmix import mix
from gristmill.kernels.memory import Bytes, view
from gristmill.kernels.signals.terms import find_key, hash_set
from gristmill.kernels.text.ascii import APOSTROPHE, HYPHEN, LOWER_A, LOWER_Z, NINE, UNDERSCORE, ZERO
from gristmill.kernels.text.unicode_classes import (
    ALONE,
    LETTER,
    MARK,
    NUMBER,
    SPACE,
    UnicodeTables,
    class_of,
)
from gristmill.kernels.text.words import decode

Array = np.ndarray[Any, Any]

MOST_WORDS = 32
"""The most words of a phrase: they bound the work for each word of a text."""
MOST_BETWEEN = 32
"""The most bytes between two words of a phrase."""
_BEFORE, _BEHIND = MOST_WORDS, MOST_WORDS + 1
"""The places of signs at the edges of a term, after those between its words."""
_APART = np.uint64(1)  # a separator that is too long to be between two words of a phrase
_ODD = np.uint64(0x9E3779B97F4A7C15)
_NOTHING = np.uint64(0)


class Terms(NamedTuple):
    """A list as sets with open addressing; `terms_of` builds it."""

    heads: Array
    """uint64: the first words of terms, as shingles of one word."""
    longest: Array
    """int64: in the slot of a head, the number of words of the longest term that begins with it."""
    sequences: Array
    """uint64: shingles of all words of a term, without the separators."""
    terms: Array
    """uint64: the same with the separators."""


@njit(nogil=True, cache=True)
def _next_word(data: Bytes, at: int, stop: int, unicode: UnicodeTables) -> tuple[int, int]:
    """Returns begin and end of the first word from `at` on; begin is `stop` if there is none."""
    begin, alone = -1, False
    # Skip what is not a word, then read the word. A letter of a script without spaces is a word alone.
    while at < stop:
        byte = data[at]
        if byte < 0x80:
            # Letters by their lower case, digits, `_`.
            if LOWER_A <= byte | 32 <= LOWER_Z or ZERO <= byte <= NINE or byte == UNDERSCORE:
                if begin < 0:
                    begin = at
                elif alone:
                    break
            elif begin >= 0:
                break
            at += 1
            continue
        point, after = decode(data, at, stop)
        bits = class_of(unicode, point)
        if bits & ALONE:
            if begin >= 0:
                break
            begin, alone = at, True
        elif bits & (LETTER | NUMBER):
            if begin < 0:
                begin = at
            elif alone:
                break
        elif begin >= 0 and not bits & MARK:
            break
        at = after
    return (begin, at) if begin >= 0 else (stop, stop)


@njit(nogil=True, cache=True)
def _between(data: Bytes, begin: int, end: int, unicode: UnicodeTables) -> np.uint64:
    """Returns 0 for a separator that is allowed between any two words of a phrase, _APART for one that is too long,
    else a hash of it without its white space.
    """
    if end - begin > MOST_BETWEEN:
        return _APART
    state, other = _NOTHING, False
    at = begin
    # White space and marks do not count; anything but hyphens and apostrophes makes the separator matter.
    while at < end:
        byte = data[at]
        point, at = (byte, at + 1) if byte < 0x80 else decode(data, at, end)
        bits = class_of(unicode, point)
        if bits & (SPACE | MARK):
            continue
        # Hyphens and apostrophes, typed and typeset.
        other = other or not (point == HYPHEN or point == APOSTROPHE or 0x2010 <= point <= 0x2011 or point == 0x2019)
        state = mix((state ^ np.uint64(point)) * _ODD)
    return max(state, np.uint64(2)) if other else _NOTHING


@njit(nogil=True, cache=True)
def _joined(key: np.uint64, between: np.uint64, place: int) -> np.uint64:
    """Returns the key of a term with the separator before its word number `place`."""
    # The place is multiplied with a large number: otherwise `&` before a word and `-` after it would be equal one time
    # in eight.
    return key if between == _NOTHING else max(mix((key ^ between) + np.uint64(place) * _ODD), np.uint64(1))


@njit(nogil=True, cache=True)
def _sign_before(data: Bytes, begin: int, at: int) -> np.uint64:
    """Returns the character that ends at `at`, + 2; 0 if the text begins there."""
    start = at - 1
    while start > begin and at - start < 4 and data[start] & 0xC0 == 0x80:
        start -= 1
    return _NOTHING if at <= begin else _sign_behind(data, start, at)


@njit(nogil=True, cache=True)
def _sign_behind(data: Bytes, at: int, stop: int) -> np.uint64:
    """Returns the character that begins at `at`, + 2; 0 if the text ends there."""
    if at >= stop:
        return _NOTHING
    byte = data[at]
    point, _ = (byte, 0) if byte < 0x80 else decode(data, at, stop)
    return np.uint64(point + 2)


@njit(nogil=True, cache=True)
def _is_katakana(sign: np.uint64) -> bool:
    """Whether a character + 2 is katakana, including the sign of a long vowel."""
    point = np.int64(sign) - 2
    if point < 0x30A1 or point > 0xFF9D or point == 0x30FB:
        return False
    return bool(point <= 0x30FF or 0x31F0 <= point <= 0x31FF or point >= 0xFF66)


@njit(nogil=True, cache=True)
def _is_letter_alone(data: Bytes, begin: int, stop: int, unicode: UnicodeTables) -> bool:
    """Whether a word is one letter of a script without spaces."""
    point = int(np.int64(_sign_behind(data, begin, stop))) - 2
    if point < 0:  # invalid UTF-8, which only one of the two scans reads as a word
        return False
    return bool(class_of(unicode, point) & ALONE)


@njit(nogil=True, cache=True)
def hash_terms(data: Array, tables: WordTables) -> tuple[Array, int]:
    """Returns for every entry of a list: head, words, sequence, key; and the number of entries that are never found,
    because they have no word, too many words or too much between two, or are one letter of a script without spaces.
    """
    hashes = np.empty((count_lines(data), 4), np.uint64)
    buffer, edge = np.empty(0, np.uint64), np.empty(64, np.uint8)
    powers = _powers()
    text, stop, at, count, faults = view(data), len(data), 0, 0, 0
    unicode = view(tables.unicode)
    # Each turn takes one line of the list.
    while at < stop:
        begin, end, at = next_entry(text, at, stop)
        if begin == end:
            continue
        if len(buffer) < room_for(end - begin):
            buffer = np.empty(room_for(end - begin), np.uint64)
        buffer[0] = 0
        words = sums_of(data, begin, end, tables, buffer, 0, edge)
        good = 0 < words <= MOST_WORDS
        if good:
            hashes[count, 0], hashes[count, 1] = _shingle(buffer, 0, 1, powers), words
            key = hashes[count, 2] = _shingle(buffer, 0, words, powers)
            first, last = _next_word(text, begin, end, unicode)
            good = words > 1 or not _is_letter_alone(text, first, end, unicode)
            key = _joined(key, _sign_before(text, begin, first), _BEFORE)
            # The key has the words and what is between them.
            for place in range(1, words):
                first, after = _next_word(text, last, end, unicode)
                between = _between(text, last, first, unicode)
                good = good and between != _APART
                key, last = _joined(key, between, place), after
            hashes[count, 3] = _joined(key, _sign_behind(text, last, end), _BEHIND)
        count += good
        faults += not good
    return hashes[:count], faults


@njit(nogil=True, cache=True)
def _shingle(sums: Array, at: int, width: int, powers: Array) -> np.uint64:
    """Returns a shingle; never 0."""
    return max(shingle_at(view(sums), at, width, powers[width]), np.uint64(1))


@njit(nogil=True, cache=True)
def _powers() -> Array:
    powers = np.empty(MOST_WORDS + 1, np.uint64)
    for width in range(MOST_WORDS + 1):
        powers[width] = roll_power(width)
    return powers


def terms_of(hashes: Array) -> Terms:
    """Builds the sets of a list from the result of `hash_terms`."""
    longest: dict[int, int] = {}
    for head, words in hashes[:, :2].tolist():
        longest[head] = max(longest.get(head, 0), words)
    heads = hash_set(set(longest))
    sizes = np.array([longest.get(int(head), 0) for head in heads], np.int64)
    return Terms(heads, sizes, hash_set(set(hashes[:, 2].tolist())), hash_set(set(hashes[:, 3].tolist())))


@njit(nogil=True, cache=True)
def _has_sequence(sums: Array, words: int, at: int, most: int, powers: Array, terms: Terms) -> bool:
    """Whether the words of some term begin at word `at`, with any separators."""
    # The head says how long a sequence may be.
    for width in range(1, min(most, words - at) + 1):
        if find_key(terms.sequences, _shingle(sums, at, width, powers)) >= 0:
            return True
    return False


@njit(nogil=True, cache=True)
def _sieve(sums: Array, words: int, powers: Array, terms: Terms, places: Array) -> int:
    """Writes the numbers of words at which some sequence begins, and counts them."""
    count = 0
    # Most words are not the head of a term.
    for at in range(words):
        slot = find_key(terms.heads, _shingle(sums, at, 1, powers))
        if slot >= 0 and _has_sequence(sums, words, at, terms.longest[slot], powers, terms):
            places[count] = at
            count += 1
    return count


@njit(nogil=True, cache=True)
def _bounds(data: Array, begin: int, end: int, tables: WordTables, bounds: Array) -> int:
    """Writes begin and end of each word, and counts them."""
    text, unicode = view(data), view(tables.unicode)
    out = view(bounds)
    words, at = 0, begin
    # Each turn takes one word.
    while at < end:
        first, at = _next_word(text, at, end, unicode)
        if first < end:
            out[2 * words], out[2 * words + 1] = first, at
            words += 1
    return words


@njit(nogil=True, cache=True)
def _longest_at(
    data: Array,
    begin: int,
    end: int,
    sums: Array,
    bounds: Array,
    words: int,
    at: int,
    powers: Array,
    tables: WordTables,
    terms: Terms,
) -> int:
    """Returns the words of the longest term at word `at`, which is a head; 0: none."""
    text, unicode = view(data), view(tables.unicode)
    before = _sign_before(text, begin, bounds[at, 0])
    most = min(terms.longest[find_key(terms.heads, _shingle(sums, at, 1, powers))], words - at)
    if _is_katakana(before) and _is_katakana(_sign_behind(text, bounds[at, 0], end)):
        return 0
    found = 0
    gaps = np.empty(MOST_WORDS, np.uint64)
    # Each turn takes one word more; the longest term wins.
    for width in range(1, most + 1):
        if width > 1:
            gaps[width - 1] = _between(text, bounds[at + width - 2, 1], bounds[at + width - 1, 0], unicode)
            if gaps[width - 1] == _APART:
                break
        key = _shingle(sums, at, width, powers)
        if find_key(terms.sequences, key) >= 0:
            behind = _sign_behind(text, bounds[at + width - 1, 1], end)
            if _is_katakana(behind) and _is_katakana(_sign_before(text, begin, bounds[at + width - 1, 1])):
                continue
            # With and without the sign before the term, and each with and without the one after it.
            for edge in (_NOTHING, before):
                edged = _joined(key, edge, _BEFORE)
                for place in range(1, width):
                    edged = _joined(edged, gaps[place], place)
                if find_key(terms.terms, edged) >= 0 or find_key(terms.terms, _joined(edged, behind, _BEHIND)) >= 0:
                    found = width
    return found


@njit(nogil=True, cache=True)
def find_terms(data: Array, offsets: Array, rows: Array, tables: WordTables, terms: Terms) -> tuple[Array, Array]:
    """Returns for the texts of these rows: the number of words of each, and every term found, as (row, begin, end) in
    bytes of `data`. At each word the longest term counts, and the search continues after it.
    """
    longest = 0
    for row in rows:
        longest = max(longest, offsets[row + 1] - offsets[row])
    sums, places = np.empty(room_for(longest), np.uint64), np.empty(room_for(longest), np.int64)
    edge, bounds = np.empty(64, np.uint8), np.empty((0, 2), np.int64)
    spans, count = np.empty((16, 3), np.int64), 0
    counts = np.empty(len(rows), np.int64)
    powers = _powers()
    # Most texts pass the sieve with nothing, and their words are never bounded.
    for number in range(len(rows)):
        row = rows[number]
        begin, end = offsets[row], offsets[row + 1]
        sums[0] = 0
        words = counts[number] = sums_of(data, begin, end, tables, sums, 0, edge)
        sieved = _sieve(sums, words, powers, terms, places)
        if not sieved:
            continue
        if not len(bounds):
            bounds = np.empty((room_for(longest), 2), np.int64)
        words = min(words, _bounds(data, begin, end, tables, bounds))
        behind = 0
        # A term begins after the end of the last one.
        for at in places[:sieved]:
            if at < behind or at >= words:
                continue
            width = _longest_at(data, begin, end, sums, bounds, words, at, powers, tables, terms)
            behind = at + width
            if width:
                if count == len(spans):
                    wider = np.empty((2 * count, 3), np.int64)
                    wider[:count] = spans
                    spans = wider
                spans[count, 0], spans[count, 1], spans[count, 2] = row, bounds[at, 0], bounds[behind - 1, 1]
                count += 1
    return counts, spans[:count]

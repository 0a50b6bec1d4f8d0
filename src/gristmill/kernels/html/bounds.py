"""Bounds on a page before anybody parses it: how large and how deep its tree would be, and what extraction would cost.

A scan of the UTF-8 bytes that follows the HTML standard's tokenizer, and as much of its tree construction as decides
nesting: void elements, optional end tags (`<p>`, `<li>`, `<td>`, `<option>`), implied table rows, misnested formatting
(an unclosed `<b>` is opened anew in every later paragraph, so a small page can make a huge tree), raw text (script,
style, textarea, title), foreign content (svg, math). It keeps no tree: one stack of open elements, one list of
active formatting elements. Where it differs from a parser its stack is the higher one, but for one random tag soup in
five hundred, where it is up to three elements lower.
"""

from typing import Any

import numpy as np
from numba import njit
from numba.cpython.unsafe import numbers

from gristmill.kernels.html.names import (
    ALL_BITS,
    ATTRIBUTES,
    BLOCK,
    BLOCKS,
    BYTE_CLASS,
    BYTE_GREATER,
    BYTE_LOWER,
    BYTE_ONES,
    BYTE_SEVENS,
    BYTE_SLASH,
    BYTE_SPACE,
    COLUMNS,
    DEPTH,
    ELEMENTS,
    FLAGS,
    FREE_NAMES,
    HASH_BASIS,
    HASH_MIX,
    HASH_PRIME,
    KIND_FOREIGN,
    KIND_OTHER,
    NAMES,
    NESTED,
    NO_TEXT,
    ROOT,
    SHORTEST_CUT,
    STATE_ATTRIBUTES,
    STATE_KINDS,
    STATE_LISTED,
    STATE_NUMBERS,
    STATE_OPEN_LISTS,
    STATE_OPEN_PRE,
    STATE_OPEN_WEIGHED,
    STATE_PLACE,
    STATE_ROWS,
    STATE_TOP,
    TAG_BODY,
    TAG_HASHES,
    TAG_HTML,
    TAG_PLAINTEXT,
    TAG_SCRIPT,
    TAG_SHIFT,
    TAG_SLOTS,
    TAG_STYLE,
    TEXT,
)
from gristmill.kernels.html.tree import end_tag, reopen, start_tag
from gristmill.kernels.memory import borrow

_trailing_zeros: Any = numbers.trailing_zeros


@njit(nogil=True, cache=True, forceinline=True)
def seek(data: np.ndarray, words: np.ndarray, at: int, stop: int, byte: int) -> int:
    """Where `byte` stands next, or `stop`; eight bytes at a time, in the (little-endian) order of all our machines."""
    word = at >> 3
    pattern = np.uint64(byte) * BYTE_ONES
    passed = ALL_BITS << np.uint64((at & 7) << 3)
    while word < words.size:
        differs = words[word] ^ pattern
        equal = ~(((differs & BYTE_SEVENS) + BYTE_SEVENS) | differs | BYTE_SEVENS) & passed
        if equal:
            return int(min(stop, (word << 3) + (_trailing_zeros(equal) >> 3)))
        if (word << 3) + 8 >= stop:
            return stop
        passed = ALL_BITS
        word += 1
    at = max(at, word << 3)
    while at < stop and data[at] != byte:
        at += 1
    return at


@njit(nogil=True, cache=True, forceinline=True)
def skip_raw(data: np.ndarray, words: np.ndarray, at: int, stop: int, code: Any) -> tuple[int, bool]:
    """Where the end tag of the raw text element with the hash `code` starts, or `stop`; and whether that is sure.

    A script with `<!--` and then `<script` may go on behind its first end tag.
    """
    comment = doubt = False
    while True:
        at = seek(data, words, at, stop, 0x3C)
        if at + 2 >= stop:
            return stop, not doubt
        if data[at + 1] == 0x2F:
            end = at + 2
            found = HASH_BASIS
            while end < stop and end - at < 16 and not BYTE_CLASS[data[end]] & (BYTE_SPACE | BYTE_SLASH | BYTE_GREATER):
                found = (found ^ BYTE_LOWER[data[end]]) * HASH_PRIME
                end += 1
            if end < stop and np.int64(found) == code:
                return at, not doubt
        comment |= data[at + 1] == 0x21
        doubt |= comment and data[at + 1] | 0x20 == 0x73
        at += 1


@njit(nogil=True, cache=True)
def skip_declaration(data: np.ndarray, words: np.ndarray, at: int, stop: int, foreign: bool) -> int:
    """Where the comment, doctype, CDATA section or processing instruction that starts at `at` ends."""
    comment = at + 3 < stop and data[at + 1] == 0x21 and data[at + 2] == 0x2D and data[at + 3] == 0x2D
    cdata = foreign and at + 8 < stop and data[at + 2] == 0x5B and data[at + 3] == 0x43 and data[at + 8] == 0x5B
    first = at + 4  # where the text of a comment begins
    at += 4 if comment else 1
    while True:
        at = seek(data, words, at, stop, 0x3E)
        if at >= stop:
            return stop
        if comment:
            dashes = at - first < 2 and (at == first or data[at - 1] == 0x2D)  # <!--> and <!--->
            dashes |= at - first >= 2 and data[at - 1] == 0x2D and data[at - 2] == 0x2D
            dashes |= at - first >= 3 and data[at - 1] == 0x21 and data[at - 2] == 0x2D and data[at - 3] == 0x2D
        if (not comment or dashes) and (not cdata or (data[at - 1] == 0x5D and data[at - 2] == 0x5D)):
            return at + 1
        at += 1


@njit(nogil=True, cache=True)
def _is_quirky(data: np.ndarray, at: int, stop: int) -> bool:
    """Whether a doctype keeps tables inside paragraphs: an identifier older than HTML 4.01, or without an address."""
    quotes = 0
    modern = False
    for here in range(at, stop - 3):
        quotes += data[here] == 0x22 or data[here] == 0x27
        modern |= data[here] == 0x34 and data[here + 2] == 0x30 and data[here + 3] == 0x31
        modern |= data[here] | 0x20 == 0x78 and data[here + 1] | 0x20 == 0x68
    return quotes > 0 and (quotes < 3 or not modern)


@njit(nogil=True, cache=True, forceinline=True)
def _add_text(page: np.ndarray, data: np.ndarray, begin: int, stop: int) -> None:
    page[0, TEXT] += stop - begin
    page[0, NESTED] += (stop - begin) * page[0, STATE_OPEN_WEIGHED]
    if page[0, STATE_OPEN_LISTS] and page[0, STATE_OPEN_PRE]:
        page[0, TEXT] += (stop - begin) * (2 * page[0, STATE_OPEN_LISTS] + 2)
    if page[0, STATE_LISTED] and page[STATE_PLACE, page[0, STATE_LISTED] - 1] < 0:
        blank = FLAGS[page[STATE_KINDS, page[0, STATE_TOP] - 1]] & NO_TEXT != 0
        while blank and begin < stop:
            blank = data[begin] <= 0x20
            begin += 1
        if not blank:
            reopen(page)


@njit(nogil=True, cache=True, forceinline=True)
def _see(page: np.ndarray, data: np.ndarray, start: int, stop: int, seen: np.ndarray, number: int) -> None:
    """Counts a name, if the page has not had it before."""
    code = HASH_BASIS
    for at in range(start, stop):
        code = (code ^ np.uint64(data[at])) * HASH_PRIME
    slot = np.int64((code ^ code >> np.uint64(32)) * HASH_MIX >> np.uint64(48))
    page[0, NAMES] += seen[slot] != number
    seen[slot] = number


@njit(nogil=True, cache=True, forceinline=True)
def _skip_attributes(
    page: np.ndarray, data: np.ndarray, words: np.ndarray, at: int, stop: int, seen: np.ndarray, number: int
) -> tuple[int, int]:
    """Where the tag ends (its ">" or `stop`), and how many attributes it has."""
    attributes = 0
    while True:
        while at < stop and BYTE_CLASS[data[at]] & (BYTE_SPACE | BYTE_SLASH):
            at += 1
        if at >= stop or data[at] == 0x3E:
            return at, attributes
        attributes += 1
        start = at
        at += 1
        while at < stop and not BYTE_CLASS[data[at]]:
            at += 1
        if page[0, STATE_ATTRIBUTES] + attributes > FREE_NAMES:
            _see(page, data, start, at, seen, number)
        while at < stop and BYTE_CLASS[data[at]] == BYTE_SPACE:
            at += 1
        if at >= stop or data[at] != 0x3D:
            continue
        at += 1
        while at < stop and BYTE_CLASS[data[at]] == BYTE_SPACE:
            at += 1
        if at < stop and (data[at] == 0x22 or data[at] == 0x27):
            at = seek(data, words, at + 1, stop, data[at]) + 1
        else:
            while at < stop and not BYTE_CLASS[data[at]] & (BYTE_SPACE | BYTE_GREATER):
                at += 1


@njit(nogil=True, cache=True, forceinline=True)
def _cut(start: int, stop: int, cuts: np.ndarray, written: int) -> int:
    if stop - start < SHORTEST_CUT:
        return written
    cuts[written, 0], cuts[written, 1] = start, stop
    return written + 1


@njit(nogil=True, cache=True)
def _measure_page(
    page: np.ndarray,
    data: np.ndarray,
    words: np.ndarray,
    at: int,
    stop: int,
    max_depth: int,
    seen: np.ndarray,
    number: int,
    cuts: np.ndarray,
    written: int,
) -> int:
    # Views that own nothing: an array that owns memory is counted, atomically, at each call that it is passed to. Two
    # thirds of the time went there.
    page, data, words = borrow(page), borrow(data), borrow(words)
    seen, cuts = borrow(seen), borrow(cuts)
    for column in range(STATE_NUMBERS):
        page[0, column] = 0
    page[STATE_KINDS, 0], page[STATE_KINDS, 1] = TAG_HTML, TAG_BODY
    page[0, STATE_TOP], page[0, ELEMENTS], page[0, DEPTH] = 2, 3, 2
    root_attributes = 0
    quirks = at <= stop
    while at < stop and page[0, DEPTH] <= max_depth:
        begin = at
        at = seek(data, words, at, stop, 0x3C)
        sign = data[at + 1] if at + 1 < stop else 0
        closing = sign == 0x2F
        letter = sign
        if closing:
            letter = data[at + 2] if at + 2 < stop else 0
        is_tag = (letter | 0x20) >= 0x61 and (letter | 0x20) <= 0x7A
        is_markup = is_tag or sign == 0x21 or sign == 0x3F or (closing and letter != 0)
        if at < stop and not is_markup:
            at += 1
        if at > begin:
            _add_text(page, data, begin, at)
        if at >= stop or not is_markup:
            continue
        start = at
        if not is_tag:
            at = skip_declaration(data, words, at, stop, page[STATE_KINDS, page[0, STATE_TOP] - 1] == KIND_FOREIGN)
            if sign == 0x21 and start + 3 < stop and data[start + 2] == 0x2D and data[start + 3] == 0x2D:
                # Its ends stay: without them the "<" before a comment and the letter behind it would be a tag.
                closed = data[at - 1] == 0x3E and (data[at - 2] == 0x2D or data[at - 2] == 0x21)
                end = at - (3 if data[at - 2] == 0x2D else 4) if closed else at
                written = _cut(start + 4, end, cuts, written)
            elif sign == 0x21 and start + 2 < stop and data[start + 2] | 0x20 == 0x64:
                quirks = _is_quirky(data, start, at)
            continue
        at += 2 if closing else 1
        name = at
        code = HASH_BASIS
        while at < stop and not BYTE_CLASS[data[at]] & (BYTE_SPACE | BYTE_SLASH | BYTE_GREATER):
            code = (code ^ BYTE_LOWER[data[at]]) * HASH_PRIME
            at += 1
        slot = TAG_SLOTS[np.int64(code >> TAG_SHIFT & np.uint64(4095))]
        known = TAG_HASHES[slot] == code
        kind: Any = np.int64(slot) if known else KIND_OTHER
        if not known:
            _see(page, data, name, at, seen, number)
        at, attributes = _skip_attributes(page, data, words, at, stop, seen, number)
        if at >= stop:
            break  # a tag without an end is no tag
        at += 1
        if closing:
            end_tag(page, kind, np.int64(code))
            continue
        page[0, STATE_ATTRIBUTES] += attributes
        if FLAGS[kind] & ROOT:
            root_attributes += attributes  # a second <html> or <body> adds its attributes to the first
            attributes = root_attributes
        page[0, ATTRIBUTES] = max(page[0, ATTRIBUTES], attributes)
        raw = start_tag(page, data, kind, np.int64(code), start, at, quirks)
        page[0, NESTED] += 8 * page[0, STATE_OPEN_WEIGHED]
        if FLAGS[kind] & BLOCK:
            page[0, BLOCKS] += 1
            page[0, TEXT] += 2 * page[0, STATE_OPEN_LISTS]
        if raw:
            end, sure = skip_raw(data, words, at, stop, np.int64(code))
            if sure and kind in (TAG_SCRIPT, TAG_STYLE):
                written = _cut(at, end, cuts, written)
            at = end
        elif kind == TAG_PLAINTEXT:
            page[0, TEXT] += stop - at
            at = stop
    return written


@njit(nogil=True, cache=True)
def _scan(
    data: np.ndarray, words: np.ndarray, offsets: np.ndarray, max_depth: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = np.zeros((offsets.size - 1, COLUMNS), np.int64)
    page = np.zeros((STATE_ROWS, 2 * max_depth + 64), np.int64)
    seen = np.zeros(1 << 16, np.int64)
    cuts = np.empty(((offsets[-1] - offsets[0]) // SHORTEST_CUT + 1, 2), np.int64)
    ends = np.zeros(offsets.size, np.int64)
    for number in range(offsets.size - 1):
        start, stop = offsets[number], offsets[number + 1]
        ends[number + 1] = _measure_page(
            page, data, words, start, stop, max_depth, seen, number + 1, cuts, ends[number]
        )
        rows[number] = page[0, :COLUMNS]
    return rows, cuts[: ends[-1]], ends


def as_words(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bytes as scans take them, which read eight at once, and the same memory as uint64, but for the last few bytes."""
    data = np.require(data, np.uint8, ["C", "A"])
    if data.ctypes.data % 8:
        data = data.copy()
    data = data.view()
    data.flags.writeable = False
    return data, data[: data.size // 8 * 8].view(np.uint64)


def scan(data: np.ndarray, offsets: np.ndarray, max_depth: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each page, `data[offsets[i]:offsets[i + 1]]`: a row of COLUMNS; and what of it no reader sees.

    `cuts[ends[i]:ends[i + 1]]` of the second and third array are the stretches of page i that are the insides of
    comments, scripts and styles. A page deeper than `max_depth` is scanned only to where it gets too deep.
    """
    data, words = as_words(data)
    found: tuple[np.ndarray, np.ndarray, np.ndarray] = _scan(data, words, offsets.astype(np.int64), max_depth)
    return found

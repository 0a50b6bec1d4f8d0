"""Finds the span of a page's text that is the article, without the menus and teasers at its edges.

A line belongs to the article if it is prose or code, and not an entry of a menu:

    code     a brace, a semicolon at the end, " = ", "()", "->", "::"; four spaces or a tab before all but a bullet
    prose    100 bytes or more with a punctuation mark, or 60 that end a sentence and do not begin with a bullet

Lengths are in bytes: a Chinese letter counts as three. An extractor leaves menus, bylines and teasers before the first
such line and after the last. The heading above the first one stays: the last line that is part of the page's title,
else the last line above the article.
"""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes, view
from gristmill.kernels.memory_writes import copy_bytes
from gristmill.kernels.text.ascii import LEFT_BRACE, LF, RIGHT_BRACE, SEMICOLON, SP, TAB

Array = np.ndarray[Any, Any]

LONG_BYTES = 100
SENTENCE_BYTES = 60
MIN_HEADING_CHARS = 8


def _packed(characters: str) -> tuple[int, ...]:
    """Returns each character as the number of its UTF-8 bytes."""
    return tuple(int.from_bytes(char.encode(), "big") for char in characters)


_CODE, _MARK, _LEAD = 1, 2, 4
_KINDS = np.zeros(256, np.uint8)
"""The role of a byte in a line: it may begin a sign of code, is a mark, or leads a character that may be a mark."""
_KINDS[list(b"{}; (-:")] |= _CODE
_KINDS[list(b".,;:!?")] |= _MARK
_KINDS[[0xE2, 0xE3, 0xEF]] |= _LEAD
_WIDE_MARKS = _packed("…。，、；：！？")
_ENDS = _packed(".!?…。！？")
_CLOSERS = _packed("\"'”’»)」』")
_BULLET = _packed("•")[0]
_WIDE_SPACES = _packed("\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000")
_FIRST_SPACE, _LAST_SPACE = _packed("\u2000\u200a")


@njit(nogil=True, cache=True)
def _char(data: Bytes, at: int, stop: int) -> tuple[Any, int]:
    """Returns the character at `at` as the number of its bytes, and its end."""
    code = np.int64(data[at])
    at += 1
    # Add the continuation bytes.
    while at < stop and data[at] & 0xC0 == 0x80:
        code = code << 8 | np.int64(data[at])
        at += 1
    return code, at


@njit(nogil=True, cache=True)
def _is_space(code: int) -> bool:
    """Whether `str.isspace` of Python holds."""
    if code < 0x80:
        return code == 0x20 or 0x09 <= code <= 0x0D or 0x1C <= code <= 0x1F
    return code in _WIDE_SPACES or _FIRST_SPACE <= code <= _LAST_SPACE


@njit(nogil=True, cache=True)
def _skip_spaces(data: Bytes, at: int, stop: int) -> int:
    # Go forward character by character.
    while at < stop:
        code, after = _char(data, at, stop)
        if not _is_space(code):
            break
        at = after
    return at


@njit(nogil=True, cache=True)
def _last_char(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Returns the last character before `stop`, and its begin."""
    begin = stop - 1
    while begin > at and data[begin] & 0xC0 == 0x80:
        begin -= 1
    return _char(data, begin, stop)[0], begin


@njit(nogil=True, cache=True)
def _without_end(data: Bytes, at: int, stop: int) -> int:
    """Returns `stop` minus the white space before it."""
    # Go back character by character.
    while stop > at:
        code, begin = _last_char(data, at, stop)
        if not _is_space(code):
            break
        stop = begin
    return stop


@njit(nogil=True, cache=True)
def _begins_with_bullet(data: Bytes, at: int, stop: int) -> bool:
    at = _skip_spaces(data, at, stop)
    return at < stop and _char(data, at, stop)[0] == _BULLET


@njit(nogil=True, cache=True)
def _ends_sentence(data: Bytes, at: int, stop: int) -> bool:
    # Skip closing quotes and brackets.
    while stop > at:
        code, begin = _last_char(data, at, stop)
        if code not in _CLOSERS:
            return code in _ENDS
        stop = begin
    return False


@njit(nogil=True, cache=True)
def _is_indented_code(data: Bytes, at: int, stop: int) -> bool:
    if stop - at > 4 and data[at] == SP:
        # Four spaces or a tab.
        for place in range(at + 1, at + 4):
            if data[place] != SP:
                return False
    elif at == stop or data[at] != TAB:
        return False
    first = _skip_spaces(data, at, stop)
    return first < stop and _char(data, first, stop)[0] != _BULLET


@njit(nogil=True, cache=True)
def _is_code_sign(data: Bytes, at: int, stop: int) -> bool:
    byte = data[at]
    if byte == LEFT_BRACE or byte == RIGHT_BRACE:
        return True
    if at + 1 == stop:
        return bool(byte == SEMICOLON)
    after = data[at + 1]
    if byte == SP:
        return bool(after == 0x3D and at + 2 < stop and data[at + 2] == SP)
    pair = byte << 8 | after
    return pair in (0x2829, 0x2D3E, 0x3A3A)  # () -> ::


@njit(nogil=True, cache=True)
def _reads_on(data: Bytes, at: int, stop: int) -> bool:
    marked = False
    # Look for a sign of code, which decides at once, and for marks of sentences.
    for place in range(at, stop):
        kind = _KINDS[data[place]]
        if kind:
            if kind & _CODE and _is_code_sign(data, place, stop):
                return True
            marked = marked or kind & _MARK != 0 or (kind & _LEAD != 0 and _char(data, place, stop)[0] in _WIDE_MARKS)
    if _is_indented_code(data, at, stop):
        return True
    size = stop - at
    return (size >= LONG_BYTES and marked) or (
        size >= SENTENCE_BYTES and _ends_sentence(data, at, stop) and not _begins_with_bullet(data, at, stop)
    )


@njit(nogil=True, cache=True)
def _has_chars(data: Bytes, at: int, stop: int, least: int) -> bool:
    # Count characters, and stop at the limit.
    while at < stop and least > 0:
        least -= data[at] & 0xC0 != 0x80
        at += 1
    return least <= 0


@njit(nogil=True, cache=True)
def _stands_in(data: Bytes, at: int, stop: int, title: Bytes, title_at: int, title_stop: int, borders: Array) -> bool:
    """Whether the title contains the bytes from `at` to `stop`. Knuth, Morris and Pratt 1977: linear in both."""
    size = stop - at
    if size <= 0:
        return True
    if size > title_stop - title_at:
        return False
    same = 0
    # How long a begin of the pattern ends at each place of it.
    for place in range(1, size):
        byte = data[at + place]
        while same > 0 and byte != data[at + same]:
            same = borders[same - 1]
        same += byte == data[at + same]
        borders[place] = same
    same = 0
    # Search with these borders: no byte of the title is read twice.
    for place in range(title_at, title_stop):
        byte = title[place]
        while same > 0 and byte != data[at + same]:
            same = borders[same - 1]
        same += byte == data[at + same]
        if same == size:
            return True
    return False


@njit(nogil=True, cache=True)
def _edges_of(
    data: Bytes, start: int, stop: int, title: Bytes, title_at: int, title_stop: int, borders: Array
) -> tuple[int, int]:
    first = heading = start
    titled = False
    # From the front: skip lines up to the first that reads on; the last heading before it stays.
    while True:
        end = first
        while end < stop and data[end] != LF:
            end += 1
        if _reads_on(data, first, end):
            break
        if end == stop:
            return start, stop
        if end > first:
            in_title = _has_chars(data, first, end, MIN_HEADING_CHARS)
            if in_title:
                begin = _skip_spaces(data, first, end)
                last = _without_end(data, begin, end)
                in_title = _stands_in(data, begin, last, title, title_at, title_stop, borders)
            if in_title or not titled:
                heading, titled = first, in_title
        first = end + 1
    last = stop
    # From the back: skip lines up to the last that reads on.
    while True:
        begin = last
        while begin > start and data[begin - 1] != LF:
            begin -= 1
        if _reads_on(data, begin, last):
            return heading, last
        last = begin - 1


@njit(nogil=True, cache=True)
def _trim(
    text: Array, starts: Array, stops: Array, titles: Array, title_offsets: Array, wanted: Array, borders: Array
) -> None:
    data, title = view(text), view(titles)
    # Rows are independent of each other.
    for row in range(len(starts)):
        if wanted[row]:
            starts[row], stops[row] = _edges_of(
                data, starts[row], stops[row], title, title_offsets[row], title_offsets[row + 1], borders
            )


def trim(text: Array, starts: Array, stops: Array, titles: Array, title_offsets: Array, wanted: Array) -> None:
    """Moves start and stop of the `wanted` rows to the edges of the article; if no line belongs to it, nothing changes.

    `text` and `titles` are UTF-8, and the title of a row is between two of the offsets; all these are int64.
    """
    longest = int(np.diff(title_offsets).max(initial=0))
    _trim(text, starts, stops, titles, title_offsets, wanted, np.zeros(longest + 1, np.int64))


@njit(nogil=True, cache=True)
def _take_spans(text: Array, starts: Array, offsets: Array, kept: Array) -> None:
    source, target = view(text), view(kept)
    for row in range(len(starts)):
        copy_bytes(target, offsets[row], source, starts[row], offsets[row + 1] - offsets[row])


def take_spans(text: Array, starts: Array, stops: Array) -> tuple[Array, Array]:
    """Returns the bytes from each start to its stop, concatenated, and the offsets (int64) between them."""
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(stops - starts, out=offsets[1:])
    kept = np.empty(max(int(offsets[-1]), 1), np.uint8)
    _take_spans(text, starts, offsets, kept)
    return kept, offsets

"""Removes spans from texts."""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes, view
from gristmill.kernels.memory_writes import copy_bytes
from gristmill.kernels.text.ascii import LF, SP

Array = np.ndarray[Any, Any]


@njit(nogil=True, cache=True)
def blank_width(data: Bytes, at: int, stop: int) -> int:
    """Returns the bytes of the character at `at` if it is invisible, else 0.

    Invisible are white space, control characters (not DEL), the soft hyphen, and zero-width spaces, joiners and
    direction marks. This is a separate list and not Python's tables, so that no output changes with the version of
    Unicode.
    """
    byte = data[at]
    if byte < 0x80:
        return 1 if byte <= SP else 0
    if byte == 0xC2:
        if at + 2 > stop:
            return 0
        second = data[at + 1]
        return 2 if second <= 0xA0 or second == 0xAD else 0
    if (byte != 0xE1 and byte != 0xE2 and byte != 0xE3 and byte != 0xEF) or at + 3 > stop:
        return 0
    second, third = data[at + 1], data[at + 2]
    if byte == 0xE2:
        if second == 0x80:  # U+2000..200F, U+2028..202F
            return 3 if third <= 0x8F or 0xA8 <= third <= 0xAF else 0
        return 3 if second == 0x81 and 0x9F <= third <= 0xAF else 0  # U+205F..206F
    if byte == 0xE1:
        return 3 if second == 0x9A and third == 0x80 else 0  # U+1680
    if byte == 0xE3:
        return 3 if second == 0x80 and third == 0x80 else 0  # U+3000
    return 3 if second == 0xBB and third == 0xBF else 0  # U+FEFF


@njit(nogil=True, cache=True)
def is_blank(data: Bytes, at: int, stop: int) -> bool:
    """Whether all characters of a span are invisible."""
    # Go on character by character while they are blank.
    while at < stop:
        width = blank_width(data, at, stop)
        if not width:
            return False
        at += width
    return True


@njit(nogil=True, cache=True)
def first_bad_row(text: Array, offsets: Array, firsts: Array, bounds: Array) -> int:
    """Returns the first row whose spans are empty, overlap, leave the text, or split a UTF-8 character; -1: none."""
    data = view(text)
    # Rows are independent of each other.
    for row in range(len(offsets) - 1):
        if (firsts[row + 1] - firsts[row]) & 1:
            return row
        begin, size = int(offsets[row]), int(offsets[row + 1]) - int(offsets[row])
        least = np.int64(0)
        # Starts and stops alternate.
        for place in range(firsts[row], firsts[row + 1]):
            bound = bounds[place]
            if bound < least or bound > size:
                return row
            if bound < size and data[begin + bound] & 0xC0 == 0x80:
                return row
            # A stop is after its start; a start may be where the last span stopped.
            least = bound + 1 if (place - firsts[row]) & 1 == 0 else bound
    return -1


@njit(nogil=True, cache=True)
def _ends(offsets: Array, firsts: Array, bounds: Array) -> Array:
    """Returns where the remaining text of each row ends."""
    rows = len(offsets) - 1
    ends = np.zeros(rows + 1, np.int32)
    # Subtract the spans of each row from its size.
    for row in range(rows):
        size = np.int64(offsets[row + 1]) - np.int64(offsets[row])
        for place in range(firsts[row], firsts[row + 1], 2):
            size -= bounds[place + 1] - bounds[place]
        ends[row + 1] = np.int64(ends[row]) + size
    return ends


@njit(nogil=True, cache=True)
def _copy_rest(text: Array, offsets: Array, firsts: Array, bounds: Array, ends: Array, left: Array) -> Array:
    """Concatenates the remaining texts; returns which of them are blank."""
    rows = len(offsets) - 1
    blank = np.zeros(rows, np.bool_)
    data, target = view(text), view(left)
    at = np.int64(0)
    # Copy each row without its spans.
    for row in range(rows):
        begin = np.int64(offsets[row])
        source = begin
        # Copy what is before each span.
        for place in range(firsts[row], firsts[row + 1], 2):
            stop = begin + bounds[place]
            copy_bytes(target, at, data, source, stop - source)
            at += stop - source
            source = begin + bounds[place + 1]
        stop = np.int64(offsets[row + 1])
        copy_bytes(target, at, data, source, stop - source)
        at += stop - source
        blank[row] = is_blank(target, ends[row], ends[row + 1])
    return blank


def without_spans(text: Array, offsets: Array, firsts: Array, bounds: Array) -> tuple[Array, Array, Array]:
    """Returns bytes and offsets (int32) of the remaining texts, and which of them are blank.

    `bounds[firsts[row] : firsts[row + 1]]` are start, stop, start, stop ... of row's spans in its text.
    """
    ends = _ends(offsets, firsts, bounds)
    left = np.empty(max(int(ends[-1]), 1), np.uint8)
    return left, ends, _copy_rest(text, offsets, firsts, bounds, ends, left)


@njit(nogil=True, cache=True)
def _line_before(data: Bytes, at: int, least: int) -> int:
    """Returns the begin of the line that ends before `at`, not before `least`."""
    at -= 1
    while at > least and data[at - 1] != LF:
        at -= 1
    return at


@njit(nogil=True, cache=True)
def take_blank_lines(text: Array, offsets: Array, spans: Array) -> None:
    """Widens spans (row, start, stop) of units, sorted and separate, so that the rest keeps its spacing.

    The blank lines after a cut are cut as well if a blank line or nothing remains before it. Those before it are cut if
    nothing remains after it.
    """
    data = view(text)
    row: Any = -1
    stopped: Any = 0
    free, run = 0, 0  # the begin of the last remaining span, and the first span after it
    loose = True  # nothing remains before that span, or a blank line
    # Spans are in order, so one pass is enough.
    for place in range(len(spans)):
        begin = int(offsets[spans[place, 0]])
        end = int(offsets[spans[place, 0] + 1])
        start, stop = begin + spans[place, 1], begin + spans[place, 2]
        if spans[place, 0] != row:
            row, stopped, free, run, loose = spans[place, 0], begin, begin, place, True
        if start > stopped:
            free, run = stopped, place
            loose = is_blank(data, _line_before(data, start, free), start)
        # Cut the blank lines after the span.
        while loose and stop < end:
            line = stop
            while line < end and data[line] != LF:
                line += 1
            if not is_blank(data, stop, line):
                break
            stop = min(line + 1, end)
        if is_blank(data, stop, end):
            stop = end
        spans[place, 2] = stop - begin
        stopped = stop
        # Nothing remains after it: cut the blank lines before the whole run of spans.
        while stop == end and begin + spans[run, 1] > free:
            line = _line_before(data, begin + spans[run, 1], free)
            if not is_blank(data, line, begin + spans[run, 1]):
                break
            spans[run, 1] = line - begin

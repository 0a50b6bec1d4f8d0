"""Hashes of the lines or paragraphs of texts; they are equal for units that differ only in white space.

A line is the text between newlines, a paragraph is a run of lines that are not blank; both are called units here. The
hash is that of the unit's words (stretches between invisible characters, see `blank_width`) with one space between, so
indentation, CR, tabs, no-break spaces and the wrapping of a paragraph do not matter. A unit without an ASCII letter and
without a non-ASCII character (`}`, `---`, `| 1 | 2 |`) has no content and is ignored.

A hash has 64 bits, and 32 more to separate units that share them: among 10^11 lines, each compared with 10^9 repeated
ones, one would be mistaken for another with probability 1e-9.
"""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes, eight_bytes_at, four_bytes_at, tail, trailing_zeros
from gristmill.kernels.memory_writes import put_eight_bytes
from gristmill.kernels.text.ascii import LF, LOWER_A, LOWER_Z, SP
from gristmill.kernels.text.cut_spans import blank_width, is_blank

_MUL_ONE = np.uint64(0x9E3779B97F4A7C15)
_MUL_TWO = np.uint64(0xC2B2AE3D27D4EB4F)
_MIX_ONE = np.uint64(0xBF58476D1CE4E5B9)
_MIX_TWO = np.uint64(0x94D049BB133111EB)
HALF, _SOME = np.uint64(32), np.uint64(29)

_LOW = np.uint64(0x7F7F7F7F7F7F7F7F)
_HIGH = np.uint64(0x8080808080808080)
_SPACES = np.uint64(0x2020202020202020)
_PAST_CONTROLS = np.uint64(0x6060606060606060)
_TO_A = np.uint64((0x80 - ord("a")) * 0x0101010101010101)
_PAST_Z = np.uint64((0x7F - ord("z")) * 0x0101010101010101)
_ONES = np.uint64(0x0101010101010101)
_PAST_SPACE = np.uint64(0x5F5F5F5F5F5F5F5F)
_UP_TO_THREE = np.uint64(0xFCFCFCFCFCFCFCFC)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_FIRST, _LAST = np.uint64(0x80), np.uint64(0x8000000000000000)
_ONE, _EIGHT, _TOP = np.uint64(1), np.uint64(8), np.uint64(63)


@njit(nogil=True, cache=True)
def _hash(data: Bytes, begin: int, end: int) -> tuple[np.uint64, np.uint64]:
    """Returns two hashes of some bytes; the last eight are read with an overlapping load."""
    size = end - begin
    one = np.uint64(size) * _MUL_TWO
    two = np.uint64(size) * _MUL_ONE
    if size >= 8:
        at = begin
        # Eight bytes at a time; the last eight follow below.
        while at < end - 8:
            eight = eight_bytes_at(data, at)
            one = (one ^ eight) * _MUL_ONE
            two = (two + eight) * _MUL_TWO
            one ^= one >> HALF
            two ^= two >> _SOME
            at += 8
        eight = eight_bytes_at(data, end - 8)
    elif size >= 4:
        eight = np.uint64(four_bytes_at(data, begin) | four_bytes_at(data, end - 4) << 32)
    else:
        rest = 0
        for at in range(begin, end):
            rest = rest << 8 | data[at]
        eight = np.uint64(rest)
    one = (one ^ eight) * _MUL_ONE
    two = (two + eight) * _MUL_TWO
    one = (one ^ (one >> HALF)) * _MIX_ONE
    two = (two ^ (two >> HALF)) * _MIX_TWO
    one = (one ^ (one >> _SOME)) * _MIX_TWO
    two = (two ^ (two >> _SOME)) * _MIX_ONE
    return one ^ (one >> HALF), two ^ (two >> HALF)


@njit(nogil=True, cache=True)
def _is(eight: np.uint64, byte: int) -> np.uint64:
    """Sets the high bit of each of eight bytes that equals `byte`."""
    other = eight ^ (np.uint64(byte) * _ONES)
    return ~(((other & _LOW) + _LOW) | other) & _HIGH


@njit(nogil=True, cache=True)
def _has_wide_blank(data: Bytes, at: int, stop: int, eight: np.uint64, here: np.uint64) -> bool:
    """Whether one of the eight bytes at `at` begins a blank character outside ASCII, by the lead bytes of those.

    Most non-ASCII text has few of these lead bytes, but Japanese (E3) and curly quotes (E2) have many: each is checked.
    """
    leads = (_is(eight, 0xC2) | _is(eight & _UP_TO_THREE, 0xE0) | _is(eight, 0xEF)) & here
    # Check each lead byte.
    while leads:
        if blank_width(data, at + (trailing_zeros(leads) >> 3), stop):
            return True
        leads &= leads - _ONE
    return False


@njit(nogil=True, cache=True)
def _scan_line(data: Bytes, at: int, stop: int, limit: int) -> tuple[int, int, bool]:
    """Reads the line at `at`, eight bytes at a time. Returns its end (its newline, or `stop`); its characters, or -1 if
    it is not words with one space between; and, if it is, whether it has content.

    Bytes from `stop` to `limit` may be read, and do not count.
    """
    odd, letters, space, returned = np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0)
    chars: Any = 0
    # Eight bytes at a time: find the newline, and collect the reasons why the bytes cannot be hashed as they are.
    while at < stop:
        if at + 8 > limit:
            while at < stop and data[at] != LF:
                at += 1
            return at, -1, False
        eight = eight_bytes_at(data, at)
        low = eight & _LOW
        lines = _is(eight, 10)
        here = (lines ^ (lines - _ONE)) >> _EIGHT if lines else _ALL  # the bits of the bytes before the newline
        if at + 8 > stop:
            here &= (_ONE << np.uint64(8 * (stop - at))) - _ONE
        blanks = _is(eight, 32)
        folded = low | _SPACES
        letters |= ((folded + _TO_A) & ~(folded + _PAST_Z) | eight) & here & _HIGH
        # CR is white space at the end of a line if its newline follows, here or in the next eight bytes.
        returns = _is(eight, 13)
        odd |= ~(low + _PAST_CONTROLS | eight) & here & _HIGH & ~(returns & (lines >> _EIGHT | _LAST))
        odd |= returned & ~lines & _FIRST
        returned = returns >> np.uint64(56)
        odd |= blanks & (blanks << _EIGHT | space << np.uint64(7)) & here
        wide = eight & here & _HIGH
        if wide and _has_wide_blank(data, at, stop, eight, here):
            odd |= wide
        starts = ~(eight & ~(eight << _ONE)) & here & _HIGH  # all but 10xxxxxx
        chars += np.int64((starts >> np.uint64(7)) * _ONES >> np.uint64(56))
        if lines:
            return min(at + (trailing_zeros(lines) >> 3), stop), -1 if odd else chars, letters != 0
        space = blanks >> _TOP
        at += 8
    return stop, -1 if odd else chars, letters != 0


@njit(nogil=True, cache=True)
def _words(data: Bytes, at: int, end: int, scratch: Bytes) -> tuple[int, int, bool]:
    """Writes the words with one space between; returns the bytes written, the characters, and whether they have
    content.
    """
    size, chars = 0, 0
    pending = False
    says: Any = False
    # Copy runs of visible bytes, and write one space for white space between words.
    while at < end:
        byte = data[at]
        if byte <= SP or byte >= 0xC2:
            width = blank_width(data, at, end)
            if width:
                pending = size > 0
                at += width
                continue
        if pending:
            scratch[size] = SP
            size += 1
            chars += 1
            pending = False
        if byte < 0x80 and at + 8 <= end:  # Copy the visible ASCII at the front of eight bytes.
            eight = eight_bytes_at(data, at)
            others = ((eight | ~((eight & _LOW) + _PAST_SPACE)) & _HIGH) | _is(eight, 32)
            folded = (eight & _LOW) | _SPACES
            before = others ^ (others - _ONE)
            says = says or ((folded + _TO_A) & ~(folded + _PAST_Z) & before & ~others & _HIGH) != 0
            put_eight_bytes(scratch, size, eight)
            run = trailing_zeros(others) >> 3
            size += run
            chars += run
            at += run
            continue
        says = says or byte >= 0x80 or LOWER_A <= byte | 32 <= LOWER_Z
        chars += 1 if byte & 0xC0 != 0x80 else 0
        scratch[size] = byte
        size += 1
        at += 1
    return size, chars, says


@njit(nogil=True, cache=True)
def _next_line(data: Bytes, at: int, stop: int, limit: int) -> tuple[int, int, int, bool]:
    """Returns the first byte of the line at `at` that may be visible, its end, and the result of `_scan_line` from
    there on.

    First equals end if the line is blank.
    """
    while at < stop and data[at] <= SP and data[at] != LF:
        at += 1
    end, chars, says = _scan_line(data, at, stop, limit)
    if chars < 0 and is_blank(data, at, end):
        return end, end, -1, False
    return at, end, chars, says


@njit(nogil=True, cache=True)
def next_unit(data: Bytes, at: int, stop: int, limit: int, paragraphs: bool) -> tuple[int, int, int, int, int, bool]:
    """Returns the unit at or after `at`: begin, first byte that may be visible, end, end with its line end; characters,
    and whether it has content.

    First equals end if there is no unit. Blank lines before the unit are skipped.
    """
    # Each turn reads a line: blank ones are skipped, the first other one begins the unit.
    while at < stop:
        first, end, chars, says = _next_line(data, at, stop, limit)
        after = min(end + 1, stop)
        if first < end:
            if not paragraphs:
                return at, first, end, after, chars, says
            begin = at
            # A paragraph goes on until a blank line.
            while after < stop:
                shown, line, _, _ = _next_line(data, after, stop, limit)
                if shown == line:
                    break
                end, after, chars = line, min(line + 1, stop), -1
            return begin, first, end, after, chars, says
        at = after
    return stop, stop, stop, stop, -1, False


@njit(nogil=True, cache=True)
def hash_unit(
    data: Bytes, begin: int, end: int, chars: int, says: bool, scratch: Bytes
) -> tuple[np.uint64, np.uint64, int]:
    """Returns both hashes of a unit and its characters, 0 if it has no content."""
    size = end - begin
    form = tail(data, begin)
    if chars >= 0:
        # Leave out blanks at the end of the line.
        while data[begin + size - 1] <= SP:
            size -= 1
            chars -= 1
    else:
        size, chars, says = _words(data, begin, end, scratch)
        form = scratch
    if not says:
        return np.uint64(0), np.uint64(0), 0
    one, two = _hash(form, 0, size)
    return one, two, chars

"""The plain form of texts except for NFC (defined in stages/shared/normalise.py), in one pass over UTF-8."""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import borrow
from gristmill.kernels.text.ascii import CR, LF, SP

Array = np.ndarray[Any, Any]

PLAIN, COMPOSES, SPACE, COMPOSING_SPACE, REMOVED_CHAR, LINE_END = range(6)
"""Classes of characters for the scan."""

_SPACES, _ONES, _TOPS = (np.uint64(byte * 0x0101010101010101) for byte in (0x20, 0x01, 0x80))


@njit(nogil=True, cache=True, forceinline=True)
def _skip_ascii(data: Array, words: Array, at: int, stop: int) -> int:
    """Returns the end of the run of printable ASCII at `at`; reads eight bytes at a time."""
    # Byte by byte to a multiple of eight.
    while at < stop and data[at] >= SP and data[at] < 0x7F:
        at += 1
        if at & 7 == 0:
            word = at >> 3
            # Then eight bytes at a time, while none is special.
            while word << 3 < stop and word < words.size:
                eight = words[word]
                # The top bit of a byte is set in the sum for 7F and above, and in the difference for all below 20.
                if ((eight + _ONES) | (eight - _SPACES) | eight) & _TOPS:
                    break
                word += 1
            at = word << 3
    return min(at, stop)


@njit(nogil=True, cache=True)
def _scan(
    data: Array, words: Array, first: int, stop: int, kinds: Array, max_line_feeds: int, out: Array
) -> tuple[int, int]:
    """Writes the plain form of the UTF-8 from `first` to `stop` to the same place of `out`.

    Returns its end, and its longest run of characters that NFC may change.
    """
    read = write = end = first
    line_feeds = 0
    run = longest = 0
    # Each turn takes a run of ASCII, or one character.
    while read < stop:
        byte = data[read]
        if byte >= SP and byte < 0x7F:
            start = read
            run = 0
            read = _skip_ascii(data, words, read, stop)
            for at in range(read - start):
                out[write + at] = data[start + at]
            write += read - start
            last = write
            while last > write - (read - start) and out[last - 1] == SP:
                last -= 1
            if last > write - (read - start):
                end = last
                line_feeds = 0
            continue
        start = read
        if byte < 0x80:
            read += 1
            kind = kinds[byte]
            if byte == LF and start > first and data[start - 1] == CR:
                continue
        elif start + (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4) > stop:  # not UTF-8
            read = stop
            kind = np.uint8(PLAIN)
        elif byte < 0xE0:
            read += 2
            kind = kinds[(np.int64(byte) & 0x1F) << 6 | data[start + 1] & 0x3F]
        elif byte < 0xF0:
            read += 3
            kind = kinds[
                (np.int64(byte) & 0xF) << 12 | (np.int64(data[start + 1]) & 0x3F) << 6 | data[start + 2] & 0x3F
            ]
        else:
            read += 4
            code = (np.int64(byte) & 7) << 18 | (np.int64(data[start + 1]) & 0x3F) << 12
            code |= (np.int64(data[start + 2]) & 0x3F) << 6 | data[start + 3] & 0x3F
            if code & 0xFFFE == 0xFFFE or code == 0xE0001:
                kind = np.uint8(REMOVED_CHAR)
            elif 0x1F000 <= code < 0x1FB00 or 0x20000 <= code < 0x2F800:  # emoji; Chinese
                kind = np.uint8(PLAIN)
            else:
                kind = np.uint8(COMPOSES)
        if kind == LINE_END:
            write = end + line_feeds  # drops the white space since the last word or line feed
            if end > first and line_feeds < max_line_feeds:
                out[write] = LF
                write += 1
                line_feeds += 1
        elif kind != REMOVED_CHAR:
            # Copy the bytes of the character.
            for at in range(start, read):
                out[write] = data[at]
                write += 1
            run = run + 1 if kind in (COMPOSES, COMPOSING_SPACE) else 0
            longest = max(longest, run)
            if kind in (PLAIN, COMPOSES):
                end = write
                line_feeds = 0
    return end, longest


@njit(nogil=True, cache=True)
def _scan_rows(
    data: Array,
    words: Array,
    offsets: Array,
    kinds: Array,
    max_line_feeds: int,
    out: Array,
    stops: Array,
    longest: Array,
) -> None:
    data, words, kinds, out = borrow(data), borrow(words), borrow(kinds), borrow(out)
    for row in range(len(stops)):
        stops[row], longest[row] = _scan(data, words, offsets[row], offsets[row + 1], kinds, max_line_feeds, out)


def plain_forms(texts: bytes, offsets: Array, kinds: Array, max_line_feeds: int) -> tuple[Array, Array, Array]:
    """Returns the plain forms of texts, each at the begin of its text; their ends, and their longest runs that NFC may
    change.

    `texts` are UTF-8 between the offsets (int64); `kinds` has a kind for each of the first 65,536 code points.
    """
    data = np.frombuffer(texts, np.uint8)
    out = np.empty(data.size, np.uint8)
    stops, longest = np.empty(len(offsets) - 1, np.int64), np.empty(len(offsets) - 1, np.int64)
    words = data[: data.size & -8].view(np.uint64)
    _scan_rows(data, words, offsets, kinds, max_line_feeds, out, stops, longest)
    return out, stops, longest

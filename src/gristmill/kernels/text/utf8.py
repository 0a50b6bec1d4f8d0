"""Checks whether bytes are UTF-8, and counts the characters, in one pass: valid bytes need no decoding.

The check accepts what Python's decoder accepts: no overlong form, no surrogate, nothing above U+10FFFF.
"""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes, eight_bytes_at, view

_HIGH = np.uint64(0x8080808080808080)


@njit(nogil=True, cache=True)
def put_utf8(out: Bytes, at: int, point: int) -> int:
    """Writes a code point; returns where the next one goes."""
    if point < 0x80:
        out[at] = point
        return at + 1
    if point < 0x800:
        out[at] = 0xC0 | point >> 6
        out[at + 1] = 0x80 | point & 0x3F
        return at + 2
    if point < 0x10000:
        out[at] = 0xE0 | point >> 12
        out[at + 1] = 0x80 | point >> 6 & 0x3F
        out[at + 2] = 0x80 | point & 0x3F
        return at + 3
    out[at] = 0xF0 | point >> 18
    out[at + 1] = 0x80 | point >> 12 & 0x3F
    out[at + 2] = 0x80 | point >> 6 & 0x3F
    out[at + 3] = 0x80 | point & 0x3F
    return at + 4


@njit(nogil=True, cache=True, forceinline=True)
def _rest_of_character(data: Bytes, at: int, stop: int) -> Any:
    """Returns the number of bytes after the non-ASCII byte at `at`; -1 if no character begins there or it is
    cut off.
    """
    lead = data[at]
    size = 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3
    if lead < 0xC2 or lead > 0xF4 or at + size >= stop:
        return -1
    second = data[at + 1]
    low = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
    high = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
    if second < low or second > high:
        return -1
    # Every other byte has to be a continuation.
    for more in range(2, size + 1):
        if data[at + more] & 0xC0 != 0x80:
            return -1
    return size


@njit(nogil=True, cache=True)
def _continuation_bytes(data: np.ndarray) -> int:
    start, stop = view(data), data.size
    at, count = 0, 0
    # Each turn skips ASCII, then checks up to 32 bytes.
    while at < stop:
        # 32 bytes of ASCII at a time.
        while at + 32 <= stop and (
            eight_bytes_at(start, at)
            | eight_bytes_at(start, at + 8)
            | eight_bytes_at(start, at + 16)
            | eight_bytes_at(start, at + 24)
        ) & _HIGH == np.uint64(0):
            at += 32
        # To the end of the 32 bytes that have a non-ASCII byte, or of the text.
        last = min(at + 32, stop)
        # Check each character outside ASCII.
        while at < last:
            if start[at] < 0x80:
                at += 1
                continue
            size = _rest_of_character(start, at, stop)
            if size < 0:
                return -1
            count += size
            at += size + 1
    return count


def continuation_bytes(data: bytes) -> int:
    """Returns the number of bytes minus the number of characters; -1 if the bytes are not UTF-8."""
    return 0 if data.isascii() else int(_continuation_bytes(np.frombuffer(data, np.uint8)))

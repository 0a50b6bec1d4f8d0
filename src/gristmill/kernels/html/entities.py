"""Decodes character references of HTML (`&amp;`, `&#8217;`, `&nbsp` without its semicolon) to UTF-8, one at a time."""

from html.entities import html5
from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.html.names import HASH_BASIS, HASH_PRIME, fnv
from gristmill.kernels.memory import Bytes
from gristmill.kernels.text.ascii import HASH, NINE, SEMICOLON, ZERO

_LONGEST = max(len(name) for name in html5)
_SLOTS = 8192


def _table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the hash of each name without its semicolon, its UTF-8 as a number, and its size and flag.

    The third array has the bytes of the characters, plus 16 if the name is also valid without a semicolon.
    """
    hashes = np.zeros(_SLOTS, np.uint64)
    values = np.zeros(_SLOTS, np.uint64)
    sizes = np.zeros(_SLOTS, np.int64)
    # Names are sorted, so the table is the same every time.
    for name in sorted({name.rstrip(";") for name in html5}):
        code = fnv(name)
        slot = code % _SLOTS
        while sizes[slot]:
            slot = (slot + 1) % _SLOTS
        encoded = html5[name + ";"].encode()
        hashes[slot], values[slot] = code, int.from_bytes(encoded, "little")
        sizes[slot] = len(encoded) | (16 if name in html5 else 0)
    return hashes, values, sizes


_HASHES, _VALUES, _SIZES = _table()
# The standard reads &#128; to &#159; as windows-1252, except for five undefined ones.
_WINDOWS = np.array(
    [
        ord(bytes([code]).decode("cp1252")) if code not in (0x81, 0x8D, 0x8F, 0x90, 0x9D) else code
        for code in range(0x80, 0xA0)
    ],
    np.int64,
)


@njit(nogil=True, cache=True)
def utf8_of(code: int) -> tuple[Any, int]:
    """Returns the UTF-8 of a code point as a little-endian number, and its size in bytes."""
    if code < 0x80:
        return np.uint64(code), 1
    if code < 0x800:
        return np.uint64((0xC0 | code >> 6) | (0x80 | code & 63) << 8), 2
    if code < 0x10000:
        return np.uint64((0xE0 | code >> 12) | (0x80 | code >> 6 & 63) << 8 | (0x80 | code & 63) << 16), 3
    return (
        np.uint64(
            (0xF0 | code >> 18)
            | (0x80 | code >> 12 & 63) << 8
            | (0x80 | code >> 6 & 63) << 16
            | (0x80 | code & 63) << 24
        ),
        4,
    )


@njit(nogil=True, cache=True)
def _number(data: Bytes, at: int, stop: int) -> tuple[Any, int, int]:
    """Decodes a numeric reference whose `#` is right before `at`."""
    hexadecimal = at < stop and data[at] | 0x20 == 0x78
    at += hexadecimal
    first, code = at, 0
    # Digits, up to a bound above all code points.
    while at < stop:
        byte = data[at]
        letter = byte | 0x20
        if ZERO <= byte <= NINE:
            digit = byte - 0x30
        elif hexadecimal and 0x61 <= letter <= 0x66:
            digit = letter - 0x57
        else:
            break
        code = min(code * (16 if hexadecimal else 10) + digit, 0x110000)
        at += 1
    if at == first:
        return np.uint64(0), 0, at
    at += at < stop and data[at] == SEMICOLON
    if 0x80 <= code < 0xA0:
        code = _WINDOWS[code - 0x80]
    elif code == 0 or 0xD800 <= code < 0xE000 or code > 0x10FFFF:
        code = 0xFFFD
    value, size = utf8_of(code)
    return value, size, at


@njit(nogil=True, cache=True)
def reference(data: Bytes, at: int, stop: int) -> tuple[Any, int, int]:
    """Decodes the reference at the `&` at `at`: its UTF-8 as a little-endian number, its bytes (0: a plain `&`), and
    its end.
    """
    at += 1
    if at < stop and data[at] == HASH:
        return _number(data, at + 1, stop)
    code = HASH_BASIS
    found: Any = -1
    begin, after = at, at
    # The longest name that is in the table counts.
    while at < stop and at - begin < _LONGEST:
        byte = data[at]
        letter = byte | 0x20
        if not (ZERO <= byte <= NINE or 0x61 <= letter <= 0x7A):
            break
        code = (code ^ np.uint64(byte)) * HASH_PRIME
        at += 1
        closed = at < stop and data[at] == SEMICOLON
        if closed or at - begin <= 6:  # no name without a semicolon is longer
            slot: Any = np.int64(code & np.uint64(_SLOTS - 1))
            while _SIZES[slot] and _HASHES[slot] != code:
                slot = (slot + 1) & (_SLOTS - 1)
            if _SIZES[slot] and (closed or _SIZES[slot] & 16):
                found, after = slot, at + closed
    if found < 0:
        return np.uint64(0), 0, begin
    return _VALUES[found], _SIZES[found] & 15, after

"""Spelling of URLs, byte by byte, and names of their parameters: what `normal` puts together."""

from typing import Any, NamedTuple

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.hash.hashset import hex_digit, lower
from gristmill.kernels.memory import address_of, byte_at, four_bytes_at
from gristmill.kernels.memory_writes import put_byte

Array = np.ndarray[Any, Any]
Tables = tuple[int, int, int, int, int, int]
"""Addresses of the kinds of bytes, of the digits, and of the four arrays of Names."""

_PLAIN, _UNRESERVED, _ENCODE = range(3)


def _classes() -> Array:
    kinds = np.full(256, _ENCODE, np.uint8)
    kinds[33:127] = _PLAIN
    kinds[[ord(sign) for sign in '"<>^`{|}\\']] = _ENCODE
    for byte in range(128):
        if chr(byte).isalnum() or chr(byte) in "-._~":
            kinds[byte] = _UNRESERVED
    return kinds


_KINDS = _classes()
_DIGITS = np.frombuffer(b"0123456789ABCDEF", np.uint8)


class Names(NamedTuple):
    """Names of parameters, in lower case and sorted, for a kernel."""

    data: Array
    ends: Array
    """int32: 0, and where each ends."""
    begins: Array
    """uint8: 1 where all names that begin so are meant."""
    first: Array
    """int32, 257: for each byte the number of the first name that begins with it, or with a later one."""


def names(patterns: tuple[str, ...]) -> Names:
    """`gclid` is a name, `utm_*` all that begin so. Letters count in any case."""
    folded = sorted({pattern.lower().encode() for pattern in patterns})
    parts = [pattern.removesuffix(b"*") for pattern in folded]
    return Names(
        np.frombuffer(b"".join(parts) + b"\0", np.uint8),
        np.cumsum([0] + [len(part) for part in parts], dtype=np.int32),
        np.array([pattern.endswith(b"*") for pattern in folded] + [False], np.uint8),
        np.searchsorted([part[0] for part in parts], np.arange(257)).astype(np.int32),
    )


@njit(nogil=True, cache=True)
def tables_of(named: Names) -> Tables:
    """`named` must be an argument of the outermost kernel: addresses do not keep it."""
    ends, begins, first = address_of(named.ends), address_of(named.begins), address_of(named.first)
    return address_of(_KINDS), address_of(_DIGITS), address_of(named.data), ends, begins, first


@njit(nogil=True, cache=True)
def is_named(out: int, begin: int, end: int, tables: Tables) -> bool:
    """Whether the bytes that were written from `begin` on are a name of the list."""
    if begin == end:
        return False
    _, _, data, ends, begins, first = tables
    lead = lower(byte_at(out, begin))
    for number in range(four_bytes_at(first, 4 * lead), four_bytes_at(first, 4 * lead + 4)):
        name = four_bytes_at(ends, 4 * number)
        size = four_bytes_at(ends, 4 * number + 4) - name
        if end - begin < size or (end - begin > size and not byte_at(begins, number)):
            continue
        at = 0
        while at < size and lower(byte_at(out, begin + at)) == byte_at(data, name + at):
            at += 1
        if at == size:
            return True
    return False


@njit(nogil=True, cache=True)
def _put_code(out: int, size: int, byte: int, digits: int) -> int:
    put_byte(out, size, 37)
    put_byte(out, size + 1, byte_at(digits, byte >> 4))
    put_byte(out, size + 2, byte_at(digits, byte & 15))
    return size + 3


@njit(nogil=True, cache=True)
def put_next(data: int, at: int, end: int, out: int, size: int, tables: Tables) -> tuple[int, int]:
    """Write the byte at `at` in its normal spelling; where the next is read and written."""
    kinds = tables[0]
    byte = byte_at(data, at)
    kind = byte_at(kinds, byte)
    if byte == 37 and at + 2 < end:
        high, low = hex_digit(byte_at(data, at + 1)), hex_digit(byte_at(data, at + 2))
        if high >= 0 and low >= 0:
            byte = high << 4 | low
            at += 2
            kind = _UNRESERVED if byte_at(kinds, byte) == _UNRESERVED else _ENCODE
    if kind == _ENCODE:
        return at + 1, _put_code(out, size, byte, tables[1])
    put_byte(out, size, byte)
    return at + 1, size + 1

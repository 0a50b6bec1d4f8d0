"""Spells URLs byte by byte, and finds names of their parameters; `normal` uses both."""

from typing import Any, NamedTuple

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.hash.hashset import hex_digit, lower
from gristmill.kernels.memory import Bytes, Ints, view
from gristmill.kernels.text.ascii import PERCENT

Array = np.ndarray[Any, Any]
_PLAIN, _UNRESERVED, _ENCODE = range(3)


def _classes() -> Array:
    kinds = np.full(256, _ENCODE, np.uint8)
    kinds[33:127] = _PLAIN
    kinds[[ord(sign) for sign in '"<>^`{|}\\']] = _ENCODE
    # Letters, digits and four signs are never escaped.
    for byte in range(128):
        if chr(byte).isalnum() or chr(byte) in "-._~":
            kinds[byte] = _UNRESERVED
    return kinds


_KINDS = _classes()
_DIGITS = np.frombuffer(b"0123456789ABCDEF", np.uint8)


class ParamNames(NamedTuple):
    """Names of parameters, in lower case and sorted, for a kernel."""

    data: Array
    ends: Array
    """int32: 0, and the end of each name."""
    begins: Array
    """uint8: 1 if the entry is a prefix."""
    first: Array
    """int32, 257: for each byte the number of the first name that begins with it, or with a later byte."""


class UrlViews(NamedTuple):
    """Views of the kinds of bytes, of the hexadecimal digits, and of the arrays of `ParamNames`."""

    kinds: Bytes
    digits: Bytes
    data: Bytes
    ends: Ints
    begins: Bytes
    first: Ints


def names(patterns: tuple[str, ...]) -> ParamNames:
    """Returns tables of patterns: `gclid` is a name, `utm_*` is a prefix. Case is ignored."""
    folded = sorted({pattern.lower().encode() for pattern in patterns})
    parts = [pattern.removesuffix(b"*") for pattern in folded]
    return ParamNames(
        np.frombuffer(b"".join(parts) + b"\0", np.uint8),
        np.cumsum([0] + [len(part) for part in parts], dtype=np.int32),
        np.array([pattern.endswith(b"*") for pattern in folded] + [False], np.uint8),
        np.searchsorted([part[0] for part in parts], np.arange(257)).astype(np.int32),
    )


@njit(nogil=True, cache=True)
def tables_of(named: ParamNames) -> UrlViews:
    """Returns views; `named` must be an argument of the outermost kernel, since views do not keep it alive."""
    return UrlViews(
        view(_KINDS), view(_DIGITS), view(named.data), view(named.ends), view(named.begins), view(named.first)
    )


@njit(nogil=True, cache=True)
def is_named(out: Bytes, begin: int, end: int, tables: UrlViews) -> bool:
    """Whether the bytes written from `begin` on are a name of the list."""
    if begin == end:
        return False
    lead = lower(out[begin])
    # Names are grouped by their first letter.
    for number in range(tables.first[lead], tables.first[lead + 1]):
        name = tables.ends[number]
        size = tables.ends[number + 1] - name
        if end - begin < size or (end - begin > size and not tables.begins[number]):
            continue
        at = 0
        while at < size and lower(out[begin + at]) == tables.data[name + at]:
            at += 1
        if at == size:
            return True
    return False


@njit(nogil=True, cache=True)
def _put_code(out: Bytes, size: int, byte: int, digits: Bytes) -> int:
    out[size] = PERCENT
    out[size + 1] = digits[byte >> 4]
    out[size + 2] = digits[byte & 15]
    return size + 3


@njit(nogil=True, cache=True)
def put_next(data: Bytes, at: int, end: int, out: Bytes, size: int, tables: UrlViews) -> tuple[int, int]:
    """Writes the byte at `at` in its normal spelling; returns where the next byte is read and written."""
    kinds = tables.kinds
    byte = data[at]
    kind = kinds[byte]
    if byte == PERCENT and at + 2 < end:
        high, low = hex_digit(data[at + 1]), hex_digit(data[at + 2])
        if high >= 0 and low >= 0:
            byte = high << 4 | low
            at += 2
            kind = _UNRESERVED if kinds[byte] == _UNRESERVED else _ENCODE
    if kind == _ENCODE:
        return at + 1, _put_code(out, size, byte, tables.digits)
    out[size] = byte
    return at + 1, size + 1

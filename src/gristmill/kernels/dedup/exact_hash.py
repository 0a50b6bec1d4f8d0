"""128-bit hashes of whole texts, as they are or in a form in which copies with another layout are equal.

    NONE        the bytes
    WHITESPACE  runs of white space as one space, none at the ends
    WORDS       letters, marks and numbers in lower case; everything between them as one space, none at the ends

The bytes, padded with zeros to whole words of 64 bits, go round four lanes into two hashes that share only their input:
one adds words by XOR and rotates, the other by addition and shifts. Every step is one-to-one in the lane and in the
word, so a single changed word always changes its lane. Each step multiplies twice: after one product the highest bit of
a word is still one bit of the lane, and a bit of the next word would cancel it. 32 bytes per round keep the multiplier
busy. The hash is not for adversaries, who could construct a collision.

Among n different texts the probability of any collision is n²/2^129: 1e-16 for 10^11 documents (tests/kernels measure
the bits that this depends on: avalanche, and truncated hashes against the birthday bound).
"""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.hash.splitmix import mix
from gristmill.kernels.memory import Bytes, eight_bytes_at, trailing_zeros, view
from gristmill.kernels.memory_writes import put_eight_bytes
from gristmill.kernels.text.ascii import SP
from gristmill.kernels.text.unicode_classes import SPACE, WORD, UnicodeTables, lower_change
from gristmill.kernels.text.utf8 import put_utf8
from gristmill.kernels.text.words import class_at

Array = np.ndarray[Any, Any]

NONE, WHITESPACE, WORDS = range(3)

_A = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio
_B = np.uint64(0xD1342543DE82EF95)  # a multiplier with a good spectrum (Steele and Vigna 2021)
_C = np.uint64(0xAF251AF3B0F025B5)  # another multiplier from the same paper
_D = np.uint64(0xDA942042E4DD58B5)  # and a third one
_START = (
    np.uint64(0x452821E638D01377),  # digits of pi
    np.uint64(0xBE5466CF34E90C6C),
    np.uint64(0xC0AC29B7C97C50DD),
    np.uint64(0x3F84D5B5B5470917),
    np.uint64(0x9216D5D98979FB1B),
    np.uint64(0xD1310BA698DFB5AC),
    np.uint64(0x2FFD72DBD01ADFB7),
    np.uint64(0xB8E1AFED6A267E96),
)
_LEFT, _RIGHT = np.uint64(29), np.uint64(35)
_HALF = np.uint64(32)

_LOW = np.uint64(0x7F7F7F7F7F7F7F7F)
_HIGH = np.uint64(0x8080808080808080)
_BLANKS = np.uint64(0x2020202020202020)
_NEWLINES = np.uint64(0x0A0A0A0A0A0A0A0A)
_NEWLINE_TO_BLANK = np.uint64(0x2A)
_TWO_BYTES = np.uint64(0xC2C2C2C2C2C2C2C2)
_THREE_BYTES = np.uint64(0xE0E0E0E0E0E0E0E0)
_SIX_BITS = np.uint64(0xFCFCFCFCFCFCFCFC)
_TO_A = np.uint64((0x80 - ord("a")) * 0x0101010101010101)
_PAST_Z = np.uint64((0x7F - ord("z")) * 0x0101010101010101)
_TO_0 = np.uint64((0x80 - ord("0")) * 0x0101010101010101)
_PAST_9 = np.uint64((0x7F - ord("9")) * 0x0101010101010101)
_WHOLE_BYTE = np.uint64(0xFF)
_TWO, _SEVEN, _EIGHT, _TOP = np.uint64(2), np.uint64(7), np.uint64(8), np.uint64(63)


@njit(nogil=True, cache=True)
def _first(lane: np.uint64, word: np.uint64) -> np.uint64:
    lane = (lane ^ word) * _A
    return (lane << _LEFT | lane >> _RIGHT) * _C


@njit(nogil=True, cache=True)
def _second(lane: np.uint64, word: np.uint64) -> np.uint64:
    lane = (lane + word) * _B
    return (lane ^ lane >> _HALF) * _D


@njit(nogil=True, cache=True)
def _fold(state: np.uint64, lane: np.uint64) -> np.uint64:
    state = (state ^ lane) * _C
    return state ^ state >> _HALF


@njit(nogil=True, cache=True)
def hash_span(data: Bytes, begin: int, end: int) -> tuple[np.uint64, np.uint64]:
    """Returns both halves of the hash of some bytes; `data` is a view."""
    a, b, c, d, p, q, r, s = _START
    at = begin
    # Four lanes of eight bytes each, and two hashes of each lane.
    while at + 32 <= end:
        one, two = eight_bytes_at(data, at), eight_bytes_at(data, at + 8)
        three, four = eight_bytes_at(data, at + 16), eight_bytes_at(data, at + 24)
        a, b, c, d = _first(a, one), _first(b, two), _first(c, three), _first(d, four)
        p, q, r, s = _second(p, one), _second(q, two), _second(r, three), _second(s, four)
        at += 32
    # The rest goes into the first lanes; the lanes rotate.
    while at < end:
        word = np.uint64(0)
        if at + 8 <= end:
            word = eight_bytes_at(data, at)
        else:
            for place in range(end - at):
                word |= np.uint64(data[at + place]) << np.uint64(8 * place)
        a, b, c, d = b, c, d, _first(a, word)
        p, q, r, s = q, r, s, _second(p, word)
        at += 8
    size = np.uint64(end - begin)
    high = _fold(_fold(_fold(_fold(size, a), b), c), d)
    low = _fold(_fold(_fold(_fold(~size, p), q), r), s)
    return mix(high), mix(low)


@njit(nogil=True, cache=True)
def _equal(eight: np.uint64, bytes_: np.uint64) -> np.uint64:
    """Sets the high bit of each byte that is equal in both numbers."""
    eight ^= bytes_
    return ~((eight & _LOW) + _LOW | eight) & _HIGH


@njit(nogil=True, cache=True)
def _squeezed(eight: np.uint64) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Returns eight bytes with newlines as spaces, a mask of the spaces, and a mask of the bytes that need care.

    Control characters need care, and bytes that may begin white space outside ASCII: only C2 and E0 to E3.
    """
    eight ^= (_equal(eight, _NEWLINES) >> _SEVEN) * _NEWLINE_TO_BLANK
    odd = (eight - _BLANKS) & ~eight & _HIGH  # below 32; a borrow may also flag the byte above such a byte
    odd |= _equal(eight, _TWO_BYTES) | _equal(eight & _SIX_BITS, _THREE_BYTES)
    return eight, _equal(eight, _BLANKS), odd


@njit(nogil=True, cache=True)
def _folded(eight: np.uint64) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Returns eight bytes in lower case with spaces for all non-words, a mask of the spaces, and a mask of non-ASCII
    bytes.
    """
    low = eight & _LOW
    lower = low | _BLANKS
    letters = (lower + _TO_A) & ~(lower + _PAST_Z) & _HIGH
    words = letters | (low + _TO_0) & ~(low + _PAST_9) & _HIGH
    whole = (words >> _SEVEN) * _WHOLE_BYTE
    return (eight | letters >> _TWO) & whole | _BLANKS & ~whole, ~words & _HIGH, eight & _HIGH


@njit(nogil=True, cache=True)
def _rewrite(data: Bytes, at: int, end: int, out: Bytes, form: int, unicode: UnicodeTables) -> int:
    """Writes a text in a form; returns the bytes written.

    Eight bytes at a time are converted and written; those before the first byte that needs care count. That byte and a
    run of spaces after it are handled one by one.
    """
    size = 0
    blank: Any = 1  # whether the last character written is a space; a text begins as if it were
    # Eight bytes at a time up to the first byte that needs care.
    while at < end:
        if at + 8 <= end:
            eight = eight_bytes_at(data, at)
            eight, blanks, odd = _squeezed(eight) if form == WHITESPACE else _folded(eight)
            odd |= blanks & (blanks << _EIGHT | np.uint64(blank << 7))
            put_eight_bytes(out, size, eight)
            if odd == 0:
                size += 8
                at += 8
                blank = np.int64(blanks >> _TOP)
                continue
            plain = trailing_zeros(odd) >> 3
            if plain:
                size += plain
                at += plain
                blank = np.int64(out[size - 1] == SP)
        bits, point, after = class_at(data, at, end, unicode)
        if bits & SPACE if form == WHITESPACE else not bits & WORD:
            if not blank:
                out[size] = SP
                size += 1
                blank = 1
            while after < end and data[after] == SP:
                after += 1
        else:
            blank = 0
            if form == WORDS:
                size = put_utf8(out, size, point + lower_change(unicode, point))
            else:
                # Copy the bytes of the character.
                for place in range(at, after):
                    out[size] = data[place]
                    size += 1
        at = after
    return size - 1 if blank and size else size


@njit(nogil=True, cache=True)
def _hash_bytes(data: Array, offsets: Array) -> Array:
    hashes = np.empty((len(offsets) - 1, 2), np.uint64)
    text = view(data)
    for row in range(len(hashes)):
        hashes[row, 0], hashes[row, 1] = hash_span(text, offsets[row], offsets[row + 1])
    return hashes


@njit(nogil=True, cache=True)
def _hash_forms(data: Array, offsets: Array, form: int, tables: UnicodeTables, out: Array) -> Array:
    hashes = np.empty((len(offsets) - 1, 2), np.uint64)
    text, written = view(data), view(out)
    places = view(tables)
    # Rewrite each text into the same buffer and hash it there.
    for row in range(len(hashes)):
        begin, end = offsets[row], offsets[row + 1]
        # With a constant form, LLVM compiles a separate loop for each.
        if form == WHITESPACE:
            size = _rewrite(text, begin, end, written, WHITESPACE, places)
        else:
            size = _rewrite(text, begin, end, written, WORDS, places)
        hashes[row, 0], hashes[row, 1] = hash_span(written, 0, size)
    return hashes


def hash_texts(data: Array, offsets: Array, form: int, tables: UnicodeTables) -> Array:
    """Returns both halves of the hash of each text of an Arrow array, uint64, in the form NONE, WHITESPACE or WORDS."""
    data, offsets = sealed(data), sealed(np.asarray(offsets, np.int64))
    if form == NONE:
        return np.asarray(_hash_bytes(data, offsets))
    longest = int(np.diff(offsets).max(initial=0))
    # A letter of two bytes may have a lower case of three; eight bytes may be written where only one counts.
    out = np.empty(longest + longest // 2 + 16, np.uint8)
    return np.asarray(_hash_forms(data, offsets, form, tables, out))


def sealed(array: Array) -> Array:
    """Returns the same array as read-only: Numba compiles kernels again for each kind of array, so they get one
    kind.
    """
    array = array.view()
    array.setflags(write=False)
    return array

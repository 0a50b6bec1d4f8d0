"""Finds where strings, comments and numbers of code end, in any language.

A stretch may begin anywhere, even inside a string in triple quotes. So three quotes begin a string only where a program
would write them and where three more quotes end it; elsewhere they are skipped, and no code is mistaken for a string.
"""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes, eight_bytes_at, trailing_zeros
from gristmill.kernels.text.ascii import (
    ASTERISK,
    BACKSLASH,
    BACKTICK,
    COLON,
    CR,
    LEFT_BRACE,
    LF,
    RIGHT_BRACE,
    SEMICOLON,
    SP,
    TAB,
)
from gristmill.kernels.text.ascii import DOT as DOT_SIGN
from gristmill.kernels.text.ascii import SLASH as SLASH_SIGN

Array = np.ndarray[Any, Any]

BLANK, LINE, WORD, DIGIT, QUOTE, HASH, SLASH, DOT, OTHER = range(9)
NOTHING = np.uint64(0)
LITERAL = np.uint64(0x13198A2E03707344)
SIGN = np.uint64(0xA4093822299F31D0)
"""The token of a sign is its byte times this number."""
_ONES = np.uint64(0x0101010101010101)
_HIGH = np.uint64(0x8080808080808080)
_LINES, _BACKSLASHES = _ONES * np.uint64(10), _ONES * np.uint64(92)


def _kinds() -> Array:
    kinds = np.full(256, OTHER, np.uint8)
    kinds[:33] = kinds[ord("(")] = kinds[ord(")")] = BLANK
    kinds[10] = LINE
    kinds[128:] = WORD
    # Letters and the underscore begin words; the exact kinds of other signs follow.
    for one in range(128):
        if chr(one).isalpha() or one == ord("_"):
            kinds[one] = WORD
    kinds[ord("0") : ord("9") + 1] = DIGIT
    for sign, kind in (('"', QUOTE), ("'", QUOTE), ("`", QUOTE), ("#", HASH), ("/", SLASH), (".", DOT)):
        kinds[ord(sign)] = kind
    return kinds


KINDS = _kinds()
_GOES_ON = np.isin(np.arange(256), np.frombuffer(b"),.%]};+", np.uint8))
"""Bytes that may follow three quotes at the end of a string, in the same line."""
_LEADS_ON = np.isin(np.arange(256), np.frombuffer(b"([{=,:+%", np.uint8))
"""Bytes that may precede three quotes at the beginning of a string, in the same line."""


@njit(nogil=True, cache=True)
def _zeros(chunk: np.uint64) -> np.uint64:
    """The lowest bit that is set is in the first of eight bytes that is 0."""
    return (chunk - _ONES) & ~chunk & _HIGH


@njit(nogil=True, cache=True)
def _find(text: Bytes, at: int, end: int, byte: int) -> int:
    """Returns the first position of a byte from `at` on, or `end`."""
    same = np.uint64(byte) * _ONES
    # Eight bytes at a time: a byte that is equal becomes zero.
    while at + 8 <= end:
        zeros = _zeros(eight_bytes_at(text, at) ^ same)
        if zeros:
            return at + int(trailing_zeros(zeros) >> 3)
        at += 8
    while at < end and text[at] != byte:
        at += 1
    return at


@njit(nogil=True, cache=True)
def _are_three(text: Bytes, at: int, end: int) -> bool:
    """Whether a quote is the first of three."""
    quote = text[at]
    return bool(at + 2 < end and text[at + 1] == quote and text[at + 2] == quote)


@njit(nogil=True, cache=True)
def _before(text: Bytes, at: int, begin: int, passed: int) -> int:
    """Returns the last position before `at` that is not a blank, a tab or `passed`; begin - 1 if there is none."""
    at -= 1
    while at >= begin and (text[at] == SP or text[at] == TAB or text[at] == passed):
        at -= 1
    return at


@njit(nogil=True, cache=True)
def _begins_string(text: Bytes, at: int, begin: int, end: int) -> bool:
    """Whether three quotes at `at` begin a string, rather than end one that began before `begin`."""
    place = _before(text, at, begin, 32)
    if place < begin or text[place] == LF:
        behind = at + 3
        while behind < end and (text[behind] == SP or text[behind] == CR):
            behind += 1
        if behind < end and text[behind] != LF:
            return not _GOES_ON[text[behind]]
        place = _before(text, at, begin, 10)
        return bool(place >= begin and text[place] == COLON)
    if place == at - 1 and KINDS[text[place]] == WORD:  # r, f, rb
        longest = place - 2 >= begin and KINDS[text[place - 1]] == WORD
        return not (longest and KINDS[text[place - 2]] == WORD)
    return bool(_LEADS_ON[text[place]])


@njit(nogil=True, cache=True)
def _after_three(text: Bytes, at: int, begin: int, end: int) -> int:
    """Returns the position after three quotes at `at`, or after the string if they begin one that ends."""
    if text[at] == BACKTICK:
        return _find(text, at, end, 10)
    if _begins_string(text, at, begin, end):
        quote = text[at]
        place = _find(text, at + 3, end, quote)
        # The string ends with the next three quotes; single ones in it are skipped.
        while place < end:
            if _are_three(text, place, end):
                return place + 3
            place = _find(text, place + 1, end, quote)
    return at + 3


@njit(nogil=True, cache=True)
def _after_string(text: Bytes, at: int, end: int) -> int:
    """Returns the position after the string that begins at `at`; it ends with its line at the latest."""
    quote = text[at]
    same = np.uint64(quote) * _ONES
    at += 1
    # Jump to the next quote, line end or backslash, eight bytes at a time while there are eight.
    while at < end:
        if at + 8 <= end:
            chunk = eight_bytes_at(text, at)
            zeros = _zeros(chunk ^ same) | _zeros(chunk ^ _LINES) | _zeros(chunk ^ _BACKSLASHES)
            if not zeros:
                at += 8
                continue
            at += int(trailing_zeros(zeros) >> 3)
        byte = text[at]
        if byte == LF:
            return at
        at += 1
        if byte == quote:
            break
        if byte == BACKSLASH:
            at += 1
    return min(at, end)


@njit(nogil=True, cache=True)
def _after_number(text: Bytes, at: int, end: int) -> int:
    while at < end and (KINDS[text[at]] == DIGIT or KINDS[text[at]] == WORD or text[at] == DOT_SIGN):
        at += 1
    return at


@njit(nogil=True, cache=True)
def _after_slash(text: Bytes, at: int, end: int, before: int) -> tuple[int, np.uint64]:
    ahead = text[at + 1] if at + 1 < end else 0
    if ahead == SLASH_SIGN and (before == LF or before == SEMICOLON or before == LEFT_BRACE or before == RIGHT_BRACE):
        return _find(text, at, end, 10), NOTHING
    if ahead != ASTERISK:
        return at + 1, np.uint64(47) * SIGN
    at = _find(text, at + 3, end, 47)
    while at < end and text[at - 1] != ASTERISK:
        at = _find(text, at + 1, end, 47)
    return min(at + 1, end), NOTHING


@njit(nogil=True, cache=True)
def after_odd(text: Bytes, at: int, begin: int, end: int, before: int) -> tuple[int, np.uint64]:
    """Returns the position after the string, number, comment or sign that begins at `at`, and its token. `before` is
    the first byte of the token before it, or the end of a line.
    """
    byte = text[at]
    kind = KINDS[byte]
    if kind == QUOTE:
        if _are_three(text, at, end):
            return _after_three(text, at, begin, end), NOTHING
        return _after_string(text, at, end), LITERAL
    if kind == HASH:
        return _find(text, at, end, 10), NOTHING
    if kind == SLASH:
        return _after_slash(text, at, end, before)
    if kind == DIGIT or (kind == DOT and at + 1 < end and KINDS[text[at + 1]] == DIGIT):
        return _after_number(text, at + 1, end), LITERAL
    return at + 1, np.uint64(byte) * SIGN

"""What the stretches look like in which personal data or a secret may stand, each seen from one place in it.

NUMBER   digits in groups with separators between them, from a `+` or `(` on: 7 digits, or four with dots
AT       a name, `@` or `%40`, and what may be a domain; `@` may have one space on each side
LOGIN    the `@` of `scheme://user:password@`
COLONS   groups of hexadecimal digits with colons, as in an IPv6 address
TOKEN    a word, with those joined to it by `-` and `.`, whose first three bytes are in `openings`
WALLET   a word of the letters and the length of a wallet's address
IBAN     two capitals and two digits, alone before more groups or as the beginning of a word of 15 to 34
CODED    a word of 9, 10, 16 or 18 capitals and digits, as national ids are
KEY      `-----BEG`
SPELT    two bytes of the word `dot`, or of `at` in brackets, in any case: `name (at) domain dot org`
LONG     any other word of at least 12 with a digit and both cases, in 24 bytes of Base64, if `long_words`

A shape is (kind, start, stop); the kind is -1 for none. Searches are bounded or end where the last one of the kind did.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes
from gristmill.kernels.text import ascii as sign

Array = np.ndarray[Any, Any]
Shape = tuple[int, int, int]

NUMBER, AT, LOGIN, COLONS, TOKEN, WALLET, IBAN, CODED, KEY, LONG, SPELT = range(11)

MIN_DIGITS = 7
MIN_BARE = 8
"""The least digits of a number, and of one without separators or `+`."""
MOST_GROUP = 19
"""The most digits of a group: longer ones are data."""
MOST_SEPARATORS = 4
"""The most separators between two groups: +49 - (40) - 300."""
MOST_LOCAL = 64
MOST_DOMAIN = 253
MOST_LOGIN = 200
MOST_JOINED = 96
"""Bytes before a word that are searched for the beginning of a key."""
MOST_HEX = 64
MIN_LONG = 12
MIN_TOKEN = 20
MIN_MIXED = 24
_BITS = 16

# The classes of a byte; one table of 256 bytes.
DIGIT, _UPPER, _LOWER, _UNDER, _DASH_DOT, _HIGH, _LOCAL_SIGN, _BASE64_SIGN = (1 << bit for bit in range(8))
WORD = DIGIT | _UPPER | _LOWER | _UNDER
_DOMAIN = DIGIT | _UPPER | _LOWER | _DASH_DOT | _HIGH
_LOCAL = WORD | _DASH_DOT | _HIGH | _LOCAL_SIGN


def _classes() -> npt.NDArray[np.uint8]:
    table = np.zeros(256, np.uint8)
    letters = b"abcdefghijklmnopqrstuvwxyz"
    # A byte may be in several classes.
    for bit, members in (
        (DIGIT, b"0123456789"),
        (_UPPER, letters.upper()),
        (_LOWER, letters),
        (_UNDER, b"_"),
        (_DASH_DOT, b"-."),
        (_HIGH, bytes(range(128, 256))),
        (_LOCAL_SIGN, b"!#$%&'*+/=?^`{|}~"),
        (_BASE64_SIGN, b"+-/="),
    ):
        table[list(members)] |= bit
    table.setflags(write=False)
    return table


CLASSES = _classes()


def openings(prefixes: Sequence[bytes]) -> npt.NDArray[np.uint8]:
    """Returns the table of words to examine: one byte for each value of a hash of three bytes."""
    table = np.zeros(1 << _BITS, np.uint8)
    for prefix in prefixes:
        table[_opening(*prefix[:3])] = 1
    table.setflags(write=False)
    return table


@njit(nogil=True, cache=True)
def _opening(first: int, second: int, third: int) -> int:
    return ((first | second << 8 | third << 16) * 0x9E3779B1 & 0xFFFFFFFF) >> (32 - _BITS)


@njit(nogil=True, cache=True)
def is_in(classes: Bytes, byte: int, kind: int) -> bool:
    return bool(classes[byte] & kind)


@njit(nogil=True, cache=True)
def skip(data: Bytes, at: int, end: int, classes: Bytes, kind: int) -> int:
    """Returns the end of the bytes of some classes from `at` on."""
    while at < end and classes[data[at]] & kind:
        at += 1
    return at


@njit(nogil=True, cache=True)
def skip_back(data: Bytes, at: int, begin: int, classes: Bytes, kind: int) -> int:
    """Returns the begin of the bytes of some classes before `at`."""
    while at > begin and classes[data[at - 1]] & kind:
        at -= 1
    return at


@njit(nogil=True, cache=True)
def _separator(data: Bytes, at: int, end: int) -> int:
    """Returns the bytes of a separator between groups of digits at `at`; 0: none."""
    byte = data[at]
    if byte == sign.SP or byte == sign.HYPHEN or byte == sign.DOT or byte == sign.SLASH:
        return 1
    if byte == sign.LEFT_PAREN or byte == sign.RIGHT_PAREN:
        return 1
    if byte == 0xC2 and at + 2 <= end and data[at + 1] == 0xA0:
        return 2
    if byte == 0xE2 and at + 3 <= end and data[at + 1] == 0x80:
        third = data[at + 2]
        return 3 if third == 0xAF or 0x90 <= third <= 0x93 else 0
    return 0


@njit(nogil=True, cache=True)
def _is_century(data: Bytes, at: int) -> bool:
    """Whether a year begins here: 18.., 19.., 2..."""
    return bool(data[at] == 50 or (data[at] == 49 and data[at + 1] >= 56))


@njit(nogil=True, cache=True)
def number_at(data: Bytes, start: int, stop: int, begin: int, end: int, classes: Bytes) -> Shape:
    """Returns the groups of digits whose first is [start, stop)."""
    first = last = longest = digits = stop - start
    second, groups, dots, last_dots = 0, 1, 0, 0
    at = stop
    # Each turn takes separators and one more group of digits.
    while at < end:
        gap, dotted = at, False
        # A few separators may stand between two groups, such as `) ` or ` - `.
        for _ in range(MOST_SEPARATORS):
            width = _separator(data, gap, end) if gap < end else 0
            if not width:
                break
            dotted = data[gap] == sign.DOT
            gap += width
        after = skip(data, gap, end, classes, DIGIT)
        if gap == at or gap == after:
            break
        # One capital may end the last group: 131052-308T.
        lettered = after < end and is_in(classes, data[after], WORD)
        if lettered and (
            not is_in(classes, data[after], _UPPER) or (after + 1 < end and is_in(classes, data[after + 1], WORD))
        ):
            break
        last = after - gap
        groups += 1
        digits += last
        longest = max(longest, last)
        second = last if groups == 2 else second
        last_dots = last_dots + 1 if dotted and gap == at + 1 and not lettered else 0
        dots = max(dots, last_dots)
        at = after
        if lettered:
            at += 1
            break
    dashed = at + 1 < end and data[at] == sign.HYPHEN and is_in(classes, data[at + 1], _UPPER)
    if dashed and (at + 2 == end or not is_in(classes, data[at + 2], WORD)):
        at += 2  # 12.345.678-K
    wanted = (digits >= MIN_DIGITS and longest <= MOST_GROUP) or dots >= 3
    if not wanted and digits == 6 and groups == 3 and start >= begin + 3 and data[start - 1] == sign.SP:
        wanted = is_in(classes, data[start - 2], _UPPER) and is_in(classes, data[start - 3], _UPPER)
    if groups == 2 and ((first == 4 and last == 4 and at == stop + 5) or data[stop] == sign.DOT):
        wanted = False  # 1990-2000, 3.14159265
    if 3 <= groups <= 4 and digits <= 10 and second <= 2 and data[stop] != sign.SP:
        third = stop + second + 2
        last = skip(data, third, at, classes, DIGIT) - third
        dated = (first == 4 and last <= 2) or (first <= 2 and last == 4)
        if dated and data[stop] == data[third - 1] and _is_century(data, start if first == 4 else third):
            wanted = False  # 2024-05-06, 6.5.2024
    if groups == 1 and digits < MIN_BARE and not (start > begin and data[start - 1] == sign.PLUS):
        wanted = False
    while start > begin and (data[start - 1] == sign.LEFT_PAREN or data[start - 1] == sign.PLUS):
        start -= 1
    return NUMBER if wanted else -1, start, at


@njit(nogil=True, cache=True)
def word_at(
    data: Bytes, start: int, stop: int, begin: int, end: int, classes: Bytes, opened: Bytes, long_words: bool
) -> Shape:
    """Returns what a word with letters is, or the token that it belongs to."""
    size = stop - start
    if size < 4:
        return -1, start, stop
    digits = uppers = unders = 0
    # Count the classes of the bytes, at most MOST_JOINED of them.
    for at in range(start, min(stop, start + MOST_JOINED)):
        kinds = classes[data[at]]
        digits += kinds & DIGIT != 0
        uppers += kinds & _UPPER != 0
        unders += kinds & _UNDER != 0
    if not digits and size < MIN_TOKEN:
        return -1, start, stop
    first, second, third = data[start], data[start + 1], data[start + 2]
    country = is_in(classes, first, _UPPER) and is_in(classes, second, _UPPER)
    checked = is_in(classes, third, DIGIT) and is_in(classes, data[start + 3], DIGIT)
    if size < 8:
        wanted = size == 4 and country and checked and stop < end and _separator(data, stop, end) > 0
        return IBAN if wanted else -1, start, stop
    if first == sign.ZERO and second == sign.LOWER_X:  # 0x
        return WALLET if size == 42 else -1, start, stop
    token = WORD | _DASH_DOT
    if (
        opened[_opening(first, second, third)]
        and skip(data, stop, min(end, start + MIN_TOKEN), classes, token) - start >= MIN_TOKEN
    ):
        return TOKEN, start, stop
    # A token may have hyphens and dots, so it may begin before this word.
    joined = skip_back(data, start, max(begin, start - MOST_JOINED), classes, token)
    is_opened = opened[_opening(data[joined], data[joined + 1], data[joined + 2])]
    if is_opened and joined < start and stop - joined >= MIN_TOKEN:
        return TOKEN, joined, stop
    if 15 <= size <= 34 and not unders and country and checked:
        return IBAN, start, stop
    if 25 <= size <= 90 and digits and not unders:
        bech32 = (first == sign.LOWER_B and second == sign.LOWER_C) or (
            first == sign.LOWER_L and second == sign.LOWER_T
        )
        if bech32 or size <= 36:  # bc1, ltc1
            return WALLET, start, stop
    if digits >= 4 and uppers and uppers + digits == size and (size == 9 or size == 10 or size == 16 or size == 18):
        return CODED, start, stop
    if not long_words or size < MIN_LONG or not digits or not uppers or uppers + digits + unders == size:
        return -1, start, stop
    base64 = WORD | _BASE64_SIGN
    low = skip_back(data, start, max(begin, start - MIN_MIXED), classes, base64)
    high = skip(data, stop, min(end, stop + MIN_MIXED), classes, base64)
    return LONG if high - low >= MIN_MIXED else -1, start, stop


@njit(nogil=True, cache=True)
def at_sign(data: Bytes, at: int, width: int, begin: int, end: int, classes: Bytes, last: int) -> Shape:
    """Returns the text around a sign of 1 (`@`) or 3 bytes (`%40`), not before `last`."""
    low, high = at, at + width
    if low == begin or high + 1 >= end or (width == 3 and (data[at + 1] != 52 or data[at + 2] != sign.ZERO)):
        return -1, at, at
    if width == 1:
        back, passwords = at, 0
        # A login in a URL goes back to `//`.
        while back > last and at - back < MOST_LOGIN and data[back - 1] > sign.SP and data[back - 1] != sign.SLASH:
            back -= 1
            passwords += data[back] == sign.COLON
        slashes = back - 3 >= last and data[back - 1] == data[back - 2] == sign.SLASH
        if passwords and slashes and data[back - 3] == sign.COLON:
            return LOGIN, back, at
        if data[low - 1] == sign.SP and data[high] == sign.SP:
            low, high = low - 1, high + 1
    start = skip_back(data, low, max(last, low - MOST_LOCAL), classes, _LOCAL)
    stop = skip(data, high, min(end, high + MOST_DOMAIN), classes, _DOMAIN)
    dot = high
    while dot < stop and data[dot] != sign.DOT:
        dot += 1
    return -1 if start == low or dot == stop else AT, start, stop


@njit(nogil=True, cache=True)
def colons_at(data: Bytes, at: int, begin: int, end: int, classes: Bytes) -> Shape:
    """Returns the hexadecimal groups around a colon."""
    start, stop, colons, doubled = at, at, 0, False
    # First back over digits and colons.
    while start > begin and at - start < MOST_HEX and _is_hex_or_colon(data[start - 1]):
        start -= 1
    stop = start
    # Then forward; `::` counts as doubled.
    while stop < end and _is_hex_or_colon(data[stop]):
        if data[stop] == sign.COLON:
            colons += 1
            doubled |= stop > start and data[stop - 1] == sign.COLON
        stop += 1
    wanted = stop - start <= MOST_HEX and colons >= 2 and (doubled or colons == 7)
    if start > begin and is_in(classes, data[start - 1], WORD):
        wanted = False
    return COLONS if wanted else -1, start, stop


@njit(nogil=True, cache=True)
def _is_hex_or_colon(byte: int) -> bool:
    return sign.ZERO <= byte <= sign.COLON or sign.LOWER_A <= byte | 32 <= sign.LOWER_F


@njit(nogil=True, cache=True)
def is_spelt(data: Bytes, at: int, begin: int, end: int, classes: Bytes) -> bool:
    """Whether `dot`, or `at` in brackets, begins at this beginning of a word, with something after it."""
    if at == begin or at + 4 > end:
        return False
    first, second, third = data[at] | 32, data[at + 1] | 32, data[at + 2]
    if first == sign.LOWER_D:
        return second == sign.LOWER_O and third | 32 == sign.LOWER_T and not is_in(classes, data[at + 3], WORD)
    opened = data[at - 2 if data[at - 1] == sign.SP and at - 2 >= begin else at - 1]
    closed = data[at + 3] if third == sign.SP else third
    round_ones = opened == sign.LEFT_PAREN and closed == sign.RIGHT_PAREN
    bracketed = round_ones or (opened | 32 == sign.LEFT_BRACE and closed == opened + 2)
    return bool(first == sign.LOWER_A and second == sign.LOWER_T and bracketed)


@njit(nogil=True, cache=True)
def is_key(data: Bytes, at: int, end: int) -> bool:
    """Whether `-----BEG` begins here."""
    if at + 11 > end or data[at + 5] != sign.UPPER_B or data[at + 6] != sign.UPPER_E or data[at + 7] != sign.UPPER_G:
        return False
    return bool(data[at + 2] == data[at + 3] == data[at + 4] == sign.HYPHEN)

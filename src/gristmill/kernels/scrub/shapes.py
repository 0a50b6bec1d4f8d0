"""What the stretches look like in which personal data or a secret may stand, each seen from one place in it.

NUMBER   digits in groups with separators between them, from a `+` or `(` on: 7 digits, or four with dots
AT       a name, `@` or `%40`, and what may be a domain; `@` may have one space on each side
LOGIN    the `@` of `scheme://user:password@`
COLONS   groups of hexadecimal digits: an IPv6 address, or a MAC address also with dashes
TOKEN    a word, with those joined to it by `-` and `.`, whose first three bytes are in `openings`
WALLET   a word in the alphabet and of the length of a wallet's address
IBAN     two capitals and two digits, alone before more groups or as the beginning of a word of 15 to 34
CODED    a word of 9, 10, 16 or 18 capitals and digits, as national ids are
KEY      `-----BEGIN ... PRIVATE KEY`
SPELT    two bytes of the word `dot`, or of `at` in brackets, in any case: `name (at) domain dot org`
LONG     any other word of at least 12 with a digit in it, if `long_words` includes them
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes
from gristmill.kernels.text.ascii import (
    COLON,
    DOT,
    EQUALS,
    HYPHEN,
    LEFT_BRACE,
    LEFT_PAREN,
    LF,
    LOWER_A,
    LOWER_B,
    LOWER_C,
    LOWER_D,
    LOWER_L,
    LOWER_O,
    LOWER_T,
    LOWER_X,
    PLUS,
    RIGHT_PAREN,
    SLASH,
    SP,
    UPPER_B,
    UPPER_E,
    UPPER_G,
    UPPER_K,
    ZERO,
)

Array = np.ndarray[Any, Any]

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
NO_LONG, MIXED_LONG, ANY_LONG = range(3)
"""Which long words are candidates: none, those with both cases in 24 bytes of Base64, all."""
_BITS = 16

# The roles of a byte; one table of 256 bytes.
DIGIT, _UPPER, _LOWER, _UNDER, _HEX, _LOCAL, _DOMAIN, _BASE58 = (1 << bit for bit in range(8))
WORD = DIGIT | _UPPER | _LOWER | _UNDER


def _classes() -> npt.NDArray[np.uint8]:
    table = np.zeros(256, np.uint8)
    letters = b"abcdefghijklmnopqrstuvwxyz"
    # A byte may be in several classes.
    for bit, members in (
        (DIGIT, b"0123456789"),
        (_UPPER, letters.upper()),
        (_LOWER, letters),
        (_UNDER, b"_"),
        (_HEX, b"0123456789abcdefABCDEF"),
        (_LOCAL, b"0123456789.!#$%&'*+/=?^_`{|}~-" + letters + letters.upper() + bytes(range(128, 256))),
        (_DOMAIN, b"0123456789.-" + letters + letters.upper() + bytes(range(128, 256))),
        (_BASE58, b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"),
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
def _separator(data: Bytes, at: int, end: int) -> int:
    """Returns the bytes of a separator between groups of digits at `at`; 0: none."""
    byte = data[at]
    if byte == SP or byte == HYPHEN or byte == DOT or byte == SLASH or byte == LEFT_PAREN or byte == RIGHT_PAREN:
        return 1
    if byte == 0xC2 and at + 2 <= end and data[at + 1] == 0xA0:
        return 2
    if byte == 0xE2 and at + 3 <= end and data[at + 1] == 0x80:
        third = data[at + 2]
        return 3 if third == 0xAF or 0x90 <= third <= 0x93 else 0
    return 0


@njit(nogil=True, cache=True)
def _is_date(data: Bytes, start: int, stop: int, end: int, classes: Bytes) -> bool:
    """Whether three groups, the first of them [start, stop), are year, month and day or the reverse."""
    mark = data[stop]
    if mark != HYPHEN and mark != DOT and mark != SLASH:
        return False
    second = stop + 1
    third = second
    while third < end and is_in(classes, data[third], DIGIT):
        third += 1
    after = third + 1
    while after < end and is_in(classes, data[after], DIGIT):
        after += 1
    if third - second > 2 or third >= end or data[third] != mark:
        return False
    year = start if stop - start == 4 else third + 1
    if after - third - 1 > 2 if year == start else stop - start > 2 or after - year != 4:
        return False
    first, second = data[year], data[year + 1]
    return bool(first == 50 or (first == 49 and second >= 56))  # 18.., 19.., 2...


@njit(nogil=True, cache=True)
def number_at(data: Bytes, start: int, stop: int, begin: int, end: int, classes: Bytes) -> tuple[int, int, bool]:
    """Returns start and stop of the groups of digits whose first is [start, stop), and whether they are a candidate."""
    digits = group = stop - start
    groups, longest, dots, last_dots = 1, group, 0, 0
    at = stop
    # Each turn takes separators and one more group of digits.
    while at < end:
        gap, dotted = at, False
        # A few separators may stand between two groups, such as `) ` or ` - `.
        for _ in range(MOST_SEPARATORS):
            width = _separator(data, gap, end) if gap < end else 0
            if not width:
                break
            dotted = data[gap] == DOT
            gap += width
        if gap == at or gap >= end or not is_in(classes, data[gap], DIGIT):
            break
        group = 0
        while gap + group < end and is_in(classes, data[gap + group], DIGIT):
            group += 1
        after = gap + group
        if after < end and is_in(classes, data[after], WORD):
            # One capital may end the last group: 131052-308T.
            one = is_in(classes, data[after], _UPPER)
            if not one or (after + 1 < end and is_in(classes, data[after + 1], WORD)):
                break
            digits += group
            groups += 1
            longest = max(longest, group)
            at = after + 1
            break
        last_dots = last_dots + 1 if dotted and gap == at + 1 else 0
        dots = max(dots, last_dots)
        digits += group
        groups += 1
        longest = max(longest, group)
        at = after
    lettered = at + 1 < end and data[at] == HYPHEN and is_in(classes, data[at + 1], _UPPER)
    if lettered and (at + 2 == end or not is_in(classes, data[at + 2], WORD)):
        at += 2  # 12.345.678-K
    wanted = (digits >= MIN_DIGITS and longest <= MOST_GROUP) or dots >= 3
    if not wanted and digits == 6 and groups == 3 and start >= begin + 3 and data[start - 1] == SP:
        wanted = is_in(classes, data[start - 2], _UPPER) and is_in(classes, data[start - 3], _UPPER)
    if groups == 2 and ((digits == 8 and start + 4 == stop and at == stop + 5) or data[stop] == DOT):
        wanted = False  # 1990-2000, 3.14159265
    if 3 <= groups <= 4 and digits <= 10 and _is_date(data, start, stop, at, classes):
        wanted = False
    plus = start > begin and data[start - 1] == PLUS
    wanted = wanted and (groups > 1 or plus or digits >= MIN_BARE)
    while start > begin and (data[start - 1] == LEFT_PAREN or data[start - 1] == PLUS):
        start -= 1
    return start, at, wanted


@njit(nogil=True, cache=True)
def _reach(data: Bytes, start: int, end: int, classes: Bytes) -> int:
    """Counts the bytes of words with `-` and `.` between them from `start` on, up to MIN_TOKEN."""
    at = start
    # Count up to the first byte that is not part of a token.
    while at < end and at - start < MIN_TOKEN:
        byte = data[at]
        if byte != HYPHEN and byte != DOT and not is_in(classes, byte, WORD):
            break
        at += 1
    return at - start


@njit(nogil=True, cache=True)
def _spread(data: Bytes, start: int, stop: int, begin: int, end: int, classes: Bytes) -> int:
    """Counts the bytes of Base64 and its variants around a word, up to MIN_MIXED on each side."""
    low, high = start, stop
    # First the bytes before the word.
    while low > begin and start - low < MIN_MIXED:
        byte = data[low - 1]
        if byte != PLUS and byte != HYPHEN and byte != SLASH and byte != EQUALS and not is_in(classes, byte, WORD):
            break
        low -= 1
    # Then those after it.
    while high < end and high - stop < MIN_MIXED:
        byte = data[high]
        if byte != PLUS and byte != HYPHEN and byte != SLASH and byte != EQUALS and not is_in(classes, byte, WORD):
            break
        high += 1
    return high - low


@njit(nogil=True, cache=True)
def word_kind(
    data: Bytes, start: int, stop: int, begin: int, end: int, classes: Bytes, opened: Bytes, long_words: int
) -> tuple[int, int]:
    """Returns the kind of a word with letters in it (-1: none), and where the candidate begins."""
    size = stop - start
    digits = uppers = unders = others58 = 0
    # Count the classes of the bytes, at most MOST_JOINED of them.
    for at in range(start, min(stop, start + MOST_JOINED)):
        kinds = classes[data[at]]
        digits += kinds & DIGIT != 0
        uppers += kinds & _UPPER != 0
        unders += kinds & _UNDER != 0
        others58 += kinds & _BASE58 == 0
    if size == 4:
        if uppers == 2 and digits == 2 and is_in(classes, data[start], _UPPER) and stop < end:
            ordered = is_in(classes, data[start + 1], _UPPER)
            if ordered and _separator(data, stop, end):
                return IBAN, start
        return -1, start
    if size < 8:
        return -1, start
    first, second = data[start], data[start + 1]
    third = data[start + 2]
    if first == ZERO and second == LOWER_X:  # 0x
        return (WALLET if size == 42 else -1), start
    if opened[_opening(first, second, third)] and _reach(data, start, end, classes) >= MIN_TOKEN:
        return TOKEN, start
    joined = start
    least = max(begin, start - MOST_JOINED)
    # A token may have hyphens and dots, so it may begin before this word.
    while joined > least:
        byte = data[joined - 1]
        if byte != HYPHEN and byte != DOT and not is_in(classes, byte, WORD):
            break
        joined -= 1
    if joined < start:
        first, second = data[joined], data[joined + 1]
        if opened[_opening(first, second, data[joined + 2])] and stop - joined >= MIN_TOKEN:
            return TOKEN, joined
        first, second = data[start], data[start + 1]
    country = is_in(classes, first, _UPPER) and is_in(classes, second, _UPPER)
    checked = is_in(classes, third, DIGIT) and is_in(classes, data[start + 3], DIGIT)
    if 15 <= size <= 34 and not unders and country and checked:
        return IBAN, start
    if 25 <= size <= 90 and digits:
        bech32 = (first == LOWER_B and second == LOWER_C) or (first == LOWER_L and second == LOWER_T)  # bc1, ltc1
        if (bech32 and not unders) or (size <= 36 and not others58):
            return WALLET, start
    if digits >= 4 and uppers and uppers + digits == size and (size == 9 or size == 10 or size == 16 or size == 18):
        return CODED, start
    if long_words == NO_LONG or size < MIN_LONG or not digits:
        return -1, start
    if long_words == MIXED_LONG:
        mixed = uppers > 0 and uppers + digits + unders < size
        if not mixed or _spread(data, start, stop, begin, end, classes) < MIN_MIXED:
            return -1, start
    return LONG, start


@njit(nogil=True, cache=True)
def at_sign(data: Bytes, at: int, width: int, begin: int, end: int, classes: Bytes, last: int) -> tuple[int, int, int]:
    """Returns kind (-1: none), start and stop of the text around a sign of 1 (`@`) or 3 bytes (`%40`), not before
    `last`.
    """
    low, high = at, at + width
    if low == begin or high + 1 >= end or (width == 3 and (data[at + 1] != 52 or data[at + 2] != ZERO)):
        return -1, at, at
    if width == 1 and data[low - 1] == SP and data[high] == SP:
        low, high = low - 1, high + 1
    start = low
    while start > last and low - start < MOST_LOCAL and is_in(classes, data[start - 1], _LOCAL):
        start -= 1
    stop = high
    dots = 0
    # The domain: the dots in it are counted.
    while stop < end and stop - high < MOST_DOMAIN and is_in(classes, data[stop], _DOMAIN):
        dots += data[stop] == DOT
        stop += 1
    back, passwords = at, 0
    # A login in a URL goes back to `//`.
    while width == 1 and back > last and at - back < MOST_LOGIN:
        byte = data[back - 1]
        if byte <= SP or byte == SLASH:
            break
        back -= 1
        passwords += byte == COLON
    slashes = back - 3 >= last and data[back - 1] == SLASH and data[back - 2] == SLASH
    if passwords and slashes and data[back - 3] == COLON:
        return LOGIN, back, at
    if start == low or not dots:
        return -1, at, at
    return AT, start, stop


@njit(nogil=True, cache=True)
def colons_at(data: Bytes, at: int, begin: int, end: int, classes: Bytes) -> tuple[int, int, bool]:
    """Returns the hexadecimal groups around a colon, and whether they are a candidate."""
    start = at
    # First back over digits and colons.
    while start > begin and at - start < MOST_HEX:
        byte = data[start - 1]
        if byte != COLON and not is_in(classes, byte, _HEX):
            break
        start -= 1
    stop, colons, doubled = start, 0, False
    # Then forward; `::` counts as doubled.
    while stop < end:
        byte = data[stop]
        if byte == COLON:
            colons += 1
            doubled |= stop > start and data[stop - 1] == COLON
        elif not is_in(classes, byte, _HEX):
            break
        stop += 1
    wanted = stop - start <= MOST_HEX and colons >= 2 and (doubled or colons == 7 or colons == 5)
    if start > begin and is_in(classes, data[start - 1], WORD):
        wanted = False
    return start, stop, wanted


@njit(nogil=True, cache=True)
def dashed_mac(data: Bytes, start: int, covered: int, begin: int, end: int, classes: Bytes) -> int:
    """Returns the begin of a MAC address with dashes that includes the pair at `start`, not before `covered`;
    -1: none.
    """
    # The pair may be any of the six.
    for back in range(6):
        if start - 3 * back >= covered and _is_dashed_mac(data, start - 3 * back, begin, end, classes):
            return start - 3 * back
    return -1


@njit(nogil=True, cache=True)
def _is_dashed_mac(data: Bytes, start: int, begin: int, end: int, classes: Bytes) -> bool:
    """Whether six pairs of hexadecimal digits with dashes between them begin at `start`."""
    before = data[start - 1] if start > begin else 0
    if start + 17 > end or before == HYPHEN or is_in(classes, before, WORD):
        return False
    # Every third byte is a hyphen.
    for place in range(17):
        byte = data[start + place]
        if (byte == HYPHEN) != (place % 3 == 2) or (byte != HYPHEN and not is_in(classes, byte, _HEX)):
            return False
    if start + 17 == end:
        return True
    return not is_in(classes, data[start + 17], WORD) and data[start + 17] != HYPHEN


@njit(nogil=True, cache=True)
def is_spelt(data: Bytes, at: int, begin: int, end: int, classes: Bytes) -> bool:
    """Whether `dot`, or `at` in brackets, begins at this beginning of a word, with something after it."""
    if at == begin or at + 4 > end:
        return False
    first, second, third = data[at] | 32, data[at + 1] | 32, data[at + 2]
    if first == LOWER_D:
        return second == LOWER_O and third | 32 == LOWER_T and not is_in(classes, data[at + 3], WORD)
    opened = data[at - 2 if data[at - 1] == SP and at - 2 >= begin else at - 1]
    closed = data[at + 3] if third == SP else third
    bracketed = (opened == LEFT_PAREN and closed == RIGHT_PAREN) or (opened | 32 == LEFT_BRACE and closed == opened + 2)
    return bool(first == LOWER_A and second == LOWER_T and bracketed)


@njit(nogil=True, cache=True)
def is_key(data: Bytes, at: int, end: int) -> bool:
    """Whether `-----BEG` begins here, with ` KE` in the next 60 bytes of the line."""
    if at + 25 > end or data[at + 5] != UPPER_B or data[at + 6] != UPPER_E or data[at + 7] != UPPER_G:
        return False
    # Five hyphens.
    for place in range(at, at + 5):
        if data[place] != HYPHEN:
            return False
    # Search the rest of the line for the word KEY.
    for place in range(at + 10, min(end - 4, at + 60)):
        byte = data[place]
        if byte == LF:
            return False
        if byte == SP and data[place + 1] == UPPER_K and data[place + 2] == UPPER_E:
            return True
    return False

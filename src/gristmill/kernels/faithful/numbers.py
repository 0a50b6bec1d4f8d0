"""Reads numbers in digits: groups of thousands, decimals, dotted dates.

`1,234`, `1.234.567`, `1 234` (with a no-break space) and `1'234` have groups of thousands; `1.5` and `1,5` have
decimals; `1.234` may be either. Other dotted digits (`1.2.3`) are compared as they are written, unless they are a date:
`4.5.2021`. A number is a mantissa without trailing zeros, modulo 2^64, and a power of ten.
"""

from typing import NamedTuple

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes
from gristmill.kernels.text.ascii import APOSTROPHE, COMMA, DOT, NINE, ZERO

NO_BREAK_SPACE, NARROW_SPACE, THIN_SPACE = b"\xc2\xa0", b"\xe2\x80\xaf", b"\xe2\x80\x89"
_TWO_LEAD, _TWO_LAST = NO_BREAK_SPACE
_THREE_LEAD, _THREE_MIDDLE, _NARROW_LAST = NARROW_SPACE
_THIN_LAST = THIN_SPACE[2]
GROUP_DIGITS = 3


class Digits(NamedTuple):
    """The extent of a number in digits."""

    end: int
    decimals: int
    """Where its decimals begin; its end if it has none."""
    may_have_thousands: bool
    """`1.234` may also be 1234."""
    is_literal: bool
    """It is compared as it is written."""


@njit(nogil=True, cache=True, forceinline=True)
def _is_digit(data: Bytes, at: int, stop: int) -> bool:
    return at < stop and ZERO <= data[at] <= NINE


@njit(nogil=True, cache=True)
def digits_end(data: Bytes, at: int, stop: int) -> int:
    """Returns the end of the ASCII digits from `at` on."""
    while at < stop and ZERO <= data[at] <= NINE:
        at += 1
    return at


@njit(nogil=True, cache=True)
def _space_group(data: Bytes, at: int, stop: int) -> int:
    """Returns the bytes of an apostrophe or no-break space at `at`; 0 if there is none."""
    if at < stop and data[at] == APOSTROPHE:
        return 1
    if at + 1 < stop and data[at] == _TWO_LEAD and data[at + 1] == _TWO_LAST:
        return 2
    if at + 2 < stop and data[at] == _THREE_LEAD and data[at + 1] == _THREE_MIDDLE:
        return 3 if data[at + 2] == _NARROW_LAST or data[at + 2] == _THIN_LAST else 0
    return 0


@njit(nogil=True, cache=True)
def _groups_end(data: Bytes, at: int, stop: int, separator: int) -> int:
    """Returns the end of groups of exactly three digits from `at` on, each after the separator; 0: any space."""
    # Each turn takes a separator and three digits.
    while at < stop:
        step = (1 if data[at] == separator else 0) if separator else _space_group(data, at, stop)
        if step == 0 or digits_end(data, at + step, stop) != at + step + GROUP_DIGITS:
            break
        at += step + GROUP_DIGITS
    return at


@njit(nogil=True, cache=True)
def _dotted_digits(data: Bytes, whole: int, stop: int, groups: bool) -> Digits:
    """Reads a number with digits after the dot at `whole`."""
    end = digits_end(data, whole + 1, stop)
    if end < stop and data[end] == DOT and _is_digit(data, end + 1, stop):
        chain = end
        while chain < stop and data[chain] == DOT and _is_digit(data, chain + 1, stop):
            chain = digits_end(data, chain + 1, stop)
        if not groups or _groups_end(data, whole, stop, DOT) != chain:
            return Digits(chain, chain, False, True)
        if chain < stop and data[chain] == COMMA and _is_digit(data, chain + 1, stop):
            return Digits(digits_end(data, chain + 1, stop), chain + 1, False, False)
        return Digits(chain, chain, False, False)
    three = groups and end - whole == 1 + GROUP_DIGITS
    if three and end < stop and data[end] == COMMA and _is_digit(data, end + 1, stop):
        return Digits(digits_end(data, end + 1, stop), end + 1, False, False)
    return Digits(end, whole + 1, three, False)


@njit(nogil=True, cache=True)
def read_digits(data: Bytes, begin: int, stop: int) -> Digits:
    """Reads the number that begins with the digit at `begin`."""
    whole = digits_end(data, begin, stop)
    groups = whole - begin <= GROUP_DIGITS and data[begin] != ZERO
    if whole >= stop:
        return Digits(whole, whole, False, False)
    mark = data[whole]
    if mark == DOT and _is_digit(data, whole + 1, stop):
        return _dotted_digits(data, whole, stop, groups)
    after = whole
    if groups:
        after = _groups_end(data, whole, stop, COMMA if mark == COMMA else 0)
    if after > whole:
        is_mark = after < stop and (data[after] == DOT or (data[after] == COMMA and mark != COMMA))
        if is_mark and _is_digit(data, after + 1, stop):
            return Digits(digits_end(data, after + 1, stop), after + 1, False, False)
        return Digits(after, after, False, False)
    if mark == COMMA and _is_digit(data, whole + 1, stop):
        end = digits_end(data, whole + 1, stop)
        if not (end < stop and data[end] == COMMA and _is_digit(data, end + 1, stop)):
            return Digits(end, whole + 1, False, False)
    return Digits(whole, whole, False, False)


@njit(nogil=True, cache=True)
def decimal_of(data: Bytes, begin: int, number: Digits) -> tuple[np.uint64, int]:
    """Returns mantissa and power of ten of a number that begins at `begin`."""
    mantissa = np.uint64(0)
    zeros = 0
    places = 0
    # Zeros wait until another digit follows, so trailing ones become the power of ten.
    for at in range(begin, number.end):
        digit = data[at]
        if not ZERO <= digit <= NINE:
            continue
        places += at >= number.decimals
        if digit == ZERO:
            zeros += mantissa != 0
            continue
        for _ in range(zeros + 1):
            mantissa *= np.uint64(10)
        mantissa += np.uint64(digit - ZERO)
        zeros = 0
    return mantissa, (zeros - places if mantissa != 0 else 0)


@njit(nogil=True, cache=True)
def value_of(data: Bytes, begin: int, end: int) -> int:
    """Returns the value of a few digits."""
    value = 0
    for at in range(begin, end):
        value = value * 10 + data[at] - ZERO
    return value


@njit(nogil=True, cache=True)
def dotted_date(data: Bytes, begin: int, end: int) -> int:
    """Returns d.m.yyyy as yyyymmdd; -1 for anything else."""
    first = digits_end(data, begin, end)
    second = digits_end(data, first + 1, end)
    if first - begin > 2 or second - first - 1 > 2 or end - second != 5 or digits_end(data, second + 1, end) != end:
        return -1
    day, month = value_of(data, begin, first), value_of(data, first + 1, second)
    year = value_of(data, second + 1, end)
    if 1 <= day <= 31 and 1 <= month <= 12 and 1000 <= year <= 2999:
        return year * 10000 + month * 100 + day
    return -1

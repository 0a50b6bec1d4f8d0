"""Reads dates and times of day from the tokens of a text.

`May 4, 2021`, `4 May 2021`, `2021-05-04` and `4.5.2021` are one date, `05/04/2021` is read both ways, and `3 pm` and
`15:00` are one time.
"""

from typing import NamedTuple

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.faithful.lexicon import (
    ABBREVIATION,
    COMMON,
    MERIDIEM,
    MERIDIEM_HEAD,
    MERIDIEM_TAIL,
    OF,
    ORDINAL_END,
    WEEKDAY,
    date_of,
)
from gristmill.kernels.faithful.tokens import (
    BLANK,
    CAPITAL,
    DATED,
    IS_NUMBER,
    IS_SYMBOL,
    IS_WORD,
    SPACED,
    Tokens,
)
from gristmill.kernels.text.ascii import COLON, COMMA, DOT, HYPHEN, SLASH

WEEKDAYS = 900_000_000
"""Added to a weekday, as a date."""
SHORT_WEEKDAY = 100
"""Added to a weekday that is abbreviated."""
YEARS = (1000, 2999)
_YEAR, _MONTH = 10000, 100
"""A date is year * 10000 + month * 100 + day."""
_THIS_CENTURY = 50
"""Years of two digits below this are 20yy."""


class DateReading(NamedTuple):
    """A date in a text."""

    end: int
    """The token after it; its first token if there is no date."""
    date: int
    """The date as yyyymmdd, with 0 for what it lacks."""
    other: int
    """Another reading, or 0."""


@njit(nogil=True, cache=True, forceinline=True)
def is_symbol(tokens: Tokens, at: int, count: int, point: int) -> bool:
    """Whether this symbol is at `at`."""
    return at < count and tokens.traits[at] & IS_SYMBOL != 0 and tokens.keys[at] == np.uint64(point)


@njit(nogil=True, cache=True, forceinline=True)
def is_glued(tokens: Tokens, at: int) -> bool:
    """Whether no white space is before the token."""
    return not tokens.traits[at] & SPACED


@njit(nogil=True, cache=True, forceinline=True)
def word_traits(tokens: Tokens, at: int, count: int) -> int:
    """Returns the traits of the word at `at`; 0 if there is none."""
    return tokens.traits[at] if at < count and tokens.traits[at] & IS_WORD else 0


@njit(nogil=True, cache=True, forceinline=True)
def has_trait(tokens: Tokens, at: int, count: int, trait: int) -> bool:
    """Whether a word with this trait is at `at`."""
    return word_traits(tokens, at, count) & trait != 0


@njit(nogil=True, cache=True)
def is_apart(tokens: Tokens, at: int, last: int, count: int) -> bool:
    """Whether an empty line is before one of the tokens from `at` to `last`."""
    traits = 0
    for one in range(at, min(last + 1, count)):
        traits |= tokens.traits[one]
    return traits & BLANK != 0


@njit(nogil=True, cache=True)
def _plain(tokens: Tokens, at: int, count: int, digits: int, low: int, high: int) -> int:
    """Returns the plain number of at most (if below 0: exactly) so many digits at `at`, if it is in range; or -1."""
    if at >= count or tokens.traits[at] & (IS_NUMBER | DATED) != IS_NUMBER:
        return -1
    size, value = tokens.digits[at], tokens.values[at]
    fits = size == -digits if digits < 0 else 1 <= size <= digits
    return value if fits and low <= value <= high else -1


@njit(nogil=True, cache=True)
def _year(tokens: Tokens, at: int, count: int) -> int:
    return _plain(tokens, at, count, -4, 1000, 2999)


@njit(nogil=True, cache=True)
def _day(tokens: Tokens, at: int, count: int) -> int:
    return _plain(tokens, at, count, 2, 1, 31)


@njit(nogil=True, cache=True)
def _month(tokens: Tokens, at: int, count: int) -> int:
    """Returns the month named at `at`, or 0. A month that is also an ordinary word (`may`) needs a capital."""
    traits = word_traits(tokens, at, count)
    month = date_of(traits)
    if month > WEEKDAY or (not traits & CAPITAL and traits & COMMON):
        return 0
    return month


@njit(nogil=True, cache=True)
def _year_after(tokens: Tokens, at: int, count: int) -> tuple[int, int]:
    """Returns a year after a month or day, perhaps after a comma or `of`, and its end; (0, at) if there is none."""
    after = at
    if is_symbol(tokens, after, count, COMMA) or has_trait(tokens, after, count, OF):
        after += 1
    if is_apart(tokens, at, after, count):
        return 0, at
    year = _year(tokens, after, count)
    return (year, after + 1) if year >= 0 else (0, at)


@njit(nogil=True, cache=True)
def _numeric_date(tokens: Tokens, at: int, count: int) -> DateReading:
    """Reads `2021-05-04`, `05/04/2021`, `5/4/21` and the like."""
    none = DateReading(at, 0, 0)
    if at + 4 >= count or not tokens.traits[at + 1] & tokens.traits[at + 3] & IS_SYMBOL:
        return none
    mark = tokens.keys[at + 1]
    if tokens.keys[at + 3] != mark or (mark != np.uint64(HYPHEN) and mark != np.uint64(SLASH)):
        return none
    # No white space within the date.
    for place in range(at + 1, at + 5):
        if not is_glued(tokens, place):
            return none
    year, month = _year(tokens, at, count), _plain(tokens, at + 2, count, 2, 1, 12)
    day = _day(tokens, at + 4, count)
    if year >= 0 and month >= 0 and day >= 0:
        return DateReading(at + 5, year * _YEAR + month * _MONTH + day, 0)
    one, two = _day(tokens, at, count), _day(tokens, at + 2, count)
    year = _year(tokens, at + 4, count)
    if year < 0 and mark == np.uint64(SLASH):
        short = _plain(tokens, at + 4, count, -2, 0, 99)
        year = -1 if short < 0 else short + (2000 if short < _THIS_CENTURY else 1900)
    if one < 0 or two < 0 or year <= 0 or min(one, two) > 12:
        return none
    monthly = year * _YEAR + one * _MONTH + two if one <= 12 else 0
    daily = year * _YEAR + two * _MONTH + one if two <= 12 else 0
    return DateReading(at + 5, monthly if monthly else daily, daily if monthly and daily != monthly else 0)


@njit(nogil=True, cache=True)
def _day_first(tokens: Tokens, at: int, count: int) -> DateReading:
    """Reads `4 May 2021`, `4th of May`, `4. Mai`."""
    day = _day(tokens, at, count)
    if day < 0:
        return DateReading(at, 0, 0)
    after = at + 1
    if after < count and is_glued(tokens, after):
        after += has_trait(tokens, after, count, ORDINAL_END) or is_symbol(tokens, after, count, DOT)
    after += has_trait(tokens, after, count, OF)
    month = _month(tokens, after, count)
    if not month or is_apart(tokens, at + 1, after, count):
        return DateReading(at, 0, 0)
    after += 1
    has_dot = is_symbol(tokens, after, count, DOT)
    year, end = _year_after(tokens, after + has_dot, count)
    return DateReading(end if year or not has_dot else after, year * _YEAR + month * _MONTH + day, 0)


@njit(nogil=True, cache=True)
def _month_first(tokens: Tokens, at: int, count: int) -> DateReading:
    """Reads `May 4, 2021`, `May 2021`, `May`, `Monday`; all with a capital."""
    traits = tokens.traits[at]
    named = date_of(traits)
    if not traits & IS_WORD or named == 0 or not traits & CAPITAL:
        return DateReading(at, 0, 0)
    is_short = traits & ABBREVIATION != 0
    if named > WEEKDAY:
        return DateReading(at + 1, WEEKDAYS + named + (SHORT_WEEKDAY if is_short else 0), 0)
    after = at + 1
    if is_short:
        after += is_symbol(tokens, after, count, DOT)
    day = -1 if is_apart(tokens, at + 1, after, count) else _day(tokens, after, count)
    if day >= 0 and not is_symbol(tokens, after + 1, count, COLON):
        after += 1
        if after < count and is_glued(tokens, after):
            after += has_trait(tokens, after, count, ORDINAL_END)
        year, after = _year_after(tokens, after, count)
        return DateReading(after, year * _YEAR + named * _MONTH + day, 0)
    year, end = _year_after(tokens, after, count)
    return DateReading(end if year else at + 1, year * _YEAR + named * _MONTH, 0)


@njit(nogil=True, cache=True)
def read_date(tokens: Tokens, at: int, count: int) -> DateReading:
    """Reads a date at `at`."""
    traits = tokens.traits[at]
    if not traits & IS_NUMBER:
        return _month_first(tokens, at, count)
    if traits & DATED:
        return DateReading(at + 1, tokens.values[at], 0)
    found = _numeric_date(tokens, at, count)
    return found if found.end > at else _day_first(tokens, at, count)


@njit(nogil=True, cache=True)
def _meridiem(tokens: Tokens, at: int, count: int) -> int:
    """Returns the end of `am`, `p.m.` at `at`, or `at`."""
    if has_trait(tokens, at, count, MERIDIEM):
        return at + 1
    is_dotted = has_trait(tokens, at, count, MERIDIEM_HEAD) and is_symbol(tokens, at + 1, count, DOT)
    if is_dotted and has_trait(tokens, at + 2, count, MERIDIEM_TAIL) and is_glued(tokens, at + 2):
        return at + 4 if is_symbol(tokens, at + 3, count, DOT) else at + 3
    return at


@njit(nogil=True, cache=True)
def read_time(tokens: Tokens, at: int, count: int) -> tuple[int, int]:
    """Returns the end of a time of day at `at` and its seconds, without the half of the day; the end is `at` if there
    is none.
    """
    hour = _plain(tokens, at, count, 2, 0, 24)
    if hour < 0:
        return at, 0
    seconds = hour % 12 * 3600
    end = at + 1
    # Minutes, then seconds.
    for size in (60, 1):
        value = _plain(tokens, end + 1, count, -2, 0, 59)
        if value < 0 or not is_symbol(tokens, end, count, COLON):
            break
        if not is_glued(tokens, end) or not is_glued(tokens, end + 1):
            break
        seconds += size * value
        end += 2
    half = _meridiem(tokens, end, count)
    if end == at + 1:
        return (half, seconds) if 1 <= hour <= 12 and half > end and not tokens.traits[end] & BLANK else (at, 0)
    return half, seconds

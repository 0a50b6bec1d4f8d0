"""Reads numbers, quantities, times and dates from the tokens of a text, so that spellings of one value are equal.

`3,000`, `3000`, `3 thousand` and `three thousand` are one number; `5 km` and `5 kilometres` one quantity; `3 pm` and
`15:00` one time; `May 4, 2021`, `4 May 2021`, `2021-05-04` and `4.5.2021` one date. `05/04/2021` is read both ways.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.faithful.tokens import (
    ADDRESS,
    BLANK,
    CAPITAL,
    DATED,
    FIRST,
    HAS_DIGIT,
    LITERAL,
    NAME_WORD,
    PLAIN_NUMBER,
    SPACED,
    SYMBOL,
    THOUSANDS,
    TokenViews,
)
from gristmill.kernels.memory import Bytes, Ints, Uint64s, view
from gristmill.kernels.text.ascii import COLON, COMMA, DOT, HYPHEN, SLASH

NUMBER_FACT, TIME_FACT, DATE_FACT, WORD_FACT, ADDRESS_FACT = range(5)
"""A number (perhaps with a unit), a time of day, a date, a word with digits, an address."""

STOP, COMMON, NEGATION, AND, OF, ORDINAL_END, ABBREVIATION = (1 << bit for bit in range(7))
"""Flags of a lexicon entry: a word without content; an ordinary word; a negation; `and`; `of`; the end of an ordinal
number; a short form of a month or weekday."""
MERIDIEM, MERIDIEM_HEAD, MERIDIEM_TAIL = (1 << bit for bit in range(7, 10))
"""Flags of `am` and `pm`, of `a` and `p`, and of `m`."""
HUNDRED, SCALE, SHORT_SCALE = 100, 1000, 2000
"""Number words up to 90 are their value + 1; ORDINAL is added to ordinals. `hundred` is HUNDRED; a power of ten p is
SCALE + p, or SHORT_SCALE + p if it is a letter after an amount of money."""
ORDINAL = 200
WEEKDAY = 20
"""Months are 1 to 12, weekdays WEEKDAY + 1 to WEEKDAY + 7."""
MOST_NUMBER_WORDS = 16
SPOKEN = 10
"""Spelled numbers up to this are not checked in a text: `one of them`, `two reasons`."""
DEGREE = 0xB0
SYMBOLS = 0x2100
WEEKDAYS = 900_000_000
"""Added to a weekday, as a date."""

_MIX = np.uint64(0x9E3779B97F4A7C15)
_OTHER = np.uint64(0xD6E8FEB86659FD93)
_SHIFT = np.uint64(29)


class Lexicon(NamedTuple):
    """What is known about words, by their slot in `keys`."""

    keys: npt.NDArray[np.uint64]
    flags: npt.NDArray[np.int32]
    numbers: npt.NDArray[np.int32]
    dates: npt.NDArray[np.int32]
    units: npt.NDArray[np.int32]
    """The number of a unit; 0: none. Negative: a currency, which may also be before the number."""
    opposites: npt.NDArray[np.int32]
    """Twice the number of a pair of opposites, plus 1 for the second; 0: none."""
    languages: npt.NDArray[np.uint64]
    """A bit for each language in which it is a frequent word."""
    symbol_units: npt.NDArray[np.int32]
    """The units of symbols, by code point below SYMBOLS, as in `units`."""


class LexiconViews(NamedTuple):
    """Views of the arrays of `Lexicon`."""

    keys: Uint64s
    flags: Ints
    numbers: Ints
    dates: Ints
    units: Ints
    opposites: Ints
    languages: Uint64s
    symbol_units: Ints


@njit(nogil=True, cache=True)
def lexicon_views(lexicon: Any) -> LexiconViews:
    """Views of a `Lexicon`, which the caller's caller keeps alive."""
    return LexiconViews(
        view(lexicon.keys),
        view(lexicon.flags),
        view(lexicon.numbers),
        view(lexicon.dates),
        view(lexicon.units),
        view(lexicon.opposites),
        view(lexicon.languages),
        view(lexicon.symbol_units),
    )


class Facts(NamedTuple):
    """The facts of one text, as arrays."""

    kinds: npt.NDArray[np.uint8]
    keys: npt.NDArray[np.uint64]
    others: npt.NDArray[np.uint64]
    """Another reading of the same characters; 0: none."""
    units: npt.NDArray[np.int32]
    firsts: npt.NDArray[np.int64]
    """The first token."""
    lasts: npt.NDArray[np.int64]
    """The token after the last."""
    checked: npt.NDArray[np.uint8]
    """Whether the parent must have it; small spelled numbers need not be there."""


class FactViews(NamedTuple):
    """Views of the arrays of `Facts`."""

    kinds: Bytes
    keys: Uint64s
    others: Uint64s
    units: Ints
    firsts: Ints
    lasts: Ints
    checked: Bytes


@njit(nogil=True, cache=True)
def fact_views(facts: Any) -> FactViews:
    """Views of `Facts`, which the caller's caller keeps alive."""
    return FactViews(
        view(facts.kinds),
        view(facts.keys),
        view(facts.others),
        view(facts.units),
        view(facts.firsts),
        view(facts.lasts),
        view(facts.checked),
    )


@njit(nogil=True, cache=True)
def new_facts(size: int) -> Facts:
    """Room for the facts of a text of `size` tokens."""
    room = size + 1
    return Facts(
        np.empty(room, np.uint8),
        np.empty(room, np.uint64),
        np.empty(room, np.uint64),
        np.empty(room, np.int32),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.uint8),
    )


@njit(nogil=True, cache=True, forceinline=True)
def mix(one: np.uint64, other: np.uint64) -> np.uint64:
    """Returns a hash of two numbers in this order; never 0."""
    state = (one ^ (one >> _SHIFT)) * _MIX + other
    state = (state ^ (state >> _SHIFT)) * _OTHER
    return max(state ^ (state >> _SHIFT), np.uint64(1))


@njit(nogil=True, cache=True)
def number_key(mantissa: np.uint64, power: int) -> np.uint64:
    """Returns the key of a number."""
    return mix(mantissa, np.uint64(power + 20000))


@njit(nogil=True, cache=True)
def whole_key(value: Any) -> np.uint64:
    """Returns the key of a whole number."""
    power = 0
    while value and value % 10 == 0:
        value //= 10
        power += 1
    return number_key(np.uint64(value), power)


@njit(nogil=True, cache=True, forceinline=True)
def _is_symbol(tokens: TokenViews, at: int, count: int, point: int) -> bool:
    return at < count and tokens.kinds[at] == SYMBOL and tokens.keys[at] == np.uint64(point)


@njit(nogil=True, cache=True, forceinline=True)
def _is_glued(tokens: TokenViews, at: int) -> bool:
    return not tokens.flags[at] & SPACED


@njit(nogil=True, cache=True, forceinline=True)
def _entry(tokens: TokenViews, at: int, count: int) -> int:
    """Returns the lexicon slot of the word at `at`; -1 if there is none."""
    return tokens.entries[at] if at < count and tokens.kinds[at] == NAME_WORD else -1


@njit(nogil=True, cache=True)
def _has(tokens: TokenViews, at: int, count: int, lexicon: LexiconViews, flag: int) -> bool:
    entry = _entry(tokens, at, count)
    return entry >= 0 and lexicon.flags[entry] & flag != 0


@njit(nogil=True, cache=True)
def _is_apart(tokens: TokenViews, at: int, last: int, count: int) -> bool:
    """Whether an empty line is before one of the tokens from `at` to `last`."""
    apart = False
    for one in range(at, min(last + 1, count)):
        apart |= tokens.flags[one] & BLANK != 0
    return apart


@njit(nogil=True, cache=True)
def _plain(tokens: TokenViews, at: int, count: int, digits: int, low: int, high: int) -> int:
    """Returns the plain number of at most (if below 0: exactly) so many digits at `at`, if it is in range; or -1."""
    if at >= count or tokens.kinds[at] != PLAIN_NUMBER or tokens.flags[at] & DATED:
        return -1
    size, value = tokens.digits[at], tokens.values[at]
    fits = size == -digits if digits < 0 else 1 <= size <= digits
    return value if fits and low <= value <= high else -1


@njit(nogil=True, cache=True)
def _month(tokens: TokenViews, at: int, count: int, lexicon: LexiconViews) -> int:
    """Returns the month named at `at`, or 0. A month that is also an ordinary word (`may`) needs a capital."""
    entry = _entry(tokens, at, count)
    if entry < 0 or not 1 <= lexicon.dates[entry] <= 12:
        return 0
    if not tokens.flags[at] & CAPITAL and lexicon.flags[entry] & COMMON:
        return 0
    return lexicon.dates[entry]


@njit(nogil=True, cache=True)
def _year_after(tokens: TokenViews, at: int, count: int, lexicon: LexiconViews) -> tuple[int, int]:
    """Returns a year after a month or day, perhaps after a comma or `of`, and its end; (0, at) if there is none."""
    after = at
    if _is_symbol(tokens, after, count, COMMA) or _has(tokens, after, count, lexicon, OF):
        after += 1
    if _is_apart(tokens, at, after, count):
        return 0, at
    year = _plain(tokens, after, count, -4, 1000, 2999)
    return (year, after + 1) if year >= 0 else (0, at)


@njit(nogil=True, cache=True)
def _date(tokens: TokenViews, at: int, count: int, lexicon: LexiconViews) -> tuple[int, int, int]:
    """Returns the end of a date at `at`, the date as yyyymmdd with 0 for what it lacks, and another reading, or 0. The
    end is `at` if there is no date.
    """
    if tokens.kinds[at] == PLAIN_NUMBER:
        if tokens.flags[at] & DATED:
            return at + 1, tokens.values[at], 0
        if at + 4 < count and tokens.kinds[at + 1] == SYMBOL and tokens.keys[at + 1] == tokens.keys[at + 3]:
            mark = tokens.keys[at + 1]
            glued = True
            for place in range(at + 1, at + 5):
                glued &= _is_glued(tokens, place)
            if glued and tokens.kinds[at + 3] == SYMBOL and (mark == np.uint64(HYPHEN) or mark == np.uint64(SLASH)):
                year = _plain(tokens, at, count, -4, 1000, 2999)
                month = _plain(tokens, at + 2, count, 2, 1, 12)
                day = _plain(tokens, at + 4, count, 2, 1, 31)
                if year >= 0 and month >= 0 and day >= 0:
                    return at + 5, year * 10000 + month * 100 + day, 0
                one = _plain(tokens, at, count, 2, 1, 31)
                two = _plain(tokens, at + 2, count, 2, 1, 31)
                year = _plain(tokens, at + 4, count, -4, 1000, 2999)
                if year < 0 and mark == np.uint64(SLASH):
                    short = _plain(tokens, at + 4, count, -2, 0, 99)
                    year = -1 if short < 0 else short + (2000 if short < 50 else 1900)
                if one > 0 and two > 0 and year > 0 and min(one, two) <= 12:
                    monthly = year * 10000 + one * 100 + two if one <= 12 else 0
                    daily = year * 10000 + two * 100 + one if two <= 12 else 0
                    return at + 5, monthly if monthly else daily, daily if monthly and daily != monthly else 0
        day = _plain(tokens, at, count, 2, 1, 31)
        if day < 0:
            return at, 0, 0
        after = at + 1
        if (
            after < count
            and _is_glued(tokens, after)
            and (_has(tokens, after, count, lexicon, ORDINAL_END) or _is_symbol(tokens, after, count, DOT))
        ):
            after += 1
        if _has(tokens, after, count, lexicon, OF):
            after += 1
        month = _month(tokens, after, count, lexicon)
        if not month or _is_apart(tokens, at + 1, after, count):
            return at, 0, 0
        after += 1
        if _is_symbol(tokens, after, count, DOT):
            over = after + 1
            year, end = _year_after(tokens, over, count, lexicon)
            after = end if year else after
        else:
            year, after = _year_after(tokens, after, count, lexicon)
        return after, year * 10000 + month * 100 + day, 0
    entry = _entry(tokens, at, count)
    if entry < 0 or lexicon.dates[entry] == 0 or not tokens.flags[at] & CAPITAL:
        return at, 0, 0
    short = lexicon.flags[entry] & ABBREVIATION != 0
    if lexicon.dates[entry] > WEEKDAY:
        return at + 1, WEEKDAYS + lexicon.dates[entry] + (100 if short else 0), 0
    month, after = lexicon.dates[entry], at + 1
    if _is_symbol(tokens, after, count, DOT) and short:
        after += 1
    day = -1 if _is_apart(tokens, at + 1, after, count) else _plain(tokens, after, count, 2, 1, 31)
    if day >= 0 and not (after + 1 < count and _is_symbol(tokens, after + 1, count, COLON)):
        after += 1
        if after < count and _is_glued(tokens, after) and _has(tokens, after, count, lexicon, ORDINAL_END):
            after += 1
        year, after = _year_after(tokens, after, count, lexicon)
        return after, year * 10000 + month * 100 + day, 0
    year, end = _year_after(tokens, after, count, lexicon)
    if year:
        return end, year * 10000 + month * 100, 0
    return at + 1, month * 100, 0


@njit(nogil=True, cache=True)
def _meridiem(tokens: TokenViews, at: int, count: int, lexicon: LexiconViews) -> int:
    """Returns the end of `am`, `p.m.` at `at`, or `at`."""
    if _has(tokens, at, count, lexicon, MERIDIEM):
        return at + 1
    is_dotted = _has(tokens, at, count, lexicon, MERIDIEM_HEAD) and _is_symbol(tokens, at + 1, count, DOT)
    if is_dotted and _has(tokens, at + 2, count, lexicon, MERIDIEM_TAIL) and _is_glued(tokens, at + 2):
        return at + 4 if _is_symbol(tokens, at + 3, count, DOT) else at + 3
    return at


@njit(nogil=True, cache=True)
def _time(tokens: TokenViews, at: int, count: int, lexicon: LexiconViews) -> tuple[int, int]:
    """Returns the end of a time of day at `at` and its seconds, without the half of the day; the end is `at` if there
    is none.
    """
    hour = _plain(tokens, at, count, 2, 0, 24)
    if hour < 0:
        return at, 0
    seconds = hour % 12 * 3600
    end = at + 1
    for size in (60, 1):
        value = _plain(tokens, end + 1, count, -2, 0, 59)
        if value < 0 or not _is_symbol(tokens, end, count, COLON):
            break
        if not _is_glued(tokens, end) or not _is_glued(tokens, end + 1):
            break
        seconds += size * value
        end += 2
    half = _meridiem(tokens, end, count, lexicon)
    if end == at + 1:
        return (half, seconds) if 1 <= hour <= 12 and half > end and tokens.flags[end] & BLANK == 0 else (at, 0)
    return half, seconds


@njit(nogil=True, cache=True)
def _spelled(tokens: TokenViews, at: int, count: int, lexicon: LexiconViews) -> tuple[int, int, bool]:
    """Returns the end of a number in words at `at`, its value, and whether it is more than one small word or a bare
    power of ten. The end is `at` if there is none.
    """
    total = current = words = 0
    says_more = False
    start = at
    while at < count and words < MOST_NUMBER_WORDS:
        here = at
        if words:
            if _is_symbol(tokens, here, count, HYPHEN) and _is_glued(tokens, here) and here + 1 < count:
                here += 1 if _is_glued(tokens, here + 1) else 0
            elif says_more and _has(tokens, here, count, lexicon, AND):
                here += 1
        entry = _entry(tokens, here, count)
        code = lexicon.numbers[entry] if entry >= 0 else 0
        if code == 0 or code >= SHORT_SCALE or (words and _is_apart(tokens, at, here, count)):
            break
        ordinal = ORDINAL <= code < SCALE
        code -= ORDINAL if ordinal else 0
        if code < HUNDRED:
            value = code - 1
            rest = current % 100
            if rest != 0 and not (value < 10 and rest % 10 == 0 and rest >= 20):
                break
            current += value
        elif code == HUNDRED:
            if current >= 100:
                break
            says_more = True
            current = max(current, 1) * 100
        else:
            says_more = True
            scale = 1
            for _ in range(code - SCALE):
                scale *= 10
            total += max(current, 1) * scale
            current = 0
        words += 1
        at = here + 1
        if ordinal:
            break
    value = total + current
    return at, value, words > 1 or (words == 1 and SPOKEN < value < 100 and at > start)


@njit(nogil=True, cache=True)
def _unit_after(tokens: TokenViews, at: int, count: int, lexicon: LexiconViews) -> tuple[int, int]:
    """Returns the unit of a number that ends at `at`, or 0, and where the unit ends."""
    if at >= count or tokens.flags[at] & BLANK:
        return 0, at
    here = at
    if _is_symbol(tokens, here, count, HYPHEN) and _is_glued(tokens, here) and here + 1 < count:
        here += 1 if _is_glued(tokens, here + 1) else 0
    if tokens.kinds[here] == SYMBOL:
        point = tokens.keys[here]
        unit = lexicon.symbol_units[point] if point < np.uint64(SYMBOLS) else 0
        if point == np.uint64(DEGREE) and here + 1 < count and _is_glued(tokens, here + 1):
            entry = _entry(tokens, here + 1, count)
            if entry >= 0 and tokens.values[here + 1] == 1 and lexicon.units[entry]:
                return lexicon.units[entry] * 1000, here + 2
        return (abs(unit), here + 1) if unit else (0, at)
    entry = _entry(tokens, here, count)
    if entry < 0 or lexicon.units[entry] == 0:
        return 0, at
    return abs(lexicon.units[entry]), here + 1


@njit(nogil=True, cache=True)
def _currency_before(tokens: TokenViews, at: int, lexicon: LexiconViews) -> int:
    """Returns the currency before the number at `at`, or 0."""
    if at == 0:
        return 0
    before = at - 1
    unit = 0
    if tokens.kinds[before] == SYMBOL:
        point = tokens.keys[before]
        unit = lexicon.symbol_units[point] if point < np.uint64(SYMBOLS) else 0
    elif tokens.kinds[before] == NAME_WORD and tokens.entries[before] >= 0:
        unit = lexicon.units[tokens.entries[before]]
    return -unit if unit < 0 else 0


@njit(nogil=True, cache=True)
def _scaled(tokens: TokenViews, at: int, count: int, lexicon: LexiconViews, is_money: bool) -> tuple[int, int]:
    """Returns the power of ten of the words after a number (`3 million`, `1.5k`, `$5bn`), and where they end."""
    power = 0
    while True:
        here = at
        if _is_symbol(tokens, here, count, HYPHEN) and _is_glued(tokens, here) and here + 1 < count:
            here += 1 if _is_glued(tokens, here + 1) else 0
        entry = -1 if _is_apart(tokens, at, here, count) else _entry(tokens, here, count)
        code = lexicon.numbers[entry] if entry >= 0 else 0
        if code == HUNDRED:
            power += 2
        elif SCALE <= code < SHORT_SCALE:
            power += code - SCALE
        elif code >= SHORT_SCALE and power == 0 and _is_glued(tokens, here) and (is_money or code == SHORT_SCALE + 3):
            return code - SHORT_SCALE, here + 1
        else:
            return power, at
        at = here + 1


@njit(nogil=True, cache=True)
def read_facts(tokens: TokenViews, count: int, lexicon: LexiconViews, facts: FactViews) -> int:
    """Writes the facts of the tokens, in order; returns their number."""
    found = 0
    at = 0
    while at < count:
        kind = tokens.kinds[at]
        if kind == SYMBOL:
            at += 1
            continue
        end, other, unit, checked = at, np.uint64(0), 0, True
        key = np.uint64(0)
        fact = NUMBER_FACT
        if kind == ADDRESS:
            fact, key, end = ADDRESS_FACT, tokens.keys[at], at + 1
        elif kind == NAME_WORD and tokens.entries[at] < 0:
            if tokens.flags[at] & HAS_DIGIT:
                fact, key, end = WORD_FACT, tokens.keys[at], at + 1
        else:
            after, date, second = _date(tokens, at, count, lexicon)
            if after > at:
                fact, end, key, other = DATE_FACT, after, np.uint64(date), np.uint64(second)
                # `May` may be a verb at the start of a sentence, and `Mar` a name.
                if date < 1300 and date % 100 == 0:
                    checked = not (tokens.flags[at] & FIRST or lexicon.flags[tokens.entries[at]] & ABBREVIATION)
            elif kind == PLAIN_NUMBER:
                after, seconds = _time(tokens, at, count, lexicon)
                if after > at:
                    fact, end, key = TIME_FACT, after, np.uint64(seconds)
                else:
                    unit = _currency_before(tokens, at, lexicon)
                    power, end = _scaled(tokens, at + 1, count, lexicon, unit != 0)
                    if tokens.entries[at] == LITERAL:
                        power, end = 0, at + 1
                    key = number_key(tokens.keys[at], tokens.entries[at] + (power if tokens.keys[at] else 0))
                    if tokens.flags[at] & THOUSANDS and power == 0:
                        other = number_key(tokens.keys[at], tokens.entries[at] + 3)
            elif lexicon.numbers[tokens.entries[at]]:
                end, value, checked = _spelled(tokens, at, count, lexicon)
                key = whole_key(value)
            if fact == NUMBER_FACT and end > at:
                if _has(tokens, end, count, lexicon, ORDINAL_END) and _is_glued(tokens, end):
                    end += 1
                elif not unit:
                    unit, end = _unit_after(tokens, end, count, lexicon)
        if end > at:
            facts.kinds[found], facts.keys[found], facts.others[found] = fact, key, other
            facts.units[found], facts.firsts[found], facts.lasts[found] = unit, at, end
            facts.checked[found] = checked
            found += 1
        at = max(end, at + 1)
    return found

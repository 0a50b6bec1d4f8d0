"""Reads numbers, quantities, times and dates from the tokens of a text, so that spellings of one value are equal.

`3,000`, `3000`, `3 thousand` and `three thousand` are one number; `5 km` and `5 kilometres` one quantity.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.faithful.dates import (
    has_trait,
    is_apart,
    is_glued,
    is_symbol,
    read_date,
    read_time,
    word_traits,
)
from gristmill.kernels.faithful.lexicon import (
    ABBREVIATION,
    AND,
    CURRENCY,
    HAS_NUMBER,
    HAS_UNIT,
    HUNDRED,
    IS_KNOWN,
    ORDINAL,
    ORDINAL_END,
    SCALE,
    SHORT_SCALE,
    SYMBOLS,
    Lexicon,
    number_of,
    unit_of,
)
from gristmill.kernels.faithful.tokens import (
    BLANK,
    FIRST,
    IS_ADDRESS,
    IS_NUMBER,
    IS_SYMBOL,
    IS_WORD,
    LITERAL,
    MOST_LETTERS,
    THOUSANDS,
    TokenCounts,
    Tokens,
    letters_of,
)
from gristmill.kernels.text.ascii import HYPHEN

NUMBER_FACT, TIME_FACT, DATE_FACT, WORD_FACT, ADDRESS_FACT = range(5)
"""A number (perhaps with a unit), a time of day, a date, a word with digits, an address."""
MOST_NUMBER_WORDS = 16
SPOKEN = 10
"""Spelled numbers up to this are not checked in a text: `one of them`, `two reasons`."""
DEGREE = 0xB0
DEGREES = 1000
"""The unit `°C` is the unit of `C` times this."""
_NO_YEAR = 1300
"""Dates below this are a month without a day or year, or a day of a month."""
_POWERS = np.uint64(20000)
"""Added to a power of ten, so that it is positive."""

_MIX = np.uint64(0x9E3779B97F4A7C15)
_OTHER = np.uint64(0xD6E8FEB86659FD93)
_SHIFT = np.uint64(29)


class Facts(NamedTuple):
    """The facts of one text, as arrays."""

    kinds: npt.NDArray[np.uint8]
    keys: npt.NDArray[np.uint64]
    others: npt.NDArray[np.uint64]
    """Another reading of the same characters; 0: none."""
    units: npt.NDArray[np.int32]
    firsts: npt.NDArray[np.int32]
    """The first token."""
    lasts: npt.NDArray[np.int32]
    """The token after the last."""
    checked: npt.NDArray[np.uint8]
    """Whether the parent must have it; small spelled numbers need not be there."""


@njit(nogil=True, cache=True)
def new_facts(size: int) -> Facts:
    """Room for the facts of a text of `size` tokens."""
    room = size + 1
    return Facts(
        np.empty(room, np.uint8),
        np.empty(room, np.uint64),
        np.empty(room, np.uint64),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
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
    return mix(mantissa, np.uint64(power) + _POWERS)


@njit(nogil=True, cache=True)
def whole_key(value: Any) -> np.uint64:
    """Returns the key of a whole number."""
    power = 0
    # Trailing zeros become the power of ten, so that equal values have equal keys.
    while value and value % 10 == 0:
        value //= 10
        power += 1
    return number_key(np.uint64(value), power)


@njit(nogil=True, cache=True)
def _after_hyphen(tokens: Tokens, at: int, count: int) -> int:
    """Returns the token after a hyphen at `at` that joins two words; `at` if there is none."""
    joins = is_symbol(tokens, at, count, HYPHEN) and is_glued(tokens, at) and at + 1 < count
    return at + 1 if joins and is_glued(tokens, at + 1) else at


@njit(nogil=True, cache=True)
def _spelled(tokens: Tokens, at: int, count: int) -> tuple[int, int, bool, bool]:
    """Returns the end of a number in words at `at`, its value, whether it is more than one small word or a bare power
    of ten, and whether it is an ordinal. The end is `at` if there is none.
    """
    total = current = words = 0
    says_more = is_ordinal = False
    # Each turn reads one word of the number, such as `two`, `hundred`, `thousand`, and stops where the words do not
    # fit.
    while at < count and words < MOST_NUMBER_WORDS:
        here = at
        if words:
            here = _after_hyphen(tokens, at, count)
            if here == at and says_more:
                here += has_trait(tokens, at, count, AND)
        code = number_of(word_traits(tokens, here, count))
        if code == 0 or code >= SHORT_SCALE or (words and is_apart(tokens, at, here, count)):
            break
        is_last = ORDINAL <= code < SCALE
        code -= ORDINAL if is_last else 0
        if code < HUNDRED:
            # `twenty` and `one` add up, `twenty` and `thirty` do not.
            value, rest = code - 1, current % 100
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
        is_ordinal = is_last
        if is_last:
            break
    value = total + current
    return at, value, words > 1 or (words == 1 and SPOKEN < value < 100), is_ordinal


@njit(nogil=True, cache=True)
def _signed_unit(tokens: Tokens, at: int, lexicon: Lexicon) -> int:
    """Returns the unit of a symbol or word, or 0; a currency is negative."""
    traits = tokens.traits[at]
    if traits & IS_SYMBOL:
        point = tokens.keys[at]
        return lexicon.symbol_units[point] if point < np.uint64(SYMBOLS) else 0
    unit = unit_of(traits) if traits & IS_WORD else 0
    return -unit if traits & CURRENCY else unit


@njit(nogil=True, cache=True)
def unit_at(tokens: Tokens, at: int, lexicon: Lexicon) -> int:
    """Returns the unit of a symbol or word, or 0."""
    return abs(_signed_unit(tokens, at, lexicon))


@njit(nogil=True, cache=True)
def _unit_after(tokens: Tokens, at: int, count: int, lexicon: Lexicon) -> tuple[int, int]:
    """Returns the unit of a number that ends at `at`, or 0, and where the unit ends."""
    if at >= count or tokens.traits[at] & BLANK:
        return 0, at
    here = _after_hyphen(tokens, at, count)
    if is_symbol(tokens, here, count, DEGREE) and here + 1 < count and is_glued(tokens, here + 1):
        traits = word_traits(tokens, here + 1, count)
        if traits & HAS_UNIT and letters_of(traits) == 1:
            unit = _signed_unit(tokens, here + 1, lexicon)
            return unit * DEGREES, here + 2
    unit = unit_at(tokens, here, lexicon)
    if not unit:
        return 0, at
    scale = word_traits(tokens, here + 1, count)
    if unit == lexicon.symbol_units[DEGREE] and scale & HAS_UNIT and letters_of(scale) == MOST_LETTERS:
        return unit_of(scale) * DEGREES, here + 2  # degrees Celsius
    return unit, here + 1


@njit(nogil=True, cache=True)
def _scaled(tokens: Tokens, at: int, count: int, is_money: bool) -> tuple[int, int]:
    """Returns the power of ten of the words after a number (`3 million`, `1.5k`, `$5bn`), and where they end."""
    power = 0
    # Powers add up: `hundred million`.
    while True:
        here = _after_hyphen(tokens, at, count)
        code = 0 if is_apart(tokens, at, here, count) else number_of(word_traits(tokens, here, count))
        if code == HUNDRED:
            power += 2
        elif SCALE <= code < SHORT_SCALE:
            power += code - SCALE
        elif code >= SHORT_SCALE and power == 0 and is_glued(tokens, here) and (is_money or code == SHORT_SCALE + 3):
            return code - SHORT_SCALE, here + 1
        else:
            return power, at
        at = here + 1


class Quantity(NamedTuple):
    """A number in digits, with the words after it."""

    key: np.uint64
    other: np.uint64
    unit: int
    end: int


@njit(nogil=True, cache=True)
def _quantity(tokens: Tokens, at: int, count: int, lexicon: Lexicon) -> Quantity:
    """Reads the number in digits at `at`, its currency and its scale."""
    unit = max(-_signed_unit(tokens, at - 1, lexicon), 0) if at else 0
    key, exponent = tokens.keys[at], tokens.powers[at]
    if exponent == LITERAL:
        return Quantity(number_key(key, exponent), np.uint64(0), unit, at + 1)
    power, end = _scaled(tokens, at + 1, count, unit != 0)
    other = np.uint64(0)
    if tokens.traits[at] & THOUSANDS and power == 0:
        other = number_key(key, exponent + 3)
    return Quantity(number_key(key, exponent + (power if key else 0)), other, unit, end)


@njit(nogil=True, cache=True)
def read_facts(tokens: Tokens, counts: TokenCounts, lexicon: Lexicon, facts: Facts) -> int:
    """Writes the facts of the tokens, in order; returns their number."""
    count, found, last = counts.tokens, 0, 0
    # Only tokens that can begin a fact are visited.
    for place in range(counts.factual):
        at = tokens.factual[place]
        if at < last:
            continue  # a part of the last fact
        traits = tokens.traits[at]
        end, other, unit, checked = at, np.uint64(0), 0, True
        is_ordinal = False
        key = np.uint64(0)
        fact = NUMBER_FACT
        if traits & IS_ADDRESS:
            fact, key, end = ADDRESS_FACT, tokens.keys[at], at + 1
        elif traits & IS_WORD and not traits & IS_KNOWN:
            fact, key, end = WORD_FACT, tokens.keys[at], at + 1
        else:
            after, date, second = read_date(tokens, at, count)
            if after > at:
                fact, end, key, other = DATE_FACT, after, np.uint64(date), np.uint64(second)
                # `May` may be a verb at the start of a sentence, and `Mar` a name.
                if date < _NO_YEAR and date % 100 == 0:
                    checked = not traits & (FIRST | ABBREVIATION)
            elif traits & IS_NUMBER:
                after, seconds = read_time(tokens, at, count)
                if after > at:
                    fact, end, key = TIME_FACT, after, np.uint64(seconds)
                else:
                    key, other, unit, end = _quantity(tokens, at, count, lexicon)
            elif traits & HAS_NUMBER:
                end, value, checked, is_ordinal = _spelled(tokens, at, count)
                key = whole_key(value)
            if fact == NUMBER_FACT and end > at:
                if end < count and is_glued(tokens, end) and has_trait(tokens, end, count, ORDINAL_END):
                    end += 1
                elif not unit and not is_ordinal:
                    unit, end = _unit_after(tokens, end, count, lexicon)
        if end > at:
            facts.kinds[found], facts.keys[found], facts.others[found] = fact, key, other
            facts.units[found], facts.firsts[found], facts.lasts[found] = unit, at, end
            facts.checked[found] = checked
            found += 1
        last = end
    return found

"""What is known about words: number words, months, units, negations, opposites, and the languages they are frequent in.

A word's knowledge is one integer, its *traits*. The low bits say what a token is (`tokens.py`); the bits from WORD_BITS
on come from the lexicon, so one load answers every question about a token.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit

WORD_BITS = 16
STOP, COMMON, NEGATION, AND, OF, ORDINAL_END, ABBREVIATION = (1 << bit for bit in range(WORD_BITS, WORD_BITS + 7))
"""A word without content; an ordinary word; a negation; `and`; `of`; the end of an ordinal number; a short form of a
month or weekday."""
MERIDIEM, MERIDIEM_HEAD, MERIDIEM_TAIL = (1 << bit for bit in range(WORD_BITS + 7, WORD_BITS + 10))
"""`am` and `pm`; `a` and `p`; `m`."""
VOTES = 1 << WORD_BITS + 10
"""A frequent word of a language."""

NUMBERS_AT, DATES_AT, UNITS_AT, OPPOSITES_AT = 27, 39, 44, 54
NUMBER_BITS, DATE_BITS, UNIT_BITS, OPPOSITE_BITS = 12, 5, 9, 9
NUMBER_MASK, DATE_MASK, UNIT_MASK, OPPOSITE_MASK = (
    (1 << bits) - 1 for bits in (NUMBER_BITS, DATE_BITS, UNIT_BITS, OPPOSITE_BITS)
)
CURRENCY = 1 << UNITS_AT + UNIT_BITS
"""The unit may also be before its number."""
HAS_NUMBER, HAS_DATE = NUMBER_MASK << NUMBERS_AT, DATE_MASK << DATES_AT
HAS_UNIT, HAS_OPPOSITE = UNIT_MASK << UNITS_AT, OPPOSITE_MASK << OPPOSITES_AT
IS_KNOWN = (1 << 63) - (1 << WORD_BITS)
"""Any bit of the lexicon: the word is in it."""

HUNDRED, SCALE, SHORT_SCALE = 100, 1000, 2000
"""Number words up to 90 are their value + 1; ORDINAL is added to ordinals. `hundred` is HUNDRED; a power of ten p is
SCALE + p, or SHORT_SCALE + p if it is a letter after an amount of money."""
ORDINAL = 200
WEEKDAY = 20
"""Months are 1 to 12, weekdays WEEKDAY + 1 to WEEKDAY + 7."""
SYMBOLS = 0x2100
"""Symbols with a unit are below this code point."""
LANGUAGES = 64
FILTER_BITS = 18


class Lexicon(NamedTuple):
    """The words with their traits, and the units of symbols."""

    entries: npt.NDArray[np.uint64]
    """Pairs of a word's key and its traits, with open addressing; free pairs are 0, 0. Their number is a power of two;
    one more free pair is the last."""
    filter: npt.NDArray[np.uint8]
    """A bit for each value of a key's highest FILTER_BITS bits: whether a word may be in the lexicon. It fits into the
    fastest cache, which the pairs do not."""
    languages: npt.NDArray[np.uint64]
    """A bit for each language in which the word is frequent, by the number of its pair."""
    symbol_units: npt.NDArray[np.int32]
    """The units of symbols, by code point below SYMBOLS; negative: a currency."""
    mask: np.uint64
    """The number of pairs - 1."""


@njit(nogil=True, cache=True, forceinline=True)
def traits_of(lexicon: Lexicon, key: np.uint64) -> int:
    """Returns the traits of a word; 0 if it is not in the lexicon."""
    place = key >> np.uint64(64 - FILTER_BITS)
    may_be_there = lexicon.filter[place >> np.uint64(3)] >> np.int64(place & np.uint64(7)) & 1
    # A word that is not there has the last pair, so that no branch depends on whether it is.
    slot = key & lexicon.mask if may_be_there else lexicon.mask + np.uint64(1)
    held = lexicon.entries[slot + slot]
    # Open addressing; `&` instead of `and` saves a branch.
    while (held != key) & (held != np.uint64(0)):
        slot = (slot + np.uint64(1)) & lexicon.mask
        held = lexicon.entries[slot + slot]
    return np.int64(lexicon.entries[slot + slot + np.uint64(1)])  # type: ignore[return-value]


@njit(nogil=True, cache=True, forceinline=True)
def languages_of(lexicon: Lexicon, key: np.uint64) -> np.uint64:
    """Returns the languages of a word of the lexicon."""
    slot = key & lexicon.mask
    while lexicon.entries[slot + slot] != key:
        slot = (slot + np.uint64(1)) & lexicon.mask
    found: np.uint64 = lexicon.languages[slot]
    return found


@njit(nogil=True, cache=True, forceinline=True)
def number_of(traits: int) -> int:
    """Returns the code of a number word, or 0."""
    return traits >> NUMBERS_AT & NUMBER_MASK


@njit(nogil=True, cache=True, forceinline=True)
def date_of(traits: int) -> int:
    """Returns the month or weekday of a word, or 0."""
    return traits >> DATES_AT & DATE_MASK


@njit(nogil=True, cache=True, forceinline=True)
def unit_of(traits: int) -> int:
    """Returns the unit of a word, or 0."""
    return traits >> UNITS_AT & UNIT_MASK


@njit(nogil=True, cache=True, forceinline=True)
def opposite_of(traits: int) -> int:
    """Returns twice the number of a pair of opposites, plus 1 for the second; 0 if the word has none."""
    return traits >> OPPOSITES_AT & OPPOSITE_MASK

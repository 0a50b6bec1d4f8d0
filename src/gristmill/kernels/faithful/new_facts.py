"""Finds numbers, quantities, dates and addresses that the parent lacks.

- A number that the text has more often than the parent is checked by its context: half of the three content words on
  either side must be near that number in the parent.
- A date is known if the parent has it; or if the parent has its day without a year, and its year elsewhere.
- A quantity is known if the parent has the number with this unit; or without a unit, and the unit in parentheses.
"""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.faithful.dates import SHORT_WEEKDAY, WEEKDAYS
from gristmill.kernels.faithful.facts import (
    ADDRESS_FACT,
    DATE_FACT,
    NUMBER_FACT,
    TIME_FACT,
    WORD_FACT,
    Facts,
    mix,
    unit_at,
    whole_key,
)
from gristmill.kernels.faithful.findings import DATES, NUMBERS, UNITS, URLS, note
from gristmill.kernels.faithful.lexicon import Lexicon
from gristmill.kernels.faithful.said import (
    OWN_NUMBER,
    SAID_ADDRESS,
    SAID_BARE,
    SAID_CONTEXT,
    SAID_DATE,
    SAID_DAY,
    SAID_LONE_MONTH,
    SAID_MONTH,
    SAID_MONTHLY,
    SAID_NAME,
    SAID_NUMBER,
    SAID_QUANTITY,
    SAID_TIME,
    SAID_UNIT,
    SAID_WEEKDAY,
    SAID_YEARLESS,
    SaidViews,
    add,
    count_of,
    has,
)
from gristmill.kernels.faithful.tokens import CONTENT, IS_SYMBOL, OPENS, Tokens
from gristmill.kernels.memory import Ints

CONTEXT_WORDS, CONTEXT_TOKENS = 3, 12
"""Content words on either side of a number, and how far they may be."""
FACT_ENTRIES = 2 * (2 * CONTEXT_WORDS + 2)
"""The most entries of a fact: two readings, each with its context, the number and the quantity."""


@njit(nogil=True, cache=True)
def _context(table: SaidViews, tokens: Tokens, count: int, first: int, last: int, key: np.uint64, adds: bool) -> bool:
    """Adds the content words around a number; or returns whether the parent has half of them around it."""
    seen = known = 0
    # First the words before the number, then those after it.
    for side in range(2):
        words, at, step = 0, (last if side else first - 1), (1 if side else -1)
        # Go away from the number until there are enough words.
        for _ in range(CONTEXT_TOKENS):
            if not 0 <= at < count or words == CONTEXT_WORDS:
                break
            if tokens.traits[at] & CONTENT:
                near = mix(key, tokens.keys[at])
                if adds:
                    add(table, SAID_CONTEXT, near)
                else:
                    known += has(table, SAID_CONTEXT, near)
                words += 1
            at += step
        seen += words
    return known > 0 and 2 * known >= seen


@njit(nogil=True, cache=True)
def _add_date(table: SaidViews, date: Any) -> None:
    if date == 0:
        return
    if date > WEEKDAYS:
        add(table, SAID_WEEKDAY, np.uint64((date - WEEKDAYS) % SHORT_WEEKDAY))
        return
    year, month, day = date // 10000, date // 100 % 100, date % 100
    add(table, SAID_MONTH, np.uint64(month))
    if year:
        add(table, SAID_NUMBER, whole_key(year))
        add(table, SAID_MONTHLY, np.uint64(date // 100))
    if day:
        add(table, SAID_NUMBER, whole_key(day))
        add(table, SAID_DAY, np.uint64(date % 10000))
        add(table, SAID_DATE if year else SAID_YEARLESS, np.uint64(date))
    elif not year:
        add(table, SAID_LONE_MONTH, np.uint64(month))


@njit(nogil=True, cache=True)
def _knows_date(table: SaidViews, date: Any) -> bool:
    if date > WEEKDAYS:
        weekday = date - WEEKDAYS
        return weekday > SHORT_WEEKDAY or has(table, SAID_WEEKDAY, np.uint64(weekday))
    year, month, day = date // 10000, date // 100 % 100, date % 100
    if not year:
        return has(table, SAID_DAY, np.uint64(date)) if day else has(table, SAID_MONTH, np.uint64(month))
    has_year = has(table, SAID_NUMBER, whole_key(year))
    if day:
        has_day = has_year and has(table, SAID_YEARLESS, np.uint64(date % 10000))
        return has_day or has(table, SAID_DATE, np.uint64(date))
    has_month = has_year and has(table, SAID_LONE_MONTH, np.uint64(month))
    return has_month or has(table, SAID_MONTHLY, np.uint64(date // 100))


@njit(nogil=True, cache=True)
def add_facts(table: SaidViews, tokens: Tokens, count: int, facts: Facts, begin: int, end: int) -> None:
    """Adds all that the parent's facts from `begin` to `end` say: at most FACT_ENTRIES entries for each."""
    # Each kind of fact has its own kinds of entries.
    for one in range(begin, end):
        key, kind, unit = facts.keys[one], facts.kinds[one], facts.units[one]
        first, last = facts.firsts[one], facts.lasts[one]
        if kind == NUMBER_FACT:
            # A number with two readings, such as `1.000`, is added as both.
            for reading in (key, facts.others[one]):
                if reading:
                    add(table, SAID_NUMBER, reading)
                    _context(table, tokens, count, first, last, reading, True)
                    if unit:
                        add(table, SAID_QUANTITY, mix(reading, np.uint64(unit)))
                    else:
                        add(table, SAID_BARE, reading)
        elif kind == TIME_FACT:
            add(table, SAID_TIME, key)
            add(table, SAID_NUMBER, whole_key(tokens.values[first]))
        elif kind == DATE_FACT:
            _add_date(table, np.int64(key))
            _add_date(table, np.int64(facts.others[one]))
        elif kind == WORD_FACT:
            add(table, SAID_NAME, key)
        elif kind == ADDRESS_FACT:
            add(table, SAID_ADDRESS, key)


@njit(nogil=True, cache=True)
def add_units(table: SaidViews, tokens: Tokens, count: int, lexicon: Lexicon) -> None:
    """Adds the units in parentheses: `Distance (km)`."""
    # Visit the opening brackets; a unit that follows one is added.
    for at in range(count - 1):
        if tokens.traits[at] & (OPENS | IS_SYMBOL) == OPENS | IS_SYMBOL:
            unit = unit_at(tokens, at + 1, lexicon)
            if unit:
                add(table, SAID_UNIT, np.uint64(unit))


@njit(nogil=True, cache=True)
def _knows_unit(table: SaidViews, number: np.uint64, unit: int) -> bool:
    """Whether the parent has a number with this unit, or without one and the unit in parentheses."""
    if has(table, SAID_QUANTITY, mix(number, np.uint64(unit))):
        return True
    return has(table, SAID_BARE, number) and has(table, SAID_UNIT, np.uint64(unit))


@njit(nogil=True, cache=True)
def _new_number(table: SaidViews, tokens: Tokens, count: int, facts: Facts, one: int) -> int:
    """Returns the check that a number fails, or -1."""
    key, other, unit = facts.keys[one], facts.others[one], facts.units[one]
    times = count_of(table, SAID_NUMBER, key)
    if times == 0 and other:
        times = count_of(table, SAID_NUMBER, other)
        key = other if times else key
    if times == 0:
        return NUMBERS if facts.checked[one] else -1
    if unit and not _knows_unit(table, key, unit):
        return UNITS
    if not facts.checked[one] or count_of(table, OWN_NUMBER, key) <= times:
        return -1
    fits = _context(table, tokens, count, facts.firsts[one], facts.lasts[one], key, False)
    return -1 if fits else NUMBERS


@njit(nogil=True, cache=True)
def check_facts(table: SaidViews, tokens: Tokens, count: int, facts: Facts, found: int, row: Ints, new: Ints) -> None:
    """Counts numbers, quantities, dates and addresses that the parent lacks."""
    # Count the numbers of the text itself: one that is there more often than in the parent needs the words around it,
    # too.
    for one in range(found):
        if facts.kinds[one] == NUMBER_FACT:
            add(table, OWN_NUMBER, facts.keys[one])
    # Each kind of fact is compared with its own kinds of entries.
    for one in range(found):
        key, other, kind = facts.keys[one], facts.others[one], facts.kinds[one]
        check = -1
        if kind == NUMBER_FACT:
            check = _new_number(table, tokens, count, facts, one)
        elif kind == TIME_FACT:
            check = -1 if has(table, SAID_TIME, key) else NUMBERS
        elif kind == DATE_FACT:
            knows = _knows_date(table, np.int64(key)) or (other and _knows_date(table, np.int64(other)))
            check = -1 if knows or not facts.checked[one] else DATES
        elif kind == WORD_FACT:
            check = -1 if has(table, SAID_NAME, key) else NUMBERS
        elif kind == ADDRESS_FACT:
            check = -1 if has(table, SAID_ADDRESS, key) else URLS
        if check >= 0:
            note(new, row, check, tokens.begins[facts.firsts[one]], tokens.ends[facts.lasts[one] - 1])

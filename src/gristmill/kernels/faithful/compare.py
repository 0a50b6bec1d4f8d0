"""Compares each text of a batch with its parent: counts what is new in it and notes where.

All that the parent says goes into one table of hashes with counts: words, their 3-grams, numbers, quantities, dates,
and pairs of content words with the polarity of what they say. The text is then checked against the table, so the time
is linear in the bytes of both.

- A number that the text has more often than the parent is checked by its context: half of the three content words on
  either side must be near that number in the parent.
- A date is known if the parent has it; or if the parent has its day without a year, and its year elsewhere.
- A quantity is known if the parent has the number with this unit; or without a unit, and the unit in parentheses.
- A name is a word with a capital that the parent has in no spelling. At the start of a sentence or in a headline in
  title case it must also be no ordinary word, which is known for English only. In German, where nouns have capitals, it
  needs another such word next to it. The initials of a name in the parent are known.
- A quotation is new if one of its 3-grams of words is (if it is shorter: one of its words). A piece of code is new if a
  fifth of its 3-grams of tokens is. 3-grams across lines and sentences do not count: both may be moved.
- A pair of neighbouring content words is flipped if the parent has it only with the other polarity. A negation changes
  the polarity of the next two pairs, and one of two opposites (`more`, `less`) that of both pairs that it is in.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.faithful.facts import (
    ADDRESS_FACT,
    COMMON,
    DATE_FACT,
    NEGATION,
    NUMBER_FACT,
    STOP,
    SYMBOLS,
    TIME_FACT,
    WEEKDAYS,
    WORD_FACT,
    Facts,
    FactViews,
    Lexicon,
    LexiconViews,
    fact_views,
    lexicon_views,
    mix,
    new_facts,
    number_key,
    read_facts,
    whole_key,
)
from gristmill.kernels.faithful.tokens import (
    ADDRESS,
    BLANK,
    CAPITAL,
    FIRST,
    HAS_DIGIT,
    LINE,
    MAX_WORD_BYTES,
    NAME_WORD,
    PLAIN_NUMBER,
    SPACED,
    SYMBOL,
    Tokens,
    TokenViews,
    new_tokens,
    scan,
    token_views,
)
from gristmill.kernels.memory import Bytes, Ints, Uint64s, trailing_zeros, view
from gristmill.kernels.text.ascii import (
    BACKSLASH,
    BACKTICK,
    COLON,
    DOLLAR,
    LEFT_BRACKET,
    LEFT_PAREN,
    QUOTE,
    RIGHT_BRACKET,
    RIGHT_PAREN,
    SEMICOLON,
)
from gristmill.kernels.text.unicode_classes import UnicodeTables, unicode_views

COLUMNS = (
    *("new_numbers", "new_dates", "new_units", "new_names", "new_urls", "new_quotations", "new_code"),
    *("flipped_negations", "flipped_comparisons", "language_changed", "looped_words"),
    *("words", "parent_words", "ngrams", "copied_ngrams"),
    *("content_words", "new_content_words", "parent_content_words", "covered_content_words"),
)
"""The columns that `compare` counts. The first nine are checks with spans."""
NUMBERS, DATES, UNITS, NAMES, URLS, QUOTATIONS, CODE, NEGATIONS, COMPARISONS, LANGUAGE, LOOPED = range(11)
WORDS, PARENT_WORDS, NGRAMS, COPIED, CONTENT, NEW_CONTENT, PARENT_CONTENT, COVERED = range(11, len(COLUMNS))
N_COLUMNS = len(COLUMNS)
CHECKS = COLUMNS[:9]

ENGLISH, GERMAN = 0, 1
"""The first two languages of a lexicon."""
UNKNOWN = -1
VOTING_WORDS = 500
"""Words that decide which language a text is in."""
LEAST_VOTES = 5
CONTEXT_WORDS, CONTEXT_TOKENS = 3, 12
"""Content words on either side of a number, and how far they may be."""
LOOP_WORDS = 8
"""Words of a passage whose repetition is a loop."""
MOST_QUOTED, MOST_CODE = 300, 5000
"""Tokens of a quotation and of a piece of code."""
LEAST_LETTERS = 3
"""Letters of a content word."""
MOST_INITIALS = 8
MOST_SPANS = 1000
"""Spans of a document; counts go on."""
LEFT_DOUBLE_QUOTE, RIGHT_DOUBLE_QUOTE, LOW_DOUBLE_QUOTE = 0x201C, 0x201D, 0x201E
LEFT_GUILLEMET, RIGHT_GUILLEMET = 0xAB, 0xBB
LEFT_CORNER, LEFT_WHITE_CORNER = 0x300C, 0x300E
ELLIPSIS = 0x2026

# What a key in the table is about.
_ABOUT = [np.uint64(0xA0761D6478BD642F * number % (1 << 64)) for number in range(1, 26)]
SAID_WORD, SAID_NAME, SAID_INITIALS, SAID_NGRAM, SAID_CODE, SAID_PAIR, SAID_ADDRESS, SAID_CONTEXT, SAID_LOOP = _ABOUT[
    :9
]
SAID_NUMBER, SAID_QUANTITY, SAID_BARE, SAID_UNIT, SAID_TIME, SAID_WEEKDAY, SAID_DATE, SAID_DAY = _ABOUT[9:17]
SAID_YEARLESS, SAID_MONTH, SAID_MONTHLY, SAID_LONE_MONTH, OWN_CONTENT, OWN_NUMBER, OWN_LOOP, SEEN_LOOP = _ABOUT[17:]

_FULL = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_ONE = np.uint64(1)
_NONE = np.uint64(0)
_BASE = np.uint64(0x9E3779B97F4A7C15)
_BASE_TO_PASSAGE = np.uint64(pow(0x9E3779B97F4A7C15, LOOP_WORDS, 1 << 64))


class SaidTable(NamedTuple):
    """Counts by key: pairs of a key and generation << 32 | count; entries of an older generation do not exist."""

    slots: npt.NDArray[np.uint64]
    state: npt.NDArray[np.int64]
    """Generation, and bits of the slots in use."""


class SaidViews(NamedTuple):
    """Views of the arrays of `SaidTable`."""

    slots: Uint64s
    state: Ints


@njit(nogil=True, cache=True)
def _table_views(table: Any) -> SaidViews:
    return SaidViews(view(table.slots), view(table.state))


@njit(nogil=True, cache=True)
def _prepared(table: SaidTable, entries: int) -> SaidTable:
    """Returns an empty table for at most this many entries, with more slots than that."""
    bits = 8
    while (1 << bits) < entries + (entries >> 2):
        bits += 1
    if len(table.slots) < 2 << bits:
        table = SaidTable(np.zeros(2 << bits, np.uint64), table.state)
    table.state[0] += 1
    table.state[1] = bits
    return table


@njit(nogil=True, cache=True, forceinline=True)
def _slot(table: SaidViews, key: np.uint64) -> np.uint64:
    """Returns the slot of a key, or the free one for it."""
    bits = np.uint64(table.state[1])
    mask = (_ONE << bits) - _ONE
    generation = np.uint64(table.state[0])
    slot = (key >> (np.uint64(64) - bits)) & mask
    while True:
        held = table.slots[np.uint64(2) * slot + _ONE]
        if held >> _FULL != generation or table.slots[np.uint64(2) * slot] == key:
            return slot
        slot = (slot + _ONE) & mask


@njit(nogil=True, cache=True, forceinline=True)
def _add(table: SaidViews, about: np.uint64, what: np.uint64) -> Any:
    """Counts a key once more; returns how often it was there before."""
    key = (what ^ about) * _BASE
    slot = np.uint64(2) * _slot(table, key)
    held = table.slots[slot + _ONE]
    generation = np.uint64(table.state[0])
    if held >> _FULL != generation:
        table.slots[slot] = key
        table.slots[slot + _ONE] = generation << _FULL | _ONE
        return 0
    table.slots[slot + _ONE] = held + _ONE
    return np.int64(held & _LOW)


@njit(nogil=True, cache=True, forceinline=True)
def _count(table: SaidViews, about: np.uint64, what: np.uint64) -> Any:
    """Returns how often a key was counted."""
    held = table.slots[np.uint64(2) * _slot(table, (what ^ about) * _BASE) + _ONE]
    return np.int64(held & _LOW) if held >> _FULL == np.uint64(table.state[0]) else 0


@njit(nogil=True, cache=True, forceinline=True)
def _has(table: SaidViews, about: np.uint64, what: np.uint64) -> bool:
    return bool(_count(table, about, what) > 0)


@njit(nogil=True, cache=True, forceinline=True)
def _three(one: np.uint64, two: np.uint64, three: np.uint64) -> np.uint64:
    """Returns a key of three words in this order."""
    return (one * _BASE + two) * _BASE + three


@njit(nogil=True, cache=True, forceinline=True)
def _flags(tokens: TokenViews, at: int, lexicon: LexiconViews) -> int:
    entry = tokens.entries[at]
    return lexicon.flags[entry] if entry >= 0 else 0


@njit(nogil=True, cache=True, forceinline=True)
def _is_content(tokens: TokenViews, at: int, lexicon: LexiconViews) -> bool:
    if tokens.kinds[at] != NAME_WORD or tokens.values[at] < LEAST_LETTERS:
        return False
    return not _flags(tokens, at, lexicon) & (STOP | NEGATION)


@njit(nogil=True, cache=True, forceinline=True)
def _key(tokens: TokenViews, at: int) -> np.uint64:
    """Returns the key of a token in n-grams: of a number, with its power of ten."""
    key = tokens.keys[at]
    return number_key(key, tokens.entries[at]) if tokens.kinds[at] == PLAIN_NUMBER else key


@njit(nogil=True, cache=True, forceinline=True)
def _is_word(tokens: TokenViews, at: int) -> bool:
    return tokens.kinds[at] == NAME_WORD or tokens.kinds[at] == PLAIN_NUMBER


@njit(nogil=True, cache=True)
def _language(tokens: TokenViews, count: int, lexicon: LexiconViews, votes: Ints) -> int:
    """Returns the language with the most frequent words among the first words, or UNKNOWN; counts are in `votes`."""
    for language in range(64):
        votes[language] = 0
    words = 0
    for at in range(count):
        if tokens.kinds[at] != NAME_WORD:
            continue
        words += 1
        if words > VOTING_WORDS:
            break
        if tokens.entries[at] >= 0:
            said = lexicon.languages[tokens.entries[at]]
            while said:
                votes[trailing_zeros(said)] += 1
                said &= said - _ONE
    best = 0
    for language in range(1, 64):
        best = language if votes[language] > votes[best] else best
    return best if votes[best] >= LEAST_VOTES else UNKNOWN


@njit(nogil=True, cache=True)
def _add_context(
    table: SaidViews, tokens: TokenViews, count: int, lexicon: LexiconViews, first: int, last: int, key: np.uint64
) -> None:
    """Notes the content words around a number."""
    for side in range(2):
        words, at, step = 0, (last if side else first - 1), (1 if side else -1)
        for _ in range(CONTEXT_TOKENS):
            if not 0 <= at < count or words == CONTEXT_WORDS:
                break
            if _is_content(tokens, at, lexicon):
                _add(table, SAID_CONTEXT, mix(key, tokens.keys[at]))
                words += 1
            at += step


@njit(nogil=True, cache=True)
def _fits_context(
    table: SaidViews, tokens: TokenViews, count: int, lexicon: LexiconViews, first: int, last: int, key: np.uint64
) -> bool:
    """Whether half of the content words around a number are around it in the parent, too."""
    seen = known = 0
    for side in range(2):
        words, at, step = 0, (last if side else first - 1), (1 if side else -1)
        for _ in range(CONTEXT_TOKENS):
            if not 0 <= at < count or words == CONTEXT_WORDS:
                break
            if _is_content(tokens, at, lexicon):
                known += _has(table, SAID_CONTEXT, mix(key, tokens.keys[at]))
                words += 1
            at += step
        seen += words
    return known > 0 and 2 * known >= seen


@njit(nogil=True, cache=True)
def _add_date(table: SaidViews, date: Any) -> None:
    if date == 0:
        return
    if date > WEEKDAYS:
        _add(table, SAID_WEEKDAY, np.uint64((date - WEEKDAYS) % 100))
        return
    year, month, day = date // 10000, date // 100 % 100, date % 100
    _add(table, SAID_MONTH, np.uint64(month))
    if year:
        _add(table, SAID_NUMBER, whole_key(year))
        _add(table, SAID_MONTHLY, np.uint64(date // 100))
    if day:
        _add(table, SAID_NUMBER, whole_key(day))
        _add(table, SAID_DAY, np.uint64(date % 10000))
        _add(table, SAID_DATE if year else SAID_YEARLESS, np.uint64(date))
    elif not year:
        _add(table, SAID_LONE_MONTH, np.uint64(month))


@njit(nogil=True, cache=True)
def _knows_date(table: SaidViews, date: Any) -> bool:
    if date > WEEKDAYS:
        return date - WEEKDAYS > 100 or _has(table, SAID_WEEKDAY, np.uint64(date - WEEKDAYS))
    year, month, day = date // 10000, date // 100 % 100, date % 100
    if day and not year:
        return _has(table, SAID_DAY, np.uint64(date))
    if not year:
        return _has(table, SAID_MONTH, np.uint64(month))
    has_year = _has(table, SAID_NUMBER, whole_key(year))
    if not day:
        return _has(table, SAID_MONTHLY, np.uint64(date // 100)) or (
            has_year and _has(table, SAID_LONE_MONTH, np.uint64(month))
        )
    return _has(table, SAID_DATE, np.uint64(date)) or (has_year and _has(table, SAID_YEARLESS, np.uint64(date % 10000)))


@njit(nogil=True, cache=True)
def _add_facts(
    table: SaidViews, tokens: TokenViews, count: int, lexicon: LexiconViews, facts: FactViews, found: int
) -> None:
    """Adds all that the parent's numbers, dates and addresses say."""
    for one in range(found):
        key, kind, unit = facts.keys[one], facts.kinds[one], facts.units[one]
        first, last = facts.firsts[one], facts.lasts[one]
        if kind == NUMBER_FACT:
            for reading in (key, facts.others[one]):
                if reading:
                    _add(table, SAID_NUMBER, reading)
                    _add_context(table, tokens, count, lexicon, first, last, reading)
                    if unit:
                        _add(table, SAID_QUANTITY, mix(reading, np.uint64(unit)))
                    else:
                        _add(table, SAID_BARE, reading)
        elif kind == TIME_FACT:
            _add(table, SAID_TIME, key)
            _add(table, SAID_NUMBER, number_of(tokens, first))
        elif kind == DATE_FACT:
            _add_date(table, np.int64(key))
            _add_date(table, np.int64(facts.others[one]))
        elif kind == WORD_FACT:
            _add(table, SAID_NAME, key)
        elif kind == ADDRESS_FACT:
            _add(table, SAID_ADDRESS, key)


@njit(nogil=True, cache=True)
def number_of(tokens: TokenViews, at: int) -> np.uint64:
    """Returns the key of the plain number at `at`."""
    return whole_key(tokens.values[at])


@njit(nogil=True, cache=True)
def _add_units(table: SaidViews, tokens: TokenViews, count: int, lexicon: LexiconViews) -> None:
    """Adds the units in parentheses: `Distance (km)`."""
    for at in range(1, count):
        before = tokens.keys[at - 1] if tokens.kinds[at - 1] == SYMBOL else _NONE
        if before != np.uint64(LEFT_PAREN) and before != np.uint64(LEFT_BRACKET):
            continue
        unit = 0
        if tokens.kinds[at] == NAME_WORD and tokens.entries[at] >= 0:
            unit = lexicon.units[tokens.entries[at]]
        elif tokens.kinds[at] == SYMBOL and tokens.keys[at] < np.uint64(SYMBOLS):
            unit = lexicon.symbol_units[tokens.keys[at]]
        if unit:
            _add(table, SAID_UNIT, np.uint64(abs(unit)))


@njit(nogil=True, cache=True)
def _add_words(table: SaidViews, text: Bytes, tokens: TokenViews, count: int, lexicon: LexiconViews, row: Ints) -> None:
    """Adds words, 3-grams and the initials of names of the parent, and counts its words."""
    one = two = initials = _NONE
    letters = 0
    for at in range(count):
        kind = tokens.kinds[at]
        if kind == SYMBOL or kind == ADDRESS:
            letters = 0
            continue
        key = _key(tokens, at)
        three = _three(one, two, key)
        _add(table, SAID_NGRAM, three)
        one, two = two, key
        row[PARENT_WORDS] += 1
        if kind == PLAIN_NUMBER:
            letters = 0
            continue
        before = _add(table, SAID_WORD, key)
        if before == 0 and _is_content(tokens, at, lexicon):
            row[PARENT_CONTENT] += 1
        if tokens.flags[at] & CAPITAL:
            first = np.uint64(text[tokens.begins[at]])
            initials = mix(initials, first) if letters else mix(_ONE, first)
            letters += 1
            if 2 <= letters <= MOST_INITIALS:
                _add(table, SAID_INITIALS, initials)
        elif not _flags(tokens, at, lexicon) & STOP or tokens.flags[at] & FIRST:
            letters = 0


@njit(nogil=True, cache=True)
def _is_initials(table: SaidViews, text: Bytes, begin: int, end: int) -> bool:
    """Whether the capitals of an abbreviation (`UN`, `UNESCO`) are the initials of a name in the parent."""
    if not 2 <= end - begin <= MOST_INITIALS:
        return False
    key = _ONE
    for at in range(begin, end):
        if not 65 <= text[at] <= 90:
            return False
        key = mix(key, np.uint64(text[at]))
    return _has(table, SAID_INITIALS, key)


@njit(nogil=True, cache=True)
def _note(new: Ints, row: Ints, check: int, begin: int, end: int) -> None:
    """Counts something new and writes its span, for at most MOST_SPANS of a document."""
    row[check] += 1
    if new[0] < MOST_SPANS:
        at = 1 + 3 * new[0]
        new[at], new[at + 1], new[at + 2] = check, begin, end
        new[0] += 1


@njit(nogil=True, cache=True)
def _knows_unit(table: SaidViews, number: np.uint64, unit: int) -> bool:
    """Whether the parent has a number with this unit, or without one and the unit in parentheses."""
    if _has(table, SAID_QUANTITY, mix(number, np.uint64(unit))):
        return True
    return _has(table, SAID_BARE, number) and _has(table, SAID_UNIT, np.uint64(unit))


@njit(nogil=True, cache=True)
def _check_facts(
    table: SaidViews,
    tokens: TokenViews,
    count: int,
    lexicon: LexiconViews,
    facts: FactViews,
    found: int,
    row: Ints,
    new: Ints,
) -> None:
    """Counts numbers, quantities, dates and addresses that the parent lacks."""
    for one in range(found):
        if facts.kinds[one] == NUMBER_FACT:
            _add(table, OWN_NUMBER, facts.keys[one])
    for one in range(found):
        key, other, kind, unit = facts.keys[one], facts.others[one], facts.kinds[one], facts.units[one]
        first, last = facts.firsts[one], facts.lasts[one]
        check = -1
        if kind == NUMBER_FACT:
            times = _count(table, SAID_NUMBER, key)
            if times == 0 and other:
                times = _count(table, SAID_NUMBER, other)
                key = other if times else key
            if times == 0:
                check = NUMBERS if facts.checked[one] else -1
            elif unit and not _knows_unit(table, key, unit):
                check = UNITS
            is_more = check < 0 and facts.checked[one] and _count(table, OWN_NUMBER, key) > times > 0
            if is_more and not _fits_context(table, tokens, count, lexicon, first, last, key):
                check = NUMBERS
        elif kind == TIME_FACT:
            if not _has(table, SAID_TIME, key):
                check = NUMBERS
        elif kind == DATE_FACT:
            if (
                facts.checked[one]
                and not _knows_date(table, np.int64(key))
                and not (other and _knows_date(table, np.int64(other)))
            ):
                check = DATES
        elif kind == WORD_FACT:
            if not _has(table, SAID_NAME, key):
                check = NUMBERS
        elif kind == ADDRESS_FACT and not _has(table, SAID_ADDRESS, key):
            check = URLS
        if check >= 0:
            _note(new, row, check, tokens.begins[first], tokens.ends[last - 1])


@njit(nogil=True, cache=True)
def _is_title(tokens: TokenViews, begin: int, end: int, lexicon: LexiconViews) -> bool:
    """Whether the tokens of a line are a headline: at least two words of four letters or more, all with capitals, and
    no mark that ends a sentence.
    """
    words = 0
    if tokens.kinds[end - 1] == SYMBOL and tokens.entries[end - 1]:
        return False
    for at in range(begin, end):
        if tokens.kinds[at] == NAME_WORD and tokens.values[at] > LEAST_LETTERS:
            if not tokens.flags[at] & CAPITAL:
                return False
            words += 1
    return words >= 2


@njit(nogil=True, cache=True, forceinline=True)
def _is_capital_word(tokens: TokenViews, at: int, count: int, lexicon: LexiconViews) -> bool:
    if not 0 <= at < count or tokens.kinds[at] != NAME_WORD:
        return False
    return tokens.flags[at] & CAPITAL != 0 and not _flags(tokens, at, lexicon) & STOP


@njit(nogil=True, cache=True)
def _check_names(
    table: SaidViews,
    text: Bytes,
    tokens: TokenViews,
    count: int,
    lexicon: LexiconViews,
    language: int,
    row: Ints,
    new: Ints,
) -> None:
    """Counts words with a capital that the parent lacks."""
    line_end = 0
    is_title = False
    for at in range(count):
        if at >= line_end:
            line_end = at + 1
            while line_end < count and not tokens.flags[line_end] & LINE:
                line_end += 1
            is_title = _is_title(tokens, at, line_end, lexicon)
        if tokens.kinds[at] != NAME_WORD or not tokens.flags[at] & CAPITAL or tokens.values[at] < 2:
            continue
        flags = _flags(tokens, at, lexicon)
        entry = tokens.entries[at]
        if flags & (STOP | NEGATION):
            continue
        if entry >= 0 and (lexicon.dates[entry] or lexicon.numbers[entry] or lexicon.units[entry]):
            continue
        if tokens.flags[at] & HAS_DIGIT or _has(table, SAID_WORD, tokens.keys[at]):
            continue
        if is_title or tokens.flags[at] & FIRST:
            if language != ENGLISH or flags & COMMON:
                continue
        elif language == GERMAN:
            before = _is_capital_word(tokens, at - 1, count, lexicon) and not tokens.flags[at - 1] & FIRST
            if not before and not _is_capital_word(tokens, at + 1, count, lexicon):
                continue
        begin, end = tokens.begins[at], tokens.ends[at]
        if _is_initials(table, text, begin, end) or _has(table, SAID_NAME, tokens.keys[at]):
            continue
        _note(new, row, NAMES, begin, end)


@njit(nogil=True, cache=True, forceinline=True)
def _begins_again(tokens: TokenViews, at: int) -> bool:
    """Whether the text before the token may be elsewhere in the parent: at a line, a sentence, or left-out words."""
    if tokens.kinds[at] == SYMBOL and (
        tokens.keys[at] == np.uint64(LEFT_BRACKET) or tokens.keys[at] == np.uint64(ELLIPSIS)
    ):
        return True
    is_sentence = at > 0 and tokens.kinds[at - 1] == SYMBOL and tokens.entries[at - 1] != 0
    return tokens.flags[at] & LINE != 0 or (is_sentence and tokens.flags[at] & SPACED != 0)


@njit(nogil=True, cache=True)
def _knows_words(table: SaidViews, tokens: TokenViews, begin: int, end: int) -> bool:
    """Whether the parent has the 3-grams of words from token `begin` to `end`; of one or two words, the words."""
    one = two = _NONE
    words = 0
    known = True
    for at in range(begin, end):
        if at > begin and _begins_again(tokens, at):
            words = 0
        if not _is_word(tokens, at):
            continue
        key = _key(tokens, at)
        words += 1
        if words >= 3:
            known &= _has(table, SAID_NGRAM, _three(one, two, key))
        elif tokens.kinds[at] == NAME_WORD:
            known &= _has(table, SAID_WORD, key)
        one, two = two, key
    return known


@njit(nogil=True, cache=True)
def _closing_quote(point: Any) -> tuple[int, int]:
    """Returns the mark that ends a quotation that begins with `point`, and its number; 0 if there is none."""
    if point == QUOTE:
        return QUOTE, 0
    if point == LEFT_DOUBLE_QUOTE:
        return RIGHT_DOUBLE_QUOTE, 1
    if point == LOW_DOUBLE_QUOTE:
        return LEFT_DOUBLE_QUOTE, 2
    if point == LEFT_GUILLEMET:
        return RIGHT_GUILLEMET, 3
    if point == LEFT_CORNER or point == LEFT_WHITE_CORNER:
        return point + 1, 4 + (point - LEFT_CORNER >> 1)
    return 0, 0


@njit(nogil=True, cache=True)
def _opens(tokens: TokenViews, at: int) -> bool:
    """Whether a mark before the last token opens a quotation: a straight one only after white space or a symbol."""
    if tokens.flags[at + 1] & SPACED:
        return False
    if tokens.keys[at] != np.uint64(QUOTE) or tokens.flags[at] & SPACED:
        return True
    return tokens.kinds[at - 1] == SYMBOL and tokens.kinds[at + 1] != SYMBOL


@njit(nogil=True, cache=True)
def _check_quotations(table: SaidViews, tokens: TokenViews, count: int, row: Ints, new: Ints) -> None:
    """Counts quotations that the parent lacks."""
    searched = np.zeros(6, np.int64)  # up to which token a closing mark was sought and not found
    at = 0
    while at < count:
        closing, number = _closing_quote(np.int64(tokens.keys[at])) if tokens.kinds[at] == SYMBOL else (0, 0)
        opens = closing != 0 and at + 1 < count and _opens(tokens, at)
        if opens:
            end = max(at + 1, searched[number])
            last = min(count, at + MOST_QUOTED)
            while end < last and not tokens.flags[end] & BLANK:
                if tokens.kinds[end] == SYMBOL and tokens.keys[end] == np.uint64(closing):
                    break
                end += 1
            if (
                end < last
                and not tokens.flags[end] & BLANK
                and closing == QUOTE
                and end + 1 < count
                and _opens(tokens, end)
            ):
                searched[number] = end  # another quotation opens there, so this mark closed one
            elif end < last and not tokens.flags[end] & BLANK:
                if not _knows_words(table, tokens, at + 1, end):
                    _note(new, row, QUOTATIONS, tokens.begins[at], tokens.ends[end])
                at = end
            else:
                searched[number] = end
        at += 1


@njit(nogil=True, cache=True)
def _run(tokens: TokenViews, at: int, count: int) -> int:
    """Returns how often the symbol at `at` is repeated without white space, at most three times."""
    end = at + 1
    while end < count and end < at + 3 and not tokens.flags[end] & SPACED:
        if tokens.kinds[end] != SYMBOL or tokens.keys[end] != tokens.keys[at]:
            break
        end += 1
    return end - at


@njit(nogil=True, cache=True)
def _is_formula(tokens: TokenViews, inside: int) -> bool:
    """Whether a dollar sign begins a formula: `$5 and $6` are amounts of money."""
    return not tokens.flags[inside] & SPACED and tokens.kinds[inside] != PLAIN_NUMBER


@njit(nogil=True, cache=True)
def _code_at(tokens: TokenViews, at: int, count: int, searched: npt.NDArray[np.int64]) -> tuple[int, int, int]:
    """Returns the tokens inside a piece of code or a formula at `at`, and the token after it; (at, at, at) if there is
    none. Both are between equal marks (`, ```, $, $$), or between \\( and \\), \\[ and \\].
    """
    mark = tokens.keys[at]
    size = _run(tokens, at, count)
    inside = at + size
    is_tex = mark == np.uint64(BACKSLASH)
    if inside >= count or (is_tex and (size > 1 or tokens.flags[inside] & SPACED or tokens.kinds[inside] != SYMBOL)):
        return at, at, at
    closing = mark
    number = size if mark == np.uint64(BACKTICK) else 4 + size
    if is_tex:
        opening = tokens.keys[inside]
        if opening != np.uint64(LEFT_PAREN) and opening != np.uint64(LEFT_BRACKET):
            return at, at, at
        closing = np.uint64(RIGHT_PAREN) if opening == np.uint64(LEFT_PAREN) else np.uint64(RIGHT_BRACKET)
        number = 8 if opening == np.uint64(LEFT_PAREN) else 9
        inside += 1
    elif mark == np.uint64(DOLLAR) and size == 1 and not _is_formula(tokens, inside):
        return at, at, at
    is_block = size == 3 or number == 6 or number == 9
    end = max(inside, searched[number])
    last = min(count, at + (MOST_CODE if is_block else MOST_QUOTED))
    ends_at = 0 if is_block else BLANK if mark == np.uint64(DOLLAR) else LINE
    while end < last and not tokens.flags[end] & ends_at:
        if tokens.kinds[end] == SYMBOL:
            if is_tex and tokens.keys[end] == mark and end + 1 < count:
                if tokens.keys[end + 1] == closing and tokens.kinds[end + 1] == SYMBOL:
                    return inside, end, end + 2
            elif not is_tex and tokens.keys[end] == mark and _run(tokens, end, count) >= size:
                return inside, end, end + size
        end += 1
    searched[number] = end
    return at, at, at


@njit(nogil=True, cache=True)
def _code_key(tokens: TokenViews, at: int) -> np.uint64:
    """Returns the key of a token in code; all double quotes are one."""
    key = _key(tokens, at)
    if tokens.kinds[at] == SYMBOL and np.uint64(LEFT_DOUBLE_QUOTE) <= key <= np.uint64(LOW_DOUBLE_QUOTE):
        key = np.uint64(QUOTE)
    return mix(key, np.uint64(tokens.kinds[at]))


@njit(nogil=True, cache=True)
def _add_code(table: SaidViews, tokens: TokenViews, count: int) -> None:
    """Adds the 3-grams of all tokens of the parent."""
    one = two = _NONE
    for at in range(count):
        key = _code_key(tokens, at)
        _add(table, SAID_CODE, _three(one, two, key))
        one, two = two, key


@njit(nogil=True, cache=True)
def _knows_code(table: SaidViews, extra: SaidViews, tokens: TokenViews, begin: int, end: int) -> bool:
    """Whether the parent has four fifths of the 3-grams of tokens, and of the words that are in none."""
    one = two = _NONE
    size = known = grams = 0
    for at in range(begin, end):
        if at > begin and _begins_again(tokens, at):
            size = 0
        key = _code_key(tokens, at)
        size += 1
        if size >= 3:
            grams += 1
            known += _has(extra, SAID_CODE, _three(one, two, key))
        elif tokens.kinds[at] == NAME_WORD:
            grams += 1
            known += _has(table, SAID_WORD, tokens.keys[at])
        one, two = two, key
    return 5 * known >= 4 * grams


@njit(nogil=True, cache=True)
def _check_code(
    table: SaidViews,
    extra: SaidViews,
    parent: TokenViews,
    parent_count: int,
    tokens: TokenViews,
    count: int,
    row: Ints,
    new: Ints,
) -> None:
    """Counts pieces of code and formulas that the parent lacks."""
    searched = np.zeros(10, np.int64)
    is_ready = False
    at = 0
    while at < count:
        mark = tokens.keys[at]
        after = at + 1
        if tokens.kinds[at] == SYMBOL and (
            mark == np.uint64(BACKTICK) or mark == np.uint64(DOLLAR) or mark == np.uint64(BACKSLASH)
        ):
            inside, end, over = _code_at(tokens, at, count, searched)
            if over > at:
                if not is_ready:
                    _add_code(extra, parent, parent_count)
                    is_ready = True
                # The name of a language after three backticks is no code.
                if inside == at + 3 and tokens.kinds[inside] == NAME_WORD and not tokens.flags[inside] & SPACED:
                    inside += 1
                if not _knows_code(table, extra, tokens, inside, end):
                    _note(new, row, CODE, tokens.begins[at], tokens.ends[over - 1])
                after = over
            else:
                after = at + _run(tokens, at, count)
        at = after


@njit(nogil=True, cache=True)
def _pairs(
    table: SaidViews,
    tokens: TokenViews,
    count: int,
    lexicon: LexiconViews,
    is_parent: bool,
    row: Ints,
    new: Ints,
) -> None:
    """Adds the pairs of content words of the parent with their polarity, or counts those that are flipped."""
    before, before_side, before_at, negated = _NONE, 0, 0, 0
    before_opposite = False
    for at in range(count):
        if tokens.flags[at] & BLANK:
            before, negated = _NONE, 0
        if tokens.kinds[at] == SYMBOL:
            if tokens.entries[at] or tokens.keys[at] == np.uint64(COLON) or tokens.keys[at] == np.uint64(SEMICOLON):
                before, negated = _NONE, 0
            continue
        if tokens.kinds[at] != NAME_WORD:
            continue
        entry = tokens.entries[at]
        opposite = lexicon.opposites[entry] if entry >= 0 else 0
        if entry >= 0 and lexicon.flags[entry] & NEGATION and not opposite:
            negated = 2
            continue
        if not opposite and not _is_content(tokens, at, lexicon):
            continue
        stem = np.uint64(opposite >> 1) if opposite else tokens.stems[at]
        side = opposite & 1
        if before:
            pair = mix(before, stem)
            polarity = np.uint64((negated > 0) ^ side ^ before_side)
            if is_parent:
                _add(table, SAID_PAIR, pair ^ polarity)
            elif _has(table, SAID_PAIR, pair ^ polarity ^ _ONE) and not _has(table, SAID_PAIR, pair ^ polarity):
                check = COMPARISONS if opposite or before_opposite else NEGATIONS
                _note(new, row, check, tokens.begins[before_at], tokens.ends[at])
        negated = max(negated - 1, 0)
        before, before_side, before_at, before_opposite = stem, side, at, opposite != 0


@njit(nogil=True, cache=True)
def _check_words(table: SaidViews, tokens: TokenViews, count: int, lexicon: LexiconViews, row: Ints) -> None:
    """Counts words, copied 3-grams, and content words that the parent has or lacks."""
    one = two = _NONE
    for at in range(count):
        if not _is_word(tokens, at):
            continue
        key = _key(tokens, at)
        row[WORDS] += 1
        if row[WORDS] >= 3:
            row[NGRAMS] += 1
            row[COPIED] += _has(table, SAID_NGRAM, _three(one, two, key))
        one, two = two, key
        if _is_content(tokens, at, lexicon) and _add(table, OWN_CONTENT, key) == 0:
            row[CONTENT] += 1
            if _has(table, SAID_WORD, key):
                row[COVERED] += 1
            else:
                row[NEW_CONTENT] += 1


@njit(nogil=True, cache=True)
def _passages(table: SaidViews, tokens: TokenViews, count: int, about: np.uint64, row: Ints) -> int:
    """Counts every passage of LOOP_WORDS words; returns how many came before. For SEEN_LOOP, counts into LOOPED those
    that the text has more often than the parent.
    """
    # The hash of a passage is a polynomial, from which the word before the passage is taken away.
    words = again = 0
    first = 0
    key = _NONE
    for at in range(count):
        if not _is_word(tokens, at):
            continue
        key = key * _BASE + _key(tokens, at)
        words += 1
        if words < LOOP_WORDS:
            continue
        if words > LOOP_WORDS:
            while not _is_word(tokens, first):
                first += 1
            key -= _key(tokens, first) * _BASE_TO_PASSAGE
            first += 1
        seen = _add(table, about, key)
        again += seen > 0
        if about == SEEN_LOOP and seen >= max(1, _count(table, SAID_LOOP, key)):
            row[LOOPED] += 1
    return again


class CompareScratch(NamedTuple):
    """Arrays for one document and its parent, with room for the longest of a batch."""

    tokens: Tokens
    parent: Tokens
    facts: Facts
    parent_facts: Facts
    buffer: npt.NDArray[np.uint8]
    votes: npt.NDArray[np.int64]
    new: npt.NDArray[np.int64]
    """How many things are new, then check, begin and end of each."""


@njit(nogil=True, cache=True)
def _read(
    text: npt.NDArray[np.uint8],
    begin: Any,
    end: Any,
    tables: UnicodeTables,
    lexicon: Lexicon,
    tokens: Tokens,
    facts: Facts,
    buffer: npt.NDArray[np.uint8],
) -> tuple[int, int]:
    """Reads tokens and facts of a text; returns how many there are."""
    words, known = token_views(tokens), lexicon_views(lexicon)
    size = len(lexicon.keys)
    count = scan(view(text), begin, end, unicode_views(tables), known.keys, size, words, view(buffer))
    return count, read_facts(words, count, known, fact_views(facts))


@njit(nogil=True, cache=True)
def _compare_one(
    text_bytes: npt.NDArray[np.uint8],
    parent_bytes: npt.NDArray[np.uint8],
    lexicon_arrays: Lexicon,
    table_arrays: SaidTable,
    extra_arrays: SaidTable,
    scratch: CompareScratch,
    sizes: tuple[int, int, int, int],
    counts: npt.NDArray[np.int64],
) -> None:
    """Compares the tokens of a document with those of its parent."""
    table, lexicon = _table_views(table_arrays), lexicon_views(lexicon_arrays)
    tokens, parent = token_views(scratch.tokens), token_views(scratch.parent)
    facts, parent_facts = fact_views(scratch.facts), fact_views(scratch.parent_facts)
    text, parent_text = view(text_bytes), view(parent_bytes)
    row, votes, new = view(counts), view(scratch.votes), view(scratch.new)
    count, found, parent_count, parent_found = sizes
    new[0] = 0

    _add_words(table, parent_text, parent, parent_count, lexicon, row)
    _add_facts(table, parent, parent_count, lexicon, parent_facts, parent_found)
    _add_units(table, parent, parent_count, lexicon)
    _pairs(table, parent, parent_count, lexicon, True, row, new)
    was_in = _language(parent, parent_count, lexicon, votes)
    language = _language(tokens, count, lexicon, votes)
    if was_in != language and was_in != UNKNOWN and language != UNKNOWN:
        row[LANGUAGE] = 2 * votes[was_in] < votes[language]

    _check_words(table, tokens, count, lexicon, row)
    _check_facts(table, tokens, count, lexicon, facts, found, row, new)
    _check_names(table, text, tokens, count, lexicon, language, row, new)
    _check_quotations(table, tokens, count, row, new)
    _pairs(table, tokens, count, lexicon, False, row, new)
    extra = _table_views(extra_arrays)
    _check_code(table, extra, parent, parent_count, tokens, count, row, new)
    if _passages(extra, tokens, count, OWN_LOOP, row):
        _passages(extra, parent, parent_count, SAID_LOOP, row)
        _passages(extra, tokens, count, SEEN_LOOP, row)


@njit(nogil=True, cache=True)
def compare(
    offsets: npt.NDArray[np.int32],
    text: npt.NDArray[np.uint8],
    parent_offsets: npt.NDArray[np.int32],
    parent_text: npt.NDArray[np.uint8],
    valid: npt.NDArray[np.bool_],
    tables: UnicodeTables,
    lexicon: Lexicon,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns the counts of COLUMNS, a row for each document, and the spans of what is new: row, check, begin and end.

    Spans are in bytes of the document. Rows that are not valid stay 0.
    """
    documents = len(offsets) - 1
    counts = np.zeros((documents, N_COLUMNS), np.int64)
    longest = longest_parent = 0
    for document in range(documents):
        if valid[document]:
            longest = max(longest, offsets[document + 1] - offsets[document])
            longest_parent = max(longest_parent, parent_offsets[document + 1] - parent_offsets[document])
    scratch = CompareScratch(
        new_tokens(longest),
        new_tokens(longest_parent),
        new_facts(longest),
        new_facts(longest_parent),
        np.zeros(4 * MAX_WORD_BYTES, np.uint8),
        np.zeros(64, np.int64),
        np.zeros(1 + 3 * MOST_SPANS, np.int64),
    )
    table = SaidTable(np.zeros(2, np.uint64), np.zeros(2, np.int64))
    extra = SaidTable(np.zeros(2, np.uint64), np.zeros(2, np.int64))
    spans = np.empty((64, 4), np.int64)
    total = 0
    for document in range(documents):
        if not valid[document]:
            continue
        begin, end = np.int64(offsets[document]), np.int64(offsets[document + 1])
        count, found = _read(text, begin, end, tables, lexicon, scratch.tokens, scratch.facts, scratch.buffer)
        begin, end = np.int64(parent_offsets[document]), np.int64(parent_offsets[document + 1])
        parent_count, parent_found = _read(
            parent_text, begin, end, tables, lexicon, scratch.parent, scratch.parent_facts, scratch.buffer
        )
        # The most entries: a word, an n-gram, initials and a pair of each token, and 20 of a fact; for code and loops,
        # which are rare, one or two of each token.
        table = _prepared(table, 4 * parent_count + 20 * parent_found + count + found + 64)
        extra = _prepared(extra, 2 * parent_count + 2 * count + 64)
        sizes = (count, found, parent_count, parent_found)
        _compare_one(text, parent_text, lexicon, table, extra, scratch, sizes, counts[document])
        while len(spans) < total + scratch.new[0]:
            spans = np.concatenate((spans, np.empty_like(spans)))
        for one in range(scratch.new[0]):
            at = 1 + 3 * one
            spans[total] = document, scratch.new[at], scratch.new[at + 1], scratch.new[at + 2]
            spans[total, 2:] -= offsets[document]
            total += 1
    return counts, spans[:total].copy()

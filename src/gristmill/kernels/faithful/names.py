"""Finds names that the parent lacks.

A name is a word with a capital that the parent has in no spelling. At the start of a sentence or in a headline in title
case it must also be no ordinary word, which is known for English only. In German, where nouns have capitals, it needs
another such word next to it. The initials of a name in the parent are known.
"""

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.faithful.facts import mix
from gristmill.kernels.faithful.findings import NAMES, note
from gristmill.kernels.faithful.lexicon import COMMON, HAS_DATE, HAS_NUMBER, HAS_UNIT, NEGATION, STOP
from gristmill.kernels.faithful.said import SAID_INITIALS, SAID_NAME, SaidViews, has, has_word
from gristmill.kernels.faithful.tokens import (
    CAPITAL,
    ENDS_SENTENCE,
    FIRST,
    HAS_DIGIT,
    IS_SYMBOL,
    IS_WORD,
    LEAST_LETTERS,
    LINE,
    Tokens,
    letters_of,
)
from gristmill.kernels.faithful.words import MOST_INITIALS
from gristmill.kernels.memory import Bytes, Ints
from gristmill.kernels.text.ascii import UPPER_A, UPPER_Z

ENGLISH, GERMAN = 0, 1
"""The first two languages of a lexicon."""
_LEAST_TITLE_WORDS = 2
_CAPITAL_WORD = IS_WORD | CAPITAL
_NAME_BITS = _CAPITAL_WORD | STOP | NEGATION | HAS_DATE | HAS_NUMBER | HAS_UNIT | HAS_DIGIT
"""Of these traits, a name has those of a word with a capital."""


@njit(nogil=True, cache=True)
def _is_initials(table: SaidViews, text: Bytes, begin: int, end: int) -> bool:
    """Whether the capitals of an abbreviation (`UN`, `UNESCO`) are the initials of a name in the parent."""
    if not 2 <= end - begin <= MOST_INITIALS:
        return False
    key = np.uint64(1)
    # The key of initials is mixed letter by letter, as in the table.
    for at in range(begin, end):
        if not UPPER_A <= text[at] <= UPPER_Z:
            return False
        key = mix(key, np.uint64(text[at]))
    return has(table, SAID_INITIALS, key)


@njit(nogil=True, cache=True)
def _line_end(tokens: Tokens, at: int, count: int) -> int:
    """Returns the token after the line of the token `at`."""
    at += 1
    while at < count and not tokens.traits[at] & LINE:
        at += 1
    return at


@njit(nogil=True, cache=True)
def _is_title(tokens: Tokens, begin: int, end: int) -> bool:
    """Whether the tokens of a line are a headline: at least two words of four letters or more, all with capitals, and
    no mark that ends a sentence.
    """
    words = 0
    last = tokens.traits[end - 1]
    if last & IS_SYMBOL and last & ENDS_SENTENCE:
        return False
    # All long words need a capital.
    for at in range(begin, end):
        traits = tokens.traits[at]
        if traits & IS_WORD and letters_of(traits) > LEAST_LETTERS:
            if not traits & CAPITAL:
                return False
            words += 1
    return words >= _LEAST_TITLE_WORDS


@njit(nogil=True, cache=True, forceinline=True)
def _is_capital_word(tokens: Tokens, at: int, count: int) -> bool:
    return 0 <= at < count and tokens.traits[at] & (_CAPITAL_WORD | STOP) == _CAPITAL_WORD


@njit(nogil=True, cache=True)
def check_names(
    table: SaidViews,
    text: Bytes,
    tokens: Tokens,
    count: int,
    language: int,
    row: Ints,
    new: Ints,
) -> None:
    """Counts words with a capital that the parent lacks."""
    line = line_end = 0
    is_title = False
    # Only words with a capital that the parent does not have are looked at more closely.
    for at in range(count):
        traits = tokens.traits[at]
        line = at if traits & LINE else line
        if traits & _NAME_BITS != _CAPITAL_WORD:
            continue
        if letters_of(traits) < 2 or has_word(table, tokens.keys[at]):
            continue
        # Finds out once for each line whether it is a headline.
        if at >= line_end:
            line_end = _line_end(tokens, at, count)
            is_title = _is_title(tokens, line, line_end)
        if is_title or traits & FIRST:
            if language != ENGLISH or traits & COMMON:
                continue
        elif language == GERMAN:
            before = _is_capital_word(tokens, at - 1, count) and not tokens.traits[at - 1] & FIRST
            if not before and not _is_capital_word(tokens, at + 1, count):
                continue
        begin, end = tokens.begins[at], tokens.ends[at]
        if not _is_initials(table, text, begin, end) and not has(table, SAID_NAME, tokens.keys[at]):
            note(new, row, NAMES, begin, end)

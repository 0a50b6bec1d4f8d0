"""Finds quotations, code and formulas that the parent lacks.

A quotation is new if one of its 3-grams of words is (if it is shorter: one of its words), apart from its numbers. A
piece of code is new if a fifth of its 3-grams of tokens is. 3-grams across lines and sentences do not count: both may
be moved.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.faithful.facts import mix
from gristmill.kernels.faithful.findings import CODE, QUOTATIONS, note
from gristmill.kernels.faithful.lexicon import HAS_DATE, HAS_NUMBER, HAS_UNIT
from gristmill.kernels.faithful.said import SAID_CODE, SaidViews, add, has, has_gram, has_word, three
from gristmill.kernels.faithful.tokens import (
    BLANK,
    ENDS_SENTENCE,
    IS_ADDRESS,
    IS_NUMBER,
    IS_SYMBOL,
    IS_WORD,
    LEFT_CORNER,
    LEFT_DOUBLE_QUOTE,
    LEFT_GUILLEMET,
    LINE,
    LOW_DOUBLE_QUOTE,
    MARKS_CODE,
    QUOTES,
    RIGHT_DOUBLE_QUOTE,
    RIGHT_GUILLEMET,
    SPACED,
    Tokens,
)
from gristmill.kernels.faithful.words import gram_key
from gristmill.kernels.memory import Ints
from gristmill.kernels.text.ascii import (
    BACKSLASH,
    DOLLAR,
    LEFT_BRACKET,
    LEFT_PAREN,
    QUOTE,
    RIGHT_BRACKET,
    RIGHT_PAREN,
)

MOST_QUOTED, MOST_CODE = 300, 5000
"""Tokens of a quotation and of a piece of code."""
ELLIPSIS = 0x2026
_NONE = np.uint64(0)
_IN_FACTS = HAS_NUMBER | HAS_UNIT | HAS_DATE
"""Words that are part of a quantity or date if a number is next to them."""
_KIND = IS_WORD | IS_NUMBER | IS_ADDRESS | IS_SYMBOL
_QUOTE_KINDS, _CODE_KINDS = 6, 10
"""Pairs of marks around quotations, and around code and formulas."""
_DOLLARS, _PARENTHESES, _BRACKETS = 4, 8, 9
"""Kinds of marks of code: 1 to 3 backticks, 1 to 3 dollar signs from 5 on, `\\(` and `\\[`."""
_FENCE = 3
"""Backticks before and after a block of code."""


@njit(nogil=True, cache=True, forceinline=True)
def _is_mark(tokens: Tokens, at: int, trait: int) -> bool:
    return bool(tokens.traits[at] & (trait | IS_SYMBOL) == trait | IS_SYMBOL)


@njit(nogil=True, cache=True)
def _begins_again(tokens: Tokens, at: int) -> bool:
    """Whether the text before the token may be elsewhere in the parent: at a line, a sentence, or left-out words."""
    traits = tokens.traits[at]
    if traits & IS_SYMBOL and (tokens.keys[at] == np.uint64(LEFT_BRACKET) or tokens.keys[at] == np.uint64(ELLIPSIS)):
        return True
    return traits & LINE != 0 or (traits & SPACED != 0 and at > 0 and _is_mark(tokens, at - 1, ENDS_SENTENCE))


@njit(nogil=True, cache=True)
def _knows_words(table: SaidViews, tokens: Tokens, begin: int, end: int) -> bool:
    """Whether the parent has the 3-grams of words from token `begin` to `end`; of one or two words, the words.

    Quantities and dates are left out: they may have another form (`$92,000`, `$92 thousand`), and are checked as facts.
    """
    one = two = _NONE
    words = 0
    known, in_fact = True, False
    # Each word is compared, from the third one on together with the two before it.
    for at in range(begin, end):
        traits = tokens.traits[at]
        if at > begin and _begins_again(tokens, at):
            words = 0
        if not traits & (IS_WORD | IS_NUMBER):
            continue
        is_next = at + 1 < end and tokens.traits[at + 1] & IS_NUMBER != 0
        in_fact = traits & IS_NUMBER != 0 or (traits & _IN_FACTS != 0 and (in_fact or is_next))
        if in_fact:
            words = 0
            continue
        words += 1
        key = tokens.keys[at]
        known &= has_gram(table, one, two, key) if words >= 3 else has_word(table, key)
        one, two = two, key
    return known


@njit(nogil=True, cache=True)
def _closing_quote(point: Any) -> tuple[Any, Any]:
    """Returns the mark that ends a quotation that begins with `point`, and the number of the pair."""
    if point == QUOTE:
        return QUOTE, 0
    if point == LEFT_DOUBLE_QUOTE:
        return RIGHT_DOUBLE_QUOTE, 1
    if point == LOW_DOUBLE_QUOTE:
        return LEFT_DOUBLE_QUOTE, 2
    if point == LEFT_GUILLEMET:
        return RIGHT_GUILLEMET, 3
    return point + 1, 4 + (point - LEFT_CORNER >> 1)


@njit(nogil=True, cache=True)
def _opens(tokens: Tokens, at: int) -> bool:
    """Whether a mark before the last token opens a quotation: a straight one only after white space or a symbol."""
    if tokens.traits[at + 1] & SPACED:
        return False
    if tokens.keys[at] != np.uint64(QUOTE) or tokens.traits[at] & SPACED:
        return True
    return tokens.traits[at - 1] & IS_SYMBOL != 0 and not tokens.traits[at + 1] & IS_SYMBOL


@njit(nogil=True, cache=True)
def check_quotations(table: SaidViews, tokens: Tokens, count: int, row: Ints, new: Ints) -> None:
    """Counts quotations that the parent lacks."""
    searched = np.zeros(_QUOTE_KINDS, np.int64)  # up to which token a closing mark was sought and not found
    at = 0
    # Each turn looks for the mark that closes the quotation at `at`.
    while at + 1 < count:
        if not _is_mark(tokens, at, QUOTES) or not _opens(tokens, at):
            at += 1
            continue
        closing, pair = _closing_quote(np.int64(tokens.keys[at]))
        end, last = max(at + 1, searched[pair]), min(count, at + MOST_QUOTED)
        is_closed = False
        # A quotation ends with its paragraph at the latest.
        while end < last and not tokens.traits[end] & BLANK:
            if tokens.traits[end] & IS_SYMBOL and tokens.keys[end] == np.uint64(closing):
                is_closed = True
                break
            end += 1
        if is_closed and not (closing == QUOTE and end + 1 < count and _opens(tokens, end)):
            if not _knows_words(table, tokens, at + 1, end):
                note(new, row, QUOTATIONS, tokens.begins[at], tokens.ends[end])
            at = end + 1
        else:
            # There is no closing mark, or another quotation opens with it, so that the mark at `at` closed one.
            searched[pair] = end
            at += 1


@njit(nogil=True, cache=True)
def _run(tokens: Tokens, at: int, count: int) -> int:
    """Returns how often the symbol at `at` is repeated without white space, at most three times."""
    end = at + 1
    # Symbols that are equal and not separated.
    while end < count and end < at + _FENCE and tokens.traits[end] & (SPACED | IS_SYMBOL) == IS_SYMBOL:
        if tokens.keys[end] != tokens.keys[at]:
            break
        end += 1
    return end - at


@njit(nogil=True, cache=True)
def _code_at(tokens: Tokens, at: int, count: int, searched: npt.NDArray[np.int64]) -> tuple[int, int, int]:
    """Returns the tokens inside a piece of code or a formula at `at`, and the token after it; (at, at, at) if there is
    none. Both are between equal marks (`, ```, $, $$), or between \\( and \\), \\[ and \\].
    """
    mark: Any = np.int64(tokens.keys[at])
    size = _run(tokens, at, count)
    inside = at + size
    if inside >= count:
        return at, at, at
    traits = tokens.traits[inside]
    closing, kind = mark, size + (_DOLLARS if mark == DOLLAR else 0)
    if mark == BACKSLASH:
        opening = np.int64(tokens.keys[inside])
        if size > 1 or traits & (SPACED | IS_SYMBOL) != IS_SYMBOL:
            return at, at, at
        if opening != LEFT_PAREN and opening != LEFT_BRACKET:
            return at, at, at
        is_paren = opening == LEFT_PAREN
        closing, kind = (RIGHT_PAREN, _PARENTHESES) if is_paren else (RIGHT_BRACKET, _BRACKETS)
        inside += 1
    elif kind == _DOLLARS + 1 and traits & (SPACED | IS_NUMBER):
        return at, at, at  # `$5 and $6` are amounts of money
    is_block = size == _FENCE or kind == _DOLLARS + 2 or kind == _BRACKETS
    # Code inside a line ends with it, a formula with its paragraph.
    ends_at = 0 if is_block else BLANK if mark == DOLLAR else LINE
    end, last = max(inside, searched[kind]), min(count, at + (MOST_CODE if is_block else MOST_QUOTED))
    # Look for the closing marks; `searched` bounds the work, since a second search for them begins where the first
    # ended.
    while end < last and not tokens.traits[end] & ends_at:
        if tokens.traits[end] & IS_SYMBOL and tokens.keys[end] == np.uint64(mark):
            if mark != BACKSLASH:
                if _run(tokens, end, count) >= size:
                    return inside, end, end + size
            elif end + 1 < count and tokens.traits[end + 1] & IS_SYMBOL and tokens.keys[end + 1] == np.uint64(closing):
                return inside, end, end + 2
        end += 1
    searched[kind] = end
    return at, at, at


@njit(nogil=True, cache=True)
def _code_key(tokens: Tokens, at: int) -> np.uint64:
    """Returns the key of a token in code; all double quotes are one."""
    traits = tokens.traits[at]
    key = gram_key(tokens, at, traits)
    if traits & IS_SYMBOL and np.uint64(LEFT_DOUBLE_QUOTE) <= key <= np.uint64(LOW_DOUBLE_QUOTE):
        key = np.uint64(QUOTE)
    return mix(key, np.uint64(traits & _KIND))


@njit(nogil=True, cache=True)
def _add_code(own: SaidViews, tokens: Tokens, count: int) -> None:
    """Adds the 3-grams of all tokens of the parent."""
    one = two = _NONE
    # Each token ends one 3-gram.
    for at in range(count):
        key = _code_key(tokens, at)
        add(own, SAID_CODE, three(one, two, key))
        one, two = two, key


@njit(nogil=True, cache=True)
def _knows_code(table: SaidViews, own: SaidViews, tokens: Tokens, begin: int, end: int) -> bool:
    """Whether the parent has four fifths of the 3-grams of tokens, and of the words that are in none."""
    one = two = _NONE
    size = known = grams = 0
    # Count 3-grams, and single words before the first 3-gram of a piece.
    for at in range(begin, end):
        if at > begin and _begins_again(tokens, at):
            size = 0
        key = _code_key(tokens, at)
        size += 1
        if size >= 3:
            grams += 1
            known += has(own, SAID_CODE, three(one, two, key))
        elif tokens.traits[at] & IS_WORD:
            grams += 1
            known += has_word(table, tokens.keys[at])
        one, two = two, key
    return 5 * known >= 4 * grams


@njit(nogil=True, cache=True)
def check_code(
    table: SaidViews,
    own: SaidViews,
    parent: Tokens,
    parent_count: int,
    tokens: Tokens,
    count: int,
    row: Ints,
    new: Ints,
) -> None:
    """Counts pieces of code and formulas that the parent lacks. `own` has room for an entry of each parent's token."""
    searched = np.zeros(_CODE_KINDS, np.int64)
    is_ready = False
    at = 0
    # Each turn takes one piece of code or one formula.
    while at < count:
        if not _is_mark(tokens, at, MARKS_CODE):
            at += 1
            continue
        inside, end, over = _code_at(tokens, at, count, searched)
        if over == at:
            at += _run(tokens, at, count)
            continue
        if not is_ready:
            _add_code(own, parent, parent_count)
            is_ready = True
        # The name of a language after three backticks is no code.
        if inside == at + _FENCE and tokens.traits[inside] & (SPACED | IS_WORD) == IS_WORD:
            inside += 1
        if not _knows_code(table, own, tokens, inside, end):
            note(new, row, CODE, tokens.begins[at], tokens.ends[over - 1])
        at = over

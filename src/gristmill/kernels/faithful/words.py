"""Compares words: 3-grams, content words, repeated passages, languages, and pairs of words with their polarity.

A pair of neighbouring content words is flipped if the parent has it only with the other polarity. A negation changes
the polarity of the next two pairs, and one of two opposites (`more`, `less`) that of both pairs that it is in.
"""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.faithful.facts import mix, number_key
from gristmill.kernels.faithful.findings import (
    COMPARISONS,
    CONTENT_WORDS,
    COPIED,
    COVERED,
    LOOPED,
    NEGATIONS,
    NEW_CONTENT,
    NGRAMS,
    PARENT_CONTENT,
    PARENT_WORDS,
    WORDS,
    note,
)
from gristmill.kernels.faithful.lexicon import NEGATION, STOP, Lexicon, languages_of, opposite_of
from gristmill.kernels.faithful.said import (
    BY_PARENT,
    BY_TEXT,
    OWN_LOOP,
    SAID_INITIALS,
    SAID_LOOP,
    SAID_NGRAM,
    SAID_PAIR,
    SAID_WORD,
    SaidViews,
    add,
    count_of,
    has,
    mark,
    three,
)
from gristmill.kernels.faithful.tokens import (
    BLANK,
    BREAKS,
    CAPITAL,
    CONTENT,
    FIRST,
    IS_NUMBER,
    IS_WORD,
    VOTING_WORDS,
    Tokens,
)
from gristmill.kernels.memory import Bytes, Ints, Uint64s, trailing_zeros

UNKNOWN = -1
LEAST_VOTES = 5
LOOP_WORDS = 8
"""Words of a passage whose repetition is a loop."""
MOST_INITIALS = 8
_NONE, _ONE = np.uint64(0), np.uint64(1)
_BASE = np.uint64(0x9E3779B97F4A7C15)
_BASE_TO_PASSAGE = np.uint64(pow(0x9E3779B97F4A7C15, LOOP_WORDS, 1 << 64))
VOTE_BITS = VOTING_WORDS.bit_length()
_NEGATED_PAIRS = 2


@njit(nogil=True, cache=True, forceinline=True)
def gram_key(tokens: Tokens, at: int, traits: int) -> np.uint64:
    """Returns the key of a token in n-grams: of a number, with its power of ten."""
    return number_key(tokens.keys[at], tokens.powers[at]) if traits & IS_NUMBER else tokens.keys[at]


@njit(nogil=True, cache=True)
def language_of(tokens: Tokens, voting: int, lexicon: Lexicon, planes: Uint64s) -> int:
    """Returns the language with the most frequent words among the first words, or UNKNOWN, and writes the votes.

    All languages are counted at once: plane b has the bits of weight 2^b of 64 counters.
    """
    for bit in range(VOTE_BITS):
        planes[bit] = _NONE
    # Add one vote for each language of the word.
    for place in range(voting):
        carry = languages_of(lexicon, tokens.keys[tokens.voting[place]])
        bit = 0
        # Addition with carry, in all 64 counters at once.
        while carry:
            plane = planes[bit]
            planes[bit] = plane ^ carry
            carry &= plane
            bit += 1
    # Of the languages that are left, those with the next lower bit are left if there are any.
    left = ~_NONE
    for bit in range(VOTE_BITS - 1, -1, -1):
        left = left & planes[bit] if left & planes[bit] else left
    best = trailing_zeros(left)
    return best if votes_of(planes, best) >= LEAST_VOTES else UNKNOWN


@njit(nogil=True, cache=True)
def votes_of(planes: Uint64s, language: int) -> Any:
    """Returns the votes for a language."""
    votes: Any = 0
    for bit in range(VOTE_BITS):
        votes |= np.int64(planes[bit] >> np.uint64(language) & _ONE) << bit
    return votes


@njit(nogil=True, cache=True)
def add_words(table: SaidViews, text: Bytes, tokens: Tokens, count: int, grams: Uint64s, row: Ints) -> None:
    """Adds words, 3-grams and the initials of names of the parent, and writes the keys of its words to `grams`."""
    one = two = initials = _NONE
    letters = words = content = 0
    # Each word ends one 3-gram. Words with a capital that follow one another are a name, whose initials are added.
    for at in range(count):
        traits = tokens.traits[at]
        if not traits & (IS_WORD | IS_NUMBER):
            letters = 0
            continue
        key = gram_key(tokens, at, traits)
        mark(table, SAID_NGRAM, three(one, two, key), BY_PARENT)
        one, two = two, key
        grams[words] = key
        words += 1
        if traits & IS_NUMBER:
            letters = 0
            continue
        is_new = mark(table, SAID_WORD, key, BY_PARENT) == _NONE
        content += is_new & (traits & CONTENT != 0)
        if traits & CAPITAL:
            first = np.uint64(text[tokens.begins[at]])
            initials = mix(initials if letters else _ONE, first)
            letters += 1
            if 2 <= letters <= MOST_INITIALS:
                add(table, SAID_INITIALS, initials)
        elif not traits & STOP or traits & FIRST:
            letters = 0
    row[PARENT_WORDS], row[PARENT_CONTENT] = words, content


@njit(nogil=True, cache=True)
def check_words(table: SaidViews, tokens: Tokens, count: int, grams: Uint64s, row: Ints) -> bool:
    """Counts words, copied 3-grams, and content words that the parent has or lacks; writes the keys of all words.

    Returns whether a passage of LOOP_WORDS words may be repeated: all its 3-grams are there before.
    """
    one = two = _NONE
    words = copied = content = covered = repeated = most = 0
    # Each word ends one 3-gram, and counts once as a content word.
    for at in range(count):
        traits = tokens.traits[at]
        if not traits & (IS_WORD | IS_NUMBER):
            continue
        key = gram_key(tokens, at, traits)
        grams[words] = key
        words += 1
        if words >= 3:
            marks = mark(table, SAID_NGRAM, three(one, two, key), BY_TEXT)
            copied += marks & BY_PARENT != _NONE
            repeated = repeated + 1 if marks & BY_TEXT else 0
            most = max(most, repeated)
        one, two = two, key
        if traits & CONTENT:
            marks = mark(table, SAID_WORD, key, BY_TEXT)
            is_new = marks & BY_TEXT == _NONE
            content += is_new
            covered += is_new & (marks & BY_PARENT != _NONE)
    row[WORDS], row[NGRAMS], row[COPIED] = words, max(words - 2, 0), copied
    row[CONTENT_WORDS], row[COVERED], row[NEW_CONTENT] = content, covered, content - covered
    return most >= LOOP_WORDS - 2


@njit(nogil=True, cache=True)
def _passages(own: SaidViews, grams: Uint64s, words: int, about: np.uint64) -> int:
    """Counts every passage of LOOP_WORDS words; returns how many came before, and more often than in the parent."""
    # The hash of a passage is a polynomial, from which the word before the passage is taken away.
    again = 0
    key = _NONE
    # Roll the hash of the last LOOP_WORDS words.
    for at in range(words):
        key = key * _BASE + grams[at]
        if at >= LOOP_WORDS:
            key -= grams[at - LOOP_WORDS] * _BASE_TO_PASSAGE
        if at >= LOOP_WORDS - 1:
            again += add(own, about, key) >= max(1, count_of(own, SAID_LOOP, key))
    return again


@njit(nogil=True, cache=True)
def check_loops(own: SaidViews, grams: Uint64s, parent_grams: Uint64s, row: Ints) -> None:
    """Counts the words that begin a passage which the text has more often than its parent, and not for the first time.

    `own` is a table without entries, with room for a passage of each word of both texts.
    """
    _passages(own, parent_grams, row[PARENT_WORDS], SAID_LOOP)
    row[LOOPED] = _passages(own, grams, row[WORDS], OWN_LOOP)


@njit(nogil=True, cache=True)
def pairs(table: SaidViews, tokens: Tokens, paired: int, is_parent: bool, row: Ints, new: Ints) -> None:
    """Adds the pairs of content words of the parent with their polarity, or counts those that are flipped."""
    before = _NONE
    before_opposite = before_at = negated = 0
    # Each content word makes a pair with the one before it in the same sentence.
    for place in range(paired):
        at = tokens.paired[place]
        traits = tokens.traits[at]
        if traits & (BLANK | BREAKS):
            before, negated = _NONE, 0
        if not traits & IS_WORD:
            continue
        opposite = opposite_of(traits)
        if not opposite and not traits & CONTENT:
            negated = _NEGATED_PAIRS if traits & NEGATION else negated
            continue
        stem = np.uint64(opposite >> 1) if opposite else tokens.stems[at]
        if before:
            # The lowest bit is the polarity.
            pair = mix(before, stem) ^ np.uint64((negated > 0) ^ (opposite & 1) ^ (before_opposite & 1))
            if is_parent:
                add(table, SAID_PAIR, pair)
            elif not has(table, SAID_PAIR, pair) and has(table, SAID_PAIR, pair ^ _ONE):
                check = COMPARISONS if opposite or before_opposite else NEGATIONS
                note(new, row, check, tokens.begins[before_at], tokens.ends[at])
        negated = max(negated - 1, 0)
        before, before_at, before_opposite = stem, at, opposite

"""Compares each text of a batch with its parent: counts what is new in it and notes where.

All that the parent says goes into one table of hashes with counts (`said.py`): words, their 3-grams, numbers,
quantities, dates, and pairs of content words with the polarity of what they say. The text is then checked against the
table, so time and memory are linear in the bytes of both.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.faithful.facts import Facts, new_facts, read_facts
from gristmill.kernels.faithful.findings import LANGUAGE, MOST_SPANS, N_COLUMNS, PARENT_CONTENT, PARENT_WORDS
from gristmill.kernels.faithful.lexicon import Lexicon
from gristmill.kernels.faithful.names import check_names
from gristmill.kernels.faithful.new_facts import FACT_ENTRIES, add_facts, add_units, check_facts
from gristmill.kernels.faithful.quoted import check_code, check_quotations
from gristmill.kernels.faithful.said import SaidTable, copied, emptied, new_table, said_views, with_room
from gristmill.kernels.faithful.tokens import (
    MARKS_CODE,
    OPENS,
    QUOTES,
    TokenCounts,
    Tokens,
    new_tokens,
    scan,
)
from gristmill.kernels.faithful.word_keys import MAX_WORD_BYTES
from gristmill.kernels.faithful.words import (
    UNKNOWN,
    VOTE_BITS,
    add_words,
    check_loops,
    check_words,
    language_of,
    pairs,
    votes_of,
)
from gristmill.kernels.memory import Bytes, view
from gristmill.kernels.text.unicode_classes import UnicodeTables

WORD_ENTRIES = 4
"""The most entries of a token of the parent: a word, a 3-gram, initials and a pair."""
FACTS_AT_ONCE = 256
"""Facts between two looks at the size of the table: few of them are ever as many entries as they may be."""


class TextScratch(NamedTuple):
    """Arrays for one text, with room for the longest of a batch."""

    tokens: Tokens
    facts: Facts
    grams: npt.NDArray[np.uint64]
    """The keys of words and numbers, in order."""


class CompareScratch(NamedTuple):
    """Arrays for one document and its parent."""

    text: TextScratch
    parent: TextScratch
    buffer: npt.NDArray[np.uint8]
    votes: npt.NDArray[np.uint64]
    new: npt.NDArray[np.int64]
    """How many things are new, then check, begin and end of each."""


class ComparedCounts(NamedTuple):
    """How many tokens and facts a text has."""

    tokens: TokenCounts
    facts: int


@njit(nogil=True, cache=True)
def _text_scratch(size: int) -> TextScratch:
    return TextScratch(new_tokens(size), new_facts(size), np.empty(size + 1, np.uint64))


@njit(nogil=True, cache=True)
def _read(
    text: npt.NDArray[np.uint8],
    begin: Any,
    end: Any,
    tables: UnicodeTables,
    lexicon_arrays: Lexicon,
    scratch: TextScratch,
    buffer: npt.NDArray[np.uint8],
) -> ComparedCounts:
    """Reads tokens and facts of a text."""
    tokens, lexicon = view(scratch.tokens), view(lexicon_arrays)
    counts = scan(view(text), begin, end, view(tables), lexicon, tokens, view(buffer))
    return ComparedCounts(counts, read_facts(tokens, counts, lexicon, view(scratch.facts)))


@njit(nogil=True, cache=True)
def _add_parent(
    table_arrays: SaidTable,
    text: npt.NDArray[np.uint8],
    lexicon_arrays: Lexicon,
    scratch: CompareScratch,
    counts: ComparedCounts,
    row: npt.NDArray[np.int64],
) -> None:
    """Adds the words of a parent."""
    table, tokens = said_views(table_arrays), view(scratch.parent.tokens)
    size, paired, _, _, symbols = counts.tokens
    add_words(table, view(text), tokens, size, view(scratch.parent.grams), view(row))
    pairs(table, tokens, paired, True, view(row), view(scratch.new))
    if symbols & OPENS:
        add_units(table, tokens, size, view(lexicon_arrays))


@njit(nogil=True, cache=True)
def _add_some_facts(table: SaidTable, scratch: TextScratch, count: int, begin: int, end: int) -> None:
    add_facts(said_views(table), view(scratch.tokens), count, view(scratch.facts), begin, end)


@njit(nogil=True, cache=True)
def _check_text(
    table_arrays: SaidTable,
    own_arrays: SaidTable,
    text: npt.NDArray[np.uint8],
    lexicon_arrays: Lexicon,
    scratch: CompareScratch,
    counts: ComparedCounts,
    parent_counts: ComparedCounts,
    row_array: npt.NDArray[np.int64],
) -> bool:
    """Checks a document against all that its parent says; returns whether a passage may be repeated in it."""
    table, own, lexicon = said_views(table_arrays), said_views(own_arrays), view(lexicon_arrays)
    tokens, parent = view(scratch.text.tokens), view(scratch.parent.tokens)
    row, votes, new = view(row_array), view(scratch.votes), view(scratch.new)
    count, paired, _, voting, symbols = counts.tokens
    parent_count = parent_counts.tokens.tokens
    was_in = language_of(parent, parent_counts.tokens.voting, lexicon, votes)
    language = language_of(tokens, voting, lexicon, votes)
    if was_in != language and was_in != UNKNOWN and language != UNKNOWN:
        row[LANGUAGE] = 2 * votes_of(votes, was_in) < votes_of(votes, language)

    may_loop = check_words(table, tokens, count, view(scratch.text.grams), row)
    check_facts(table, tokens, count, view(scratch.text.facts), counts.facts, row, new)
    check_names(table, view(text), tokens, count, language, row, new)
    pairs(table, tokens, paired, False, row, new)
    if symbols & QUOTES:
        check_quotations(table, tokens, count, row, new)
    if symbols & MARKS_CODE:
        check_code(table, own, parent, parent_count, tokens, count, row, new)
    return may_loop


@njit(nogil=True, cache=True)
def _check_loops(own: SaidTable, scratch: CompareScratch, row: npt.NDArray[np.int64]) -> None:
    check_loops(said_views(own), view(scratch.text.grams), view(scratch.parent.grams), view(row))


@njit(nogil=True, cache=True)
def _is_same(data: Bytes, offsets: npt.NDArray[np.int32], document: int) -> bool:
    """Whether the next document has the same parent's text."""
    begin, end = offsets[document], offsets[document + 1]
    size = end - begin
    if offsets[document + 2] - end != size:
        return False
    at = 0
    while at < size and data[begin + at] == data[end + at]:
        at += 1
    return bool(at == size)


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
    # The longest texts decide how much room the tokens need.
    for document in range(documents):
        if valid[document]:
            longest = max(longest, offsets[document + 1] - offsets[document])
            longest_parent = max(longest_parent, parent_offsets[document + 1] - parent_offsets[document])
    scratch = CompareScratch(
        _text_scratch(longest),
        _text_scratch(longest_parent),
        np.zeros(4 * MAX_WORD_BYTES, np.uint8),
        np.zeros(VOTE_BITS, np.uint64),
        np.zeros(1 + 3 * MOST_SPANS, np.int64),
    )
    table, own, saved = new_table(), new_table(), new_table()
    spans = np.empty((64, 4), np.int64)
    total = 0
    parent = ComparedCounts(TokenCounts(0, 0, 0, 0, 0), 0)
    is_read = False
    # Each document is compared with what its parent says; for the next child of a parent its table is copied.
    for document in range(documents):
        if not valid[document]:
            is_read = False
            continue
        begin, end = np.int64(offsets[document]), np.int64(offsets[document + 1])
        one = _read(text, begin, end, tables, lexicon, scratch.text, scratch.buffer)
        row = counts[document]
        scratch.new[0] = 0
        own_entries = 2 * one.tokens.tokens + one.facts  # words, 3-grams and numbers
        if is_read:
            table = with_room(copied(saved, table), own_entries)
            row[PARENT_WORDS] = counts[document - 1, PARENT_WORDS]
            row[PARENT_CONTENT] = counts[document - 1, PARENT_CONTENT]
        else:
            begin, end = np.int64(parent_offsets[document]), np.int64(parent_offsets[document + 1])
            parent = _read(parent_text, begin, end, tables, lexicon, scratch.parent, scratch.buffer)
            table = emptied(table, WORD_ENTRIES * parent.tokens.tokens + own_entries)
            _add_parent(table, parent_text, lexicon, scratch, parent, row)
            # Facts are added in portions, so the table grows by what is there.
            for first in range(0, parent.facts, FACTS_AT_ONCE):
                last = min(first + FACTS_AT_ONCE, parent.facts)
                table = with_room(table, (last - first) * FACT_ENTRIES + own_entries)
                _add_some_facts(table, scratch.parent, parent.tokens.tokens, first, last)
        # The children of a parent come one after another: it is read once.
        is_next = document + 1 < documents and _is_same(view(parent_text), parent_offsets, document)
        if is_next and not is_read:
            saved = copied(table, saved)
        is_read = is_next
        parent_count = parent.tokens.tokens
        if one.tokens.symbols & MARKS_CODE:
            own = emptied(own, parent_count)
        if _check_text(table, own, text, lexicon, scratch, one, parent, row):
            own = emptied(own, parent_count + one.tokens.tokens)
            _check_loops(own, scratch, row)
        while len(spans) < total + scratch.new[0]:
            spans = np.concatenate((spans, np.empty_like(spans)))
        # Turn the spans of the text into spans of the document.
        for found in range(scratch.new[0]):
            at = 1 + 3 * found
            spans[total] = document, scratch.new[at], scratch.new[at + 1], scratch.new[at + 2]
            spans[total, 2:] -= offsets[document]
            total += 1
    return counts, spans[:total].copy()

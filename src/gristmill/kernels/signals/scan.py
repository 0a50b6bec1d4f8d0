"""The pass over tokens and lines of one document.

The scan stops when one of its arrays is full and is called again with a larger one: replacing an array inside a loop
costs Numba an atomic reference count in every round. `state` has what it must remember in between.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes, borrow, view
from gristmill.kernels.signals import columns
from gristmill.kernels.signals.lines import LineFacts, has_stem, measure_line
from gristmill.kernels.signals.repetition import intern
from gristmill.kernels.signals.terms import MAX_TERM_BYTES, WordSets, find_key, lower_hash
from gristmill.kernels.text import unicode_classes
from gristmill.kernels.text.ascii import LF
from gristmill.kernels.text.words import class_at, hash_bytes, token_end

(
    AT,  # byte where the scan continues
    PLACE,  # the same in characters from the start of the document
    DISTINCT,  # distinct tokens so far
    LINE_COUNT,
    PARAGRAPH_COUNT,
    TERMS_SEEN,  # whether a token starts a blocked term
    LINE_PLACE,  # where the line begins, in characters
    FIRST,  # first byte of the line that is not white space, -1: none yet
    FIRST_PLACE,
    LAST,  # end of the last token of the line, -1: none yet
    LAST_PLACE,
    LINE_CHUNKS,
    CHUNK_CHARS,
    LONGEST_CHUNK,
    LINE_SENTENCES,
    ENDED,  # whether a sentence of the line has ended and no other has begun
    SUSPECT,  # whether the line may contain one of C4's phrases
    WORD_END,  # where the last token of the line ends, if it is a word
    PARAGRAPH_FIRST,  # first byte of the open paragraph, -1: none
    PARAGRAPH_FIRST_PLACE,
    PARAGRAPH_LAST,
    PARAGRAPH_LAST_PLACE,
    N_STATE,
) = range(23)


class DistinctTokens(NamedTuple):
    """The distinct tokens of a document, by number."""

    keys: npt.NDArray[np.uint64]
    lower_keys: npt.NDArray[np.uint64]
    chars: npt.NDArray[np.int32]
    occurrences: npt.NDArray[np.int32]
    suspects: npt.NDArray[np.bool_]
    """Whether a phrase of C4 may contain the token."""
    term_tokens: npt.NDArray[np.int32]
    """Tokens of the longest blocked term that starts with it."""


class LineHashes(NamedTuple):
    """Hashes and characters of lines, and of paragraphs, in order."""

    line_keys: npt.NDArray[np.uint64]
    line_chars: npt.NDArray[np.int32]
    paragraph_keys: npt.NDArray[np.uint64]
    paragraph_chars: npt.NDArray[np.int32]


@njit(nogil=True, cache=True)
def start_document(state: npt.NDArray[np.int64], begin: int) -> None:
    """Resets the state for a scan that begins at byte `begin`."""
    state[:] = 0
    state[AT] = begin
    state[FIRST] = -1
    state[LAST] = -1
    state[WORD_END] = -1
    state[LINE_SENTENCES] = 1
    state[PARAGRAPH_FIRST] = -1


@njit(nogil=True, cache=True)
def _end_line(
    data: Bytes,
    unicode: unicode_classes.UnicodeTables,
    state: npt.NDArray[np.int64],
    row: npt.NDArray[np.int64],
    line_keys: npt.NDArray[np.uint64],
    line_chars: npt.NDArray[np.int32],
) -> None:
    """Measures the line that `state` describes, opens or extends its paragraph, and prepares for the next line."""
    row[columns.LONGEST_LINE_CHARS] = max(row[columns.LONGEST_LINE_CHARS], state[PLACE] - state[LINE_PLACE])
    first = state[FIRST]
    if first >= 0:
        last = state[LAST]
        longest_chunk = max(state[LONGEST_CHUNK], state[CHUNK_CHARS])
        row[columns.CHUNKS] += state[LINE_CHUNKS]
        row[columns.LONGEST_CHUNK_CHARS] = max(row[columns.LONGEST_CHUNK_CHARS], longest_chunk)
        chars = state[LAST_PLACE] - state[FIRST_PLACE]
        chunks, sentences = state[LINE_CHUNKS], state[LINE_SENTENCES]
        line = LineFacts(
            first, last, chars, chunks, longest_chunk, sentences, state[SUSPECT] != 0, row[columns.OPEN_BRACES] > 0
        )
        measure_line(data, line, unicode, row)
        line_keys[state[LINE_COUNT]] = hash_bytes(data, first, last)
        line_chars[state[LINE_COUNT]] = chars
        state[LINE_COUNT] += 1
        if state[PARAGRAPH_FIRST] < 0:
            state[PARAGRAPH_FIRST] = first
            state[PARAGRAPH_FIRST_PLACE] = state[FIRST_PLACE]
        state[PARAGRAPH_LAST] = last
        state[PARAGRAPH_LAST_PLACE] = state[LAST_PLACE]
    state[FIRST] = -1
    state[LAST] = -1
    state[WORD_END] = -1
    state[LINE_CHUNKS] = 0
    state[CHUNK_CHARS] = 0
    state[LONGEST_CHUNK] = 0
    state[LINE_SENTENCES] = 1
    state[ENDED] = 0
    state[SUSPECT] = 0


@njit(nogil=True, cache=True)
def _end_paragraph(
    data: Bytes,
    state: npt.NDArray[np.int64],
    paragraph_keys: npt.NDArray[np.uint64],
    paragraph_chars: npt.NDArray[np.int32],
) -> None:
    count = state[PARAGRAPH_COUNT]
    paragraph_keys[count] = hash_bytes(data, state[PARAGRAPH_FIRST], state[PARAGRAPH_LAST])
    paragraph_chars[count] = state[PARAGRAPH_LAST_PLACE] - state[PARAGRAPH_FIRST_PLACE]
    state[PARAGRAPH_COUNT] += 1
    state[PARAGRAPH_FIRST] = -1


@njit(nogil=True, cache=True)
def scan_document(
    text: npt.NDArray[np.uint8],
    end: int,
    document: int,
    tables: unicode_classes.UnicodeTables,
    sets: WordSets,
    stop_seen: npt.NDArray[np.int64],
    buffer: npt.NDArray[np.uint8],
    table: npt.NDArray[np.uint64],
    bits: int,
    generation: int,
    ids: npt.NDArray[np.int32],
    vocabulary: DistinctTokens,
    blocks: LineHashes,
    state: npt.NDArray[np.int64],
    row: npt.NDArray[np.int64],
) -> bool:
    """Scans from state[AT] to `end`; returns False if `ids`, the vocabulary, its table or a list of blocks is full."""
    data = view(text)
    unicode = view(tables)
    stop_words = borrow(sets.stop_words)
    term_heads = borrow(sets.term_heads)
    buffer = borrow(buffer)
    table = borrow(table)
    state = borrow(state)
    row = borrow(row)
    term_sizes = borrow(sets.term_sizes)
    ids = borrow(ids)
    keys = borrow(vocabulary.keys)
    lower_keys = borrow(vocabulary.lower_keys)
    chars_of = borrow(vocabulary.chars)
    occurrences = borrow(vocabulary.occurrences)
    suspects = borrow(vocabulary.suspects)
    term_tokens = borrow(vocabulary.term_tokens)
    stop_seen = borrow(stop_seen)
    line_keys = borrow(blocks.line_keys)
    line_chars = borrow(blocks.line_chars)
    paragraph_keys = borrow(blocks.paragraph_keys)
    paragraph_chars = borrow(blocks.paragraph_chars)

    room = min(len(keys), 1 << (bits - 1))
    at = state[AT]
    place = state[PLACE]
    tokens = row[columns.TOKENS]
    distinct = state[DISTINCT]
    last = state[LAST]
    word_end = state[WORD_END]
    # Each turn takes a line end, a white space character or one token.
    while True:
        if at == end or data[at] == LF:
            if state[LINE_COUNT] == len(line_keys) or state[PARAGRAPH_COUNT] == len(paragraph_keys):
                break
            state[PLACE] = place
            state[LAST] = last
            blank = state[FIRST] < 0
            _end_line(data, unicode, state, row, line_keys, line_chars)
            if state[PARAGRAPH_FIRST] >= 0 and (blank or at == end):
                _end_paragraph(data, state, paragraph_keys, paragraph_chars)
            if at == end:
                row[columns.TOKENS] = tokens
                state[DISTINCT] = distinct
                return True
            at += 1
            place += 1
            state[LINE_PLACE] = place
            last = -1
            word_end = -1
            continue
        kind, _, after = class_at(data, at, end, unicode)
        if kind & unicode_classes.SPACE:
            at = after
            place += 1
            continue
        if tokens == len(ids) or distinct == room:
            break
        if last != at:
            if last < 0:
                state[FIRST] = at
                state[FIRST_PLACE] = place
            state[LONGEST_CHUNK] = max(state[LONGEST_CHUNK], state[CHUNK_CHARS])
            state[CHUNK_CHARS] = 0
            state[LINE_CHUNKS] += 1
        last, chars, kind = token_end(data, at, end, word_end == at, unicode)
        if kind & (unicode_classes.LETTER | unicode_classes.NUMBER):
            row[columns.WORDS] += 1
            row[columns.WORD_CHARS] += chars
            row[columns.LETTER_WORDS] += kind & unicode_classes.LETTER
            word_end = last
        if kind & unicode_classes.WORD == 0 and kind & unicode_classes.TERMINAL and chars == 1:
            state[ENDED] = 1
        elif state[ENDED] and (kind & unicode_classes.WORD or kind & unicode_classes.PUNCTUATION == 0):
            state[ENDED] = 0
            state[LINE_SENTENCES] += 1

        key = hash_bytes(data, at, last)
        number = intern(table, bits, generation, key, distinct)
        ids[tokens] = number
        tokens += 1
        if number < distinct:
            occurrences[number] += 1
        else:
            keys[distinct] = key
            chars_of[distinct] = chars
            occurrences[distinct] = 1
            suspects[distinct] = has_stem(data, at, last)
            term_tokens[distinct] = 0
            if last - at <= MAX_TERM_BYTES:
                if chars != last - at or kind & unicode_classes.UPPER:
                    key = lower_hash(data, at, last, unicode, buffer)
                slot = find_key(stop_words, key)
                if slot >= 0:
                    row[columns.STOP_WORDS] += stop_seen[slot] != document
                    stop_seen[slot] = document
                slot = find_key(term_heads, key)
                if slot >= 0:
                    term_tokens[distinct] = term_sizes[slot]
                    state[TERMS_SEEN] = 1
            lower_keys[distinct] = key
            distinct += 1
        if suspects[number]:
            state[SUSPECT] = 1
        place += chars
        state[LAST_PLACE] = place
        state[CHUNK_CHARS] += chars
        at = last

    state[AT] = at
    state[PLACE] = place
    state[DISTINCT] = distinct
    state[LAST] = last
    state[WORD_END] = word_end
    row[columns.TOKENS] = tokens
    return False

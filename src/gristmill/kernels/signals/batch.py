"""Computes every cheap signal of every document of a batch, from the Arrow buffers of its text.

For each document: one pass over bytes (`characters`), one over tokens and lines (`scan`), then work on compact arrays:
token numbers for n-grams, hashes of lines and paragraphs (`repetition`). Time is linear in bytes whatever the text.
Scratch memory belongs to the call and is bounded by its largest document: 24 bytes per token, 29 per distinct token, 24
per line, and tables that grow with the distinct entries.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import view
from gristmill.kernels.signals import columns, repetition, scan
from gristmill.kernels.signals.characters import byte_entropy, count_characters, has_xml_header
from gristmill.kernels.signals.terms import MAX_TERM_BYTES, WordSets, count_blocked
from gristmill.kernels.text.unicode_classes import UnicodeTables

N_COUNTS = len(columns.COUNTS)
_INT32_MAX = 2**31 - 1


@njit(nogil=True, cache=True)
def _vocabulary(old: scan.DistinctTokens, size: int) -> scan.DistinctTokens:
    """Returns a table of `size` entries that begins with the old entries."""
    new = scan.DistinctTokens(
        np.empty(size, np.uint64),
        np.empty(size, np.uint64),
        np.empty(size, np.int32),
        np.empty(size, np.int32),
        np.empty(size, np.bool_),
        np.empty(size, np.int32),
    )
    # Copy the old entries.
    for at in range(len(old.keys)):
        new.keys[at], new.lower_keys[at], new.chars[at] = old.keys[at], old.lower_keys[at], old.chars[at]
        new.occurrences[at], new.suspects[at] = old.occurrences[at], old.suspects[at]
        new.term_tokens[at] = old.term_tokens[at]
    return new


@njit(nogil=True, cache=True)
def _blocks(old: scan.LineHashes, lines: int, paragraphs: int) -> scan.LineHashes:
    new = scan.LineHashes(
        np.empty(lines, np.uint64),
        np.empty(lines, np.int32),
        np.empty(paragraphs, np.uint64),
        np.empty(paragraphs, np.int32),
    )
    for at in range(len(old.line_keys)):
        new.line_keys[at], new.line_chars[at] = old.line_keys[at], old.line_chars[at]
    for at in range(len(old.paragraph_keys)):
        new.paragraph_keys[at], new.paragraph_chars[at] = old.paragraph_keys[at], old.paragraph_chars[at]
    return new


@njit(nogil=True, cache=True)
def measure(
    offsets: npt.NDArray[np.int32],
    data: npt.NDArray[np.uint8],
    valid: npt.NDArray[np.bool_],
    tables: UnicodeTables,
    sets: WordSets,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Returns counts (one row per signal, in the order of COUNTS), byte entropy and XML header of documents
    offsets[i:i+2].

    Invalid documents stay 0.
    """
    documents = len(offsets) - 1
    counts = np.zeros((N_COUNTS, documents), np.int32)
    entropy = np.zeros(documents, np.float32)
    xml = np.zeros(documents, np.bool_)
    histogram = np.zeros(256, np.int64)
    row = np.zeros(N_COUNTS, np.int64)
    state = np.zeros(scan.N_STATE, np.int64)
    buffer = np.zeros(4 * MAX_TERM_BYTES, np.uint8)
    stop_seen = np.full(len(sets.stop_words), -1, np.int64)
    clock = np.zeros(1, np.int64)
    table = np.zeros(2, np.uint64)
    ids = np.empty(4096, np.int32)
    places = np.empty(4096, np.int32)
    numbers = np.empty(4096, np.int32)
    times = np.empty(4096, np.int32)
    keys = np.empty(4096, np.uint64)
    vocabulary = scan.DistinctTokens(
        np.empty(0, np.uint64),
        np.empty(0, np.uint64),
        np.empty(0, np.int32),
        np.empty(0, np.int32),
        np.empty(0, np.bool_),
        np.empty(0, np.int32),
    )
    vocabulary = _vocabulary(vocabulary, 2048)
    blocks = scan.LineHashes(
        np.empty(0, np.uint64), np.empty(0, np.int32), np.empty(0, np.uint64), np.empty(0, np.int32)
    )
    blocks = _blocks(blocks, 512, 512)

    # Each document is measured alone.
    for document in range(documents):
        if not valid[document]:
            continue
        begin: Any = np.int64(offsets[document])
        end: Any = np.int64(offsets[document + 1])
        row[:] = 0
        count_characters(view(data), begin, end, view(tables), histogram, row)
        entropy[document] = byte_entropy(histogram, end - begin)
        xml[document] = histogram[60] > 0 and has_xml_header(view(data), begin, end)

        bits = repetition.slot_bits((end - begin) >> 3)
        table = repetition.new_table(table, bits, clock, keys, 0)
        scan.start_document(state, begin)
        # The scan stops when a table is full; it is enlarged, and the scan continues.
        while not scan.scan_document(
            data, end, document, tables, sets, stop_seen, buffer, table, bits, clock[0], ids, vocabulary, blocks,
            state, row,
        ):  # fmt: skip
            if row[columns.TOKENS] == len(ids):
                ids = np.concatenate((ids, np.empty_like(ids)))
            if state[scan.DISTINCT] == len(vocabulary.keys):
                vocabulary = _vocabulary(vocabulary, 2 * len(vocabulary.keys))
            if state[scan.DISTINCT] == 1 << (bits - 1):
                bits += 2
                table = repetition.new_table(table, bits, clock, vocabulary.keys, state[scan.DISTINCT])
            lines = len(blocks.line_keys)
            paragraphs = len(blocks.paragraph_keys)
            if state[scan.LINE_COUNT] == lines or state[scan.PARAGRAPH_COUNT] == paragraphs:
                lines *= 2 if state[scan.LINE_COUNT] == lines else 1
                paragraphs *= 2 if state[scan.PARAGRAPH_COUNT] == paragraphs else 1
                blocks = _blocks(blocks, lines, paragraphs)

        if len(numbers) < len(ids):  # a line has a token, so this is also enough for lines
            places = np.empty(len(ids), np.int32)
            numbers = np.empty(len(ids), np.int32)
            times = np.empty(len(ids), np.int32)
            keys = np.empty(len(ids), np.uint64)
        if state[scan.TERMS_SEEN]:
            row[columns.BLOCKED_TOKENS] = count_blocked(
                ids, row[columns.TOKENS], vocabulary.term_tokens, vocabulary.lower_keys, sets.terms
            )
        lines = state[scan.LINE_COUNT]
        table, distinct = repetition.number_keys(table, clock, blocks.line_keys, numbers, lines)
        row[columns.DUP_LINES] = lines - distinct
        row[columns.DUP_LINE_CHARS] = repetition.repeated_chars(numbers, blocks.line_chars, lines)
        paragraphs = state[scan.PARAGRAPH_COUNT]
        table, distinct = repetition.number_keys(table, clock, blocks.paragraph_keys, numbers, paragraphs)
        row[columns.PARAGRAPHS] = paragraphs
        row[columns.DUP_PARAGRAPHS] = paragraphs - distinct
        row[columns.DUP_PARAGRAPH_CHARS] = repetition.repeated_chars(numbers, blocks.paragraph_chars, paragraphs)
        tokens = repetition.TokenNumbers(ids, row[columns.TOKENS], vocabulary.chars, vocabulary.occurrences)
        table = repetition.ngram_signals(
            table, clock, tokens, repetition.GramScratch(places, numbers, times, keys), row
        )
        for k in range(N_COUNTS):
            counts[k, document] = min(row[k], _INT32_MAX)
    return counts, entropy, xml

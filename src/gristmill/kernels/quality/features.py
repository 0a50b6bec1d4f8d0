"""The features of a text for a fastText classifier, as rows of its table: words and word n-grams.

The rows are those of the inference kernel (kernels/text/fasttext.py), in the order in which the library adds them: for
each word its own row if the dictionary has it, then those of the word n-grams that end there; `</s>` last. Training
goes over the same texts several times, so rows are looked up once and stored, four bytes each.
"""

from typing import Any, NamedTuple

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.hash.word_counts import BLOCK, WordCounts, add_block, export, no_words
from gristmill.kernels.memory import borrow
from gristmill.kernels.text.fasttext import (
    END_OF_LINE,
    find_word,
    hash_bytes,
    index_words,
    is_space,
    word_ngram_rows,
)

Array = np.ndarray[Any, Any]

_LABEL = np.frombuffer(b"__label__", np.uint8)
_AT_ONCE_BYTES = 1 << 22  # of text, whose rows are written to one buffer that is large enough for any text of that size


class WordRows(NamedTuple):
    """The words that have their own row: `</s>` first, then by descending count, then by their bytes."""

    data: Array
    starts: Array
    ends: Array
    """uint8 and int64: the bytes of word i."""
    counts: Array
    """int64: how often it was seen; `</s>` once per text."""
    slots: Array
    """The hash table, as in the inference kernel's model."""


class TextRows(NamedTuple):
    """The rows of texts."""

    rows: Array
    """uint32: the rows of text i are firsts[i] to firsts[i + 1]."""
    firsts: Array
    """int64."""


@njit(nogil=True, cache=True)
def _same(data: Array, start: int, text: Array, size: int) -> bool:
    at = 0
    while at < size and data[start + at] == text[at]:
        at += 1
    return at == size


@njit(nogil=True, cache=True)
def _is_end(data: Array, start: int, end: int) -> bool:
    """Whether a word is `</s>`, after which fastText stops reading."""
    return end - start == END_OF_LINE.size and _same(data, start, END_OF_LINE, END_OF_LINE.size)


@njit(nogil=True, cache=True)
def _is_label(data: Array, start: int, end: int) -> bool:
    """Whether a word of the text looks like a label, which fastText skips."""
    return end - start >= _LABEL.size and _same(data, start, _LABEL, _LABEL.size)


@njit(nogil=True, cache=True)
def _next_word(data: Array, at: int, end: int) -> Any:
    """Returns begin and end of the next word; they are equal if there is none."""
    while at < end and is_space(data[at]):
        at += 1
    first = at
    while at < end and not is_space(data[at]):
        at += 1
    return first, at


@njit(nogil=True, cache=True)
def cut_words(data: Array, starts: Array, ends: Array, words: int, most: int) -> Any:
    """Cuts texts into pieces of `words` words, at most `most` of each; returns begins, ends, and the text of each.

    The last piece of a text is dropped if it has less than half of the words and is not the only one.
    """
    room = 0
    for text in range(starts.size):
        room += min(most, (ends[text] - starts[text]) // (2 * words) + 1)
    begins, stops, owners = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    n = 0
    # Each text is cut alone.
    for text in range(starts.size):
        at, end, of_text = starts[text], ends[text], 0
        # Each turn makes one piece.
        while of_text < most:
            seen, begin, stop = 0, -1, -1
            # Go on until the piece has its words, or the text ends.
            while seen < words:
                first, at = _next_word(data, at, end)
                if at == first:
                    break
                begin = first if seen == 0 else begin
                stop = at
                seen += 1
            if seen == 0 or (of_text > 0 and 2 * seen < words):
                break
            begins[n], stops[n], owners[n] = begin, stop, text
            n += 1
            of_text += 1
    return begins[:n], stops[:n], owners[:n]


@njit(nogil=True, cache=True)
def count_words(data: Array, starts: Array, ends: Array) -> Array:
    """Counts the words of each text."""
    found = np.zeros(starts.size, np.int64)
    # Texts are independent of each other.
    for text in range(starts.size):
        first, at = _next_word(data, starts[text], ends[text])
        # Go on word by word to the end of the text.
        while at > first:
            found[text] += 1
            first, at = _next_word(data, at, ends[text])
    return found


@njit(nogil=True, cache=True)
def _tally(table: WordCounts, data: Array, starts: Array, ends: Array) -> WordCounts:
    """Returns the table with the words of all texts, without those that look like a label or come after `</s>`."""
    begins, stops = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    ones = np.ones(BLOCK, np.int64)
    keys = np.empty((BLOCK, 2), np.uint64)
    size = 0
    # Collect words across texts, and count whenever the block is full.
    for text in range(starts.size):
        first, at = _next_word(data, starts[text], ends[text])
        # Up to the end of the text or `</s>`.
        while at > first and not _is_end(data, first, at):
            if not _is_label(data, first, at):
                begins[size], stops[size] = first, at
                size += 1
            if size == BLOCK:
                table = add_block(table, data, begins, stops, ones, keys)
                size = 0
            first, at = _next_word(data, at, ends[text])
    return add_block(table, data, begins[:size], stops[:size], ones[:size], keys)


def vocabulary(data: Array, starts: Array, ends: Array, min_count: int, max_words: int) -> WordRows:
    """Returns the `max_words` most frequent words among those that occur at least `min_count` times."""
    words = export(_tally(no_words(), data, starts, ends), min_count)
    order = np.argsort(-words.counts, kind="stable")[:max_words]
    begins, stops = words.offsets[:-1][order], words.offsets[1:][order]
    size = END_OF_LINE.size
    found = np.concatenate([END_OF_LINE, words.data])
    begins = np.concatenate([np.zeros(1, np.int64), begins + size])
    stops = np.concatenate([np.full(1, size, np.int64), stops + size])
    counts = np.concatenate([np.full(1, starts.size, np.int64), words.counts[order]])
    return WordRows(found, begins, stops, counts, index_words(found, begins, stops))


@njit(nogil=True, cache=True)
def _fill(
    vocabulary: WordRows,
    buckets: int,
    none: Any,
    spare: Any,
    data: Array,
    starts: Array,
    ends: Array,
    rows: Array,
    firsts: Array,
) -> None:
    """Writes the rows of the texts to `rows`."""
    words, slots = borrow(vocabulary.data), borrow(vocabulary.slots)
    word_starts, word_ends = borrow(vocabulary.starts), borrow(vocabulary.ends)
    kept, before = borrow(none[0]), borrow(none[1])
    ngrams, recent = borrow(spare[0]), borrow(spare[1])
    data, rows = borrow(data), borrow(rows)
    base = vocabulary.starts.size
    n = 0
    # Texts are independent of each other.
    for text in range(starts.size):
        at, end, seen = starts[text], ends[text], 0
        more = True
        # Each turn takes a word: its own row, and the word n-grams that end with it. The last turn does the same for
        # the end of the line.
        while more:
            first, at = _next_word(data, at, end)
            more = at > first and not _is_end(data, first, at)
            if not more and seen == 0:
                break
            h = hash_bytes(END_OF_LINE, 0, END_OF_LINE.size)
            entry = 0
            if more:
                if _is_label(data, first, at):
                    continue
                h = hash_bytes(data, first, at)
                entry = find_word(words, word_starts, word_ends, slots, data, first, at, h)
            if entry >= 0:
                rows[n] = entry
                n += 1
            if recent.size > 1:
                count = word_ngram_rows(h, recent, seen, base, buckets, kept, before, ngrams)
                for ngram in range(count):
                    rows[n + ngram] = ngrams[ngram]
                n += count
            seen += 1
        firsts[text + 1] = n


def rows_of(vocabulary: WordRows, word_ngrams: int, buckets: int, data: Array, starts: Array, ends: Array) -> TextRows:
    """Returns the rows of the texts data[start:end]; none for a text without a word. `word_ngrams` are the words of the
    longest n-gram, which share `buckets` rows.
    """
    order = word_ngrams if buckets else 1
    none = np.empty(0, np.uint64), np.empty(0, np.int32)
    spare = np.empty(order, np.int64), np.empty(order, np.uint64)
    data = data.view()
    data.flags.writeable = False  # one compiled form for all
    lengths = ends - starts
    through = np.cumsum(lengths)
    parts: list[TextRows] = []
    first = 0
    # Each turn takes as many texts as the bound on bytes allows, at least one.
    while first < starts.size:
        last = int(np.searchsorted(through, through[first] - lengths[first] + _AT_ONCE_BYTES, "right"))
        last = max(last, first + 1)
        size = int(lengths[first:last].sum())
        # A word and the space after it take at least two bytes. A word has its own row and order - 1 word n-grams.
        rows = np.empty((size // 2 + 2 * (last - first)) * order, np.uint32)
        firsts = np.zeros(last - first + 1, np.int64)
        _fill(vocabulary, buckets, none, spare, data, starts[first:last], ends[first:last], rows, firsts)
        parts.append(TextRows(rows[: int(firsts[-1])].copy(), firsts))
        first = last
    totals = np.cumsum([0, *(int(part.firsts[-1]) for part in parts)])
    moved = [part.firsts[1:] + before for part, before in zip(parts, totals[:-1], strict=True)]
    return TextRows(
        np.concatenate([np.empty(0, np.uint32), *(part.rows for part in parts)]),
        np.concatenate([np.zeros(1, np.int64), *moved]),
    )

"""Scores of a fastText model with one number per row (fasttext.py): a classifier of two labels, reduced.

The scores of labels are linear in the rows of a document's features, and a softmax of two depends only on their
difference. So each row is multiplied with the difference of the two output rows once, when a model is loaded. Of 100
dimensions and 2 million buckets, 800 MB, 8 MB remain, and a feature costs one load.

The sums of words are cached in a table, as in fasttext.py. The rows of word n-grams are collected first and then summed
in the order of the text, so that many loads are in flight at once.
"""

from typing import Any, NamedTuple

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes, borrow, eight_bytes_at, trailing_zeros, view
from gristmill.kernels.memory_blocks import BLOCK, bytes_in
from gristmill.kernels.text import fasttext
from gristmill.kernels.text.fasttext_output import Array

_SLOTS = 1 << 14
_BLOCK = 512
"""Rows that are collected before they are summed."""
PADDING = BLOCK
"""Bytes after a document that are read and ignored."""
_ONE = np.uint64(1)


class WordSums(NamedTuple):
    """Scratch memory that is used again for each document, and cached words."""

    keys: Array
    """uint64 (slots + 1, 4): the bytes of a word, at most 24, and rows + 1 << 32 | hash. The last slot is for words
    that are not cached."""
    sums: Array
    """float64 (slots + 1): the sum of the word's own rows"""
    rows: Array
    piece: Array
    bounds: Array
    """For a stretch of a word: the rows of its n-grams, its bytes, and where its characters start."""
    recent: Array
    """uint64: the running hashes of word n-grams"""
    block: Array
    """int64: rows of word n-grams that are still to be summed"""


@njit(nogil=True, cache=True)
def project(table: Array, codes: Array, norms: Array, centroids: Array, direction: Array) -> Any:
    """Multiplies each row (float32, or its codes) with `direction` (float64), summed in order, as float32."""
    rows = max(table.shape[0], codes.shape[0])
    found = np.empty(rows, np.float32)
    width = centroids.shape[2]
    # Rows are independent of each other.
    for row in range(rows):
        total = 0.0
        if table.shape[0] > 0:
            for d in range(direction.size):
                total += table[row, d] * direction[d]
        else:
            # Add piece by piece, in the same order as for rows of floats.
            for m in range(codes.shape[1]):
                for d in range(m * width, min((m + 1) * width, direction.size)):
                    total += np.float32(norms[row] * centroids[m, codes[row, m], d - m * width]) * direction[d]
        found[row] = total
    return found


@njit(nogil=True, cache=True, forceinline=True)
def _collect(
    told: Any,
    previous: Any,
    seen: int,
    words: int,
    modulus: Any,
    kept: Array,
    before: Array,
    recent: Array,
    block: Array,
    waiting: int,
) -> Any:
    """Appends the rows of the word n-grams that end at a word to the waiting ones; returns their number, and the word's
    hash.
    """
    length = recent.size
    word = np.uint64(np.int64(np.int32(np.uint32(told))))  # kept as int32: the sign is extended
    if length == 2:
        if seen > 0:
            bucket = (previous * fasttext._WORD_NGRAM_FACTOR + word) % modulus
            waiting += fasttext._append_row(block, waiting, bucket, _ONE, words, kept, before)
    elif length > 2:
        # The n-gram that begins `back` words ago becomes one word longer.
        for back in range(min(seen, length - 1), 0, -1):
            place = (seen - back) % length
            recent[place] = recent[place] * fasttext._WORD_NGRAM_FACTOR + word
            waiting += fasttext._append_row(block, waiting, recent[place] % modulus, _ONE, words, kept, before)
        recent[seen % length] = word
    return waiting, word


@njit(nogil=True, cache=True, forceinline=True)
def _first_bytes(text: Bytes, at: int, count: int) -> Any:
    """Returns the first `count` of the bytes at `at`, up to eight, as a little-endian number; others may follow
    them.
    """
    shift = np.uint64(64 - 8 * min(count, 8))
    return (eight_bytes_at(text, at) << shift) >> shift


@njit(nogil=True, cache=True, error_model="numpy")
def _means(
    model: fasttext.FasttextArrays,
    weights: Array,
    work: WordSums,
    data: Array,
    starts: Array,
    ends: Array,
    means: Array,
) -> None:
    """Writes the mean weight of the rows of each document; NaN if it has none. PADDING bytes after each can be read."""
    dictionary, word_slots = borrow(model.words), borrow(model.word_slots)
    word_starts, word_ends = borrow(model.word_starts), borrow(model.word_ends)
    kept, before, shape = borrow(model.kept), borrow(model.before), borrow(model.shape)
    keys, sums, rows, recent = borrow(work.keys), borrow(work.sums), borrow(work.rows), borrow(work.recent)
    block, values, bytes_ = borrow(work.block), borrow(weights), borrow(data)
    room = (borrow(work.piece), borrow(work.bounds), rows)
    text = view(data)
    words, buckets, maxn, eos = shape[1], shape[2], shape[4], shape[7]
    mask = np.uint64(keys.shape[0] - 2)
    modulus = np.uint64(max(buckets, 1))
    end_hash = np.uint64(fasttext.hash_bytes(fasttext.END_OF_LINE, 0, 4))
    # Documents are independent of each other.
    for doc in range(starts.size):
        total, count, seen, waiting = 0.0, 0, 0, 0
        first, end = starts[doc], ends[doc]
        previous = np.uint64(0)
        base = first
        more = True
        # A block of 64 bytes becomes a mask of its white space.
        while more:
            spaces = bytes_in(text, base, 0, 32, 1) | bytes_in(text, base, 0, 9, 5) | bytes_in(text, base, 0, 0, 1)
            if end - base < BLOCK:  # the end is a space, and nothing after it is read
                spaces |= _ONE << np.uint64(end - base)
            # Each set bit ends a word; its sum is looked up, or computed and kept.
            while spaces != 0 and more:
                i = base + trailing_zeros(spaces)
                spaces &= spaces - _ONE
                start, first = first, i + 1
                more = i < end
                size = i - start
                if size <= 0:
                    continue
                key0 = _first_bytes(text, start, size)
                key1, key2 = np.uint64(0), np.uint64(0)
                slot = key0
                if size > 8:
                    key1 = _first_bytes(text, start + 8, size - 8)
                    slot ^= key1 * np.uint64(0x9E3779B97F4A7C15)
                    if size > 16:
                        key2 = _first_bytes(text, start + 16, size - 16)
                        slot ^= key2 * np.uint64(0xC2B2AE3D27D4EB4F)
                elif key0 == 0x3E732F3C:  # </s> in the text is the end of its line
                    more = False
                    continue
                slot = ((slot * np.uint64(0x9FB21C651E98DF25)) >> np.uint64(32)) & mask
                if size > fasttext._CACHED_BYTES:
                    slot = mask + _ONE
                if (
                    keys[slot, 0] != key0
                    or keys[slot, 1] != key1
                    or keys[slot, 2] != key2
                    or size > fasttext._CACHED_BYTES
                ):
                    h = fasttext.hash_bytes(bytes_, start, i)
                    entry = fasttext.find_word(dictionary, word_starts, word_ends, word_slots, bytes_, start, i, h)
                    at = start - 1 if maxn > 0 and buckets > 0 else i + 1
                    # A word of the text that is a label, or looks like one: "__label_" and "_".
                    label = entry >= words or (
                        entry < 0 and key0 == 0x5F6C6562616C5F5F and key1 & np.uint64(255) == 0x5F
                    )
                    own, found = 0.0, 0
                    n: Any = 0
                    if 0 <= entry < words:
                        rows[0] = entry
                        n = 1
                    # A long word takes several turns.
                    while not label:
                        if at <= i:
                            n, at = fasttext.ngram_rows(shape, kept, before, room, n, bytes_, at, start, i)
                        for row in range(n):
                            own += values[rows[row]]
                        found += n
                        n = 0
                        if at > i:
                            break
                    sums[slot] = own
                    keys[slot, 0], keys[slot, 1], keys[slot, 2] = key0, key1, key2
                    keys[slot, 3] = np.uint64(0 if label else found + 1) << np.uint64(32) | np.uint64(h)
                told = keys[slot, 3]
                n = np.int64(told >> np.uint64(32)) - 1
                if n < 0:
                    continue
                total += sums[slot]
                count += n
                waiting, previous = _collect(told, previous, seen, words, modulus, kept, before, recent, block, waiting)
                seen += 1
                if waiting >= _BLOCK:
                    for row in range(waiting):
                        total += values[block[row]]
                    count += waiting
                    waiting = 0
            base += BLOCK
        if seen > 0:
            if eos >= 0:
                total += values[eos]
                count += 1
            waiting, previous = _collect(end_hash, previous, seen, words, modulus, kept, before, recent, block, waiting)
        for row in range(waiting):
            total += values[block[row]]
        count += waiting
        means[doc] = total / count if count > 0 else np.nan


def means(model: fasttext.FasttextArrays, weights: Array, data: Array, starts: Array, ends: Array) -> Array:
    """Returns the mean weight of the rows of each document data[start:end], float64; NaN if it has none."""
    _, _, buckets, _, maxn, length, _, _ = (max(int(value), 0) for value in model.shape)
    slots, text_bytes = 256, int((ends - starts).sum())
    while slots < min(text_bytes // 16, _SLOTS):
        slots *= 2
    work = WordSums(
        keys=np.zeros((slots + 1, 4), np.uint64),
        sums=np.empty(slots + 1),
        rows=np.empty(1 + fasttext.CHUNK * maxn, np.int64),
        piece=np.empty(4 * (fasttext.CHUNK + maxn), np.uint8),
        bounds=np.empty(fasttext.CHUNK + 2 * maxn + 1, np.uint64),
        recent=np.empty(length if length > 1 and buckets > 0 else 1, np.uint64),
        block=np.empty(_BLOCK + length, np.int64),
    )
    found = np.empty(starts.size)
    inside = ends + PADDING <= data.size
    for some in (inside, ~inside):  # the very end is read from a copy with room after it
        if some.any():
            first = int(starts[some].min()) if some is not inside else 0
            room = data if some is inside else np.concatenate([data[first:], np.zeros(PADDING, np.uint8)])
            room = room.view()
            room.flags.writeable = False  # one compiled form for all
            means_here = np.empty(int(some.sum()))
            _means(model, weights, work, room, starts[some] - first, ends[some] - first, means_here)
            found[some] = means_here
    return found

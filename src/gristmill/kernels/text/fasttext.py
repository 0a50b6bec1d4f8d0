"""fastText supervised inference over Arrow buffers (Joulin et al. 2016, *Bag of Tricks for Efficient Text
Classification*; the hashes and the order of features are those of fastText 0.9).

A document's hidden vector is the mean of the rows of its words, their character n-grams and its word n-grams. Here it
is the sum over words of *word vectors*, and a word vector is a pure function of the word's bytes: its rows summed in
float64, rounded to float32. So a word that was seen before in the same call is taken from a table of word vectors, and
this changes no bit.

Every CPU gives the same bytes: there are only additions, multiplications and divisions in a fixed order, which IEEE 754
defines to the bit, and an exponential made of them. LLVM fuses a product into a sum, or reorders a sum, only if
fastmath flags allow it; there are none here.

Functions that take arrays are inlined and get them borrowed: Numba counts references atomically for each array of each
call, which took four times as long as the work itself.
"""

from typing import Any, NamedTuple

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import borrow
from gristmill.kernels.text.ascii import CR, SP, TAB
from gristmill.kernels.text.fasttext_output import HIERARCHICAL, Array, flat, walk_tree

_OFFSET, _PRIME = np.uint32(2166136261), np.uint32(16777619)
_WORD_NGRAM_FACTOR = np.uint64(116049371)
END_OF_LINE = np.frombuffer(b"</s>", np.uint8)
_CACHED_BYTES = 24  # longest word that is cached: three 64-bit keys, 12 Cyrillic letters, 8 Devanagari signs
_CACHE_SLOTS, _CACHE_BYTES = 1 << 15, 1 << 26  # of word vectors, at most: 2 MB for 16 dimensions, 32 MB for 256
CHUNK = 256  # characters of a word that are hashed at a time


class FasttextArrays(NamedTuple):
    """A model as arrays, all read-only, so that every model runs the same compiled code."""

    shape: Array
    """int64: dim, words, buckets, minn, maxn, word n-gram length, loss, entry of `</s>` or -1."""
    words: Array
    """uint8: the bytes of the dictionary."""
    word_starts: Array
    word_ends: Array
    """int64: begin and end of its entries there, words before labels."""
    word_slots: Array
    """uint64, a power of two: open addressing; hash << 32 | entry + 1, or 0."""
    kept: Array
    """uint64: bit b % 64 of kept[b // 64] says that a pruned model kept bucket b. Empty if nothing is pruned."""
    before: Array
    """int32: the number of kept buckets before bucket 64 * i; the rows of kept buckets are in bucket order."""
    table: Array
    """float32 (rows, dim), or (0, dim) if the rows stay quantised."""
    codes: Array
    """uint8 (rows, subquantisers)"""
    norms: Array
    """float32 (rows): the factor of each row"""
    centroids: Array
    """float32 (subquantisers, 256, width), the last padded with zeros."""
    output: Array
    """float32 (dim, labels): the transposed output matrix, so that all labels are summed together."""
    tree: Array
    """int32 (2 * labels - 1, 2): the children of each node of the Huffman tree; empty for other losses."""


class Work(NamedTuple):
    """Scratch memory that is used again for each document."""

    keys: Array
    """uint64 (slots + 1, 4): the bytes of a word whose vector is cached, at most 24, and rows + 1 << 32 | hash. The
    last slot is for words that are not cached."""
    vectors: Array
    """float32 (slots + 1, dim): their vectors"""
    hidden: Array
    total: Array
    """float64 (dim)"""
    rows: Array
    piece: Array
    bounds: Array
    """For a stretch of a word: the rows of its n-grams, its bytes, and where its characters start."""
    recent: Array
    """uint64: the running hashes of word n-grams"""
    scores: Array
    stack: Array
    chances: Array
    best: Array


@njit(nogil=True, cache=True)
def _step(h: Any, byte: Any) -> Any:
    """Adds one byte to FNV-1a, sign-extended as in fastText: bytes from 128 on flip the upper 24 bits too."""
    return np.uint32((h ^ np.uint32(np.int8(byte))) * _PRIME)


@njit(nogil=True, cache=True, forceinline=True)
def hash_bytes(data: Array, start: int, end: int) -> Any:
    h = _OFFSET
    for i in range(start, end):
        h = _step(h, data[i])
    return h


@njit(nogil=True, cache=True, forceinline=True)
def find_word(words: Array, starts: Array, ends: Array, slots: Array, data: Array, start: int, end: int, h: Any) -> Any:
    """Returns the dictionary entry of this word, or -1."""
    mask = np.uint64(slots.size - 1)
    slot = np.uint64(h) & mask
    entry: Any = -1
    # Open addressing: compare hashes first, then bytes.
    while slots[slot] != 0 and entry < 0:
        if np.uint32(slots[slot] >> np.uint64(32)) == h:
            found = np.int64(slots[slot] & np.uint64(0xFFFFFFFF)) - 1
            at, n = starts[found], 0
            if ends[found] - at == end - start:
                while n < end - start and words[at + n] == data[start + n]:
                    n += 1
                if n == end - start:
                    entry = found
        slot = (slot + np.uint64(1)) & mask
    return entry


@njit(nogil=True, cache=True)
def _popcount(bits: Any) -> Any:
    """Counts the ones; LLVM recognises this pattern and makes it one instruction."""
    bits = bits - ((bits >> np.uint64(1)) & np.uint64(0x5555555555555555))
    bits = (bits & np.uint64(0x3333333333333333)) + ((bits >> np.uint64(2)) & np.uint64(0x3333333333333333))
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (bits * np.uint64(0x0101010101010101)) >> np.uint64(56)


@njit(nogil=True, cache=True, forceinline=True)
def _append_row(rows: Array, n: int, bucket: Any, exists: Any, base: int, kept: Array, before: Array) -> Any:
    """Writes the row of a bucket to rows[n]; returns 1, or 0 if `exists` is 0 or the bucket was pruned."""
    added: Any = np.int64(exists)
    if kept.size == 0:
        rows[n] = base + np.int64(bucket)
    else:
        word, shift = bucket >> np.uint64(6), bucket & np.uint64(63)
        if kept[word] & (exists << shift) == 0:
            added = 0
        else:
            below = (np.uint64(1) << shift) - np.uint64(1)
            rows[n] = base + before[word] + np.int64(_popcount(kept[word] & below))
    return added


@njit(nogil=True, cache=True, forceinline=True)
def _add_rows(table: Array, codes: Array, norms: Array, centroids: Array, rows: Array, n: int, total: Array) -> None:
    if table.shape[0] > 0:
        # Rows of floats.
        for at in range(n):
            row = rows[at]  # read once: for all that LLVM knows, `total` might overlap `rows`
            for d in range(table.shape[1]):
                total[d] += table[row, d]
    else:
        width = centroids.shape[2]
        # Rows of codes: each code selects a piece of the vector.
        for at in range(n):
            row = rows[at]
            norm = norms[row]
            # Add piece by piece.
            for m in range(codes.shape[1]):
                code = codes[row, m]
                for d in range(m * width, min((m + 1) * width, total.size)):
                    total[d] += np.float32(norm * centroids[m, code, d - m * width])


@njit(nogil=True, cache=True, forceinline=True)
def ngram_rows(
    shape: Array, kept: Array, before: Array, work: Any, n: int, data: Array, at: int, start: int, end: int
) -> Any:
    """Writes to rows[n:] the rows of the n-grams of `<word>` that begin at `at` or at one of the CHUNK - 1 characters
    after it: minn to maxn characters, but not a bracket alone. Returns the number of rows and where to continue.

    `at` counts in `data`; start - 1 is the opening bracket and `end` the closing one. n-grams that would extend past
    the end are hashed and not counted: every round of the loop is alike, so the CPU predicts its branches correctly.
    """
    piece, bounds, rows = work
    base, buckets, minn, maxn = shape[1], shape[2], shape[3], shape[4]
    one = np.uint64(1)  # unsigned counters: Numba checks every signed index for being negative
    chars, size, j = np.uint64(0), np.uint64(0), at
    # Copy the characters that the n-grams may need, and where each begins.
    while j <= end and size < piece.size:
        byte = np.uint8(60) if j < start else np.uint8(62) if j == end else data[j]
        if byte & 0xC0 != 0x80:
            if chars == np.uint64(CHUNK + maxn - 1):
                break
            bounds[chars] = size
            chars += one
        piece[size] = byte
        size += one
        j += 1
    for more in range(np.uint64(maxn + 1)):
        bounds[chars + more] = size
    divisor = np.uint64(buckets)
    inverse = (one << np.uint64(32)) // divisor
    begins = min(chars, np.uint64(CHUNK))
    # From each character, hash one character more at a time.
    for c in range(begins):
        bracket = (c == 0 and at < start) or (c + one == chars and j > end)
        least = np.uint64(max(minn, 2) if bracket else max(minn, 1))
        h = _OFFSET
        b = bounds[c]
        # Each length is hashed from the one before.
        for length in range(one, np.uint64(maxn + 1)):
            # Hash the bytes of one character.
            while b < bounds[c + length]:
                h = _step(h, piece[b])
                b += one
            if length >= least:
                h64 = np.uint64(h)
                bucket = h64 - ((h64 * inverse) >> np.uint64(32)) * divisor
                if bucket >= divisor:  # the quotient is exact or one too small
                    bucket -= divisor
                n += _append_row(rows, n, bucket, np.uint64(c + length <= chars), base, kept, before)
    return n, at + np.int64(bounds[begins])


@njit(nogil=True, cache=True, forceinline=True)
def word_ngram_rows(
    h: Any, recent: Array, seen: int, base: int, buckets: int, kept: Array, before: Array, rows: Array
) -> int:
    """Writes the rows of the word n-grams that end at this word; `recent` has the running hash of each that began at
    one of the words before.
    """
    length = recent.size
    word = np.uint64(np.int64(np.int32(h)))  # fastText keeps hashes as int32: the sign is extended
    count = 0
    # The n-gram that begins `back` words ago becomes one word longer.
    for back in range(min(seen, length - 1), 0, -1):
        slot = (seen - back) % length
        recent[slot] = recent[slot] * _WORD_NGRAM_FACTOR + word
        count += _append_row(rows, count, recent[slot] % np.uint64(buckets), np.uint64(1), base, kept, before)
    recent[seen % length] = word
    return count


@njit(nogil=True, cache=True)
def is_space(byte: Any) -> Any:
    return byte <= SP and (byte == SP or byte == 0 or TAB <= byte <= CR)


@njit(nogil=True, cache=True, forceinline=True)
def _next_bytes(data: Array, i: int, end: int) -> Any:
    """Returns the next bytes of a word, up to eight, as a little-endian number, and their number."""
    room = end - i
    n: Any = -1
    x = np.uint64(0)
    if i + 8 <= data.size:
        at = np.uint64(i)
        for b in range(8):  # LLVM makes this one load
            x |= np.uint64(data[at + np.uint64(b)]) << np.uint64(8 * b)
        # bit 7 of every byte below 33
        low = (
            ~((x | np.uint64(0x8080808080808080)) - np.uint64(0x2121212121212121)) & ~x & np.uint64(0x8080808080808080)
        )
        if room < 8:
            low |= np.uint64(0x80) << np.uint64(8 * room)
        if low == 0:
            n = 8
        else:
            first = low & (~low + np.uint64(1))
            n = np.int64(_popcount(first - np.uint64(1)) >> np.uint64(3))
            x &= (first >> np.uint64(7)) - np.uint64(1)
            if n < room and not is_space(data[i + n]):
                n = -1
    if n < 0:  # near the end of all text, or a control character inside a word
        n = 0
        x = np.uint64(0)
        # Byte by byte, up to white space.
        while n < 8 and n < room and not is_space(data[i + n]):
            x |= np.uint64(data[i + n]) << np.uint64(8 * n)
            n += 1
    return x, n


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _hidden(model: FasttextArrays, work: Work, data: Array, start: int, end: int) -> bool:
    """Writes the mean of the document's rows; returns False if it has no word, no row or no finite mean."""
    dictionary, word_slots = borrow(model.words), borrow(model.word_slots)
    word_starts, word_ends = borrow(model.word_starts), borrow(model.word_ends)
    table, codes = borrow(model.table), borrow(model.codes)
    norms, centroids = borrow(model.norms), borrow(model.centroids)
    kept, before, shape = borrow(model.kept), borrow(model.before), borrow(model.shape)
    keys, vectors, hidden, total = borrow(work.keys), borrow(work.vectors), borrow(work.hidden), borrow(work.total)
    rows, recent = borrow(work.rows), borrow(work.recent)
    room = (borrow(work.piece), borrow(work.bounds), rows)
    data = borrow(data)
    words, buckets, maxn, eos = shape[1], shape[2], shape[4], shape[7]
    mask = np.uint64(keys.shape[0] - 2)
    hidden[:] = 0.0
    count, seen = 0, 0
    i = start
    more = True
    # Each turn takes a word; the vector of a short one is kept. The last turn does the same for the end of the line.
    while more:
        while i < end and is_space(data[i]):
            i += 1
        first = i
        n: Any
        key0, n = _next_bytes(data, i, end)
        i += n
        key1, key2 = np.uint64(0), np.uint64(0)
        if n == 8:
            key1, n = _next_bytes(data, i, end)
            i += n
            if n == 8:
                key2, n = _next_bytes(data, i, end)
                i += n
                while i < end and not is_space(data[i]):
                    i += 1
        more = i > first and key0 != 0x3E732F3C  # </s> is the end of a line, in the text or after it
        if not more and seen == 0:
            break
        cached = more and i - first <= _CACHED_BYTES
        slot = mask + np.uint64(1)
        if cached:
            mixed = key0 ^ (key1 * np.uint64(0x9E3779B97F4A7C15)) ^ (key2 * np.uint64(0xC2B2AE3D27D4EB4F))
            slot = ((mixed * np.uint64(0x9FB21C651E98DF25)) >> np.uint64(32)) & mask
        if not cached or keys[slot, 0] != key0 or keys[slot, 1] != key1 or keys[slot, 2] != key2:
            total[:] = 0.0
            found, at = 0, i + 1
            entry = eos
            h = hash_bytes(END_OF_LINE, 0, 4)
            if more:
                h = hash_bytes(data, first, i)
                entry = find_word(dictionary, word_starts, word_ends, word_slots, data, first, i, h)
                if maxn > 0 and buckets > 0:
                    at = first - 1
            # A word of the text that is a label, or looks like one: "__label_" and "_".
            label = entry >= words or (entry < 0 and key0 == 0x5F6C6562616C5F5F and key1 & np.uint64(255) == 0x5F)
            n = 0
            if 0 <= entry < words:
                rows[0] = entry
                n = 1
            # A long word takes several turns.
            while not label:
                if at <= i:
                    n, at = ngram_rows(shape, kept, before, room, n, data, at, first, i)
                _add_rows(table, codes, norms, centroids, rows, n, total)
                found += n
                n = 0
                if at > i:
                    break
            for d in range(total.size):
                vectors[slot, d] = total[d]
            keys[slot, 0], keys[slot, 1], keys[slot, 2] = key0, key1, key2
            keys[slot, 3] = np.uint64(0 if label else found + 1) << np.uint64(32) | np.uint64(h)
        n = np.int64(keys[slot, 3] >> np.uint64(32)) - 1
        if n < 0:
            continue
        for d in range(hidden.size):
            hidden[d] += vectors[slot, d]
        count += n
        if recent.size > 1:
            n = word_ngram_rows(np.uint32(keys[slot, 3]), recent, seen, words, buckets, kept, before, rows)
            _add_rows(table, codes, norms, centroids, rows, n, hidden)
            count += n
        seen += 1
    finite = count > 0
    # Divide by the number of rows. x - x is 0 only if x is finite.
    for d in range(hidden.size):
        hidden[d] /= max(count, 1)
        finite = finite and hidden[d] - hidden[d] == 0.0
    return finite


@njit(nogil=True, cache=True, error_model="numpy")
def _predict(
    model: FasttextArrays, work: Work, data: Array, starts: Array, ends: Array, labels: Array, chances: Array
) -> None:
    hidden, scores, best = work.hidden, work.scores, work.best
    output = model.output
    # Documents are independent of each other.
    for doc in range(starts.size):
        if not _hidden(model, work, data, starts[doc], ends[doc]):
            continue
        scores[:] = 0.0
        best[:] = 0.0
        # In this order the output matrix is read row by row.
        for d in range(hidden.size):
            weight = hidden[d]
            for label in range(scores.size):
                scores[label] += weight * output[d, label]
        if model.shape[6] == HIERARCHICAL:
            walk_tree(model.tree, scores, work.stack, work.chances, labels, doc, best)
        else:
            flat(model.shape[6], scores, labels, doc, best)
        for at in range(best.size):
            chances[doc, at] = min(best[at], 1.0)


def predict(model: FasttextArrays, data: Array, starts: Array, ends: Array, k: int) -> tuple[Array, Array]:
    """Returns the k best labels of each document data[start:end] and their probabilities: int32 and float32 (documents,
    k).

    -1 and 0 if there are fewer; a document without a word has none.
    """
    dim, _, buckets, _, maxn, length, _, _ = (max(int(value), 0) for value in model.shape)
    slots, text_bytes = 256, int((ends - starts).sum())
    while slots < min(text_bytes // 16, _CACHE_SLOTS) and 8 * dim * slots <= _CACHE_BYTES:
        slots *= 2
    nodes = model.tree.shape[0] + 1
    work = Work(
        keys=np.zeros((slots + 1, 4), np.uint64),
        vectors=np.empty((slots + 1, dim), np.float32),
        hidden=np.empty(dim),
        total=np.empty(dim),
        rows=np.empty(1 + CHUNK * maxn + length, np.int64),
        piece=np.empty(4 * (CHUNK + maxn), np.uint8),
        bounds=np.empty(CHUNK + 2 * maxn + 1, np.uint64),
        recent=np.empty(length if length > 1 and buckets > 0 else 1, np.uint64),
        scores=np.empty(model.output.shape[1]),
        stack=np.empty(nodes, np.int32),
        chances=np.empty(nodes),
        best=np.empty(k),
    )
    data = data.view()
    data.flags.writeable = False  # one compiled form for all
    labels = np.full((starts.size, k), -1, np.int32)
    probabilities = np.zeros((starts.size, k), np.float32)
    _predict(model, work, data, starts, ends, labels, probabilities)
    return labels, probabilities


@njit(nogil=True, cache=True)
def scan_dictionary(data: Array, start: int, entries: int) -> Any:
    """Returns begin and end of each entry (word, NUL, int64 count, int8 type) of a model file, and the end of all; -1
    for that if the file is cut off.
    """
    starts = np.empty(entries, np.int64)
    ends = np.empty(entries, np.int64)
    at = start
    # Entries have no fixed size, so they can only be read in order.
    for entry in range(entries):
        starts[entry] = at
        while at < data.size and data[at] != 0:
            at += 1
        ends[entry] = at
        at += 10
        if at > data.size:
            return starts, ends, -1
    return starts, ends, at


@njit(nogil=True, cache=True)
def index_words(words: Array, starts: Array, ends: Array) -> Any:
    """Returns `FasttextArrays.word_slots`; of equal entries the last is found first."""
    size = 2
    while size < 2 * starts.size:
        size *= 2
    slots = np.zeros(size, np.uint64)
    mask = np.uint64(size - 1)
    # Backward, so that the last of equal entries is found first.
    for entry in range(starts.size - 1, -1, -1):
        h = hash_bytes(words, starts[entry], ends[entry])
        slot = np.uint64(h) & mask
        while slots[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = np.uint64(h) << np.uint64(32) | np.uint64(entry + 1)
    return slots

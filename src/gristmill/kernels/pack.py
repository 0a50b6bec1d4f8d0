"""Documents into samples of one length: best fit, long to short (Ding et al. 2024, *Fewer Truncations*), or end to end.

Best fit cuts a document that is longer than a sample into samples of its own and a rest. Then every rest and every
shorter document, from long to short, goes into the open sample with the least space that still holds it; where there
is none, into a new one. No token is lost and no document that fits is cut. What a sample has left over is padding.

All documents of one length come at once: a sample with space s takes s // length of them before any other is the
better fit, so the search is done once a sample, not once a document. Which spaces there are stands in a bitset with a
second one over its words, and the samples of one space are a stack. Time grows with documents + samples, not with
their product: 10 million documents take two seconds (bench/pack.py).

The order of samples is that of their first pieces by document, which is as random as the order of documents; and by
document the pieces lie inside a sample.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from gristmill.kernels.memory import trailing_zeros

Array = np.ndarray[Any, Any]

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)


class Pieces(NamedTuple):
    """Stretches of documents by sample and, inside, by document; int64."""

    sample: Array
    document: Array
    doc_offset: Array
    """Tokens of the document before the piece."""
    length: Array


@njit(nogil=True, cache=True)
def _bit_from(words: Array, at: int) -> int:
    """The first bit that is set from `at` on, or -1."""
    word = at >> 6
    if word >= len(words):
        return -1
    found = words[word] & (_ALL << np.uint64(at & 63))
    while found == _ZERO:
        word += 1
        if word == len(words):
            return -1
        found = words[word]
    return int((word << 6) + trailing_zeros(found))


@njit(nogil=True, cache=True)
def _space_from(spaces: Array, above: Array, at: int) -> int:
    """The least space from `at` on that a sample has, or -1. `above` says which words of `spaces` are not 0."""
    word = at >> 6
    found = spaces[word] & (_ALL << np.uint64(at & 63))
    if found == _ZERO:
        word = _bit_from(above, word + 1)
        if word < 0:
            return -1
        found = spaces[word]
    return int((word << 6) + trailing_zeros(found))


@njit(nogil=True, cache=True)
def _fit(counts: Array, seq_len: int, slots: Array) -> int:
    """Bins for `counts[n]` pieces of each length n < seq_len, long to short, into `slots`; how many bins there are."""
    spaces = np.zeros((seq_len >> 6) + 1, np.uint64)
    above = np.zeros((len(spaces) >> 6) + 1, np.uint64)
    top = np.full(seq_len + 1, -1, np.int64)  # of the stack of bins that have so much space
    under = np.empty(len(slots), np.int64)
    bins = 0
    at = 0
    for length in range(seq_len - 1, 0, -1):
        left = counts[length]
        while left > 0:
            space = _space_from(spaces, above, length)
            if space < 0:
                space, mine = seq_len, bins
                bins += 1
            else:
                mine = top[space]
                top[space] = under[mine]
                if top[space] < 0:
                    word = space >> 6
                    spaces[word] &= ~(_ONE << np.uint64(space & 63))
                    if spaces[word] == _ZERO:
                        above[word >> 6] &= ~(_ONE << np.uint64(word & 63))
            taken = min(space // length, left)
            left -= taken
            for place in range(at, at + taken):
                slots[place] = mine
            at += taken
            space -= taken * length
            if space > 0:
                under[mine] = top[space]
                top[space] = mine
                word = space >> 6
                spaces[word] |= _ONE << np.uint64(space & 63)
                above[word >> 6] |= _ONE << np.uint64(word & 63)
    return bins


@njit(nogil=True, cache=True)
def _best_fit(lengths: Array, seq_len: int) -> tuple[Array, Array, Array, Array]:
    counts = np.zeros(seq_len, np.int64)
    full = 0
    for length in lengths:
        full += length // seq_len
        counts[length % seq_len] += 1
    counts[0] = 0
    rests = counts.sum()
    slots = np.empty(rests, np.int64)
    bins = _fit(counts, seq_len, slots)

    # Pieces are counted off in the order of documents, so that a bin's first piece gives the bin its number.
    begins = np.empty(seq_len, np.int64)
    total = 0
    for length in range(seq_len - 1, -1, -1):
        begins[length] = total
        total += counts[length]
    cursor = begins.copy()
    number = np.full(bins, -1, np.int64)
    first = np.zeros(full + bins + 1, np.int64)
    samples = 0
    for length in lengths:
        for _ in range(length // seq_len):
            first[samples + 1] = 1
            samples += 1
        rest = length % seq_len
        if rest:
            mine = slots[cursor[rest]]
            cursor[rest] += 1
            if number[mine] < 0:
                number[mine] = samples
                samples += 1
            first[number[mine] + 1] += 1
    for sample in range(samples):
        first[sample + 1] += first[sample]

    pieces = full + rests
    of_sample = np.empty(pieces, np.int64)
    of_document = np.empty(pieces, np.int64)
    doc_offset = np.empty(pieces, np.int64)
    piece_length = np.empty(pieces, np.int64)
    samples = 0
    for document in range(len(lengths)):
        length = lengths[document]
        offset = 0
        for _ in range(length // seq_len):
            place = first[samples]
            of_sample[place], of_document[place] = samples, document
            doc_offset[place], piece_length[place] = offset, seq_len
            offset += seq_len
            samples += 1
        rest = length % seq_len
        if rest:
            sample = number[slots[begins[rest]]]
            begins[rest] += 1
            samples = max(samples, sample + 1)
            place = first[sample]
            first[sample] += 1
            of_sample[place], of_document[place] = sample, document
            doc_offset[place], piece_length[place] = offset, rest
    return of_sample, of_document, doc_offset, piece_length


@njit(nogil=True, cache=True)
def _concat(lengths: Array, seq_len: int) -> tuple[Array, Array, Array, Array]:
    pieces = 0
    at = 0
    for length in lengths:
        if length:
            pieces += (at + length - 1) // seq_len - at // seq_len + 1
            at += length
    of_sample = np.empty(pieces, np.int64)
    of_document = np.empty(pieces, np.int64)
    doc_offset = np.empty(pieces, np.int64)
    piece_length = np.empty(pieces, np.int64)
    at = 0
    place = 0
    for document in range(len(lengths)):
        offset = 0
        while offset < lengths[document]:
            taken = min(lengths[document] - offset, seq_len - at % seq_len)
            of_sample[place], of_document[place] = at // seq_len, document
            doc_offset[place], piece_length[place] = offset, taken
            at += taken
            offset += taken
            place += 1
    return of_sample, of_document, doc_offset, piece_length


def best_fit(lengths: Array, seq_len: int) -> Pieces:
    """Documents with so many tokens (int64) in samples of `seq_len`; one without tokens has no piece."""
    return Pieces(*_best_fit(lengths, seq_len))


def concat(lengths: Array, seq_len: int) -> Pieces:
    """Documents one behind the other, cut where a sample is full; only the last sample has padding."""
    return Pieces(*_concat(lengths, seq_len))


@njit(nogil=True, cache=True)
def copy_pieces(data: Array, source: Array, target: Array, length: Array, out: Array) -> None:
    """Copy `length` bytes from each `source` in `data` to its `target` in `out`."""
    for piece in range(len(source)):
        begin, to = source[piece], target[piece]
        for at in range(length[piece]):
            out[to + at] = data[begin + at]

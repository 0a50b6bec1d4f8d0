"""Packs documents into samples of one length: in their order with the gaps filled by the best fit, or end to end.

Best fit cuts a document that is longer than a sample into full samples and a rest. Then a sample takes rests and
shorter documents in their order until the next one does not fit, and the gap gets the longest remaining document that
fits, again and again, until none does. No token is lost and no document that fits is cut (Ding et al. 2024, *Fewer
Truncations*). The rest of a sample is padding. Ding et al. go from long to short instead, which wastes as little but
puts documents of one length together: 33 entries of a glossary in one sample.

Two documents longer than half a sample never share one. If there are many, the short ones must not run out before them:
as soon as the remaining short ones are less than twice what fits beside the remaining long ones, a sample begins with
the longest.

The first remaining document of each length and the next one of its length are lists, and the existing lengths are in a
bitset with a second one over its words. Time grows with the number of documents: 10 million take three seconds
(bench/pack.py).

Samples are in the order of their first pieces by document, which is as random as the order of documents unless long
ones had to begin: then samples with the longest documents tend to come first. Inside a sample, pieces are in the order
of documents.
"""

from typing import Any, NamedTuple

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import trailing_zeros

Array = np.ndarray[Any, Any]

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)

ENOUGH = 2
"""Tokens in short documents for each free one beside a long document. If lengths are uniform over a sample, as rests of
books are, padding is 5% with 0, 1.5% with 1 and 0.5% with 2, as from long to short. With 3, half of the samples of real
texts (2048 tokens) would begin with the longest, and lengths inside a sample would be more alike."""


class Pieces(NamedTuple):
    """Pieces of documents by sample and, inside, by document; int64."""

    sample: Array
    document: Array
    doc_offset: Array
    """Tokens of the document before the piece."""
    length: Array


@njit(nogil=True, cache=True)
def _bit_from(words: Array, at: int) -> int:
    """Returns the first set bit from `at` on, or -1."""
    word = at >> 6
    if word >= len(words):
        return -1
    found = words[word] & (_ALL << np.uint64(at & 63))
    # Skip words without a set bit.
    while found == _ZERO:
        word += 1
        if word == len(words):
            return -1
        found = words[word]
    return int((word << 6) + trailing_zeros(found))


class _Left(NamedTuple):
    """Documents that are in no sample yet."""

    first: Array
    """The first document of each length; the number of all documents if there is none."""
    after: Array
    """The next document of the same length, for each document."""
    lengths: Array
    """Bit `seq_len - length` is set if there is a document of that length, so that the longest come first."""
    words: Array
    """Bits of the words of `lengths` that are not 0."""
    tokens: Array
    """Tokens in documents of up to half a sample, and the space beside longer ones."""


@njit(nogil=True, cache=True)
def _all_left(rests: Array, seq_len: int) -> _Left:
    first = np.full(seq_len, len(rests), np.int64)
    after = np.empty(len(rests), np.int64)
    lengths = np.zeros((seq_len >> 6) + 1, np.uint64)
    words = np.zeros((len(lengths) >> 6) + 1, np.uint64)
    tokens = np.zeros(2, np.int64)
    # Backward, so that the first document of a length comes first in its list.
    for document in range(len(rests) - 1, -1, -1):
        length = rests[document]
        if length:
            after[document] = first[length]
            first[length] = document
            _count(tokens, length, seq_len, 1)
    # Set the bits of the lengths that occur.
    for length in range(1, seq_len):
        if first[length] < len(rests):
            at = seq_len - length
            lengths[at >> 6] |= _ONE << np.uint64(at & 63)
            words[at >> 12] |= _ONE << np.uint64((at >> 6) & 63)
    return _Left(first, after, lengths, words, tokens)


@njit(nogil=True, cache=True)
def _count(tokens: Array, length: int, seq_len: int, sign: int) -> None:
    if 2 * length > seq_len:
        tokens[1] += sign * (seq_len - length)
    else:
        tokens[0] += sign * length


@njit(nogil=True, cache=True)
def _longest(left: _Left, most: int, seq_len: int) -> int:
    """Returns the greatest length of a document up to `most`, or 0."""
    at = seq_len - most
    word = at >> 6
    found = left.lengths[word] & (_ALL << np.uint64(at & 63))
    if found == _ZERO:
        word = _bit_from(left.words, word + 1)
        if word < 0:
            return 0
        found = left.lengths[word]
    return int(seq_len - (word << 6) - trailing_zeros(found))


@njit(nogil=True, cache=True)
def _take(left: _Left, length: int, seq_len: int) -> int:
    """Takes the first document of a length."""
    document = left.first[length]
    left.first[length] = left.after[document]
    _count(left.tokens, length, seq_len, -1)
    if left.first[length] == len(left.after):
        at = seq_len - length
        left.lengths[at >> 6] &= ~(_ONE << np.uint64(at & 63))
        if left.lengths[at >> 6] == _ZERO:
            left.words[at >> 12] &= ~(_ONE << np.uint64((at >> 6) & 63))
    return int(document)


@njit(nogil=True, cache=True)
def _next(left: _Left, rests: Array, at: int) -> int:
    """Returns the first remaining document from `at` on: all of its length before it are taken, and it is not."""
    while at < len(rests) and at < left.first[rests[at]]:
        at += 1
    return at


@njit(nogil=True, cache=True)
def _fit(rests: Array, seq_len: int, slots: Array) -> int:
    """Writes the bin of every rest that is not 0 to `slots`; returns the number of bins."""
    left = _all_left(rests, seq_len)
    bins = 0
    at = _next(left, rests, 0)
    # Each turn fills a bin: it begins with the longest document while short ones are scarce, else with the next one.
    while at < len(rests):
        space = seq_len
        scarce = left.tokens[0] < ENOUGH * left.tokens[1]
        length = _longest(left, seq_len - 1, seq_len) if scarce else rests[at]
        # Add the next document if it fits, else the longest one that does.
        while length:
            slots[_take(left, length, seq_len)] = bins
            space -= length
            at = _next(left, rests, at)
            fits = at < len(rests) and rests[at] <= space
            length = rests[at] if fits else _longest(left, space, seq_len)
        bins += 1
    return bins


@njit(nogil=True, cache=True)
def _best_fit(lengths: Array, seq_len: int) -> tuple[Array, Array, Array, Array]:
    rests = lengths % seq_len
    slots = np.empty(len(rests), np.int64)
    bins = _fit(rests, seq_len, slots)

    # The first piece of a bin in the order of documents gives the bin its number.
    full = (lengths // seq_len).sum()
    number = np.full(bins, -1, np.int64)
    first = np.zeros(full + bins + 1, np.int64)
    samples = 0
    # Number the samples, and count the pieces of each.
    for document in range(len(lengths)):
        # Whole pieces of a long document are samples alone.
        for _ in range(lengths[document] // seq_len):
            first[samples + 1] = 1
            samples += 1
        if rests[document]:
            mine = slots[document]
            if number[mine] < 0:
                number[mine] = samples
                samples += 1
            first[number[mine] + 1] += 1
    for sample in range(samples):
        first[sample + 1] += first[sample]

    pieces = first[samples]
    of_sample = np.empty(pieces, np.int64)
    of_document = np.empty(pieces, np.int64)
    doc_offset = np.empty(pieces, np.int64)
    piece_length = np.empty(pieces, np.int64)
    samples = 0
    # Write the pieces, sample by sample; the samples are numbered as above.
    for document in range(len(lengths)):
        length = lengths[document]
        offset = 0
        # First the whole pieces, then the rest.
        for _ in range(length // seq_len):
            place = first[samples]
            of_sample[place], of_document[place] = samples, document
            doc_offset[place], piece_length[place] = offset, seq_len
            offset += seq_len
            samples += 1
        if rests[document]:
            sample = number[slots[document]]
            samples = max(samples, sample + 1)
            place = first[sample]
            first[sample] += 1
            of_sample[place], of_document[place] = sample, document
            doc_offset[place], piece_length[place] = offset, rests[document]
    return of_sample, of_document, doc_offset, piece_length


@njit(nogil=True, cache=True)
def _concat(lengths: Array, seq_len: int) -> tuple[Array, Array, Array, Array]:
    pieces = 0
    at = 0
    # Count the samples that each document touches.
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
    # Cut the documents, one after another, at the ends of samples.
    for document in range(len(lengths)):
        offset = 0
        # A piece ends with its document or with the sample.
        while offset < lengths[document]:
            taken = min(lengths[document] - offset, seq_len - at % seq_len)
            of_sample[place], of_document[place] = at // seq_len, document
            doc_offset[place], piece_length[place] = offset, taken
            at += taken
            offset += taken
            place += 1
    return of_sample, of_document, doc_offset, piece_length


def best_fit(lengths: Array, seq_len: int) -> Pieces:
    """Packs documents with these numbers of tokens (int64) into samples of `seq_len`; a document without tokens has no
    piece.
    """
    return Pieces(*_best_fit(lengths, seq_len))


def concat(lengths: Array, seq_len: int) -> Pieces:
    """Concatenates documents and cuts where a sample is full; only the last sample has padding."""
    return Pieces(*_concat(lengths, seq_len))


@njit(nogil=True, cache=True)
def copy_pieces(data: Array, source: Array, target: Array, length: Array, out: Array) -> None:
    """Copies `length` bytes from each `source` in `data` to its `target` in `out`."""
    # Pieces do not overlap, so their order does not matter.
    for piece in range(len(source)):
        begin, to = source[piece], target[piece]
        for at in range(length[piece]):
            out[to + at] = data[begin + at]

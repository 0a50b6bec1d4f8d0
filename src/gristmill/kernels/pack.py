"""Packs documents into samples of one length: by the best fit, splitting few of them, or end to end.

Best fit cuts a document that is longer than a sample into full samples and a rest. Then samples are filled one by one
from rests and shorter documents, and no token is lost (Ding et al. 2024, *Fewer Truncations*):

1. In their order: a sample takes documents until the next one does not fit, and the gap gets the longest remaining
   document that fits, again and again, until none does. Lengths inside a sample are mixed.
2. From long to short, if the first way pads more than `PADDING_IN_ORDER`: a sample begins with the longest remaining
   document, and its gap is filled in the same way. This needs the fewest samples, but puts documents of one length
   together, such as 33 entries of a glossary. Two documents longer than half a sample never share one, so this way is
   taken at once if short documents will run out before the long ones.
3. The last samples are dissolved if there is still more padding than `MOST_PADDING`: their documents, the shortest that
   fit into no gap, are split over the largest gaps. Each of them takes the place of a sample, so no other choice splits
   much fewer.

An example with samples of 10: the lengths 7, 6, 5, 5, 3, 2 give in their order 7+3, 6+2, 5+5. The order 5, 3, 2, 7, 6,
5 gives four samples, so it is packed from long to short. The lengths 6, 6, 6, 6, 6 take five samples with 40% padding:
two of them are split, and three samples are full.

The first remaining document of each length and the next one of its length are lists, and the existing lengths are in a
bitset with a second one over its words. Time grows with the number of documents: 10 million take three seconds
(bench/pack.py).

Samples are in the order of the documents that they began with, which is as random as the order of documents, also if
they were packed from long to short. Inside a sample, pieces are in the order of documents.
"""

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import trailing_zeros

Array = np.ndarray[Any, Any]

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)

MOST_PADDING = Fraction(1, 50)
"""The share of padding above which documents are split."""
PADDING_IN_ORDER = Fraction(1, 100)
"""The share of padding above which documents are packed from long to short."""


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


class _Bins(NamedTuple):
    """Samples of rests and shorter documents."""

    of_document: Array
    """The bin of each document; -1 if it has no rest; below that, its first cut, counted down from -2."""
    opener: Array
    """The document that each bin began with."""
    pieces: Array
    """The number of documents in each bin."""
    space: Array
    """The tokens that are free in each bin."""


@njit(nogil=True, cache=True)
def _all_left(rests: Array, seq_len: int) -> _Left:
    first = np.full(seq_len, len(rests), np.int64)
    after = np.empty(len(rests), np.int64)
    lengths = np.zeros((seq_len >> 6) + 1, np.uint64)
    words = np.zeros((len(lengths) >> 6) + 1, np.uint64)
    # Backward, so that the first document of a length comes first in its list.
    for document in range(len(rests) - 1, -1, -1):
        length = rests[document]
        if length:
            after[document] = first[length]
            first[length] = document
    # Set the bits of the lengths that occur.
    for length in range(1, seq_len):
        if first[length] < len(rests):
            at = seq_len - length
            lengths[at >> 6] |= _ONE << np.uint64(at & 63)
            words[at >> 12] |= _ONE << np.uint64((at >> 6) & 63)
    return _Left(first, after, lengths, words)


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
def _fit(rests: Array, seq_len: int, from_longest: bool) -> _Bins:
    left = _all_left(rests, seq_len)
    of_document = np.full(len(rests), -1, np.int64)
    opener = np.empty(len(rests), np.int64)
    pieces = np.zeros(len(rests), np.int64)
    space = np.full(len(rests), seq_len, np.int64)
    count = 0
    following = _next(left, rests, 0)
    # Each turn fills a bin.
    while following < len(rests):
        length = _longest(left, seq_len - 1, seq_len) if from_longest else rests[following]
        # Add the next document if it fits, else the longest one that does.
        while length:
            document = _take(left, length, seq_len)
            if pieces[count] == 0:
                opener[count] = document
            of_document[document] = count
            pieces[count] += 1
            space[count] -= length
            following = _next(left, rests, following)
            in_order = not from_longest and following < len(rests) and rests[following] <= space[count]
            length = rests[following] if in_order else _longest(left, space[count], seq_len)
        count += 1
    return _Bins(of_document, opener[:count], pieces[:count], space[:count])


@njit(nogil=True, cache=True)
def _split(rests: Array, bins: _Bins, documents: Array, by_space: Array) -> tuple[Array, Array]:
    """Splits documents over the gaps of bins, the largest gaps first; returns the bin and the length of each cut."""
    bin_of_cut = np.empty(len(documents) + len(by_space), np.int64)
    length = np.empty(len(bin_of_cut), np.int64)
    cuts = 0
    gap = 0
    # Each document takes gaps until it has a place for all of its tokens.
    for document in documents:
        bins.of_document[document] = -2 - cuts
        remaining = rests[document]
        # A cut ends with its document or with the gap.
        while remaining:
            chosen = by_space[gap]
            taken = min(remaining, bins.space[chosen])
            bin_of_cut[cuts], length[cuts] = chosen, taken
            bins.pieces[chosen] += 1
            bins.space[chosen] -= taken
            remaining -= taken
            cuts += 1
            gap += bins.space[chosen] == 0
    return bin_of_cut[:cuts], length[:cuts]


@njit(nogil=True, cache=True)
def _pieces(
    lengths: Array, seq_len: int, bins: _Bins, bin_of_cut: Array, length_of_cut: Array
) -> tuple[Array, Array, Array, Array]:
    number = np.empty(len(bins.opener), np.int64)
    first = np.zeros((lengths // seq_len).sum() + len(number) + 1, np.int64)
    samples = 0
    # Number the samples by the documents that they begin with, and count the pieces of each.
    for document in range(len(lengths)):
        # Whole pieces of a long document are samples alone.
        for _ in range(lengths[document] // seq_len):
            first[samples + 1] = 1
            samples += 1
        mine = bins.of_document[document]
        if mine >= 0 and bins.opener[mine] == document:
            number[mine] = samples
            first[samples + 1] = bins.pieces[mine]
            samples += 1
    first = np.cumsum(first)

    pieces = first[samples]
    of_sample = np.empty(pieces, np.int64)
    of_document = np.empty(pieces, np.int64)
    doc_offset = np.empty(pieces, np.int64)
    piece_length = np.empty(pieces, np.int64)
    samples = 0
    # Write the pieces, sample by sample; the samples are numbered as above.
    for document in range(len(lengths)):
        mine = bins.of_document[document]
        cut = -2 - mine
        offset = 0
        # First the whole pieces, then the rest, which may be split.
        while offset < lengths[document]:
            length = lengths[document] - offset
            if length >= seq_len:
                sample, length = samples, seq_len
                samples += 1
            elif mine >= 0:
                sample = number[mine]
                samples += bins.opener[mine] == document
            else:
                sample, length = number[bin_of_cut[cut]], length_of_cut[cut]
                cut += 1
            place = first[sample]
            first[sample] += 1
            of_sample[place], of_document[place] = sample, document
            doc_offset[place], piece_length[place] = offset, length
            offset += length
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


def best_fit(lengths: Array, seq_len: int, split: bool = True) -> Pieces:
    """Packs documents with these numbers of tokens (int64) into samples of `seq_len`; a document without tokens has no
    piece. Without `split`, a document that fits into a sample is never split.
    """
    rests = lengths % seq_len
    tokens, full = int(lengths.sum()), int((lengths // seq_len).sum())

    def most_bins(padding: Fraction) -> int:
        return max(math.ceil(tokens / Fraction(seq_len)), math.floor(tokens / (seq_len * (1 - padding)))) - full

    long = rests[2 * rests > seq_len]
    scarce = int(rests.sum() - long.sum()) < int((seq_len - long).sum())  # short ones will run out beside long ones
    bins = _fit(rests, seq_len, scarce)
    if not scarce and len(bins.opener) > most_bins(PADDING_IN_ORDER):
        bins = min(bins, _fit(rests, seq_len, True), key=lambda bins: len(bins.opener))
    most = most_bins(MOST_PADDING)
    cuts = np.zeros(0, np.int64), np.zeros(0, np.int64)
    if split and len(bins.opener) > most:
        left_over = np.flatnonzero(bins.of_document >= most)
        by_space = np.argsort(-bins.space[:most], kind="stable")
        bins = _Bins(bins.of_document, *(column[:most] for column in bins[1:]))
        cuts = _split(rests, bins, left_over, by_space)
    return Pieces(*_pieces(lengths, seq_len, bins, *cuts))


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

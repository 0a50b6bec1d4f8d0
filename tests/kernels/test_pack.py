"""Packing gives the samples of a plain algorithm: nothing is lost, little is padding, and lengths stay mixed."""

import itertools
import math
import random
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.kernels.pack import MOST_PADDING, best_fit, concat, copy_pieces

WHOLE = partial(best_fit, split=False)
LENGTHS = st.tuples(
    st.integers(1, 150), st.lists(st.one_of(st.integers(0, 40), st.integers(0, 400), st.just(76)), max_size=60)
)


def filled(rests, seq_len, from_longest):
    """Bins filled one by one with the next document or the longest that fits: lists of documents, in that order."""
    left, bins = [document for document, rest in enumerate(rests) if rest], []

    def longest(most):
        return max((document for document in left if rests[document] <= most), key=lambda one: rests[one], default=None)

    while left:
        held, space = [], seq_len
        chosen = longest(seq_len) if from_longest else left[0]
        while chosen is not None:
            left.remove(chosen)
            held.append(chosen)
            space -= rests[chosen]
            in_order = not from_longest and left and rests[left[0]] <= space
            chosen = left[0] if in_order else longest(space)
        bins.append(held)
    return bins


def oracle_best_fit(lengths, seq_len, split=True):
    """In order if that pads at most 1%, else from long to short; the last bins are split if that pads more than 2%."""
    rests = [length % seq_len for length in lengths]
    full = sum(length // seq_len for length in lengths)

    def most(percent):
        return max(math.ceil(sum(lengths) / seq_len), sum(lengths) * 100 // (seq_len * (100 - percent))) - full

    short = sum(rest for rest in rests if 2 * rest <= seq_len)
    scarce = short < sum(seq_len - rest for rest in rests if 2 * rest > seq_len)
    bins = filled(rests, seq_len, scarce)
    if not scarce and len(bins) > most(1):
        bins = min(bins, filled(rests, seq_len, True), key=len)
    kept = bins[: most(2)] if split else bins
    pieces = [[(one, lengths[one] - rests[one], rests[one]) for one in held] for held in kept]
    spaces = [seq_len - sum(rests[one] for one in held) for held in kept]
    for document in sorted(itertools.chain(*bins[len(kept) :])):
        offset = lengths[document] - rests[document]
        while offset < lengths[document]:
            gap = next(gap for gap in by_space(kept, rests, seq_len) if spaces[gap])
            taken = min(spaces[gap], lengths[document] - offset)
            pieces[gap].append((document, offset, taken))
            spaces[gap] -= taken
            offset += taken
    samples = [(held[0], 1, sorted(some)) for held, some in zip(kept, pieces, strict=True)]
    for document, length in enumerate(lengths):
        for offset in range(0, length - seq_len + 1, seq_len):
            samples.append((document, 0, [(document, offset, seq_len)]))
    return [some for *_, some in sorted(samples)]


def by_space(bins, rests, seq_len):
    """The numbers of bins, those with the most space first."""
    return sorted(range(len(bins)), key=lambda one: sum(rests[document] for document in bins[one]) - seq_len)


def oracle_concat(lengths, seq_len):
    tokens = [(document, place) for document, length in enumerate(lengths) for place in range(length)]
    samples = []
    for begin in range(0, len(tokens), seq_len):
        pieces = []
        for document, place in tokens[begin : begin + seq_len]:
            if pieces and pieces[-1][0] == document:
                pieces[-1][2] += 1
            else:
                pieces.append([document, place, 1])
        samples.append([tuple(piece) for piece in pieces])
    return samples


def packed(function, lengths, seq_len):
    """The samples as lists of (document, doc_offset, length)."""
    pieces = function(np.array(lengths, np.int64), seq_len)
    assert all(array.dtype == np.int64 for array in pieces)
    samples = [[] for _ in range(int(pieces.sample.max(initial=-1)) + 1)]
    assert (np.diff(pieces.sample) >= 0).all()
    for sample, *piece in zip(*(array.tolist() for array in pieces), strict=True):
        samples[sample].append(tuple(piece))
    return samples


@given(LENGTHS)
def test_best_fit_makes_the_samples_of_the_plain_algorithm(case):
    """Same pieces in the same samples in the same order as one document at a time."""
    seq_len, lengths = case
    assert packed(best_fit, lengths, seq_len) == oracle_best_fit(lengths, seq_len)
    assert packed(WHOLE, lengths, seq_len) == oracle_best_fit(lengths, seq_len, split=False)


def test_every_order_of_documents_gives_the_fewest_samples():
    """The lengths 7, 6, 5, 5, 3, 2 fit into three samples of 10, whole, in each of their 720 orders."""
    for lengths in itertools.permutations([7, 6, 5, 5, 3, 2]):
        for function in (best_fit, WHOLE):
            samples = packed(function, lengths, 10)
            assert len(samples) == 3
            assert sorted(length for pieces in samples for *_, length in pieces) == [2, 3, 5, 5, 6, 7]


@given(LENGTHS)
def test_padding_is_bounded_by_splitting_documents(case):
    """At most 2% are padding, or less than one sample; and no document is split while whole ones pad as little."""
    seq_len, lengths = case
    allowed = max(math.ceil(sum(lengths) / seq_len), math.floor(sum(lengths) / (seq_len * (1 - MOST_PADDING))))
    samples, whole = packed(best_fit, lengths, seq_len), packed(WHOLE, lengths, seq_len)
    assert len(samples) <= allowed
    assert samples == whole or len(whole) > allowed >= len(samples)


def test_as_many_documents_are_split_as_samples_are_saved():
    """Documents of just over half a sample pad 40%; each one that is split saves a sample, down to 2%."""
    lengths = [1200] * 1000
    samples = packed(best_fit, lengths, 2000)
    whole = {document for pieces in samples for document, _, length in pieces if length == 1200}
    assert len(samples) == 612
    assert len(whole) == 612


@given(LENGTHS)
@settings(max_examples=200, deadline=None)
def test_concat_cuts_the_stream_of_all_tokens(case):
    """Documents end to end, cut every seq_len tokens."""
    seq_len, lengths = case
    assert packed(concat, lengths, seq_len) == oracle_concat(lengths, seq_len)


@given(LENGTHS, st.sampled_from([best_fit, WHOLE, concat]))
def test_every_token_is_in_one_sample(case, function):
    """The pieces of each document are all of it, once, and no sample is over-full or empty."""
    seq_len, lengths = case
    samples = packed(function, lengths, seq_len)
    pieces_in_order = sorted(piece for pieces in samples for piece in pieces)
    ends = [0] * len(lengths)
    for document, offset, length in pieces_in_order:
        assert offset == ends[document]
        ends[document] += length
    assert ends == lengths
    assert all(0 < sum(length for _, _, length in pieces) <= seq_len for pieces in samples)


@given(LENGTHS)
def test_whole_cuts_no_document_that_fits(case):
    """A document has one piece unless it is longer than a sample, and then all pieces but the last fill a sample."""
    seq_len, lengths = case
    for pieces in packed(WHOLE, lengths, seq_len):
        for document, _, length in pieces:
            assert length == lengths[document] or length == seq_len or length == lengths[document] % seq_len


@pytest.mark.parametrize("seq_len", [63, 64, 65, 4095, 4096, 4097, 9000])
def test_lengths_are_found_across_words_of_the_bitset(seq_len):
    """Lengths around the edges of words and of words of words are packed like anywhere else."""
    draw = random.Random(seq_len)
    edges = [edge + step for edge in (64, 128, 4096, seq_len // 2, seq_len) for step in (-1, 0, 1)]
    lengths = [draw.choice([*edges, draw.randint(1, 2 * seq_len)]) for _ in range(300)]
    assert packed(best_fit, lengths, seq_len) == oracle_best_fit(lengths, seq_len)


def spread(pieces):
    """Standard deviation of the logarithms of lengths inside a sample, on average over those with company."""
    logs, company = np.log(pieces.length), np.bincount(pieces.sample)
    mean = np.bincount(pieces.sample, logs) / company
    deviation = np.sqrt(np.bincount(pieces.sample, (logs - mean[pieces.sample]) ** 2) / company)
    return deviation[company > 1].mean()


@pytest.mark.parametrize(("seq_len", "median"), [(2048, 300), (8192, 300), (8192, 1000)])
def test_lengths_are_mixed_in_samples_as_they_come(seq_len, median):
    """Lengths inside a sample differ about as much as they would by chance, and padding is below 0.2%."""
    draw = np.random.default_rng(seq_len)
    lengths = np.exp(draw.normal(np.log(median), 1.3, 20_000)).astype(np.int64) + 1
    pieces = best_fit(lengths, seq_len)
    by_chance = pieces._replace(length=pieces.length.copy())
    not_full = pieces.length < seq_len
    by_chance.length[not_full] = draw.permutation(pieces.length[not_full])
    assert spread(pieces) > 0.95 * spread(by_chance)
    samples = int(pieces.sample[-1]) + 1
    assert lengths.sum() > 0.998 * samples * seq_len


@pytest.mark.parametrize("seq_len", [2048, 8192])
def test_short_documents_are_kept_for_the_long_ones(seq_len):
    """Lengths are spread evenly up to a sample: each short one is needed to complete a long one, and padding is below
    1%.
    """
    lengths = np.random.default_rng(1).integers(1, seq_len, 10_000)
    samples = int(best_fit(lengths, seq_len).sample[-1]) + 1
    assert lengths.sum() > 0.99 * samples * seq_len


def test_equal_documents_do_not_seek_each_other():
    """Forty entries of a glossary, all of one length, among other documents: no sample has more than ten of them."""
    draw = random.Random(5)
    lengths = [60] * 40 + [draw.randint(20, 900) for _ in range(360)]
    draw.shuffle(lengths)
    samples = packed(best_fit, lengths, 2048)
    assert max(sum(length == 60 for *_, length in pieces) for pieces in samples) <= 10


def test_samples_without_company_stay_alone():
    """Whole documents of just over half a sample have a sample each: the worst case, and no token is lost in it."""
    samples = packed(WHOLE, [4097] * 1000, 8192)
    assert samples == [[(document, 0, 4097)] for document in range(1000)]


@pytest.mark.parametrize("function", [best_fit, concat])
def test_documents_of_two_billion_tokens(function):
    """Lengths and offsets beyond 2^31 do not wrap."""
    lengths = np.array([2**31 + 5, 7, 2**32 + 1], np.int64)
    pieces = function(lengths, 2**24)
    assert pieces.length.sum() == lengths.sum()
    assert pieces.doc_offset.max() == 2**32 if function is best_fit else pieces.doc_offset.max() > 2**31
    ends = np.bincount(pieces.document, pieces.length)
    assert ends.tolist() == lengths.tolist()


@pytest.mark.parametrize("function", [best_fit, concat])
@pytest.mark.parametrize(("lengths", "samples"), [([], 0), ([0, 0], 0), ([1], 1), ([5], 5), ([2, 0, 1], 3)])
def test_samples_of_one_token_and_nothing_at_all(function, lengths, samples):
    """seq_len 1 gives every token a sample; a document without tokens has no piece."""
    assert len(packed(function, lengths, 1)) == samples


@pytest.mark.parametrize("longest", [1000, 700])
def test_samples_are_not_ordered_by_length(longest):
    """Neither samples that begin with the longest documents nor those with the most documents come first."""
    draw = random.Random(3)
    lengths = [draw.randint(300, longest) for _ in range(6000)]
    samples = packed(best_fit, lengths, 1000)
    half = len(samples) // 2
    for measure in (lambda pieces: max(length for *_, length in pieces), lambda pieces: 100 * len(pieces)):
        measured = [measure(pieces) for pieces in samples]
        assert abs(np.mean(measured[:half]) - np.mean(measured[half:])) < 12


def test_pieces_are_copied_where_they_belong():
    """Bytes come from source to target, and nothing else is touched."""
    data = np.arange(100, dtype=np.uint8)
    data.setflags(write=False)
    out = np.full(50, 255, np.uint8)
    copy_pieces(data, np.array([10, 90, 0]), np.array([5, 0, 40]), np.array([3, 4, 0]), out)
    expected = np.full(50, 255, np.uint8)
    expected[5:8], expected[0:4] = [10, 11, 12], [90, 91, 92, 93]
    assert out.tolist() == expected.tolist()

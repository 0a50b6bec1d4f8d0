"""Sketches and bands equal those of plain Python, and estimate Jaccard similarities as their papers promise.

The statistical tests have fixed seeds, so they pass or fail for good; the chance that they state is that of failing
with other seeds.
"""

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.kernels.dedup.test_shingles import TEXTS, mix, oracle

from gristmill.kernels.dedup.shingles import word_tables
from gristmill.kernels.dedup.sketch import (
    METHODS,
    _method,
    _put_bands,
    _sketch,
    band_hashes_of,
    jaccard,
    ratio_of,
    reaches,
    shingle_sets,
    sort_distinct,
)

U64 = (1 << 64) - 1
GOLDEN, BAND_MUL, BAND_SEED = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0x2FFD72DBD01ADFB7
HASHES, BANDS, ROWS = 112, 14, 8

VALUES = st.one_of(st.integers(0, U64), st.integers(0, 20), st.integers(0, 20).map(lambda small: small << 56))
SETS = st.sets(VALUES, max_size=40).map(sorted)


def arrow(texts: list[str], kind: type = np.int64) -> tuple[np.ndarray, np.ndarray]:
    data = [text.encode() for text in texts]
    return np.frombuffer(b"".join(data), np.uint8), np.cumsum([0, *map(len, data)]).astype(kind)


def as_set(values: list[int]) -> np.ndarray:
    return np.array(values, np.uint64)


def keys_of(seed: int, count: int) -> list[int]:
    return [mix(mix(seed) + (number + 1) * GOLDEN & U64) for number in range(count)]


def fast_oracle(shingles: list[int], hashes: int, seed: int) -> list[int]:
    """All 2k rounds, as the paper has them: a bin's number is the least (round, draw) that ever came to it."""
    bins: list[list[tuple[int, int]]] = [[] for _ in range(hashes)]
    for number, key in enumerate(keys_of(seed, 2 * hashes)):
        for shingle in shingles:
            draw = mix(shingle ^ key)
            place = (draw >> 32) * hashes >> 32 if number < hashes else number - hashes
            bins[place].append((number, draw))
    return [min(drawn)[1] for drawn in bins]


def minhash_oracle(shingles: list[int], hashes: int, seed: int) -> list[int]:
    keys = keys_of(seed, 2 * hashes)
    pairs = zip(keys[:hashes], keys[hashes:], strict=True)
    return [min((shingle * (times | 1) + plus) & U64 for shingle in shingles) for times, plus in pairs]


ORACLES = {"fast": fast_oracle, "minhash": minhash_oracle}


def bands_oracle(sketch: list[int], bands: int, rows: int, salt: int) -> list[int]:
    found = []
    for band in range(bands):
        state = mix(salt + (band + 1) * GOLDEN & U64) ^ BAND_SEED
        for value in sketch[band * rows : (band + 1) * rows]:
            state = (state ^ value) * BAND_MUL & U64
            state ^= state >> 32
        found.append(mix(state))
    return found


@given(st.lists(TEXTS, max_size=5), st.integers(1, 4), st.sampled_from([np.int32, np.int64]))
def test_sets_are_the_sorted_distinct_shingles(texts, ngram, kind):
    """The sets of many texts are those of each text alone, sorted, without duplicates and never empty."""
    ends, values = shingle_sets(*arrow(texts, kind), ngram, word_tables())
    assert (ends.dtype, values.dtype, len(ends)) == (np.int64, np.uint64, len(texts) + 1)
    cut = [values[ends[row] : ends[row + 1]].tolist() for row in range(len(texts))]
    assert cut == [sorted(set(oracle(text, ngram))) for text in texts]
    assert all(cut)


@settings(max_examples=100, deadline=None)
@given(st.lists(VALUES, max_size=60), st.integers(1, 4))
def test_sorting_equals_numpy(values, times):
    """Few or many values, all alike or not, are sorted and made distinct as numpy does."""
    found = as_set(values * times)
    count = sort_distinct(found, len(found), np.empty_like(found))
    assert found[:count].tolist() == np.unique(as_set(values)).tolist()


def sketches_of_sets(sets: Iterable[np.ndarray], hashes: int, method: str, seed: int) -> np.ndarray:
    """A sketch of each set of shingles, in any order, repeated or not."""
    number, keys = _method(method, seed, hashes)
    found = []
    for one in sets:
        bins, drawn = np.empty(hashes, np.uint64), np.empty(hashes, np.uint64)
        _sketch(one.copy(), len(one), keys, number, bins, drawn, np.empty(len(one), np.uint64))
        found.append(bins)
    return np.array(found)


@given(SETS, SETS)
def test_jaccard_counts_as_python_sets_do(one, two):
    """Intersection and union are exact."""
    assert jaccard(as_set(one), as_set(two)) == (len({*one} & {*two}), len({*one} | {*two}))


@given(SETS, SETS, st.data())
def test_the_early_exit_answers_exactly(one, two, data):
    """At, just below and just above the true similarity, the answer is that of exact fractions."""
    union = len({*one} | {*two})
    assume(union)
    true = Fraction(len({*one} & {*two}), union)
    near = st.sampled_from(
        [true, min(true + Fraction(1, 10**6), Fraction(1)), max(true - Fraction(1, 10**6), Fraction(0))]
    )
    threshold = data.draw(st.one_of(near, st.fractions(0, 1, max_denominator=100)))
    assert reaches(as_set(one), as_set(two), threshold.numerator, threshold.denominator) == (true >= threshold)


def test_a_threshold_is_the_decimal_that_was_written():
    """0.8 is four fifths, so 4 of 5 reach it; what has no exact small fraction is refused."""
    assert [ratio_of(0.8), ratio_of(0.1), ratio_of(1), ratio_of(0)] == [(4, 5), (1, 10), (1, 1), (0, 1)]
    for parts in range(1, 100):
        one, two = as_set(list(range(parts * 4))), as_set(list(range(parts * 5)))
        assert reaches(one, two, *ratio_of(0.8))
        assert not reaches(one[1:], two, *ratio_of(0.8))
    for wrong in (1 / 3, -0.1, 1.5):
        with pytest.raises(ValueError, match="similarity"):
            ratio_of(wrong)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=60, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=30), st.integers(1, 9), st.sampled_from([1, 2, 13]), st.integers(0, U64))
def test_sketches_equal_the_oracle(method, shingles, times, hashes, seed):
    """Given shingles, repeated or not, the sketch is that of the definition; repetition changes nothing."""
    many = as_set(shingles * times)
    found = sketches_of_sets([many], hashes, method, seed)
    assert found.tolist() == [ORACLES[method](shingles, hashes, seed)]


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=60, deadline=None)
@given(texts=st.lists(TEXTS, max_size=4), ngram=st.integers(1, 5), seed=st.integers(0, 9), data=st.data())
def test_the_fused_path_equals_its_parts(method, texts, ngram, seed, data):
    """Texts to bands in one go are the oracle's shingles, sketches and bands, with offsets of either width."""
    bands, rows = data.draw(st.sampled_from([(1, 1), (3, 2), (2, 5)]))
    salt = as_set(data.draw(st.lists(VALUES, min_size=len(texts), max_size=len(texts))))
    found = band_hashes_of(*arrow(texts), ngram, bands, rows, method, seed, salt, word_tables())
    narrow = band_hashes_of(*arrow(texts, np.int32), ngram, bands, rows, method, seed, salt, word_tables())
    assert np.array_equal(found, narrow)
    wanted = [ORACLES[method](oracle(text, ngram), bands * rows, seed) for text in texts]
    pairs = zip(wanted, salt.tolist(), strict=True)
    assert found.tolist() == [bands_oracle(sketch, bands, rows, one) for sketch, one in pairs]


@pytest.mark.parametrize("method", METHODS)
def test_a_long_repetitive_text_is_sketched_as_its_few_words(method):
    """A text of few distinct shingles, repeated beyond what is hashed again and again, keeps the exact sketch."""
    text = "one two three four five six " * 2000
    found = band_hashes_of(*arrow([text]), 5, HASHES, 1, method, 3, as_set([7]), word_tables())
    sketch = ORACLES[method](sorted(set(oracle(text, 5))), HASHES, 3)
    assert found.tolist() == [bands_oracle(sketch, HASHES, 1, 7)]


def bands_of(sketches: np.ndarray, bands: int, rows: int, salts: list[int]) -> np.ndarray:
    """The bands of sketches that are made up."""
    found = np.empty((len(sketches), bands), np.uint64)
    for sketch, salt, into in zip(sketches, as_set(salts), found, strict=True):
        _put_bands(sketch, rows, salt, into)
    return found


def test_bands_keep_band_row_and_salt_apart():
    """Bands of equal rows differ by their number and by the salt, and the order of rows counts."""
    alike = np.full((2, 12), 5, np.uint64)
    swapped = np.array([[1, 2, 3, 4], [2, 1, 3, 4]], np.uint64)
    assert len(np.unique(bands_of(alike, 4, 3, [0, 1]))) == 8
    found = bands_of(swapped, 2, 2, [9, 9])
    assert (found[0] == found[1]).tolist() == [False, True]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: band_hashes_of(*arrow(["a"]), 5, 2, 4, "slow", 0, as_set([0]), word_tables()), "Methods: fast, min"),
        (lambda: band_hashes_of(*arrow(["a"]), 0, 2, 4, "fast", 0, as_set([0]), word_tables()), "at least 1"),
        (lambda: band_hashes_of(*arrow(["a"]), 5, 2, 0, "fast", 0, as_set([0]), word_tables()), "at least 1"),
        (
            lambda: band_hashes_of(arrow(["a"])[0], np.array([0, 2]), 5, 2, 4, "fast", 0, as_set([0]), word_tables()),
            "within 1 bytes",
        ),
        (lambda: band_hashes_of(*arrow(["a"]), 5, 2, 2, "fast", 0, as_set([]), word_tables()), "0 salts for 1"),
    ],
)
def test_what_cannot_be_computed_is_refused(call, message):
    """A wrong argument is an error that names the fault, never memory that is read past its end."""
    with pytest.raises(ValueError, match=message):
        call()


def equal_bins(method: str, common: int, union: int, pairs: int, seed: int) -> np.ndarray:
    """Which numbers are equal in the sketches of random pairs of sets of the same size; bool, pairs x HASHES."""
    size = (union + common) // 2
    drawn = np.random.default_rng(seed).integers(0, 1 << 64, (pairs, union), np.uint64)
    values = np.concatenate([drawn[:, :size], drawn[:, size - common :]], axis=1).ravel()
    found = sketches_of_sets(values.reshape(2 * pairs, size), HASHES, method, seed)
    return found[0::2] == found[1::2]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("common", "union"),
    [(1, 3), (2, 10), (18, 20), (20, 40), (88, 110), (90, 300), (150, 300), (270, 300), (1600, 2000)],
)
def test_equal_numbers_are_as_frequent_as_the_sets_are_alike(method, common, union):
    """P[number equal] is J over all numbers, in its first and in its last, and its variance is at most MinHash's.

    From sets of 2 shingles to sets of 1800, smaller and larger than the sketch. Means are allowed 5 standard errors of
    independent numbers (chance 6e-7 each), the variance 5 standard errors of a normal sample (1e-6): 5e-5 in all.
    """
    pairs = 1500 if union <= 300 else 500
    equal = equal_bins(method, common, union, pairs, seed=union + common)
    true = common / union
    spread = true * (1 - true)
    assert abs(equal.mean() - true) < 5 * (spread / HASHES / pairs) ** 0.5
    assert abs(equal[:, 0].mean() - true) < 5 * (spread / pairs) ** 0.5
    assert abs(equal[:, -1].mean() - true) < 5 * (spread / pairs) ** 0.5
    assert equal.mean(axis=1).var() < spread / HASHES * (1 + 5 * (2 / pairs) ** 0.5)


@pytest.mark.parametrize("hundredths", [50, 70, 80, 90])
@pytest.mark.parametrize("method", METHODS)
def test_a_shared_band_is_as_likely_as_the_formula_says(method, hundredths):
    """14 bands of 8 rows: P[a band is equal] = 1 - (1 - J^8)^14, within 5 standard errors (chance 6e-7 each).

    Sets of more than 1500 shingles. For small ones `fast` scatters less than the formula's independent numbers, which
    makes its slope steeper: 0.94 instead of 0.92 at J = 0.8, 0.048 instead of 0.053 at 0.5; so 0.02 is added there.
    """
    true = hundredths / 100
    wanted = 1 - (1 - true**ROWS) ** BANDS
    for union, pairs, slack in ((2000, 800, 0.0), (200, 2000, 0.02)):
        equal = equal_bins(method, union * hundredths // 100, union, pairs, seed=hundredths)
        shared = equal.reshape(pairs, BANDS, ROWS).all(axis=2).any(axis=1).mean()
        # At J = 0.9 the chance of no band is 4e-4: a bound by the normal distribution would be too narrow.
        assert abs(shared - wanted) < slack + 5 * (wanted * (1 - wanted) / pairs) ** 0.5 + 3 / pairs

"""The keyed permutation."""

import hashlib
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.loader.permute import key_of, permuted, permuted_all

AROUND_POWERS = [2**power + more for power in range(9, 18) for more in (-1, 0, 1)]


def whole(count, key):
    return permuted_all(np.arange(count), None, [count], [key])


def test_it_is_a_bijection_for_small_sizes_and_around_powers_of_two():
    """Nothing is lost or repeated, for any shape of the grid."""
    for count in [*range(1, 301), *AROUND_POWERS]:
        assert np.array_equal(np.sort(whole(count, 12345 + count)), np.arange(count)), count


@given(st.integers(1, 2**62), st.integers(0, 2**64 - 1), st.data())
def test_arrays_agree_with_plain_integers_at_any_size(count, key, data):
    """Two implementations of the same arithmetic, one of them without overflow."""
    places = data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=5))
    found = permuted_all(np.array(places), None, [count], [key])
    assert found.tolist() == [permuted(place, count, key) for place in places]


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 2**64 - 1), st.integers(0, 10**9)), min_size=2))
def test_separate_sizes_and_keys_for_each_position_change_nothing(rows):
    """One call for many shards equals one call for each."""
    counts, keys = ([row[column] for row in rows] for column in (0, 1))
    places = [place % count for count, _, place in rows]
    found = permuted_all(np.array(places), np.arange(len(rows)), counts, keys)
    assert found.tolist() == [permuted(*row) for row in zip(places, counts, keys, strict=True)]


@pytest.mark.parametrize("count", [2, 3, 5, 8, 13, 40])
def test_every_position_maps_everywhere_equally_often(count):
    """Over 4000 keys, no position is preferred by more than five standard deviations."""
    keys = [key_of(0, "group", epoch) for epoch in range(4000)]
    places = np.tile(np.arange(count), len(keys))
    found = permuted_all(places, np.repeat(np.arange(len(keys)), count), [count] * len(keys), keys)
    table = np.zeros((count, count))
    np.add.at(table, (places, found), 1)
    expected = len(keys) / count
    assert abs(table - expected).max() < 5 * expected**0.5


def test_every_order_of_four_appears():
    """A few shards are shuffled as well as many."""
    orders = Counter(tuple(permuted(i, 4, key_of(0, "g", epoch)) for i in range(4)) for epoch in range(2000))
    assert len(orders) == 24
    assert min(orders.values()) > 40


def test_seed_group_epoch_and_shard_each_give_another_order():
    """So do names that are only equal after concatenation."""
    keys = [
        key_of(1, "crawl", 0),
        key_of(2, "crawl", 0),
        key_of(1, "wiki", 0),
        key_of(1, "crawl", 1),
        key_of(1, "crawl", 0, 0),
        key_of(1, "crawl", 0, 1),
        key_of(11, "crawl", 0),
    ]
    orders = {tuple(whole(1000, key).tolist()) for key in keys}
    assert len(orders) == len(keys)


def test_the_order_is_the_one_that_was_fixed_with_format_1():
    """A change here loses and repeats samples of every existing run: it needs a new format_version."""
    assert key_of(1234567, "crawl/B", 3, 5) == 11996482641520415853
    assert whole(10, key_of(1, "crawl/B", 0)).tolist() == [1, 7, 3, 0, 2, 4, 8, 9, 5, 6]
    assert whole(7, 0).tolist() == [0, 3, 5, 6, 2, 1, 4]
    digest = hashlib.sha256(whole(12207, key_of(1234567, "wiki/A", 2, 9)).astype("<i8").tobytes()).hexdigest()
    assert digest == "55166e52794e844baf705a982cf850bfe5d58f951d9a5cd8a055e2a6aff168aa"
    assert permuted(10**15 + 7, 2**50 - 3, 42) == 267934917675895

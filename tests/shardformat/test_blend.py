"""The blend of groups in a phase."""

import heapq
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.shardformat.blend import Fork, drawn, grow, place, places

WINDOW = 10_000
FIBONACCI = accumulate([(1, 1)] * 40, lambda pair, _: (pair[1], sum(pair)))
HOSTILE = {
    "even": {f"g{number:02}": 10**9 for number in range(40)},
    "one in a billion": {"a": 10**9, "b": 1},
    "doubling": {f"g{number:02}": 2**number for number in range(40)},
    "fibonacci": {f"g{number:02}": pair[0] for number, pair in enumerate(FIBONACCI)},
    "one large": {"large": 10**12, **{f"g{number:02}": 10**6 + number for number in range(39)}},
    "thirds": {"a": 1, "b": 1, "c": 1},
    "primes": {f"g{number}": number for number in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 1009, 10007, 100003)},
}

weights_of = st.dictionaries(st.text("abcdef/", min_size=1), st.integers(1, 50), min_size=1, max_size=8)


def numbered(weights):
    return {name: number for number, name in enumerate(sorted(weights))}


def simulated(weights, count):
    """Sample by sample, with counters at the forks and fractions instead of the closed form."""
    heap = [(weight, name, name) for name, weight in weights.items() if weight]
    heapq.heapify(heap)
    while len(heap) > 1:
        first, second = heapq.heappop(heap), heapq.heappop(heap)
        heapq.heappush(heap, (first[0] + second[0], min(first[1], second[1]), [first, second, 0, 0]))
    seen = dict.fromkeys(weights, 0)
    for _ in range(count):
        node = heap[0]
        while isinstance(node[2], list):
            (left, right, visitors, gone), weight = node[2], node[0]
            # The left child is owed the share of all visitors so far, rounded to the nearest (halves up; N odd: N//2).
            goes_left = gone < ((visitors + 1) * left[0] + weight // 2) // weight
            node[2][2] += 1
            node[2][3] += goes_left
            node = left if goes_left else right
        yield node[2], seen[node[2]]
        seen[node[2]] += 1


@given(weights_of)
@settings(max_examples=60)
def test_the_closed_form_equals_a_simulation_of_the_tree(weights):
    """Group and index of every sample, over more than a whole period."""
    numbers = numbered(weights)
    tree, count = grow(weights, numbers), sum(weights.values()) * 2 + 5
    expected = [(numbers[name], index) for name, index in simulated(weights, count)]
    assert [place(tree, visitor) for visitor in range(count)] == expected


@given(weights_of)
def test_a_whole_period_draws_exactly_the_weights(weights):
    """What was apportioned is what is drawn."""
    numbers = numbered(weights)
    assert dict(drawn(grow(weights, numbers), sum(weights.values()))) == {
        numbers[name]: w for name, w in weights.items()
    }


@given(weights_of, st.integers(0, 300))
def test_counts_of_a_prefix_are_those_of_its_samples(weights, count):
    """A phase that is cut short is a prefix, and how much it drew is known without walking through it."""
    tree = grow(weights, numbered(weights))
    counts = dict.fromkeys(range(len(weights)), 0)
    for visitor in range(count):
        group, index = place(tree, visitor)
        assert index == counts[group]
        counts[group] += 1
    assert dict(drawn(tree, count)) == counts


def test_the_order_in_which_groups_are_named_does_not_matter():
    """Ties go by name."""
    weights = {"d": 2, "b": 1, "c": 1, "a": 2, "e": 2}
    numbers = numbered(weights)
    trees = [
        grow(dict(items), numbers) for items in (weights.items(), reversed(weights.items()), sorted(weights.items()))
    ]
    assert trees[0] == trees[1] == trees[2]


@pytest.mark.parametrize("name", HOSTILE)
def test_shares_hold_in_every_window_of_10000_samples(name):
    """Within 0.1% of the window (10 samples) for every group, wherever the window starts; in truth within 3."""
    weights = HOSTILE[name]
    numbers, total = numbered(weights), sum(weights.values())
    tree = grow(weights, numbers)
    shares = np.array([weights[group] / total for group in sorted(weights)])
    for start in (0, 1, 12_345, total // 2 - WINDOW, total - WINDOW, 2**45):
        groups, _ = places(tree, max(start, 0), np.arange(3 * WINDOW))
        seen = np.zeros((len(groups) + 1, len(weights)), np.int64)
        np.cumsum(groups[:, None] == np.arange(len(weights)), axis=0, out=seen[1:])
        windows = seen[WINDOW:] - seen[:-WINDOW]
        assert abs(windows - WINDOW * shares).max() < 3


@given(
    st.lists(st.one_of(st.integers(1, 9), st.integers(1, 2**45), st.integers(1, 2**70)), min_size=1, max_size=12),
    st.integers(0, 2**45 + 1000),
    st.lists(st.integers(0, 10**6), min_size=1, max_size=20),
)
def test_arrays_agree_with_plain_integers_at_any_distance(sizes, first, offsets):
    """Also where 64 bits are too few for the products."""
    weights = {f"g{number}": size for number, size in enumerate(sizes)}
    tree = grow(weights, numbered(weights))
    groups, indices = places(tree, first, np.array(sorted(offsets)))
    assert list(zip(groups.tolist(), indices.tolist(), strict=True)) == [
        place(tree, first + k) for k in sorted(offsets)
    ]


def test_the_blend_is_the_one_that_was_fixed_with_format_1():
    """A change here loses and repeats samples of every run in the world: it needs a new format_version."""
    weights = {"crawl/B": 62, "code": 25, "wiki/A": 13}
    tree = grow(weights, {"crawl/B": 0, "code": 1, "wiki/A": 2})
    assert isinstance(tree, Fork)
    assert "".join(str(place(tree, visitor)[0]) for visitor in range(40)) == "0102001001020010010200101002001010020010"
    assert place(tree, 10**15) == (0, 620000000000000)

"""Confidence intervals of shares: compared with a plain oracle, and checked for coverage in a simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill_bias.groups import BUCKETS, LENGTHS, MOST_GROUPS, OTHER, GroupRows, GroupTally, Lengths
from gristmill_bias.intervals import NORMAL, share_of, student, wilson

CLUSTERS = st.lists(
    st.integers(1, 50).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=1, max_size=30
)


def oracle(clusters):
    """Compute the same formulas plainly, one cluster at a time."""
    kept, total, hosts = sum(k for k, _ in clusters), sum(n for _, n in clusters), len(clusters)
    share = kept / total
    spread = sum((k - share * n) ** 2 for k, n in clusters) / total**2
    if kept in (0, total) or hosts == 1 or spread == 0:
        count, z = total**2 / sum(n * n for _, n in clusters), NORMAL
    else:
        count, z = share * (1 - share) / (spread * hosts / (hosts - 1)), student(hosts - 1)
    count = min(count, total)
    # Wilson's interval has the shares p within z standard errors of the observed share.
    low = bisect(lambda p: (share - p) ** 2 > z * z * p * (1 - p) / count, 0.0, share)
    high = bisect(lambda p: (share - p) ** 2 <= z * z * p * (1 - p) / count, share, 1.0)
    return low, high, count


def bisect(holds, begin, end):
    """Return the point where `holds` becomes false."""
    for _ in range(60):
        middle = (begin + end) / 2
        begin, end = (middle, end) if holds(middle) else (begin, middle)
    return begin


@given(CLUSTERS)
def test_intervals_equal_the_oracle(clusters):
    """This includes groups that are entirely kept or entirely removed."""
    result = share_of(*(np.array(column) for column in zip(*clusters, strict=True)), sum(n for _, n in clusters))
    if math.isclose(result.independent, (expected := oracle(clusters))[2], rel_tol=1e-6):
        if result.kept:
            assert result.low == pytest.approx(expected[0], abs=1e-6)
        if result.kept < result.all:
            assert result.high == pytest.approx(expected[1], abs=1e-6)
    else:  # the spread is only rounding error
        assert len({k / n for k, n in clusters}) == 1
    assert 0 <= result.low <= result.value <= result.high <= 1


def test_documents_on_distinct_hosts_have_wilsons_interval():
    """When every document has its own host, 3 of 120 gives Wilson's interval with Student's t."""
    kept = np.array([1] * 3 + [0] * 117)
    result = share_of(kept, np.ones(120, np.int64), 120)
    assert result.independent == pytest.approx(119)
    assert (result.low, result.high) == pytest.approx(wilson(0.025, 119, student(119)))
    assert wilson(0.025, 120) == pytest.approx((0.00854, 0.07089), abs=1e-4)  # Newcombe's tables, method 3


def test_a_uniform_host_counts_once():
    """A thousand pages of ten sites carry as much information as ten documents; one site says nothing about others."""
    hundred = np.full(10, 100)
    assert share_of(np.zeros(10, np.int64), hundred, 1000).high == pytest.approx(wilson(0, 10)[1])
    assert share_of(np.array([0]), np.array([500]), 500).high > 0.7
    mixed = share_of(np.array([100] * 5 + [0] * 5), hundred, 1000)
    assert mixed.independent == pytest.approx(9)


def test_intervals_cover_the_true_share_at_their_nominal_rate():
    """With randomly drawn hosts, 95% of intervals cover the true share; intervals that ignore hosts cover
    it far less.
    """
    draw, truth, ours, naive = np.random.default_rng(7), 0.3, 0, 0
    for _ in range(400):
        sizes = draw.geometric(0.05, 60)
        kept = draw.binomial(sizes, draw.beta(0.9, 2.1, 60))
        result = share_of(kept, sizes, int(sizes.sum()))
        ours += result.low <= truth <= result.high
        low, high = wilson(result.value, result.all)
        naive += low <= truth <= high
    assert 0.92 <= ours / 400 <= 0.99
    assert naive / 400 < 0.7


@pytest.mark.parametrize(
    ("degrees", "value"), [(1, 12.706), (4, 2.776), (5, 2.571), (10, 2.228), (30, 2.042), (1000, 1.962)]
)
def test_quantiles_equal_the_published_tables(degrees, value):
    """They agree to three digits."""
    assert student(degrees) == pytest.approx(value, abs=1e-3)


def rows_of(number):
    draw = np.random.default_rng(number)
    return GroupRows(draw.random(number) < 0.5, draw.integers(0, 100_000, number), draw.integers(0, BUCKETS, number))


def test_length_groups_are_of_similar_size_and_lose_no_document():
    """The name of a group states its bounds."""
    rows, tally = rows_of(6000), Lengths("length")
    tally.add_sizes(rows)
    groups = tally.groups()
    assert len(groups) == LENGTHS
    assert sum(group.bytes.all for group in groups) == rows.sizes.sum()
    assert all(500 <= group.documents.all <= 1700 for group in groups)
    low, high = (int(word.replace(",", "")) for word in groups[1].name.split()[0:3:2])
    assert groups[1].documents.all == ((rows.sizes >= low) & (rows.sizes <= high)).sum()


def test_the_number_of_groups_is_bounded():
    """Groups beyond the limit are counted together."""
    tally = GroupTally("snapshot")
    for number in range(MOST_GROUPS + 5):
        tally.add(str(number), rows_of(2))
    assert {group.name: group.documents.all for group in tally.groups()}[OTHER] == 10
    assert len(tally.names) == MOST_GROUPS + 1


def test_one_large_host_does_not_hide_that_all_others_lost_everything():
    """Nothing is kept from 178 hosts, one of which has a third of the pages: each host counts as one document."""
    sizes = np.array([100, *[1] * 177], np.int64)
    result = share_of(np.zeros(178, np.int64), sizes, int(sizes.sum()))
    assert result.independent == 178
    assert result.high < 0.03

"""Intervals of shares: against a plain oracle, and against what happens when hosts are drawn again and again."""

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


def plain(clusters):
    """The module's formulas once more, one cluster at a time."""
    kept, total, hosts = sum(k for k, _ in clusters), sum(n for _, n in clusters), len(clusters)
    share = kept / total
    spread = sum((k - share * n) ** 2 for k, n in clusters) / total**2
    if kept in (0, total) or hosts == 1 or spread == 0:
        count, z = total**2 / sum(n * n for _, n in clusters), NORMAL
    else:
        count, z = share * (1 - share) / (spread * hosts / (hosts - 1)), student(hosts - 1)
    count = min(count, total)
    # Wilson's interval holds the shares p that are no further than z standard errors from what was found.
    low = bisected(lambda p: (share - p) ** 2 > z * z * p * (1 - p) / count, 0.0, share)
    high = bisected(lambda p: (share - p) ** 2 <= z * z * p * (1 - p) / count, share, 1.0)
    return low, high, count


def bisected(holds, begin, end):
    """Where `holds` ends to hold."""
    for _ in range(60):
        middle = (begin + end) / 2
        begin, end = (middle, end) if holds(middle) else (begin, middle)
    return begin


@given(CLUSTERS)
def test_intervals_are_those_of_the_oracle(clusters):
    """Also of groups that are kept or removed as a whole."""
    made = share_of(*(np.array(column) for column in zip(*clusters, strict=True)), sum(n for _, n in clusters))
    if math.isclose(made.independent, (low_high := plain(clusters))[2], rel_tol=1e-6):
        if made.kept:
            assert made.low == pytest.approx(low_high[0], abs=1e-6)
        if made.kept < made.all:
            assert made.high == pytest.approx(low_high[1], abs=1e-6)
    else:  # a spread of nothing but rounding
        assert len({k / n for k, n in clusters}) == 1
    assert 0 <= made.low <= made.value <= made.high <= 1


def test_documents_that_stand_alone_have_wilsons_interval():
    """Every document its own host: 3 of 120, up to Student's t."""
    kept = np.array([1] * 3 + [0] * 117)
    made = share_of(kept, np.ones(120, np.int64), 120)
    assert made.independent == pytest.approx(119)
    assert (made.low, made.high) == pytest.approx(wilson(0.025, 119, student(119)))
    assert wilson(0.025, 120) == pytest.approx((0.00854, 0.07089), abs=1e-4)  # Newcombe's tables, by method 3


def test_hosts_of_one_mind_count_once():
    """A thousand pages of ten sites tell as much as ten documents; one site tells nothing of others."""
    hundred = np.full(10, 100)
    assert share_of(np.zeros(10, np.int64), hundred, 1000).high == pytest.approx(wilson(0, 10)[1])
    assert share_of(np.array([0]), np.array([500]), 500).high > 0.7
    mixed = share_of(np.array([100] * 5 + [0] * 5), hundred, 1000)
    assert mixed.independent == pytest.approx(9)


def test_intervals_hold_the_truth_as_often_as_they_say():
    """Hosts drawn again and again, each with a mind of its own: 95% hold the true share; without hosts far fewer do."""
    draw, truth, ours, naive = np.random.default_rng(7), 0.3, 0, 0
    for _ in range(400):
        sizes = draw.geometric(0.05, 60)
        kept = draw.binomial(sizes, draw.beta(0.9, 2.1, 60))
        made = share_of(kept, sizes, int(sizes.sum()))
        ours += made.low <= truth <= made.high
        low, high = wilson(made.value, made.all)
        naive += low <= truth <= high
    assert 0.92 <= ours / 400 <= 0.99
    assert naive / 400 < 0.7


@pytest.mark.parametrize(
    ("degrees", "value"), [(1, 12.706), (4, 2.776), (5, 2.571), (10, 2.228), (30, 2.042), (1000, 1.962)]
)
def test_quantiles_are_those_of_the_tables(degrees, value):
    """To three digits."""
    assert student(degrees) == pytest.approx(value, abs=1e-3)


def rows_of(number):
    draw = np.random.default_rng(number)
    return GroupRows(draw.random(number) < 0.5, draw.integers(0, 100_000, number), draw.integers(0, BUCKETS, number))


def test_groups_by_length_have_about_as_many_documents_and_none_is_lost():
    """Their names are their bounds."""
    rows, tally = rows_of(6000), Lengths("length")
    tally.add_sizes(rows)
    groups = tally.groups()
    assert len(groups) == LENGTHS
    assert sum(group.bytes.all for group in groups) == rows.sizes.sum()
    assert all(500 <= group.documents.all <= 1700 for group in groups)
    low, high = (int(word.replace(",", "")) for word in groups[1].name.split()[0:3:2])
    assert groups[1].documents.all == ((rows.sizes >= low) & (rows.sizes <= high)).sum()


def test_no_corpus_has_more_groups_than_there_is_room_for():
    """What comes behind the last is counted together."""
    tally = GroupTally("snapshot")
    for number in range(MOST_GROUPS + 5):
        tally.add(str(number), rows_of(2))
    assert {group.name: group.documents.all for group in tally.groups()}[OTHER] == 10
    assert len(tally.names) == MOST_GROUPS + 1


def test_one_large_host_does_not_hide_that_all_others_lost_everything():
    """Nothing kept of 178 hosts, one of which has a third of the pages: each counts as one document."""
    whole = np.array([100, *[1] * 177], np.int64)
    found = share_of(np.zeros(178, np.int64), whole, int(whole.sum()))
    assert found.independent == 178
    assert found.high < 0.03

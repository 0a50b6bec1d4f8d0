"""Shares under caps, and rounding to whole samples: exact, compared with slow oracles."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from gristmill.stages.config_types import parse_count
from gristmill.stages.contract import Count
from gristmill.stages.mix.fill import apportion, fill
from gristmill.stages.mix.numbers import exact, root

some = settings(max_examples=40, deadline=None)
names = st.text("abcdef", min_size=1, max_size=3)
bins = st.dictionaries(
    names, st.tuples(st.fractions(Fraction(1, 50), 50), st.fractions(0, 1000)), min_size=1, max_size=8
)


def filled_slowly(weights, caps, amount):
    """Give to all by weight, fix those that overflow at their caps, and start again with the others."""
    fixed = {}
    while True:
        open_ones = {name: weight for name, weight in weights.items() if name not in fixed}
        left, whole = amount - sum(fixed.values()), sum(open_ones.values())
        given_to = {name: left * weight / whole for name, weight in open_ones.items()}
        full = {name: caps[name] for name in open_ones if given_to[name] > caps[name]}
        if not full:
            return fixed | given_to
        fixed |= full


@some
@given(bins, st.fractions(0, 1))
def test_filling_equals_the_oracle(both, part):
    """For every amount that the caps allow, the fractions are those of the oracle."""
    weights, caps = ({name: pair[at] for name, pair in both.items()} for at in (0, 1))
    amount = part * sum(caps.values())
    assert fill(weights, caps, amount) == filled_slowly(weights, caps, amount)


@some
@given(bins, st.fractions(0, 1))
def test_filling_spends_all_and_keeps_every_cap(both, part):
    """The sum is the amount, no cap is exceeded, and all that are below their caps share one level."""
    weights, caps = ({name: pair[at] for name, pair in both.items()} for at in (0, 1))
    amount = part * sum(caps.values())
    found = fill(weights, caps, amount)
    assert sum(found.values()) == amount
    assert all(found[name] <= caps[name] for name in found)
    levels = {found[name] / weights[name] for name in found if found[name] < caps[name]}
    assert len(levels) <= 1
    assert all(found[name] / weights[name] <= level for level in levels for name in found)


quotas = st.dictionaries(
    names, st.tuples(st.fractions(0, 10**6), st.integers(1, 10**6), st.integers(1, 10**6)), min_size=1, max_size=9
)


@some
@given(quotas)
def test_whole_samples_are_the_nearest_to_their_quotas(drawn):
    """Each count is its quota rounded down or up, and their sum is the rounded sum of the quotas; never 0 in all."""
    tokens = {name: held[0] for name, held in drawn.items()}
    density = {name: held[1:] for name, held in drawn.items()}
    exactly = {name: tokens[name] * density[name][1] / density[name][0] for name in drawn}
    counts = apportion(tokens, density)
    total = sum(exactly.values())
    if total >= 1:
        assert all(abs(counts[name] - exactly[name]) < 1 for name in drawn)
        assert abs(sum(counts.values()) - total) <= Fraction(1, 2) + Fraction(len(drawn), 2**64)
    assert sum(counts.values()) >= 1
    risen = [exactly[name] % 1 for name in drawn if counts[name] > exactly[name]]
    fallen = [exactly[name] % 1 for name in drawn if counts[name] < exactly[name]]
    assert not risen or not fallen or min(risen) >= max(fallen) - Fraction(1, 2**64)


def test_a_tie_goes_to_the_first_name():
    """The order of the groups does not matter."""
    density = dict.fromkeys("abc", (10, 10))
    half = {"c": Fraction(1, 2), "a": Fraction(1, 2), "b": Fraction(1, 2)}
    assert apportion(half, density) == {"a": 1, "b": 1, "c": 0}


@some
@given(st.decimals(0, 1, places=6), st.decimals("0.05", 50, places=2))
def test_a_root_is_right_to_thirty_places(number, degree):
    """The power of the root brackets the number, by exact fractions; roots of 0 and 1 are themselves."""
    number, degree = Fraction(number), Fraction(degree)
    found = root(number, degree)
    step = Fraction(2, 10**30)
    power, over = degree.numerator, degree.denominator
    low, high = max(found - step, Fraction(0)), found + step
    assert low**power <= number**over <= high**power
    assert root(Fraction(1), degree) == 1


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("100B", 100 * 10**9),
        ("1.5T", 1_500_000_000_000),
        ("1.1T", 1_100_000_000_000),
        ("2e9", 2 * 10**9),
        (2e9, 2 * 10**9),
        (1.1e12, 1_100_000_000_000),
        ("7 b", 7 * 10**9),
        ("3k", 3000),
        ("1_000", 1000),
        (12, 12),
    ],
)
def test_a_count_is_parsed_exactly(written, meant):
    """Units are decimal, and no digit is lost to a binary fraction."""
    assert parse_count(written) == meant


@pytest.mark.parametrize("written", ["", "B", "1.5", 0.5, "7x", "1e-3", "-3", "ten", "1e9999", True, None, "0", "1e19"])
def test_other_values_than_counts_are_refused(written):
    """A mistake is an error and is not rounded."""
    with pytest.raises(ValidationError):
        TypeAdapter(Count).validate_python(written, strict=True)


def test_a_number_means_its_decimal_text():
    """0.1 is a tenth."""
    assert exact(0.1) == Fraction(1, 10)
    assert sum(map(exact, (0.7, 0.2, 0.1))) == 1
    assert exact(1e-7) == Fraction(1, 10**7)

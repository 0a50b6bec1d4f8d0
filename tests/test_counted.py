"""How numbers and shares are printed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.counted import number, percent


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [
        *((1, 2, "50.0%"), (0, 9, "0.0%"), (9, 9, "100.0%"), (882, 883, "99.9%"), (-1, 4, "-25.0%"), (0, 0, "")),
        *((99_999, 100_000, "99.999%"), (1, 100_000, "0.001%"), (-1, 100_000, "-0.001%")),
    ],
)
def test_a_share_has_as_many_digits_as_it_needs(part, whole, expected):
    """It has one decimal if that makes a difference."""
    assert percent(part, whole) == expected


@given(st.integers(0, 10**9), st.integers(1, 10**9))
def test_only_all_is_100_percent_and_only_nothing_is_0_percent(part, more):
    """This holds for any number."""
    whole = part + more
    for digits in range(3):
        assert float(percent(part, whole, digits)[:-1]) < 100
        assert (float(percent(more, whole, digits)[:-1]) == 100) == (part == 0)
        assert (float(percent(part, whole, digits)[:-1]) == 0) == (part == 0)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.25, "0.25"),
        (0, "0"),
        (-1.5, "-1.5"),
        (100_000, "100,000"),
        (1319.6, "1,320"),
        (2.5e-05, "0.000025"),
        (999.96, "1000"),
    ],
)
def test_a_number_has_no_exponent(value, expected):
    """It has four digits, or all before the point."""
    assert number(value) == expected

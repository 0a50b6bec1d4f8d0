"""Adding an entry to a recipe's file changes nothing else in the file."""

import pytest

from gristmill.recipe.yaml.edit import with_entry


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t: {train: {a: 1}}  # ours\n", "t: {pin: x.json, train: {a: 1}}  # ours\n"),
        (
            "a: 1\nt:\n    # why\n    train: ${N}\nb: 2\n",
            "a: 1\nt:\n    # why\n    pin: x.json\n    train: ${N}\nb: 2\n",
        ),
        ("t:\n  {train: 1}\n", "t:\n  {pin: x.json, train: 1}\n"),
        ("t:\r\n  train: 1\r\n", "t:\r\n  pin: x.json\n  train: 1\r\n"),
        ("t: &name\n  train: 1\nu: *name\n", None),
        ("x: &name {train: 1}\nt: *name\n", None),
        ("t: 3\n", None),
        ("- t\n", None),
        ("t: {}\n", None),
        ("t: {pin: y.json}\n", None),
    ],
)
def test_everything_else_stays(text, expected):
    """If that is not possible, there is no edit."""
    assert with_entry(text, "t", "pin", "x.json") == expected


@pytest.mark.parametrize("value", ["a b.json", "../x: y.json", "no", '"', "#", "Mühle.json", "1"])
def test_any_name_is_what_is_read_again(value):
    """In quotes if it would be something else."""
    assert with_entry("t: {a: 1}\n", "t", "pin", value) is not None
    assert with_entry("t: {a: 1}\n", "t", "pin", "${HOME}") is None

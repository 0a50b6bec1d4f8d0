"""Adding an entry to a recipe's file changes nothing else in the file."""

import pytest

from gristmill.recipe.yaml.edit import with_entry, with_value


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


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("a: {b: 1, c: 2}  # why\n", ("a", "b"), "a: {b: 0.5, c: 2}  # why\n"),
        ("s:\n  - one\n  - two: {x: 1}\n", ("s", 1, "two", "x"), "s:\n  - one\n  - two: {x: 0.5}\n"),
        ("s:\n  - one  # bare\n  - two\n", ("s", 0, "one", "x"), 's:\n  - {"one": {"x": 0.5}}  # bare\n  - two\n'),
        ("s:\n  - one:\n  - two\n", ("s", 0, "one", "x"), 's:\n  - one: {"x": 0.5}\n  - two\n'),
        ("s: [{one: {}}]\n", ("s", 0, "one", "y", "x"), 's: [{one: {"y": {"x": 0.5}}}]\n'),
        (
            "s:\n  - one:\n      y: 2\n  - two\n",
            ("s", 0, "one", "x"),
            "s:\n  - one:\n      x: 0.5\n      y: 2\n  - two\n",
        ),
        ("a:\n  b:\n    - 1\n    - 2\nc: 3\n", ("a", "b"), "a:\n  b:\n    0.5\nc: 3\n"),
        ("a: &n {b: 1}\nc: *n\n", ("c", "b"), None),
        ("a: {b: 1}\n", ("a", "b", "c"), None),
        ("a: [1]\n", ("a", 1), None),
    ],
)
def test_a_value_is_changed_and_nothing_else(text, path, expected):
    """Also where the field is new, or the step is written as a bare name; else there is no edit."""
    assert with_value(text, path, 0.5) == expected

"""Values in files beside a recipe have the types that they have in a recipe."""

import pytest
import yaml

from gristmill.errors import UserError
from gristmill.recipe.checks.mistakes import Mistakes
from gristmill.recipe.yaml.lines import parse
from gristmill.stages.yaml_nodes import Values, compose

WRITTEN = {
    "1234567890123456789": 1234567890123456789,
    "-9223372036854775808": -(2**63),
    "True": True,
    "FALSE": False,
    "Null": None,
    "0x10": 16,
    "0o17": 15,
    "1e-3": 0.001,
    ".inf": float("inf"),
    "no": "no",
    "2024-10-01": "2024-10-01",
    "'0x10'": "0x10",
}


def value_in_a_file(text):
    return Values(compose(text, "suite.yaml", "suite", ""), text, "suite.yaml").value


@pytest.mark.parametrize("written", WRITTEN)
def test_a_scalar_has_the_same_value_in_a_recipe_and_in_another_file(written):
    """A number of 19 digits was a float in a suite file, and `True` and `0x10` were text."""
    text = f"a: {written}\n"
    found, recipe = value_in_a_file(text)["a"], parse(text, {}, Mistakes("r.yaml")).value["a"]
    assert (found, type(found)) == (WRITTEN[written], type(WRITTEN[written])) == (recipe, type(recipe))


def test_a_number_beyond_64_bits_is_one_message():
    with pytest.raises(UserError, match=r"suite.yaml:2: numbers go from .* Put 9223372036854775808 in quotes"):
        value_in_a_file("a: 1\nb: 9223372036854775808\n")


def test_the_oracle_reads_whole_numbers_alike():
    assert yaml.safe_load("a: 1234567890123456789") == value_in_a_file("a: 1234567890123456789")

"""How the demo scores the values that scrub replaced."""

import pytest

from demo.__main__ import count_replaced
from demo.truth import Plant, Truth

PAGE = "https://mill.example/written"


@pytest.mark.parametrize(
    ("plants", "good", "wrong", "unknown"),
    [
        ({"email": [Plant(PAGE)], "empty_file": [Plant(path="code/a.py")]}, [], 0, {"notes email": 1}),
        ({"secret": [Plant(PAGE)]}, [], 1, {"notes email": 1}),
        ({}, [(PAGE, None)], 1, {"notes email": 1}),
        ({}, [], 0, {"crawl email": 1, "notes email": 1}),
    ],
)
def test_a_replacement_is_wrong_in_a_page_known_to_hold_no_value(everything, plants, good, wrong, unknown):
    """Where the ground truth does not cover the document, the replacement is only counted."""
    truth = Truth(seed=0, scale=1, good=good)
    truth.plants.update(plants)
    assert count_replaced(everything.run, truth) == ({"email": wrong, "ip_address": 0, "secret": 0}, unknown)

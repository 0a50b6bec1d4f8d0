"""A budget chooses what is trained, by the measured table. Needs no torch."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gristmill.errors import UserError
from gristmill_ablate import setups
from gristmill_ablate.setups import (
    ENOUGH_SEEDS,
    FEWEST_SEEDS,
    MOST_GROWTH,
    ROWS,
    SIZES,
    choose,
    plan_of,
    setup_of,
)
from gristmill_ablate.stages import train

PLENTY = 10**12


@pytest.mark.parametrize("sides", [2, 5])
@pytest.mark.parametrize("hardware", ["cpu", "h200"])
@pytest.mark.parametrize("minutes", [8, 30, 100, 600, 10_000])
def test_what_a_time_buys_takes_no_longer(minutes, hardware, sides):
    """At least three seeds a side; with twice the time a larger size or more tokens, as far as the table goes."""
    setup, seeds = choose(f"{minutes}min@{hardware}", PLENTY, sides, cores=2)
    found = plan_of(setup, seeds, sides, cores=2)
    assert found.hardware == hardware
    assert FEWEST_SEEDS <= seeds <= ENOUGH_SEEDS
    assert found.seconds <= 60 * minutes
    larger, more = choose(f"{2 * minutes}min@{hardware}", PLENTY, sides, cores=2)
    most = MOST_GROWTH * max(row.setup.tokens for row in ROWS if row.hardware == hardware)
    order = [(SIZES.index(one.size), one.tokens * count) for one, count in ((setup, seeds), (larger, more))]
    assert order[0] < order[1] or larger.tokens == most


def test_tokens_are_those_of_all_trainings_together():
    """Of the largest size that fits, on its usual hardware."""
    setup, seeds = choose("200Mtok", PLENTY)
    assert (setup.size, setup.device) == ("30m", "cuda")
    assert 2 * seeds * setup.tokens <= 200_000_000
    assert choose("200Mtok@cpu", PLENTY)[0].device == "cpu"


def test_no_training_has_more_tokens_than_the_corpora_draw():
    """A small corpus is compared with a small model, and a tiny one with all that it has."""
    assert choose("10h@h200", 3_000_000)[0].size == "10m"
    assert choose("10h@cpu", 10_000)[0] == replace(setup_of("3m"), tokens=10_000)


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        ("10min", "is not a budget"),
        ("soon@cpu", "is not a budget"),
        ("10min@h20", "no speed was measured on h20, so nothing was trained. Did you mean h200?"),
        ("1s@cpu", "is too small a budget, so nothing was trained: 3 trainings of each of 2 recipes with the smallest"),
        ("10tok", "is too small a budget"),
        ("1.5xtok", "is not a count"),
    ],
)
def test_a_budget_that_buys_nothing_says_so(budget, said):
    with pytest.raises(UserError, match="nothing was trained") as refused:
        choose(budget, PLENTY)
    assert said in str(refused.value)


def test_more_seeds_show_less_and_more_comparisons_show_more():
    """The smallest visible difference falls with the seeds, and rises with the number of recipes."""
    setup = setup_of("30m")
    smallest = [plan_of(setup, seeds).smallest for seeds in (2, 3, 5, 8)]
    assert smallest == sorted(smallest, reverse=True)
    assert plan_of(setup, 5, sides=7).smallest > plan_of(setup, 5).smallest


def test_every_row_of_the_table_can_be_trained():
    """The stage accepts its settings, a training has some steps, and each row says whether it was measured."""
    for row in ROWS:
        fields = {name: value for name, value in vars(row.setup).items() if name != "scored"}
        train.Config(**fields, seed=0)
        assert row.setup.tokens >= 40 * row.setup.batch
        assert row.tokens_per_s > 0 < row.noise < 0.1
    held = json.loads(Path(setups.__file__).with_suffix(".json").read_text())
    assert all({"measured", "noise", "tokens_per_s"} <= set(row) for row in held["rows"])


def test_an_unknown_size_lists_the_sizes():
    """Names of sizes are numbers, so the nearest name is no suggestion: 124m is not 4m."""
    with pytest.raises(UserError, match=r"There is no size 4m, so nothing was trained\. Sizes: 3m, 10m, "):
        setup_of("4m")

"""Verdicts: honest where nothing differs, right where something does, and corrected for looks and tasks."""

import numpy as np
import pytest

from gristmill_ablate.ablation import AblationResult, compare_sides
from gristmill_ablate.proxy import verdict
from gristmill_ablate.proxy.items import KINDS, Items
from gristmill_ablate.proxy.student import quantile, two_sided
from gristmill_ablate.proxy.verdict import OVERALL, Scores, compare, other_measures
from gristmill_ablate.setups import setup_of


def suite(tasks=2, items=30):
    """Held-out texts: each item is one unit of 100 bytes."""
    count = tasks * items
    numbers = np.arange(count)
    return Items(
        tuple(f"task{number}" for number in range(tasks)),
        tuple(map(str, numbers)),
        task=numbers // items,
        kind=np.zeros(count, np.int64),
        tokens=np.zeros(2 * count, np.int64),
        starts=2 * np.arange(count + 1),
        context=np.ones(count, np.int64),
        unit=numbers,
        unit_item=numbers,
        unit_bytes=np.full(count, 100),
        unit_chars=np.full(count, 100),
        unit_gold=np.ones(count, bool),
        continues=np.zeros(0, bool),
    )


def runs(random, items, seeds, shift=0.0, noise=(0.02, 0.02)):
    """Scores of so many seeds: hard and easy items, a seed that is better or worse as a whole, and chance."""
    hard = np.random.default_rng(1).normal(150, 30, len(items.task))
    found = []
    for _ in range(seeds):
        factor = 1 + shift + random.normal(0, noise[0]) + random.normal(0, noise[1], len(hard))
        found.append(Scores(hard * factor, np.zeros(len(hard))))
    return found


@pytest.mark.parametrize(
    ("degrees", "expected"), [(1, 12.706205), (2, 4.302653), (4, 2.776445), (10, 2.228139), (100, 1.983972)]
)
def test_quantiles_of_student_are_those_of_the_tables(degrees, expected):
    assert quantile(0.05, degrees) == pytest.approx(expected, abs=1e-6)
    assert two_sided(expected, degrees) == pytest.approx(0.05, abs=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 5])
def test_alike_corpora_are_rarely_told_apart(seeds, monkeypatch):
    """Of 200 comparisons without a difference at most 5% are decided (of 1,500: 2.7% with 3 seeds, 3.9% with 5)."""
    monkeypatch.setattr(verdict, "DRAWS", 100)
    items, random = suite(), np.random.default_rng(5)
    decided = sum(
        compare(items, runs(random, items, seeds), runs(random, items, seeds))[-1].verdict != "no evidence"
        for _ in range(200)
    )
    assert decided <= 10


@pytest.mark.parametrize(("shift", "expected"), [(0.2, "worse"), (-0.2, "better")])
def test_a_large_difference_is_found_with_its_sign(shift, expected):
    """Less bits are better; the interval holds the truth, and does not hold nothing."""
    items, random = suite(), np.random.default_rng(3)
    overall = compare(items, runs(random, items, 5), runs(random, items, 5, shift))[-1]
    assert (overall.name, overall.verdict) == (OVERALL, expected)
    assert overall.low < shift < overall.high
    assert not overall.low < 0 < overall.high


def test_more_looks_need_more_evidence():
    """The same scores, decided at one look, are undecided when each of twenty looks could err."""
    items, random = suite(), np.random.default_rng(5)
    a, b = runs(random, items, 4), runs(random, items, 4, 0.06)
    once, often = (compare(items, a, b, looks=looks)[-1] for looks in (1, 20))
    assert once.verdict == "worse"
    assert often.verdict == "no evidence"
    assert often.high - often.low > once.high - once.low


def test_a_noisy_task_weighs_less():
    """One task says +10% with little noise, the other -10% with much: the first decides the sign."""
    items, random = suite(), np.random.default_rng(9)
    a, b = runs(random, items, 5, noise=(0, 0.01)), runs(random, items, 5, 0.1, noise=(0, 0.01))
    noisy = items.task == 1
    b = [Scores(np.where(noisy, one.bits * random.normal(0.82, 0.2), one.bits), one.greedy) for one in b]
    first, second, overall = compare(items, a, b)
    assert first.signal_to_noise > second.signal_to_noise
    assert overall.difference > 0.05
    assert first.weight > second.weight > 0
    assert first.weight + second.weight == pytest.approx(overall.weight) == 1


def test_choices_are_normalised_by_their_characters_and_by_their_tokens():
    """A long choice has more bits in all; which is likeliest may depend on the unit: both are given."""
    items = Items(
        ("quiz",),
        ("q",),
        task=np.zeros(1, np.int64),
        kind=np.array([KINDS.index("choices")]),
        tokens=np.zeros(9, np.int64),
        starts=np.array([0, 3, 9]),
        context=np.ones(2, np.int64),
        unit=np.arange(2),
        unit_item=np.zeros(2, np.int64),
        unit_bytes=np.array([12, 20]),
        unit_chars=np.array([6, 20]),
        unit_gold=np.array([False, True]),
        continues=np.zeros(0, bool),
    )
    found = other_measures(items, Scores(np.array([6.0, 25.0]), np.zeros(2)), np.zeros(1, np.int64))
    assert items.unit_tokens.tolist() == [2, 5]
    assert found["accuracy_per_character"] == 0  # 1 bit against 1.25
    assert found["accuracy_per_token"] == 0  # 3 bits against 5
    assert found["probability_per_character"] == pytest.approx(2**-1.25 / (2**-1 + 2**-1.25))
    assert found["probability_per_token"] == pytest.approx(2**-5 / (2**-3 + 2**-5))
    other = other_measures(items, Scores(np.array([6.0, 19.0]), np.zeros(2)), np.zeros(1, np.int64))
    assert (other["accuracy_per_character"], other["accuracy_per_token"]) == (1, 0)


def test_the_gate_says_why_it_refuses():
    """A win on items of the training data, one without decontamination, no evidence, a loss; else it lets B pass."""
    items, random = suite(tasks=1), np.random.default_rng(3)
    a, better = runs(random, items, 5), runs(random, items, 5, -0.2)
    won, none, lost = compare(items, a, better), compare(items, a, a), compare(items, better, a)

    def refusal(tasks, on_touched=(), unprotected=()):
        return AblationResult(setup_of("3m"), 5, tasks, {}, list(on_touched), unprotected).refusal

    assert refusal(won) is None
    assert refusal(won, unprotected=("A",)) is None
    assert "was not decontaminated against this suite" in refusal(won, unprotected=("A", "B"))
    assert "better on the 30 items that are in its training data" in refusal(none, won)
    assert refusal(none) == "there is no evidence that B is better."
    assert refusal(lost) == "B is worse."


def test_the_gate_with_a_margin_passes_what_is_not_worse():
    """B passes exactly if its whole interval is below the margin; a verdict alone is not enough, in either way."""
    items, random = suite(tasks=1), np.random.default_rng(3)
    a, near = (runs(random, items, 6, shift, noise=(0.0002, 0.001)) for shift in (0, 0.003))
    noisy = runs(random, items, 6, noise=(0.05, 0.05))

    def gate(b, margin, unprotected=()):
        return AblationResult(setup_of("3m"), 6, compare(items, a, b), {}, [], unprotected, margin=margin)

    assert gate(near, 0.01).verdict == "worse"  # by about 0.3%
    assert gate(near, 0.01).refusal is None
    assert gate(near, 0.001).refusal.startswith("B may be up to 0.")
    assert "and the margin is 0.1%." in gate(near, 0.001).refusal
    assert gate(noisy, 0.01).verdict == "no evidence"
    assert "and the margin is 1%. More seeds" in gate(noisy, 0.01).refusal
    assert gate(near, 0.01).is_decided
    assert gate(near, 0.001).is_decided
    assert not gate(noisy, 0.01).is_decided
    assert "B is not worse, and it was not decontaminated" in gate(near, 0.01, ("B",)).refusal
    for margin in np.linspace(0.001, 0.1, 40).tolist():
        result = gate(noisy, margin)
        assert (result.refusal is None) == (result.overall.high < margin)


def test_items_that_do_not_count_change_nothing():
    items, random = suite(), np.random.default_rng(11)
    a, b = runs(random, items, 3), runs(random, items, 3)
    use = items.task == 0
    touched = [Scores(np.where(use, one.bits, 1.0), one.greedy) for one in b]
    assert compare(items, a, b, use) == compare(items, a, touched, use)
    assert [one.name for one in compare(items, a, b, use)] == ["task0", OVERALL]


@pytest.mark.parametrize(("shared", "counting"), [(1, [29, 20, 49]), (10, [20, 20])])
def test_what_b_has_learnt_shows_on_items_that_only_b_has_seen(shared, counting):
    """Items in both pools do not hide it, and none of them counts for the verdict. With many of them, the other items
    of the benchmark do not count either: they have the same form.
    """
    items, random = suite(), np.random.default_rng(5)
    known = {"A": np.zeros(60, bool), "B": np.zeros(60, bool)}
    known["A"][30:40] = known["B"][30:40] = True  # noisy, and alike for both
    known["B"][:shared] = True
    scores = {"A": runs(random, items, 3), "B": runs(random, items, 3)}
    for one in scores["B"]:
        one.bits[:shared] *= 0.7
        one.bits[30:40] *= 1 + random.normal(0, 0.5, 10)
    tasks, touched, learnt = compare_sides(items, scores, known)
    assert touched == {"task0": (0, shared), "task1": (10, 10)}
    assert [task.items for task in tasks] == counting
    assert [task.items for task in learnt] == [shared, shared]
    result = AblationResult(setup_of("3m"), 3, tasks, touched, learnt)
    if shared > 1:
        assert "B is better on the 10 items that are in its training data" in result.refusal

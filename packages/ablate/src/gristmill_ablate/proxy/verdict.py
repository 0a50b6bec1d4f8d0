"""Is B better than A? Scores of several seeds, paired, with intervals that count seeds and items.

A task's score is bits per byte of the right answer, or of the text: less is better. The difference of a pair of runs
(same seed) on an item is one observation. Two things could have come out otherwise: the seeds, and the items. The
standard error counts both: seeds are drawn with replacement, and items within them (a hierarchical bootstrap). With
few seeds a bootstrap is too sure of itself, so deviations are widened by n / (n - 1) and quantiles are Student's t for
n - 1 degrees of freedom. Tasks are corrected for their number (Holm). All together, noisy tasks weigh less.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from gristmill_ablate.proxy.items import KINDS, Items
from gristmill_ablate.proxy.student import quantile, two_sided

Array = np.ndarray[Any, Any]
Verdict = Literal["better", "worse", "no evidence"]

DRAWS = 2000
ALPHA = 0.05
POWER = 0.8
OVERALL = "overall"


@dataclass(frozen=True)
class Scores:
    """What one model scored."""

    bits: Array
    """Of each unit."""
    greedy: Array


@dataclass(frozen=True)
class TaskScore:
    """How two recipes compare on one task."""

    name: str
    kind: str
    items: int
    a: float
    b: float
    """Mean bits per byte."""
    difference: float
    """B less A; below 0 B is better."""
    error: float
    low: float
    high: float
    """The 95% interval."""
    p: float
    verdict: Verdict
    smallest: float
    """The smallest true difference that these seeds and items show in 80 of 100 tries."""
    others: dict[str, tuple[float, float]]
    """Other measures of A and B: accuracies, the normalised probability of the right choice."""
    weight: float = 0.0
    """The task's share in the overall difference: noisy tasks have less."""

    @property
    def signal_to_noise(self) -> float:
        return abs(self.difference) / self.error if self.error else 0.0


def bits_per_byte(items: Items, scores: Scores) -> Array:
    """Of each item, of its right answer or its text."""
    gold = items.unit_gold
    count = len(items.task)
    bits = np.bincount(items.unit_item[gold], scores.bits[gold], count)
    return bits / np.maximum(np.bincount(items.unit_item[gold], items.unit_bytes[gold], count), 1)


def other_measures(items: Items, scores: Scores, chosen: Array) -> dict[str, float]:
    """Of the chosen items of one task: how often the answer is generated, or is the likeliest choice; and the
    normalised probability of the right choice. Choices differ in length, so their bits count per character and per
    token.
    """
    kind = KINDS[items.kind[chosen[0]]]
    lengths = {"character": items.unit_chars, "token": items.unit_tokens}
    measures: dict[str, list[float]] = {}
    for item in chosen if kind != "text" else ():
        units = slice(*np.searchsorted(items.unit_item, (item, item + 1)))
        gold = items.unit_gold[units]
        if kind == "answer":
            measures.setdefault("generated", []).append(float(scores.greedy[units][gold].max(initial=0)))
            continue
        for name, length in lengths.items():
            rates = scores.bits[units] / np.maximum(length[units], 1)
            chances = np.exp2(-(rates - rates.min()))
            measures.setdefault(f"accuracy_per_{name}", []).append(float(gold[np.argmin(rates)]))
            measures.setdefault(f"probability_per_{name}", []).append(float(chances[gold].sum() / chances.sum()))
    return {name: float(np.mean(values)) for name, values in measures.items()}


def compare(
    items: Items, a: Sequence[Scores], b: Sequence[Scores], use: Array | None = None, looks: int = 1
) -> list[TaskScore]:
    """Each task, and then all together. `use`: the items that count. `looks`: how often data were or will be
    looked at in this way, each of which could err.
    """
    per_a = np.stack([bits_per_byte(items, task) for task in a])
    per_b = np.stack([bits_per_byte(items, task) for task in b])
    usable = np.ones(len(items.task), bool) if use is None else use
    tasks, draws = [], []
    for number, name in enumerate(items.tasks):
        chosen = np.flatnonzero((items.task == number) & usable)
        if len(chosen):
            others_a, others_b = ([other_measures(items, task, chosen) for task in side] for side in (a, b))
            others = {
                key: (
                    float(np.mean([task[key] for task in others_a])),
                    float(np.mean([task[key] for task in others_b])),
                )
                for key in others_a[0]
            }
            task, drawn = _task(name, KINDS[items.kind[chosen[0]]], per_a[:, chosen], per_b[:, chosen], others, looks)
            tasks.append(task)
            draws.append(drawn)
    if not tasks:
        return []
    shares = _weights(draws)
    tasks = [replace(task, weight=float(share)) for task, share in zip(holm(tasks, looks), shares, strict=True)]
    return [*tasks, _overall(tasks, draws, len(a), looks)]


def _task(
    name: str, kind: str, a: Array, b: Array, others: dict[str, tuple[float, float]], looks: int
) -> tuple[TaskScore, Array]:
    """One task from (seeds, items), and the differences that the bootstrap drew, relative to A."""
    seeds, count = a.shape
    difference = b - a
    mean = float(difference.mean())
    rows = np.random.default_rng(0).integers(0, seeds, (DRAWS, seeds))  # the same for all tasks: a seed is one model
    columns = np.random.default_rng(1)
    drawn = np.array([difference[row].mean(0)[columns.integers(0, count, count)].mean() for row in rows])
    drawn = mean + (drawn - mean) * np.sqrt(seeds / max(1, seeds - 1))
    judged = _judged(name, kind, count, float(a.mean()), float(b.mean()), mean, drawn, seeds, looks, others)
    return judged, drawn / a.mean()


def _judged(
    name: str,
    kind: str,
    count: int,
    a: float,
    b: float,
    mean: float,
    drawn: Array,
    seeds: int,
    looks: int,
    others: dict[str, tuple[float, float]],
) -> TaskScore:
    error = float(drawn.std())
    degrees = max(1, seeds - 1)
    reach = quantile(ALPHA / looks, degrees) * error
    p = two_sided(abs(mean) / error, degrees) if error else 1.0
    verdict, low, high = _said(mean, p * looks), mean - reach, mean + reach
    smallest = smallest_visible(error, seeds, looks)
    return TaskScore(name, kind, count, a, b, mean, error, low, high, p, verdict, smallest, others)


def smallest_visible(error: float, seeds: int, looks: int = 1) -> float:
    """The smallest true difference that is decided in 80 of 100 tries, if it is known with this standard error."""
    degrees = max(1, seeds - 1)
    return (quantile(ALPHA / looks, degrees) + quantile(2 * (1 - POWER), degrees)) * error


def _said(mean: float, p: float) -> Verdict:
    if p >= ALPHA:
        return "no evidence"
    return "better" if mean < 0 else "worse"


def holm(tasks: Sequence[TaskScore], looks: int) -> list[TaskScore]:
    """Verdicts that hold for all tasks together (Holm 1979)."""
    order = sorted(range(len(tasks)), key=lambda number: tasks[number].p)
    judged = list(tasks)
    worst = 0.0
    for rank, number in enumerate(order):
        worst = max(worst, min(1.0, tasks[number].p * (len(tasks) - rank) * looks))
        judged[number] = replace(tasks[number], verdict=_said(tasks[number].difference, worst))
    return judged


def _weights(draws: Sequence[Array]) -> Array:
    """Of each task by how exactly it is known; they add up to 1."""
    squares = np.array([drawn.std() ** 2 for drawn in draws])
    # With few seeds a small error may be luck, so no task counts more than twice as much as the middle one.
    weights = 1 / (squares + np.median(squares) if squares.any() else np.ones(len(squares)))
    return np.asarray(weights / weights.sum())


def _overall(tasks: Sequence[TaskScore], draws: Sequence[Array], seeds: int, looks: int) -> TaskScore:
    """The weighted mean of the relative differences."""
    mean = sum(task.weight * task.difference / task.a for task in tasks)
    drawn = np.sum([task.weight * drawn_differences for task, drawn_differences in zip(tasks, draws, strict=True)], 0)
    a, b = (float(np.mean([getattr(task, side) for task in tasks])) for side in "ab")
    count = sum(task.items for task in tasks)
    return replace(_judged(OVERALL, "", count, a, b, mean, drawn, seeds, looks, {}), weight=1.0)

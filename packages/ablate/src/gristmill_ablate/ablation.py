"""An ablation: two corpora, proxies trained on each at the same cost, and a verdict.

The trainings are stages of the engine, so nothing is trained twice: a new seed adds two trainings, a new suite adds
none, and a run that was stopped goes on.
"""

import hashlib
import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from gristmill.counted import counted
from gristmill.engine.schedule.run import Run
from gristmill.engine.schedule.task_cache import Listener
from gristmill.query.versions.diff import compare_recipes
from gristmill.stages.decontaminate.suite.suite import read_suite
from gristmill.store.store import Store
from gristmill_ablate.proxy.items import Items
from gristmill_ablate.proxy.verdict import Scores, TaskScore, Verdict, compare
from gristmill_ablate.setups import Setup
from gristmill_ablate.stages import evaluate, items, pool, train
from gristmill_ablate.trainings import Side, TrainingGraph, Trainings, file_of

VERDICTS = "verdicts"
"""The folder of a store with the newest verdict on each pair of corpora, by suite and setup."""
SIDES = ("A", "B")
ONE_SIDED = 0.05
"""A task does not count if only one pool has more than this share of its items. Who has seen a part of a benchmark does
better on the rest, too, because its items have the same form.
"""


@dataclass(frozen=True)
class AblationResult:
    """The verdict, and what it rests on."""

    setup: Setup
    seeds: int
    tasks: list[TaskScore]
    touched: Mapping[str, tuple[int, int]]
    """By task: items that the pools of A and of B hold. They do not count, and see ONE_SIDED."""
    on_touched: list[TaskScore]
    """The same comparison on the items that only the pool of B holds."""
    unprotected: tuple[str, ...] = ()
    """The sides that were not decontaminated against the suite."""
    remarks: list[str] = field(default_factory=list)
    suite_items: int = 0
    scored: int = 0
    """Items that were scored: of each task until it has `setup.scored` tokens."""
    margin: float | None = None
    """For the gate, the share by which B may be worse; None: B must be better."""

    @property
    def overall(self) -> TaskScore | None:
        return self.tasks[-1] if self.tasks else None

    @property
    def counting(self) -> int:
        """Items that count for the verdict."""
        return self.overall.items if self.overall else 0

    @property
    def verdict(self) -> Verdict:
        return self.overall.verdict if self.overall else "no evidence"

    @property
    def is_decided(self) -> bool:
        """Whether more seeds would hardly change what the gate says."""
        if self.margin is None or self.overall is None:
            return self.verdict != "no evidence"
        return self.overall.high < self.margin or self.overall.low > self.margin

    @property
    def refusal(self) -> str | None:
        """Why a gate does not let B pass; None if it does. With a margin, B passes if its whole interval is below."""
        overall = self.overall
        if overall is not None and (self.verdict == "better" if self.margin is None else overall.high < self.margin):
            if "B" not in self.unprotected:
                return None
            return (
                f"B is {'better' if self.margin is None else 'not worse'}, and it was not decontaminated against this "
                "suite: it may have seen changed copies of the items, which are not recognised. Add a `decontaminate` "
                "step with this suite to B, and run it."
            )
        learnt = self.on_touched[-1] if self.on_touched else None
        if learnt is not None and learnt.verdict == "better":
            return (
                f"B is better on the {counted(learnt.items, 'item')} that are in its training data "
                f"({100 * learnt.difference:+.1f}% bits per byte), and not elsewhere. It has seen their answers, "
                "so that win does not count. Decontaminate B against this suite."
            )
        if self.margin is not None and overall is not None:
            more = "" if overall.low > self.margin else " More seeds make the interval narrower."
            return f"B may be up to {100 * overall.high:.2f}% worse, and the margin is {100 * self.margin:g}%.{more}"
        return "there is no evidence that B is better." if self.verdict == "no evidence" else "B is worse."

    def to_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "refusal": self.refusal,
            "setup": asdict(self.setup),
            "seeds": self.seeds,
            "items": {
                "suite": self.suite_items,
                "scored": self.scored,
                "counting": sum(task.items for task in self.tasks[:-1]),
            },
            "margin": self.margin,
            "tasks": [{**asdict(task), "signal_to_noise": task.signal_to_noise} for task in self.tasks],
            "touched": {name: {"A": a, "B": b} for name, (a, b) in self.touched.items()},
            "on_touched": [asdict(task) for task in self.on_touched],
            "remarks": self.remarks,
        }


class Ablation:
    """Two sides, a suite, a setup and a number of seeds, as a graph in a store."""

    def __init__(
        self,
        a: Side,
        b: Side,
        suite: str,
        setup: Setup,
        store: Store,
        on: tuple[str | None, str | None] = (None, None),
        margin: float | None = None,
    ) -> None:
        """`on`: the name of the executor and the address of its cluster. `margin`: that of the gate."""
        self.sides = dict(zip(SIDES, (a, b), strict=True))
        self.setup = setup
        self._margin = margin
        self._trainings = Trainings(store, setup, os.path.abspath(suite), on)
        for side in (a, b):
            side.check_tokens(side.tokens, setup)

    def run(
        self, seeds: Sequence[int], listener: Listener, workers: int | None = None, looks: int = 1
    ) -> AblationResult:
        """Train what is not trained yet, compare, and keep the verdict. `looks`: how many comparisons are planned, this
        one included.
        """
        run = self._graph(seeds).run(workers, listener)
        result = self._result(run, len(seeds), looks)
        self._keep(result, next(iter(run.states["A/items"].metrics["suites"])))
        return result

    def _keep(self, result: AblationResult, suite: str) -> None:
        """Write the verdict into the store, with the differences of the recipes."""
        store, (a, b) = self._trainings.store, (side.shards.view for side in self.sides.values())
        hashes = [side.shards.manifest.hash for side in self.sides.values()]
        name = hashlib.sha256(json.dumps([*hashes, suite, asdict(self.setup)]).encode()).hexdigest()[:16]
        record = {
            "ended": datetime.now(UTC).isoformat(timespec="seconds"),
            **{
                letter: {"name": side.name, "manifest": side.shards.manifest.hash}
                for letter, side in self.sides.items()
            },
            "suite": suite,
            "changes": compare_recipes(a, b) if a is not None and b is not None else {},
        }
        store.write_json(f"{VERDICTS}/{name}.json", record | result.to_json())

    def _graph(self, seeds: Sequence[int]) -> TrainingGraph:
        name = "ablate_" + "_".join(side.shards.manifest.hash[:8] for side in self.sides.values())
        graph = self._trainings.graph(name, seeds=list(seeds))
        for letter, side in self.sides.items():
            manifest = side.shards.manifest
            read = graph.add(f"{letter}/items", items, self._trainings.items_for(side))
            thin = pool.Config(manifest=manifest.hash, tokens=self.setup.tokens, location=manifest.location)
            drawn = graph.add(f"{letter}/pool", pool, thin)
            for seed in seeds:
                model = graph.add(f"{letter}/train_{seed}", train, self._trainings.training(seed=seed), {"pool": drawn})
                uses = {"pool": drawn, "items": read, "train": model}
                graph.add(f"{letter}/evaluate_{seed}", evaluate, self._trainings.scoring(), uses)
        return graph

    def _result(self, run: Run, seeds: int, looks: int) -> AblationResult:
        scores: dict[str, list[Scores]] = {letter: [] for letter in SIDES}
        touched_by_side: dict[str, Any] = {}
        for node in run.nodes.values():
            letter, _, name = node.id.partition("/")
            if name.startswith("evaluate_"):
                with np.load(file_of(run, node.id)) as file:
                    scores[letter].append(Scores(file["bits"], file["greedy"]))
                    touched_by_side[letter] = file["touched"]
        read = Items.load(file_of(run, "A/items"))
        hash_of_suite = next(iter(run.states["A/items"].metrics["suites"]))
        tasks, touched, on_touched = compare_sides(read, scores, touched_by_side, looks)
        unprotected = tuple(letter for letter, side in self.sides.items() if hash_of_suite not in side.suites)
        remarks = list(self._remarks(unprotected, touched, {task.name for task in tasks}))
        assert self._trainings.suite is not None
        counts = len(read_suite(self._trainings.suite).items), len(read.ids)
        return AblationResult(
            self.setup, seeds, tasks, touched, on_touched, unprotected, remarks, *counts, self._margin
        )

    def _remarks(
        self, unprotected: Sequence[str], touched: Mapping[str, tuple[int, int]], counting: Collection[str]
    ) -> Sequence[str]:
        """What a reader of the verdict has to know."""
        remarks = []
        a, b = (side.shards.manifest.tokenizer["hash"] for side in self.sides.values())
        if a != b:
            remarks.append(
                "A and B have different tokenizers, so the same number of tokens is not the same text. Bits per byte "
                "can be compared; to compare the data alone, pin one tokenizer for both."
            )
        remarks += [
            f"{letter} ({self.sides[letter].name}) was not decontaminated against this suite. Items that its pool "
            "holds are left out of the verdict; copies with changes may have been missed."
            for letter in unprotected
        ]
        for name, (in_a, in_b) in touched.items():
            what = "They do" if name in counting else "The other items have the same form, so the task does"
            remarks.append(f"{name}: {in_a} items are in the pool of A, {in_b} in that of B. {what} not count.")
        return remarks


def verdicts(store: Store) -> list[dict[str, Any]]:
    """The verdicts in a store, the oldest first."""
    records = (store.read_json(name) for name, _ in store.list_files(VERDICTS))
    return sorted((record for record in records if record is not None), key=lambda record: record["ended"])


def compare_sides(
    read: Items, scores: Mapping[str, Sequence[Scores]], touched_by_side: Mapping[str, Any], looks: int = 1
) -> tuple[list[TaskScore], dict[str, tuple[int, int]], list[TaskScore]]:
    """The tasks that count, on items that neither pool holds; by task, the items that the pools hold; and the
    comparison on items that only B holds. Items in both pools would hide what B has learnt.
    """
    a, b = (touched_by_side[letter] for letter in SIDES)
    touched = {
        name: (int(a[read.task == number].sum()), int(b[read.task == number].sum()))
        for number, name in enumerate(read.tasks)
        if (a | b)[read.task == number].any()
    }
    one_sided = [number for number in range(len(read.tasks)) if (a ^ b)[read.task == number].mean() > ONE_SIDED]
    tasks = compare(read, scores["A"], scores["B"], ~(a | b) & ~np.isin(read.task, one_sided), looks)
    return tasks, touched, compare(read, scores["A"], scores["B"], b & ~a) if (b & ~a).any() else []


def looks_of(seeds: int, most: int | None) -> list[int]:
    """The numbers of seeds at which a verdict is looked for; each look takes its share of the chance to err."""
    counts = [seeds]
    while most is not None and counts[-1] < most:
        counts.append(min(most, counts[-1] + max(2, counts[-1] // 2)))
    return counts

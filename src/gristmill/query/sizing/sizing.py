"""Predict the cost of a corpus on a cluster from the record of a finished run, usually of a sample.

The rule: a step costs TASK_S for each task and a rate per byte. The rest of its CPU time and what it stores grow with
the tokens. Models and assets cost what they cost. The number of tasks follows from the inputs, not from the share of
their records that a sample reads. The true cost is within a factor of FACTOR if the sample is large enough, the
machines are like the measured one and duplicates are as frequent.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import orjson

from gristmill.counted import counted
from gristmill.engine.mill import Mill
from gristmill.engine.plan.graph import CORPUS, Node
from gristmill.engine.publish.run_record import end_of, finished_runs, is_partial
from gristmill.engine.work.task import working_cpu_s
from gristmill.errors import UserError
from gristmill.hints import hint, named, share_text
from gristmill.recipe.sections.mix import MIX
from gristmill.recipe.sections.shards import GROUPS

FACTOR = 1.5
"""The stated uncertainty: times are within this factor of the middle."""
TASK_S = 0.02
"""The fixed CPU seconds of a task: parts took 5 to 30 ms on a small server."""
COORDINATOR_S = 4e-4
"""The seconds that the coordinator needs for a task (`python -m bench scale`)."""
BYTES_PER_TOKEN = 4.2
"""Used if the recipe has no shards that count tokens: English prose with a vocabulary of 100,000 or more."""
FEW_TASKS = 100
"""A measured run with fewer tasks gives a poor estimate."""
_FIXED = ("fit", "asset")


@dataclass(frozen=True)
class StepCost:
    """What the tasks of a step cost: measured, or predicted."""

    name: str
    kind: str
    tasks: int
    cpu_s: float
    memory_bytes: float
    """The peak memory of a worker, as measured."""
    stored_bytes: float


@dataclass(frozen=True)
class MeasuredRun:
    """What a finished run cost."""

    name: str
    """The name of the recipe or its sample."""
    ended: str
    share: float
    """The sampled share of every source."""
    tokens: float
    tokens_by: str
    """A description of how tokens were counted."""
    steps: Sequence[StepCost]
    changed: Sequence[str]
    """Steps that have changed in the recipe since."""

    @property
    def tasks(self) -> int:
        return sum(step.tasks for step in self.steps)


@dataclass(frozen=True)
class Sizing:
    """The prediction for a run on a cluster."""

    steps: Sequence[StepCost]
    growth: float
    """The requested tokens divided by the tokens of the measured run."""
    workers: int

    @property
    def tasks(self) -> int:
        return sum(step.tasks for step in self.steps)

    @property
    def cpu_s(self) -> float:
        return sum(step.cpu_s for step in self.steps)

    @property
    def wall_s(self) -> float:
        """All workers share the tasks, but all wait for a model or an asset; and the coordinator hands tasks out."""
        alone = sum(step.cpu_s for step in self.steps if step.kind in _FIXED)
        return max(alone + (self.cpu_s - alone) / self.workers, COORDINATOR_S * self.tasks)

    @property
    def stored_bytes(self) -> float:
        return sum(step.stored_bytes for step in self.steps)

    @property
    def memory_bytes(self) -> float:
        return max(step.memory_bytes for step in self.steps)


def size_up(measured: MeasuredRun, tokens: float, workers: int) -> Sizing:
    """Predict the cost of a corpus with this many tokens."""
    growth = tokens / measured.tokens
    more_inputs = max(growth * measured.share, 1.0)
    return Sizing([_grown(step, growth, more_inputs) for step in measured.steps], growth, workers)


def _grown(step: StepCost, growth: float, more_inputs: float) -> StepCost:
    """The same step for a larger corpus."""
    if step.kind in _FIXED:
        return step
    tasks = ceil(step.tasks * more_inputs)
    cpu_s = max(step.cpu_s - TASK_S * step.tasks, 0.0) * growth + TASK_S * tasks
    return StepCost(step.name, step.kind, tasks, cpu_s, step.memory_bytes, step.stored_bytes * growth)


def warnings(measured: MeasuredRun) -> Iterator[str]:
    """What makes the prediction poor."""
    if measured.tasks < FEW_TASKS:
        yield (
            f"The measured run had {counted(measured.tasks, 'task')}. Measure a larger sample before you rely on this "
            "estimate."
        )
    if measured.changed:
        yield (
            f"{', '.join(measured.changed[:3])}{' and others' if measured.changed[3:] else ''} had other settings in "
            "the measured run than in the recipe now. Run a sample again to measure them."
        )


def last_measured(mill: Mill) -> MeasuredRun:
    """The newest finished run of a recipe or of one of its samples; for a given sample, its newest run."""
    recipe, store = mill.recipe, mill.store
    record = next(_candidates(mill), None)
    if record is None:
        run = hint("run_sample", recipe=recipe.path, sample=share_text(recipe.sample or 0.01))
        raise UserError(
            f"{store.uri} has no finished run of {named(recipe.path, recipe.sample)}, so there are no measurements "
            f"to plan with. Run a sample of the corpus with at least a hundred tasks: {run}"
        )
    nodes = record["nodes"]
    missing = [node_id for node_id in mill.graph.nodes if not nodes.get(node_id, {}).get("cost")]
    if missing:
        raise UserError(
            f"The last finished run of {recipe.path} in {store.uri}, of {end_of(record)}, has no cost of the step "
            f"{missing[0]}. Run the current recipe: {hint('run_sample', recipe=recipe.path, sample='1%')}"
        )
    return MeasuredRun(
        record["recipe"],
        end_of(record),
        record["sample"] or 1.0,
        *_tokens(record),
        [_step(node, nodes[node.id]) for node in mill.graph.nodes.values()],
        [node.id for node in mill.graph.nodes.values() if _is_changed(node, record, recipe.name)],
    )


def _step(node: Node, recorded: Mapping[str, Any]) -> StepCost:
    cost, tasks = recorded["cost"], recorded["executed"] + recorded["cached"]
    memory, stored = cost["peak_rss_bytes"], float(recorded["stored_bytes"])
    return StepCost(node.id, node.kind, tasks, working_cpu_s(cost), memory, stored)


def _is_changed(node: Node, record: Mapping[str, Any], name: str) -> bool:
    """Whether the settings or the version of a step differ from the run. The name of the recipe, which is in shards, is
    ignored, and so is the mixture of a sample, which draws fewer tokens.
    """
    if node.name == MIX and record["recipe"] != name:
        return False
    recorded = record["nodes"][node.id]["identity"]
    now, then = (orjson.dumps(one, option=orjson.OPT_SORT_KEYS) for one in (node.identity, recorded))
    return now != then.replace(record["recipe"].encode(), name.encode())


def _candidates(mill: Mill) -> Iterator[dict[str, Any]]:
    """Finished runs, the newest first: of the recipe and its samples, or of one given sample."""
    name, samples = mill.recipe.name, mill.recipe.sample is None
    for run in finished_runs(mill.store):
        of = run["recipe"]
        if not is_partial(run) and (of == name or (samples and of.startswith(f"{name}-sample-"))):
            yield run


def _tokens(record: Mapping[str, Any]) -> tuple[float, str]:
    """The tokens of the corpus, and how they were counted."""
    groups = [
        group
        for node in record["nodes"].values()
        if node["name"] == GROUPS
        for by_source in node["metrics"].get("groups", {}).values()
        for group in by_source.values()
    ]
    if groups:
        return float(sum(group["tokens"] for group in groups)), "tokens counted by the recipe's tokenizer"
    kept = [node["metrics"].get("funnel") for node in record["nodes"].values() if node["name"] == CORPUS]
    text = sum(funnel["kept"]["text_bytes"] for funnel in kept if funnel)
    if not text:
        raise UserError(
            f"The last finished run of {record['recipe']}, of {end_of(record)}, kept no text, so the cost of a token "
            f"is unknown. Run a larger sample, or find out what dropped the documents: {hint('funnel')}."
        )
    return text / BYTES_PER_TOKEN, f"estimated: {BYTES_PER_TOKEN:g} bytes of kept text per token"

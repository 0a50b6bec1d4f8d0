"""Predict the cost of a corpus on a cluster from the record of a finished run, usually of a sample.

The rule: a step costs TASK_S for each task and a rate per byte, so CPU time beyond the fixed costs, the bytes that it
stores and the number of its tasks grow with the tokens. Models and assets cost what they cost. Parts that are small
because a sample is small are filled before there are more. The true cost is within a factor of FACTOR if the sample is
large enough, the machines are like the measured one and duplicates are as frequent.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import orjson

from gristmill.engine.mill import Mill
from gristmill.engine.plan.graph import CORPUS, Node
from gristmill.engine.publish.run_record import end_of, finished_runs, is_partial
from gristmill.engine.work.needs import PROCESS_BYTES, SORTING
from gristmill.engine.work.shuffle import IN_MEMORY
from gristmill.engine.work.task import working_cpu_s
from gristmill.errors import UserError
from gristmill.hints import hint, named, share_text
from gristmill.query.sizing.disk import FOOTER_BYTES
from gristmill.recipe.checks.columns import INGEST
from gristmill.recipe.sections.mix import MIX
from gristmill.recipe.sections.shards import GROUPS
from gristmill.store.store import Store

FACTOR = 1.5
"""The stated uncertainty: times are within this factor of the middle."""
TASK_S = 0.02
"""The fixed CPU seconds of a task: parts took 5 to 30 ms on a small server."""
FILLED = 0.64
"""The average share of part_bytes that a part of many small files reaches (`grouping.group_files`)."""
RECORD_BYTES = 2500
"""The size of a task record in the store."""
COORDINATOR_S, COORDINATOR_TASK_BYTES, COORDINATOR_BYTES = 4e-4, 300, 258e6
"""The cost of the coordinator: seconds per task, bytes per task, and base memory (`python -m bench scale`)."""
BYTES_PER_TOKEN = 4.2
"""Used if the recipe has no shards that count tokens: English prose with a vocabulary of 100,000 or more."""
_FIXED = ("fit", "asset")


@dataclass(frozen=True)
class Machines:
    """The machines of a cluster."""

    nodes: int
    cores: int
    """Cores per node, with one worker each."""
    memory_bytes: float | None = None
    """Memory per node."""

    def fitting(self, memory_bytes: float) -> int:
        """The workers with this much memory that fit on one node."""
        if self.memory_bytes is None:
            return self.cores
        return min(self.cores, int(self.memory_bytes // max(memory_bytes, 1.0)))


@dataclass(frozen=True)
class StepCost:
    """What the tasks of a step cost: measured, or predicted."""

    name: str
    kind: str
    tasks: int
    cpu_s: float
    wall_s: float
    """The sum over all tasks."""
    longest_s: float
    memory_bytes: float
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
    sources: Mapping[str, Sequence[str]]
    """The sources of each step."""
    parts: Mapping[str, int]
    """The number of document parts per source."""
    full_parts: Mapping[str, float]
    """How many there would be if all were as large as those of a large corpus."""
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
    wall_s: float

    @property
    def tasks(self) -> int:
        return sum(step.tasks for step in self.steps)

    @property
    def cpu_s(self) -> float:
        return sum(step.cpu_s for step in self.steps)

    @property
    def stored_bytes(self) -> float:
        return sum(step.stored_bytes for step in self.steps)

    @property
    def memory_bytes(self) -> float:
        return max(step.memory_bytes for step in self.steps)

    @property
    def coordinator_bytes(self) -> float:
        return COORDINATOR_BYTES + COORDINATOR_TASK_BYTES * self.tasks


def size_up(measured: MeasuredRun, tokens: float, cluster: Machines) -> Sizing:
    """Predict the cost of a corpus with this many tokens."""
    growth = tokens / measured.tokens
    more_parts = {}
    for source, parts in measured.parts.items():
        filled = growth * measured.full_parts[source] / max(parts, 1)
        more_parts[source] = max(min(growth, filled), min(growth, 1.0))
    steps = [_grown(step, growth, _times(measured, step, more_parts)) for step in measured.steps]
    workers = cluster.nodes * max(cluster.fitting(max(step.memory_bytes for step in steps)), 1)
    # Long tasks start first, so a barrier waits for at most one task after the average share of a worker.
    waits = sum(step.longest_s for step in steps if step.kind not in ("read", "map"))
    wall = sum(step.wall_s for step in steps) / workers + waits
    return Sizing(steps, growth, max(wall, COORDINATOR_S * sum(step.tasks for step in steps)))


def _times(measured: MeasuredRun, step: StepCost, more_parts: Mapping[str, float]) -> float:
    """How many times as many tasks a step will have."""
    sources = [source for source in measured.sources[step.name] if source in more_parts]
    known = sum(measured.parts[source] for source in sources)
    return sum(measured.parts[source] * more_parts[source] for source in sources) / known if known else 1.0


def _grown(step: StepCost, growth: float, times: float) -> StepCost:
    """The same step for a larger corpus."""
    if step.kind in _FIXED:
        return step
    tasks = max(ceil(step.tasks * times), 1)
    size = growth * step.tasks / tasks
    """How many times as many bytes a task reads."""
    cpu_s = max(step.cpu_s - TASK_S * step.tasks, 0.0) * growth + TASK_S * tasks
    slow = min(max(step.wall_s / max(step.cpu_s, 1e-9), 1.0), 3.0)
    memory = step.memory_bytes + max(step.memory_bytes - PROCESS_BYTES, 0.0) * max(size - 1.0, 0.0)
    if step.kind == "exchange":
        memory = min(memory, max(step.memory_bytes, PROCESS_BYTES + SORTING * float(IN_MEMORY)))
    content = max(step.stored_bytes - FOOTER_BYTES * step.tasks, 0.0)
    stored = content * growth + (FOOTER_BYTES + RECORD_BYTES) * tasks
    longest_s = step.longest_s * max(size, 1.0)
    return StepCost(step.name, step.kind, tasks, cpu_s, slow * cpu_s, longest_s, memory, stored)


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
    tokens, tokens_by = _tokens(record)
    parts = {
        node.sources[0]: _parts(store, nodes[node.id]) for node in mill.graph.nodes.values() if node.name == INGEST
    }
    full_bytes = {source.name: FILLED * source.part_bytes for source in recipe.sources.values()}
    return MeasuredRun(
        record["recipe"],
        end_of(record),
        _share(record["recipe"], recipe.file_name or recipe.name),
        tokens,
        tokens_by,
        [_step(node, nodes[node.id]) for node in mill.graph.nodes.values()],
        {node.id: node.sources for node in mill.graph.nodes.values()},
        {source: len(some) for source, some in parts.items()},
        {source: sum(part["payload_bytes"] for part in some) / full_bytes[source] for source, some in parts.items()},
        [node.id for node in mill.graph.nodes.values() if _is_changed(node, record, recipe.name)],
    )


def _step(node: Node, recorded: Mapping[str, Any]) -> StepCost:
    cost, compile_s = recorded["cost"], recorded["cost"].get("compile_s", 0.0)
    slowest = (pace["slowest"]["wall_s"] for pace in recorded["pace"].values() if pace["slowest"])
    return StepCost(
        node.id,
        node.kind,
        recorded["executed"] + recorded["cached"],
        working_cpu_s(cost),
        max(cost["wall_s"] - compile_s, 0.0),
        max(slowest, default=0.0),
        cost["peak_rss_bytes"],
        float(recorded["stored_bytes"]),
    )


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


def _share(name: str, recipe: str) -> float:
    """The share of a run by its name: `web-sample-1pct` is a hundredth."""
    sample = name.removeprefix(f"{recipe}-sample-").removesuffix("pct")
    return 1.0 if sample == name else float(sample) / 100


def _parts(store: Store, node: Mapping[str, Any]) -> list[dict[str, Any]]:
    manifests = [store.read_json(f"datasets/{name}.json") for name in node["datasets"].values()]
    return [part for manifest in manifests if manifest is not None for part in manifest["parts"]]


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

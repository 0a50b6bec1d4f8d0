"""Predict the cost of a corpus on a cluster from the measurements of a finished run, usually of a sample.

For every kind of task (a step's map; its emit, reduce, collect) the run gives the fixed cost of a task, the cost per
byte of input, the cost per segment, and what a worker loads once. The input grows with the tokens. The number of tasks
follows from the rules of the engine: the recipe sets the size of document parts, and `schedule/shuffle.py` the size of
reducers. A sample that takes only some records of a file has smaller parts than the corpus.

Not included: duplicates that a sample misses (1% of the documents contain one of 10,000 pairs), machines that are
faster or slower than the measured one, and lost machines.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from gristmill.engine.plan.graph import Node, reads_from
from gristmill.engine.schedule.shuffle import FEW_FILES, FEW_SEGMENTS, LEAST_BYTES, MERGED_BYTES, MOST_BYTES, RANGES
from gristmill.engine.work.needs import BUILDING, PROCESS_BYTES, SORTING
from gristmill.engine.work.shuffle import IN_MEMORY
from gristmill.engine.work.task import gated_only
from gristmill.query.sizing.disk import FOOTER_BYTES
from gristmill.query.sizing.measured import Kind, MeasuredRun, Numbers, read_kinds
from gristmill.recipe.checks.columns import INGEST
from gristmill.stages.quality import sample
from gristmill.stages.quality.classifier_config import ClassifierFields
from gristmill.stages.quality.language_model import LanguageModelFields
from gristmill.stages.shards import shards
from gristmill.stages.tokenizer import tokenizer_sample

DRAWS = 200
"""Bootstrap draws."""
INTERVAL = (5, 95)
"""The percentiles of the draws at its ends."""
TASK_S = 0.05
"""The largest fixed cost of a task that is assumed if all have one size: parts took 5 to 30 ms on a small server."""
FEW_TASKS = 5
"""With at least this many tasks of different sizes, it can."""
SEGMENT_S, MANY_SEGMENTS = 3e-4, 16
"""Seconds per segment, measured as 0.26 to 0.35 ms on a small server; less if tasks with MANY_SEGMENTS took less."""
MERGE_BYTES_PER_S = 50e6
"""The speed of a merge if the run had nothing to merge; an unmeasured guess."""
COMPRESSION = 3.0
"""Bytes of text per stored byte."""
RECORD_BYTES = 2500
"""The size of a task record in the store."""
COORDINATOR_S, COORDINATOR_TASK_BYTES, COORDINATOR_BYTES = 4e-4, 300, 258e6
"""The cost of the coordinator: seconds per task, bytes per task, and base memory (`python -m bench scale`)."""
LOOKED_UP = {"gets": 2, "puts": 2}
"""Requests of the coordinator per task: it reads the record before and after the claim, and writes both."""
GETS_PER_LAYER = 2
"""Range requests for the columns of a layer, in addition to one for its verdicts: neighbours are fetched together."""

FILLED = 0.64
"""The average share of part_bytes that a part of many small files reaches (`grouping.group_files`)."""

_PER_PART = ("map", "emit", "collect")
"""Kinds with one task per document part."""


@dataclass(frozen=True)
class Machines:
    """The machines of a cluster."""

    nodes: int
    cores: int
    """Cores per node, with one worker each."""
    memory_bytes: float | None = None
    """Memory per node."""

    @property
    def workers(self) -> int:
        return self.nodes * self.cores

    def fitting(self, memory_bytes: float) -> int:
        """The workers with this much memory that fit on one node."""
        if self.memory_bytes is None:
            return self.cores
        return min(self.cores, int(self.memory_bytes // max(memory_bytes, 1.0)))

    def at_once(self, memory_bytes: float) -> int:
        """The workers with this much memory that can run at the same time; at least one per node."""
        return self.nodes * max(self.fitting(memory_bytes), 1)


@dataclass(frozen=True)
class Line:
    """The predicted cost of the tasks of one kind of a step."""

    step: str
    verb: str
    tasks: int
    cpu_s: float
    wall_s: float
    """The sum over all tasks."""
    longest_s: float
    memory_bytes: float
    gets: float
    puts: float
    phase: int
    """Kinds of one phase run in parallel; the next phase starts when all of them have finished."""


@dataclass(frozen=True)
class Sizing:
    """The prediction for a run on a cluster. Ranges contain 90% of all draws."""

    lines: Sequence[Line]
    growth: float
    """The requested tokens divided by the tokens of the measured run."""
    cpu_s: tuple[float, float, float]
    """Low, middle, high."""
    wall_s: tuple[float, float, float]
    stored_bytes: float
    coordinator_bytes: float
    requests_counted: bool
    """Whether requests were counted in the measured run, and not estimated by rules."""

    @property
    def tasks(self) -> int:
        return sum(line.tasks for line in self.lines)

    @property
    def memory_bytes(self) -> float:
        return max(line.memory_bytes for line in self.lines)

    @property
    def gets(self) -> float:
        return sum(line.gets for line in self.lines)

    @property
    def puts(self) -> float:
        return sum(line.puts for line in self.lines)


def size_up(measured: MeasuredRun, tokens: float, cluster: Machines, seed: int = 0) -> Sizing:
    """Predict the cost of a corpus with this many tokens."""
    growth = tokens / measured.tokens
    draw = np.random.default_rng(seed)
    labels = sorted({label for kind in measured.kinds for label in _parts_of(kind)})
    place = {label: number for number, label in enumerate(labels)}
    weights = np.concatenate([np.ones((1, len(labels))), draw.poisson(1.0, (DRAWS, len(labels)))])
    plan = _Layout(measured, growth)
    phases = _phases(measured.kinds)
    content = sum(kind.sizes.sum() for kind in read_kinds(measured.kinds).values())
    # A draw with more of the corpus needs less growth to reach the same number of tokens.
    drawn = sum(weights[:, [place[one] for one in _parts_of(kind)]] @ kind.sizes for kind in _readers(measured))
    shrink = content / np.maximum(drawn, content / len(weights[0]))
    lines, cpu, wall = [], np.zeros(DRAWS + 1), np.zeros((DRAWS + 1, max(phases.values()) + 1))
    longest = np.zeros(wall.shape[1])
    for kind in measured.kinds:
        tasks, size, pieces = plan.of(kind)
        weight = weights[:, [place[one] for one in _parts_of(kind)]]
        seconds = _seconds(kind, weight, shrink, tasks, size, pieces, plan, cluster.workers)
        slow = float(np.clip(kind.wall_s.sum() / max(kind.cpu_s.sum(), 1e-9), 1.0, 3.0))
        at = phases[kind.node.id, kind.verb]
        mean_s = seconds[0] / max(tasks, 1)
        worst = float(kind.cpu_s.max() / max(kind.cpu_s.mean(), 1e-9)) if len(kind.cpu_s) > 1 else 1.0
        longest_s = slow * mean_s * worst
        gets, puts = _requests(kind, tasks, pieces)
        memory = _memory(kind, tasks, size)
        total = float(seconds[0])
        lines.append(Line(kind.node.id, kind.verb, tasks, total, slow * total, longest_s, memory, gets, puts, at))
        cpu += seconds
        wall[:, at] += slow * seconds
        longest[at] = max(longest[at], longest_s)
    merges = plan.merges(phases)
    lines += merges
    for line in merges:
        cpu += line.cpu_s
        wall[:, line.phase] += line.wall_s
    # Long tasks start first, so a phase ends at most one task after the average share of a worker.
    at_once = np.full(wall.shape[1], cluster.workers)
    for line in lines:
        at_once[line.phase] = min(at_once[line.phase], cluster.at_once(line.memory_bytes))
    ends = (wall / at_once + longest).sum(axis=1)
    ends = np.maximum(ends, COORDINATOR_S * sum(line.tasks for line in lines))
    stored = plan.stored_bytes(lines)
    counted = all(not np.isnan(kind.gets).any() for kind in measured.kinds)
    holds = COORDINATOR_BYTES + COORDINATOR_TASK_BYTES * sum(line.tasks for line in lines)
    return Sizing(lines, growth, _range(cpu), _range(ends), stored, holds, counted)


def _range(values: Numbers) -> tuple[float, float, float]:
    low, high = np.percentile(values[1:], INTERVAL)
    middle = float(values[0])
    return min(float(low), middle), middle, max(float(high), middle)


def _known(measured: MeasuredRun) -> set[tuple[str, str]]:
    return {(kind.node.id, kind.verb) for kind in measured.kinds}


def _readers(measured: MeasuredRun) -> list[Kind]:
    return list(read_kinds(measured.kinds).values())


def _parts_of(kind: Kind) -> list[str]:
    """Tasks of the same part are drawn together: a part that is slow in one step is slow in the next."""
    return [label.removesuffix(" emit") for label in kind.labels]


def _seconds(
    kind: Kind,
    weight: Numbers,
    shrink: Numbers,
    tasks: int,
    size: float,
    pieces: float,
    plan: "_Layout",
    workers: int,
) -> Numbers:
    """CPU seconds of all tasks of a kind: first for all measurements, then for every draw."""
    segments = plan.segment_s * kind.pieces
    cpu = np.maximum(kind.cpu_s - segments - kind.write_cpu_s, 0.0)
    usual = ~kind.is_first if not kind.is_first.all() else np.ones(len(cpu), bool)
    own, rate = _line(kind.sizes[usual], cpu[usual], weight[:, usual])
    found = own * tasks + rate * size * (_mean(kind.sizes, weight) / max(kind.sizes.mean(), 1e-9)) * shrink
    if usual.sum() < len(usual):  # the cost that a worker pays once
        extra = cpu[~usual] - (own[0] + rate[0] * kind.sizes[~usual])
        found = found + max(float(extra.mean()), 0.0) * min(workers, tasks)
    written = _mean(kind.write_cpu_s, weight) * kind.tasks * plan.growth * shrink
    return np.asarray(found + plan.segment_s * pieces + written)


def _mean(values: Numbers, weight: Numbers) -> Numbers:
    total = weight.sum(axis=1)
    return np.asarray(np.where(total > 0, weight @ values / np.maximum(total, 1), values.mean()))


def _line(sizes: Numbers, cpu: Numbers, weight: Numbers) -> tuple[Numbers, Numbers]:
    """The fixed seconds of a task and the seconds per byte: a linear fit over tasks of different sizes."""
    weight = np.where(weight.sum(axis=1, keepdims=True) > 0, weight, 1.0)
    size, seconds = _mean(sizes, weight), _mean(cpu, weight)
    own = np.full(len(weight), min(TASK_S, float(cpu.min())))
    if len(sizes) >= FEW_TASKS and sizes.std() > 0.1 * sizes.mean():
        spread = _mean(sizes * sizes, weight) - size * size
        together = _mean(sizes * cpu, weight) - size * seconds
        rate = np.clip(together / np.maximum(spread, 1e-9), 0.0, seconds / np.maximum(size, 1e-9))
        own = seconds - rate * size
    return own, np.where(size > 0, (seconds - own) / np.maximum(size, 1e-9), 0.0)


class _Layout:
    """The predicted number of tasks of each kind, and the total size of their input."""

    def __init__(self, measured: MeasuredRun, growth: float) -> None:
        self.measured, self.growth = measured, growth
        each = [kind.cpu_s / np.maximum(kind.pieces, 1) for kind in measured.kinds]
        many = [kind.pieces >= MANY_SEGMENTS for kind in measured.kinds]
        known_s = np.concatenate([seconds[some] for seconds, some in zip(each, many, strict=True)])
        self.segment_s = min(SEGMENT_S, float(np.percentile(known_s, 25))) if len(known_s) else SEGMENT_S
        self._more_parts = {}
        for source, kind in read_kinds(measured.kinds).items():
            # A sample reads whole files but keeps only some records, so its parts are smaller by this factor.
            thin = min(1.0, measured.input_bytes[source] / max(kind.bytes, 1.0))
            known = max(measured.parts[source], 1)
            more = max(growth * thin, 1 / known)
            # If parts are small because there was little input, more input fills them first.
            filled = growth * measured.content_bytes[source] / (FILLED * measured.part_bytes[source]) / known
            self._more_parts[source] = max(min(more, filled), min(more, 1.0))

    def parts(self, node: Node) -> float:
        """The predicted number of document parts of a step."""
        return sum(self.measured.parts[source] * self._more_parts[source] for source in node.sources)

    def of(self, kind: Kind) -> tuple[int, float, float]:
        """Tasks, bytes, segments."""
        growth, node, verb = self.growth, kind.node, kind.verb
        records = max(len(kind.sizes), 1)
        segments = float(kind.pieces.sum()) * kind.tasks / records
        if node.name == INGEST:
            more = self._more_parts[node.sources[0]]
            return ceil(kind.tasks * more), kind.bytes * more, 0.0
        parts = self.parts(node)
        if verb in _PER_PART:
            known = max(sum(self.measured.parts[source] for source in node.sources), 1)
            tasks = ceil(kind.tasks * parts / known)
            return tasks, kind.bytes * growth, segments * tasks / kind.tasks
        if verb in ("fit", "asset", "gather"):
            return kind.tasks, kind.bytes * (self._cap(kind) if verb == "fit" else 1.0), 0.0
        size = kind.bytes * growth
        files = min(RANGES * parts, segments * growth)
        if verb == "build":
            tokens = node.config.shard_tokens if isinstance(node.config, shards.Config) else 1 << 26
            number = min(ceil(kind.tasks * growth), ceil(self.measured.tokens * growth / tokens))
            return max(kind.tasks, number), size, files
        if verb == "merge":
            return max(kind.tasks, ceil(1.5 * size / MERGED_BYTES)), size, files
        target = min(max((1 << int(size).bit_length()) // RANGES, LEAST_BYTES), MOST_BYTES)
        return max(kind.tasks, ceil(1.5 * size / target)), size, files

    def _cap(self, kind: Kind) -> float:
        """The growth of a model's training data, which is limited by its budget."""
        budget = 0
        for config in {one.node.id: one.node.config for one in self.measured.kinds}.values():
            if isinstance(config, tokenizer_sample.Config):
                budget += sum(config.sample_bytes.values())
            elif isinstance(config, sample.Config | ClassifierFields | LanguageModelFields):
                budget += config.sample_bytes
        return min(self.growth, max(budget / max(COMPRESSION * kind.bytes, 1.0), 1.0))

    def merges(self, phases: Mapping[tuple[str, str], int]) -> list[Line]:
        """The predicted merges: files of many parts are merged before they are read, but a small run merges nothing."""
        found: dict[str, float] = {}
        known = _known(self.measured)
        for kind in self.measured.kinds:
            tasks, size, _ = self.of(kind)
            parts = self.parts(kind.node)
            reduces = kind.node.kind == "exchange" and kind.verb not in (*_PER_PART, "merge")
            many = reduces and parts > FEW_FILES
            many |= kind.verb in ("collect", "build") and parts * max(tasks, RANGES) > FEW_SEGMENTS
            if many and (kind.node.id, "merge") not in known:
                found[kind.node.id] = found.get(kind.node.id, 0.0) + size
        lines = []
        for step, size in found.items():
            tasks, seconds = ceil(1.5 * size / MERGED_BYTES), size / MERGE_BYTES_PER_S
            phase = phases[step, "emit"] + 1
            memory = PROCESS_BYTES + SORTING * min(size, IN_MEMORY)
            puts = tasks * (1 + LOOKED_UP["puts"])
            gets = tasks * LOOKED_UP["gets"] + RANGES * size / MERGED_BYTES
            each = seconds / max(tasks, 1)
            lines.append(Line(step, "merge", tasks, seconds, seconds, each, memory, gets, puts, phase))
        return lines

    def stored_bytes(self, lines: Sequence[Line]) -> float:
        tasks: dict[str, int] = {}
        for line in lines:
            tasks[line.step] = tasks.get(line.step, 0) + line.tasks
        total = 0.0
        for step, stored in self.measured.stored_bytes.items():
            content = max(stored - FOOTER_BYTES * self.measured.tasks[step], 0.0)
            fixed = all(kind.verb in ("fit", "asset") for kind in self.measured.kinds if kind.node.id == step)
            total += content * (1.0 if fixed else self.growth) + (FOOTER_BYTES + RECORD_BYTES) * tasks.get(step, 0)
        return total


def _memory(kind: Kind, tasks: int, size: float) -> float:
    """The memory of a worker for such a task: as measured, and more if tasks will have more input. Tasks that hold
    records need several copies of them, reducers up to a bound (`work/needs.py`); other tasks grow in proportion to
    their memory beyond that of an idle worker.
    """
    most, largest, before = float(kind.peak_bytes.max()), float(kind.sizes.max()), kind.bytes / max(kind.tasks, 1)
    times = size / max(tasks, 1) / before if before else 1.0
    more = largest * max(times - 1.0, 0.0)
    if kind.verb == "build":
        return most + BUILDING * more
    if kind.node.kind == "exchange" and kind.verb not in _PER_PART:
        return min(most + SORTING * more, max(most, PROCESS_BYTES + SORTING * float(IN_MEMORY)))
    return most + max(most - PROCESS_BYTES, 0.0) * max(times - 1.0, 0.0)


def _requests(kind: Kind, tasks: int, pieces: float) -> tuple[float, float]:
    """Requests to an object store: as counted in the measured run, or by what a task of this kind reads and writes."""
    if len(kind.gets) and not np.isnan(kind.gets).any():
        return tasks * (kind.gets.mean() + LOOKED_UP["gets"]), tasks * (kind.puts.mean() + LOOKED_UP["puts"])
    views = list(kind.node.views.values())
    gets, puts = 0.0, 1.0
    if kind.verb in ("map", "emit", "fit"):
        for view in views:
            only = gated_only(len(view.layers), view.columns)
            gets += sum(1 if verdicts else 1 + GETS_PER_LAYER for verdicts in only) / len(views)
    if kind.verb in ("map", "collect"):
        puts += 1  # the verdicts
    config = kind.node.config
    each = len(config.sidecars if isinstance(config, shards.Config) else ()) + 3 if kind.verb == "build" else puts
    return tasks * (gets + LOOKED_UP["gets"]) + pieces, tasks * (each + LOOKED_UP["puts"])


def _phases(kinds: Sequence[Kind]) -> dict[tuple[str, str], int]:
    """The phase of each kind of task: a phase starts when all tasks of the previous one have finished."""
    verbs: dict[str, list[str]] = {}
    nodes: dict[str, Node] = {}
    for kind in kinds:
        verbs.setdefault(kind.node.id, []).append(kind.verb)
        nodes[kind.node.id] = kind.node
    ends: dict[str, int] = {}
    found: dict[tuple[str, str], int] = {}
    for node_id, node in nodes.items():
        at = max((ends[one] for one in reads_from(node) if one in ends), default=0)
        rounds = [verb for verb in verbs[node_id] if verb not in (*_PER_PART, "gather", "merge")]
        if node.kind in ("read", "map"):
            found.update(((node_id, verb), at) for verb in verbs[node_id])
        else:
            found[node_id, "emit"] = at
            found[node_id, "merge"] = at + 1
            for number, verb in enumerate(rounds, 1):
                found[node_id, verb] = at + number
            at += len(rounds) + 1
            found[node_id, "collect"] = found[node_id, "gather"] = at
            at += not node.has_layers
        ends[node_id] = at
    return found

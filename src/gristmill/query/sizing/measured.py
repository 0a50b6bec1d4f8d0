"""Measurements of a finished run: for each kind of task of each step, how much its tasks read and cost."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from gristmill.engine.mill import Mill
from gristmill.engine.plan.graph import CORPUS, Node
from gristmill.engine.publish.run_record import end_of, finished_runs, is_partial, task_names
from gristmill.errors import UserError
from gristmill.hints import hint, named, share_text
from gristmill.recipe.checks.columns import INGEST
from gristmill.recipe.sections.mix import MIX
from gristmill.recipe.sections.shards import GROUPS
from gristmill.store.store import Store

MOST_RECORDS = 1000
"""The most task records of a step that are read. Keys are hashes, so the first ones are a random sample."""
BYTES_PER_TOKEN = 4.2
"""Used if the recipe has no shards that count tokens: English prose with a vocabulary of 100,000 or more."""

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Kind:
    """The tasks of one kind of a step. Arrays have an entry for each task whose record was read."""

    node: Node
    verb: str
    tasks: int
    bytes: float
    """The bytes that all of them read."""
    labels: tuple[str, ...]
    sizes: Numbers
    """The bytes that each task read."""
    pieces: Numbers
    cpu_s: Numbers
    wall_s: Numbers
    write_cpu_s: Numbers
    is_first: npt.NDArray[np.bool_]
    """Whether the worker had to load or compile something first."""
    peak_bytes: Numbers
    gets: Numbers
    puts: Numbers
    """Requests to the store; NaN if they were not counted."""


@dataclass(frozen=True)
class MeasuredRun:
    """The measurements of a run that planning needs."""

    name: str
    """The name of the recipe or its sample."""
    ended: str
    share: float
    """The sampled share of every source."""
    tokens: float
    tokens_by: str
    """A description of how tokens were counted."""
    kinds: Sequence[Kind]
    input_bytes: Mapping[str, float]
    """The bytes of the sampled input per source."""
    parts: Mapping[str, int]
    """The number of document parts per source."""
    content_bytes: Mapping[str, float]
    """The uncompressed size of the document parts per source."""
    part_bytes: Mapping[str, int]
    """The setting part_bytes per source."""
    stored_bytes: Mapping[str, float]
    """The stored bytes per step."""
    tasks: Mapping[str, int]
    changed: Sequence[str]
    """Steps that have changed in the recipe since."""


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
    missing = [node_id for node_id in mill.graph.nodes if node_id not in record["nodes"]]
    if missing:
        raise UserError(
            f"The last finished run of {recipe.path} in {store.uri}, of {end_of(record)}, has no step {missing[0]}, so "
            "its cost is unknown. Run the current recipe: "
            f"{hint('run_sample', recipe=recipe.path, sample='1%')}"
        )
    kinds = [kind for node in mill.graph.nodes.values() for kind in _kinds(store, node, record["nodes"][node.id])]
    sources = [node for node in mill.graph.nodes.values() if node.kind == "read"]
    if {node.sources[0] for node in sources} - {*read_kinds(kinds)}:
        raise UserError(
            f"The last finished run of {recipe.path} in {store.uri}, of {end_of(record)}, did not record the cost of "
            f"its tasks: an earlier version of Gristmill made it, or its records were deleted. Run another "
            f"sample: {hint('run_sample', recipe=recipe.path, sample='1%')}"
        )
    nodes = record["nodes"]
    tokens, by = _tokens(record)
    read = {node.sources[0]: _parts(store, nodes[node.id]) for node in sources}
    return MeasuredRun(
        record["recipe"],
        end_of(record),
        _share(record["recipe"], recipe.file_name or recipe.name),
        tokens,
        by,
        kinds,
        {node.sources[0]: float(nodes[node.id].get("input_bytes", 0)) for node in sources},
        {source: len(parts) for source, parts in read.items()},
        {source: float(sum(part["payload_bytes"] for part in parts)) for source, parts in read.items()},
        {source.name: source.part_bytes for source in recipe.sources.values()},
        {node_id: float(nodes[node_id]["stored_bytes"]) for node_id in mill.graph.nodes},
        {node_id: nodes[node_id]["executed"] + nodes[node_id]["cached"] for node_id in mill.graph.nodes},
        [node.id for node in mill.graph.nodes.values() if _is_changed(node, record, recipe.name)],
    )


def _is_changed(node: Node, record: Mapping[str, Any], name: str) -> bool:
    """Whether the settings or the version of a step differ from the run. The name of the recipe, which is in shards, is
    ignored, and so is the mixture of a sample, which draws fewer tokens.
    """
    if node.name == MIX and record["recipe"] != name:
        return False
    now, then = (orjson.dumps(one, option=orjson.OPT_SORT_KEYS) for one in (node.identity, _identity(node, record)))
    return now != then.replace(record["recipe"].encode(), name.encode())


def _identity(node: Node, record: Mapping[str, Any]) -> Any:
    return record["nodes"][node.id]["identity"]


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


def _kinds(store: Store, node: Node, recorded: Mapping[str, Any]) -> Iterator[Kind]:
    """The kinds by verb, from the records of tasks and the totals of the step."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    keys = sorted(task_names(store, recorded))[:MOST_RECORDS]
    uncounted = np.nan if store.is_local else 0.0  # a local run sends no requests, so its counts mean nothing
    for record in store.each(store.read_json, [f"tasks/{key}.json" for key in keys]):
        if record is not None and "input_bytes" in record["cost"]:
            found.setdefault(record["inputs"].get("verb", node.kind), []).append(record)
    for verb, records in found.items():
        costs = [record["cost"] for record in records]
        pace = recorded.get("pace", {}).get(verb, {})

        def column(name: str, absent: float = 0.0, costs: Sequence[Mapping[str, Any]] = costs) -> Numbers:
            return np.array([cost.get(name, absent) for cost in costs], np.float64)

        sizes = column("input_bytes")
        yield Kind(
            node,
            verb,
            pace.get("tasks", len(costs)),
            pace.get("bytes", float(sizes.sum())),
            tuple(record["label"] for record in records),
            sizes,
            column("input_pieces"),
            # A task may wait while others compile, so its own time can be less than the compile time.
            np.maximum(column("cpu_s") - column("compile_s"), 0.0),
            np.maximum(column("wall_s") - column("compile_s"), 0.0),
            column("write_cpu_s"),
            (column("first") > 0) | (column("compile_s") > 0),
            column("peak_rss_bytes"),
            column("gets", uncounted),
            column("puts", uncounted),
        )


def read_kinds(kinds: Sequence[Kind]) -> dict[str, Kind]:
    """The kinds of readers, by source."""
    return {kind.node.sources[0]: kind for kind in kinds if kind.node.name == INGEST}

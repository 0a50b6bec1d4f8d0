"""What a finished run measured: of each kind of task of each step, what its tasks read and took."""

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

MOST_LOOKED_AT = 1000
"""Task records of a step that are read: their keys are hashes, so the first ones are as good as any."""
BYTES_PER_TOKEN = 4.2
"""Of text, where the recipe has no shards that count tokens: English prose with a vocabulary of 100,000 or more."""

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Kind:
    """The tasks of one kind of a step. Arrays have an entry for each task that was looked at."""

    node: Node
    verb: str
    tasks: int
    bytes: float
    """That all of them read."""
    labels: tuple[str, ...]
    sizes: Numbers
    """Bytes that each read."""
    pieces: Numbers
    cpu_s: Numbers
    wall_s: Numbers
    write_cpu_s: Numbers
    is_first: npt.NDArray[np.bool_]
    """Whether its worker loaded first what it needs, or compiled it."""
    peak_bytes: Numbers
    gets: Numbers
    puts: Numbers
    """Requests to the store; NaN where nobody counted them."""


@dataclass(frozen=True)
class MeasuredRun:
    """A run, as far as planning needs it."""

    name: str
    """Of the recipe or its sample."""
    ended: str
    share: float
    """Of every source that it took."""
    tokens: float
    tokens_by: str
    """How they were counted, in words."""
    kinds: Sequence[Kind]
    input_bytes: Mapping[str, float]
    """Per source, of what was taken."""
    parts: Mapping[str, int]
    """Document parts, per source."""
    content_bytes: Mapping[str, float]
    """Per source, that its document parts hold before compression."""
    part_bytes: Mapping[str, int]
    """Per source, that a part holds at most, by the recipe."""
    stored_bytes: Mapping[str, float]
    """Per step."""
    tasks: Mapping[str, int]
    changed: Sequence[str]
    """Steps that the recipe has otherwise now."""


def last_measured(mill: Mill) -> MeasuredRun:
    """The newest finished run of a recipe or of a sample of it; of a sample that is asked for, its own."""
    recipe, store = mill.recipe, mill.store
    record = next(_candidates(mill), None)
    if record is None:
        run = hint("run_sample", recipe=recipe.path, sample=share_text(recipe.sample or 0.01))
        raise UserError(
            f"No run of {named(recipe.path, recipe.sample)} has come to its end in {store.uri}, so there are no rates "
            f"to plan with. Make one on a part of the corpus, of a hundred tasks or more: {run}"
        )
    missing = [node_id for node_id in mill.graph.nodes if node_id not in record["nodes"]]
    if missing:
        raise UserError(
            f"The last finished run of {recipe.path} in {store.uri}, of {end_of(record)}, has no step {missing[0]}, so "
            "nobody knows what that takes. Run the recipe as it is now: "
            f"{hint('run_sample', recipe=recipe.path, sample='1%')}"
        )
    kinds = [kind for node in mill.graph.nodes.values() for kind in _kinds(store, node, record["nodes"][node.id])]
    sources = [node for node in mill.graph.nodes.values() if node.kind == "read"]
    if {node.sources[0] for node in sources} - {*read_kinds(kinds)}:
        raise UserError(
            f"The last finished run of {recipe.path} in {store.uri}, of {end_of(record)}, has no record of what its "
            f"tasks took: an earlier version of Gristmill made it, or its records are deleted. Make another, on a "
            f"part that was not run yet: {hint('run_sample', recipe=recipe.path, sample='1%')}"
        )
    told = record["nodes"]
    tokens, by = _tokens(record)
    read = {node.sources[0]: _parts(store, told[node.id]) for node in sources}
    return MeasuredRun(
        record["recipe"],
        end_of(record),
        _share(record["recipe"], recipe.file_name or recipe.name),
        tokens,
        by,
        kinds,
        {node.sources[0]: float(told[node.id].get("input_bytes", 0)) for node in sources},
        {source: len(parts) for source, parts in read.items()},
        {source: float(sum(part["payload_bytes"] for part in parts)) for source, parts in read.items()},
        {source.name: source.part_bytes for source in recipe.sources.values()},
        {node_id: float(told[node_id]["stored_bytes"]) for node_id in mill.graph.nodes},
        {node_id: told[node_id]["executed"] + told[node_id]["cached"] for node_id in mill.graph.nodes},
        [node.id for node in mill.graph.nodes.values() if _is_changed(node, record, recipe.name)],
    )


def _is_changed(node: Node, record: Mapping[str, Any], name: str) -> bool:
    """Whether a step has other settings, or another version, than in the run. Shards bear the name of the recipe, and
    the mixture of a sample draws fewer tokens.
    """
    if node.name == MIX and record["recipe"] != name:
        return False
    now, then = (orjson.dumps(one, option=orjson.OPT_SORT_KEYS) for one in (node.identity, _identity(node, record)))
    return now != then.replace(record["recipe"].encode(), name.encode())


def _identity(node: Node, record: Mapping[str, Any]) -> Any:
    return record["nodes"][node.id]["identity"]


def _candidates(mill: Mill) -> Iterator[dict[str, Any]]:
    """Finished runs, the newest first: of the recipe and of its samples, or of the one sample that is asked for."""
    name, samples = mill.recipe.name, mill.recipe.sample is None
    for run in finished_runs(mill.store):
        of = run["recipe"]
        if not is_partial(run) and (of == name or (samples and of.startswith(f"{name}-sample-"))):
            yield run


def _share(name: str, recipe: str) -> float:
    """Of a run: `web-sample-1pct` took a hundredth."""
    sample = name.removeprefix(f"{recipe}-sample-").removesuffix("pct")
    return 1.0 if sample == name else float(sample) / 100


def _parts(store: Store, told: Mapping[str, Any]) -> list[dict[str, Any]]:
    manifests = [store.read_json(f"datasets/{name}.json") for name in told["datasets"].values()]
    return [part for manifest in manifests if manifest is not None for part in manifest["parts"]]


def _tokens(record: Mapping[str, Any]) -> tuple[float, str]:
    """Of the corpus that the run made."""
    groups = [
        group
        for told in record["nodes"].values()
        if told["name"] == GROUPS
        for by_source in told["metrics"].get("groups", {}).values()
        for group in by_source.values()
    ]
    if groups:
        return float(sum(group["tokens"] for group in groups)), "tokens counted by the recipe's tokenizer"
    kept = [told["metrics"].get("funnel") for told in record["nodes"].values() if told["name"] == CORPUS]
    text = sum(funnel["kept"]["text_bytes"] for funnel in kept if funnel)
    if not text:
        raise UserError(
            f"The last finished run of {record['recipe']}, of {end_of(record)}, kept no text, so nothing can be said "
            f"of what a token costs. Take a larger sample, or see what dropped the documents: {hint('funnel')}."
        )
    return text / BYTES_PER_TOKEN, f"estimated: {BYTES_PER_TOKEN:g} bytes of kept text a token (the recipe counts none)"


def _kinds(store: Store, node: Node, told: Mapping[str, Any]) -> Iterator[Kind]:
    """By verb: from the records of single tasks, and the totals of the step."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    keys = sorted(task_names(store, told))[:MOST_LOOKED_AT]
    uncounted = np.nan if store.is_local else 0.0  # there a task that sent none says nothing of them
    for record in store.each(store.read_json, [f"tasks/{key}.json" for key in keys]):
        if record is not None and "input_bytes" in record["cost"]:
            found.setdefault(record["inputs"].get("verb", node.kind), []).append(record)
    for verb, records in found.items():
        costs = [record["cost"] for record in records]
        pace = told.get("pace", {}).get(verb, {})

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
            # Who compiles waits for others that do, too: of its time nothing may be left.
            np.maximum(column("cpu_s") - column("compile_s"), 0.0),
            np.maximum(column("wall_s") - column("compile_s"), 0.0),
            column("write_cpu_s"),
            (column("first") > 0) | (column("compile_s") > 0),
            column("peak_rss_bytes"),
            column("gets", uncounted),
            column("puts", uncounted),
        )


def read_kinds(kinds: Sequence[Kind]) -> dict[str, Kind]:
    """Those of readers, by source."""
    return {kind.node.sources[0]: kind for kind in kinds if kind.node.name == INGEST}

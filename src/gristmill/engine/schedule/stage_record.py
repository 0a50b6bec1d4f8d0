"""Records of whole stages: one file represents all tasks of a stage over all parts, so that a run that finds it does
not need to look up the tasks.

    stages/<key>.json    node, datasets, tasks, files, metrics, cost, pace

The key covers the stage itself, and for every source the hashes of all parts that it reads, in order: together, the
same as the keys of its tasks. A record adds nothing to the tasks' own records. It is written when the last task of a
stage is done, and may be deleted at any time. A stage that gave documents up has none, because they may be tried again.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from gristmill.engine.plan.graph import Graph, Node
from gristmill.engine.plan.inputs import SourceInputs, work_of
from gristmill.engine.schedule.corpus_view import DocumentPart
from gristmill.engine.schedule.tables import PartFiles, TaskNames
from gristmill.engine.schedule.task_cache import ENGINE, MODEL, NodeState, Tasks
from gristmill.engine.work.rows import CRASHED
from gristmill.engine.work.task import digest, gated_only, layer_hash, part_from_json, part_to_json
from gristmill.recipe.checks.columns import INGEST
from gristmill.schema import documents_schema, layer_schema
from gristmill.stages.contract import Reader
from gristmill.stages.declarations import stage_of
from gristmill.store.store import VERDICTS, Part, Store, part_name

_MODEL = "model"
"""The name that replaces the source among the datasets of a step with files and no layers."""


_HOLDS = {"read": "documents", "fit": "model", "asset": "model", "sink": "files"}
"""What a dataset of a stage of this kind contains."""


class StageRecords:
    """The stage records of one run: looked up before its tasks, written after them."""

    def __init__(
        self, graph: Graph, store: Store, tasks: Tasks, documents: Mapping[str, Sequence[DocumentPart]]
    ) -> None:
        self._graph = graph
        self._store = store
        self._tasks = tasks
        self._documents = documents
        self._marks: dict[tuple[str, str, bool], str] = {}
        """(node, source, whether only verdicts count) -> hash over the parts of its layers, in order."""
        self._datasets: dict[str, dict[str, str]] = {}
        """Node -> source -> hash of the dataset, for whole stages."""
        self.keys: dict[str, str] = {}
        """Node -> key of its record."""

    # Keys

    def key_of_reading(self, node: Node, inputs: SourceInputs) -> str:
        source = self._graph.recipe.sources[inputs.source]
        reads = (work_of(source, inputs, group, None)[1] for group in inputs.groups)
        pieces = _fragment("[]", (orjson.dumps(one, option=orjson.OPT_SORT_KEYS) for one in reads))
        return digest({"engine": ENGINE, **node.identity, "inputs": pieces})

    def key_of(self, node: Node) -> str:
        """The key of a stage whose sources are read, and whose layers and models all exist."""
        sources = []
        for source, view in node.views.items():
            counts = [view.counts] if view.counts is not None else []
            # All documents, even if few columns are read: datasets name the documents that they are aligned to.
            documents = [INGEST] if source else []  # an asset reads no documents
            layers = [self._mark(layer, source) for layer in (*documents, *counts)]
            gated = gated_only(len(view.layers), view.columns)
            layers += [self._mark(layer, source, only) for layer, only in zip(view.layers, gated, strict=True)]
            models = {name: part.hash for name, made_by in view.models.items() if (part := self._state(made_by).model)}
            sources.append([source, view.columns, view.gates, layers, models])
        return digest({"engine": ENGINE, **node.identity, "sources": sources})

    def _mark(self, layer: str, source: str, verdicts_only: bool = False) -> str:
        at = (layer, source, verdicts_only)
        if at not in self._marks:
            documents = self._documents[source]
            if layer == INGEST:
                hashes = [layer_hash(one.part, verdicts_only) for one in documents]
            else:
                hashes = self._state(layer).layers.hashes(source, (one.order for one in documents), verdicts_only)
            lines = [f"{one} {document.rows_hash}\n" for one, document in zip(hashes, documents, strict=True)]
            self._marks[at] = hashlib.sha256("".join(lines).encode()).hexdigest()
        return self._marks[at]

    def _state(self, node_id: str) -> NodeState:
        return self._tasks.states[node_id]

    # Lookup

    def find(self, node: Node, key: str) -> list[DocumentPart] | None:
        """Use the record of a stage, if the store has all of it; returns the documents of a reader, else None."""
        record = self._store.read_json(f"stages/{key}.json")
        if record is None:
            return None
        try:
            return self._take(node, key, record)
        except (KeyError, TypeError, AttributeError, IndexError, ValueError):  # a record of another shape is ignored
            return None

    def _take(self, node: Node, key: str, record: dict[str, Any]) -> list[DocumentPart] | None:
        if not self._store.has_all((part_name(name, suffix), size) for name, suffix, size in record["files"]):
            return None
        # Packed before the manifests are read: both together would take half as much memory again.
        files, tasks = PartFiles(record.pop("files")), TaskNames(record.pop("tasks"))
        datasets: dict[str, list[dict[str, Any]]] = {}
        for source, name in record["datasets"].items():
            manifest = self._store.read_json(f"datasets/{name}.json")
            if manifest is None or manifest["produced_by"]["node"] != node.id:
                return None
            if node.has_layers and manifest["source"] != source:
                return None
            if not self._store.has_all(_named(manifest["parts"])):
                return None
            datasets[source] = manifest["parts"]
        state = self._state(node.id)
        documents: list[DocumentPart] = []
        for source, entries in datasets.items():
            if node.kind == "read":
                for entry, (mark, *order) in zip(entries, record["documents"], strict=True):
                    part, name = part_from_json(entry), label(source, *order)
                    documents.append(DocumentPart(source, part, mark, tuple(order), name, entry["task"]))
            if node.has_layers:
                aligned_to = documents if node.kind == "read" else self._documents[source]
                state.layers.fill(source, [one.order for one in aligned_to], entries)
            else:
                state.layers.fill(MODEL[0], [MODEL[1]], entries)
        state.files, state.tasks = files, tasks
        state.metrics, state.cost, state.known_pace = record["metrics"], record["cost"], record.get("pace", {})
        self._datasets[node.id] = dict(record["datasets"])
        self.keys[node.id] = key
        return documents

    # Writing

    def write(self, node: Node, inputs: SourceInputs | None) -> None:
        """Write the record of a stage whose tasks are all done."""
        datasets = self.write_datasets(node)
        state = self._state(node.id)
        if state.given_up or CRASHED in state.metrics.get("dropped", {}):
            return
        record: dict[str, Any] = {
            "node": node.id,
            "datasets": datasets,
            "tasks": _fragment("{}", (_member(key, label) for key, label in state.tasks.each())),
            "files": _fragment("[]", (orjson.dumps([part.hash, part.suffix, part.file_bytes]) for part in state.files)),
            "metrics": state.metrics,
            "cost": state.cost,
            "pace": state.pace,
        }
        if inputs is None:
            key = self.key_of(node)
        else:
            key = self.key_of_reading(node, inputs)
            documents = self._documents[node.sources[0]]
            record["documents"] = _fragment("[]", (orjson.dumps([one.rows_hash, *one.order]) for one in documents))
        self._store.write_json(f"stages/{key}.json", record)
        self.keys[node.id] = key

    def write_datasets(self, node: Node) -> dict[str, str]:
        """Write a manifest for the layer of every source, once all its parts exist: source -> hash of the dataset."""
        if node.id in self._datasets:
            return self._datasets[node.id]
        state, written = self._state(node.id), {}
        # Counts are added as tasks end, in any order; the bytes of the record must not depend on that order.
        metrics = orjson.loads(orjson.dumps(state.metrics, option=orjson.OPT_SORT_KEYS))
        for source in node.sources if node.has_layers else ("",):
            at = ((source, one.order) for one in self._documents[source]) if node.has_layers else (MODEL,)
            sums = {"rows": 0, "file_bytes": 0}
            parts = _fragment("[]", (_entry(*state.layers[key], sums) for key in at))
            manifest: dict[str, Any] = {
                "kind": _HOLDS.get(node.kind, "columns"),
                "produced_by": {"node": node.id, **node.identity},
                "parts": parts,
                **sums,
            }
            if not node.has_layers:
                manifest["metrics"] = metrics
            else:
                manifest["source"] = source
                manifest["schema"] = {item.name: str(item.type) for item in _columns(node)}
                manifest["metrics"] = metrics if len(node.sources) == 1 else {}
            if node.has_layers and node.kind != "read":
                manifest["aligned_to"] = self.write_datasets(self._graph.read_node(source))[source]
            name = digest(manifest)
            self._store.write_json(f"datasets/{name}.json", manifest)
            written[source or _MODEL] = name
        self._datasets[node.id] = written
        return written


def _fragment(brackets: str, pieces: Iterable[bytes]) -> orjson.Fragment:
    """A list or a mapping with an entry per part; as JSON it takes a quarter of the memory of the objects."""
    data = bytearray(brackets[0].encode())
    for piece in pieces:
        data += piece
        data += b","
    del data[1 if len(data) == 1 else -1 :]
    data += brackets[1].encode()
    return orjson.Fragment(bytes(data))


def _member(key: str, value: str) -> bytes:
    return b"%s:%s" % (orjson.dumps(key), orjson.dumps(value))


def _entry(part: Part, task: str, sums: dict[str, int]) -> bytes:
    """A layer in the manifest of its dataset, with sorted keys because it is hashed; its sizes are added to `sums`."""
    sums["rows"] += part.rows
    sums["file_bytes"] += part.file_bytes
    return orjson.dumps({**part_to_json(part), "task": task}, option=orjson.OPT_SORT_KEYS)


def _named(entries: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, int]]:
    """Name and size of the files of layers in a manifest."""
    for entry in entries:
        yield part_name(entry["hash"], entry["suffix"]), entry["file_bytes"]
        if "verdicts" in entry:
            verdicts, size, _ = entry["verdicts"]
            yield part_name(verdicts, VERDICTS), size


def label(source: str, number: int, index: int) -> str:
    """The name of a document part in messages."""
    return f"{source} part {number}.{index}"


def _columns(node: Node) -> Any:
    if node.kind == "read":
        return documents_schema(stage_of(node.module, Reader).columns_of(node.config))
    return layer_schema(stage_of(node.module).schema_of(node.config))

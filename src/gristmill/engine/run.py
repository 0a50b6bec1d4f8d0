"""Carrying out a graph: every task as soon as what it reads exists, and none that was done before.

The order of work is written as coroutines that wait for each other: a layer waits for the layers that it reads, an
exchange for all its parts, a fit for its inputs. A dry run follows the same paths and stops at the first task that
is not in the store; what it stopped at is the plan.
"""

import asyncio
import importlib
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from gristmill.engine.content import ContentHashes
from gristmill.engine.exchange import part_number
from gristmill.engine.executor import Executor, WorkerDied
from gristmill.engine.graph import INGEST, Graph, Node
from gristmill.engine.inputs import SourceInputs, find_inputs
from gristmill.engine.isolate import NothingFound, isolate
from gristmill.engine.task import (
    Collect,
    Emit,
    Fit,
    Map,
    Read,
    Reduce,
    Result,
    Task,
    add_counts,
    digest,
    result_from_json,
    result_to_json,
)
from gristmill.errors import UserError
from gristmill.store.segments import Segment
from gristmill.store.store import CorruptPart, Part, Store

ATTEMPTS = 2
"""How often a task may lose its worker before its records are suspected: the first loss may be a kill from outside."""
PARTITIONS = 64
"""Partitions of an exchange whose config does not set `partitions`."""
ENGINE = 1
"""Part of every key: raised when the engine itself changes what tasks write."""


class Listener(Protocol):
    """Who is told how a run goes."""

    def expect(self, node: Node, tasks: int) -> None: ...
    def done(self, node: Node, task: Task, result: Result, cached: bool) -> None: ...
    def note(self, message: str) -> None: ...


@dataclass(frozen=True)
class Document:
    """A document part of a source; the layers of later steps belong to it."""

    source: str
    part: Part
    rows_mark: str
    order: tuple[int, int]
    label: str
    task: str


@dataclass
class Made:
    """What one node has in the store, and what it has not."""

    tasks: dict[str, str] = field(default_factory=dict)
    """Key -> label of every task, in the store or made by this run."""
    executed: set[str] = field(default_factory=set)
    missing: dict[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    """Key -> (label, inputs) of tasks that a dry run stopped at."""
    waiting: int = 0
    """Tasks whose inputs do not exist yet, so that their keys are unknown; a dry run cannot count further ones."""
    metrics: dict[str, Any] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)
    layers: dict[tuple[str, tuple[int, int]], tuple[Part, str]] = field(default_factory=dict)
    """(source, order of the document part) -> layer and the key of its task."""


class Run:
    """One pass over a graph. `executor` is only asked for when there is something to run."""

    def __init__(
        self,
        graph: Graph,
        store: Store,
        executor: Executor,
        contents: ContentHashes,
        listener: Listener,
        dry: bool = False,
    ) -> None:
        self.graph = graph
        self.made = {node_id: Made() for node_id in graph.nodes}
        self.documents: dict[str, list[Document]] = {}
        """Per source: its document parts in order; in a dry run those that exist."""
        self.inputs: dict[str, SourceInputs] = {}
        self._store = store
        self._executor = executor
        self._contents = contents
        self._listener = listener
        self._dry = dry
        self._waits: dict[tuple[str, ...], asyncio.Task[Any]] = {}
        self.tasks: dict[str, tuple[Task, Mapping[str, Any], Result]] = {}
        """Key -> a task that is done, what it reads and what it made."""
        self._producers: dict[str, str] = {}
        self._group: asyncio.TaskGroup

    async def go(self) -> None:
        """Do everything, or find out what there is to do."""
        try:
            async with asyncio.TaskGroup() as self._group:
                for source in self.graph.recipe.sources:
                    self._once(("source", source), self._source(source))
        except BaseExceptionGroup as errors:
            raise _first_cause(errors) from None
        finally:
            self._contents.save()

    def _once(self, name: tuple[str, ...], work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start some work the first time that it is asked for; later askers wait for the same."""
        if name in self._waits:
            work.close()
        else:
            self._waits[name] = self._group.create_task(work)
        return self._waits[name]

    # Documents

    async def _source(self, source: str) -> list[Document] | None:
        """All document parts of a source in order, or None where a dry run cannot know them."""
        node = self.graph.read_node(source)
        inputs = self.inputs[source] = await find_inputs(self.graph.recipe, source, self._contents, self._executor)
        self._listener.expect(node, len(inputs.groups))
        reads = [
            self._once(("read", source, str(number)), self._read(node, inputs, number))
            for number in range(len(inputs.groups))
        ]
        found = [await read for read in reads]
        self.documents[source] = [document for documents in found for document in documents or ()]
        return None if any(documents is None for documents in found) else self.documents[source]

    async def _read(self, node: Node, inputs: SourceInputs, number: int) -> list[Document] | None:
        source = self.graph.recipe.sources[inputs.source]
        group = inputs.groups[number]
        reads = {
            "pieces": [[piece.name, inputs.content[piece.uri], piece.start, piece.stop] for piece in group.pieces],
            "companions": inputs.companion_hashes(group),
            "source": source.name,
            "snapshot": group.snapshot,
            "license": source.license,
            "part_bytes": source.part_bytes,
        }
        work = Read(
            module=node.module,
            config=node.config,
            pieces=group.pieces,
            companions=inputs.companion_pieces(group),
            seen=inputs.seen(group),
            source=source.name,
            snapshot=group.snapshot,
            license=source.license,
            part_bytes=source.part_bytes,
        )
        task, result = await self._obtain(node, work, reads, group.label, (0, number))
        chain = self.graph.chains[source.name]
        if result is None:
            for node_id in chain:
                self.made[node_id].waiting += 1
            return None
        documents = [
            Document(source.name, part, mark, (number, index), f"{source.name} part {number}.{index}", task.key)
            for index, (part, mark) in enumerate(zip(result.parts, result.rows_marks, strict=True))
        ]
        for document in documents:
            self.made[node.id].layers[source.name, document.order] = (document.part, task.key)
            for node_id in chain:
                self._begin(document, self.graph.nodes[node_id])
        return documents

    def _begin(self, document: Document, node: Node) -> None:
        if node.kind == "fit":
            self._once(("fit", node.id), self._model(node))
            return
        self._listener.expect(node, 1)
        if node.kind == "exchange":
            self._listener.expect(node, 1)
            self._once(("emit", node.id, document.source, str(document.order)), self._emit(document, node))
        self._layer(document, node.id)

    # Layers

    def _layer(self, document: Document, node_id: str) -> asyncio.Task[Part | None]:
        node = self.graph.nodes[node_id]
        work = self._collect(document, node) if node.kind == "exchange" else self._map(document, node)
        return self._once(("layer", node_id, document.source, str(document.order)), work)

    async def _view(self, document: Document, node: Node) -> tuple[Part, ...] | None:
        parts = []
        for layer in node.views[document.source].layers:
            part = document.part if layer == INGEST else await self._layer(document, layer)
            if part is None:
                return None
            parts.append(part)
        return tuple(parts)

    async def _models(self, node: Node) -> dict[str, Part] | None:
        models = {}
        for name, node_id in node.uses.items():
            part = await self._once(("fit", node_id), self._model(self.graph.nodes[node_id]))
            if part is None:
                return None
            models[name] = part
        return models

    async def _map(self, document: Document, node: Node) -> Part | None:
        layers, models = await self._view(document, node), await self._models(node)
        if layers is None or models is None:
            self.made[node.id].waiting += 1
            return None
        view = node.views[document.source]
        work = Map(node.module, node.config, layers, view.columns, view.gates, models)
        task, result = await self._obtain(node, work, _map_inputs(work), document.label, document.order)
        return self._keep(document, node, task, result)

    def _keep(self, document: Document, node: Node, task: Task, result: Result | None) -> Part | None:
        if result is None:
            return None
        self.made[node.id].layers[document.source, document.order] = (result.parts[0], task.key)
        return result.parts[0]

    # Exchange

    async def _emit(self, document: Document, node: Node) -> Result | None:
        layers, models = await self._view(document, node), await self._models(node)
        if layers is None or models is None:
            self.made[node.id].waiting += 1
            return None
        view = node.views[document.source]
        partitions = getattr(node.config, "partitions", PARTITIONS)
        work = Emit(node.module, node.config, layers, view.columns, view.gates, models, partitions=partitions)
        inputs = {**_map_inputs(work), "verb": "emit", "partitions": partitions}
        _, result = await self._obtain(node, work, inputs, f"{document.label} emit", document.order)
        return result

    async def _exchange(self, node: Node) -> dict[str, list[Segment]] | None:
        """Per document part: the segments that hold its answers."""
        documents = await self._all_documents(node)
        emitted = []
        for document in documents or ():
            wait = self._once(("emit", node.id, document.source, str(document.order)), self._emit(document, node))
            emitted.append(await wait)
        if documents is None or any(result is None for result in emitted):
            return None
        results: list[Result] = emitted
        rounds = _rounds(node)
        for number, function in enumerate(rounds):
            last = number == len(rounds) - 1
            partitions = None if last else getattr(node.config, "partitions", PARTITIONS)
            gathered = _by_destination(results)
            self._listener.expect(node, len(gathered))
            waits = [
                self._group.create_task(self._reduce(node, function, number, destination, segments, partitions))
                for destination, segments in sorted(gathered.items(), key=lambda item: int(item[0]))
            ]
            found = [await wait for wait in waits]
            if any(result is None for result in found):
                return None
            results = [result for result in found if result is not None]
        return _by_destination(results)

    async def _reduce(
        self,
        node: Node,
        function: str,
        number: int,
        destination: str,
        segments: list[Segment],
        partitions: int | None,
    ) -> Result | None:
        work = Reduce(node.module, node.config, function, tuple(segments), partitions)
        inputs = {
            "verb": function,
            "round": number,
            "segments": [segment.hash for segment in segments],
            "partitions": partitions,
        }
        label = f"round {number + 1} partition {destination}"
        _, result = await self._obtain(node, work, inputs, label, (number, int(destination)))
        return result

    async def _collect(self, document: Document, node: Node) -> Part | None:
        answers = await self._once(("exchange", node.id), self._exchange(node))
        emit = await self._once(("emit", node.id, document.source, str(document.order)), self._emit(document, node))
        if answers is None or emit is None:
            self.made[node.id].waiting += 1
            return None
        segments = tuple(answers.get(str(part_number(document.rows_mark)), ()))
        work = Collect(node.module, node.config, document.part, segments, tuple(emit.poisoned))
        inputs = {
            "verb": "collect",
            "rows": document.rows_mark,
            "segments": [segment.hash for segment in segments],
            "poisoned": emit.poisoned,
        }
        task, result = await self._obtain(node, work, inputs, document.label, document.order)
        return self._keep(document, node, task, result)

    # Fit

    async def _model(self, node: Node) -> Part | None:
        documents, models = await self._all_documents(node), await self._models(node)
        views = [(document, await self._view(document, node)) for document in documents or ()]
        if documents is None or models is None or any(layers is None for _, layers in views):
            self.made[node.id].waiting += 1
            return None
        work = Fit(
            node.module,
            node.config,
            tuple(layers for _, layers in views if layers is not None),
            tuple(node.views[document.source].columns for document in documents),
            tuple(node.views[document.source].gates for document in documents),
            models,
        )
        inputs = {
            "layers": [[part.hash for part in layers] for layers in work.inputs],
            "columns": work.columns,
            "gates": work.gates,
            "models": {name: part.hash for name, part in models.items()},
        }
        self._listener.expect(node, 1)
        task, result = await self._obtain(node, work, inputs, "model", (0,))
        if result is None:
            return None
        self.made[node.id].layers["", (0, 0)] = (result.parts[0], task.key)
        return result.parts[0]

    async def _all_documents(self, node: Node) -> list[Document] | None:
        found = [await self._once(("source", source), self._source(source)) for source in node.sources]
        if any(documents is None for documents in found):
            return None
        return [document for documents in found for document in documents]

    # Tasks

    async def _obtain(
        self, node: Node, work: Any, inputs: Mapping[str, Any], label: str, order: tuple[int, ...]
    ) -> tuple[Task, Result | None]:
        """The result of a task: from the store, or else by running it; None where a dry run would have to."""
        key = digest({"engine": ENGINE, **node.identity, "inputs": inputs})
        task = Task(key, node.id, label, work, (-node.depth, *order))
        made = self.made[node.id]
        record = self._store.read_json(f"tasks/{key}.json")
        result = None
        if record is not None:
            result = result_from_json(record)
            lost = [part for part in result.parts if not self._store.has_part(part)]
            if lost:
                self._say_lost(node, task, lost[0].hash, "is missing or cut short")
                result = None
        cached = result is not None
        if result is None:
            if self._dry:
                made.missing[key] = (label, inputs)
                return task, None
            result = await self._execute(node, task, inputs)
            made.executed.add(key)
        self.tasks[key] = (task, inputs, result)
        self._producers.update((part.hash, key) for part in result.parts)
        made.tasks[key] = label
        add_counts(made.metrics, result.metrics)
        _add_cost(made.cost, result.cost)
        self._listener.done(node, task, result, cached)
        return task, result

    async def _execute(self, node: Node, task: Task, inputs: Mapping[str, Any]) -> Result:
        deaths = 0
        met: set[str] = set()
        while True:
            try:
                result = await self._executor.run(task)
                break
            except CorruptPart as corrupt:
                if corrupt.part_hash in met:
                    raise UserError(
                        f"Part {corrupt.part_hash[:12]} {corrupt.fact}, also after it was made again: the disk under "
                        f"the store {self._store.uri} does not give back what is written to it. Use another store."
                    ) from None
                met.add(corrupt.part_hash)
                await self._repair(corrupt)
            except WorkerDied as death:
                deaths += 1
                self._listener.note(f"{node.id}, {task.label}: the worker {death}; trying again")
                if deaths >= ATTEMPTS:
                    task, deaths = await self._without_poison(node, task, str(death)), 0
        record = {"key": task.key, "node": node.id, "label": task.label, **node.identity, "inputs": inputs}
        self._store.write_json(f"tasks/{task.key}.json", {**record, **result_to_json(result)})
        return result

    async def _without_poison(self, node: Node, task: Task, death: str) -> Task:
        self._listener.note(f"{node.id}, {task.label}: looking for the record that kills its worker")
        try:
            task = await isolate(task, self._executor)
        except NothingFound:
            raise UserError(
                f"{node.id}, {task.label}: the worker {death} again and again, and no single record is to blame. "
                "What is finished is kept. Give it more memory (fewer --workers, smaller part_bytes) and run again."
            ) from None
        self._listener.note(f"{node.id}, {task.label}: found it; it becomes a row with the reason worker_crashed")
        return task

    async def _repair(self, corrupt: CorruptPart) -> None:
        """Make a broken part again; all tasks that meet it wait for the one repair."""
        await self._once(("repair", corrupt.part_hash), self._make_again(corrupt))

    async def _make_again(self, corrupt: CorruptPart) -> None:
        task, inputs, _ = self.tasks[self._producers[corrupt.part_hash]]
        node = self.graph.nodes[task.node]
        self._say_lost(node, task, corrupt.part_hash, corrupt.fact)
        result = await self._execute(node, replace(task, order=(-(10**6),)), inputs)
        self.made[node.id].executed.add(task.key)
        if corrupt.part_hash not in [part.hash for part in result.parts]:
            raise NotReproduced(
                f"{node.id}, {task.label}: made again, part {corrupt.part_hash[:12]} came out with other bytes "
                "(a library of another version, or a stage that is not a pure function); what depends on it runs again"
            )

    def _say_lost(self, node: Node, task: Task, part_hash: str, fact: str) -> None:
        if not self._dry:
            self._listener.note(f"{node.id}, {task.label}: part {part_hash[:12]} {fact}; making it again")


class NotReproduced(Exception):
    """A part that was made again has other bytes: the run must start over with the new ones."""


def _map_inputs(work: Map) -> dict[str, Any]:
    return {
        "layers": [part.hash for part in work.layers],
        "columns": work.columns,
        "gates": work.gates,
        "models": {name: part.hash for name, part in work.models.items()},
    }


def _rounds(node: Node) -> Sequence[str]:
    return getattr(importlib.import_module(node.module), "ROUNDS", ("reduce",))


def _by_destination(results: Sequence[Result]) -> dict[str, list[Segment]]:
    gathered: dict[str, list[Segment]] = {}
    for result in results:
        for destination, segment in result.segments.items():
            gathered.setdefault(destination, []).append(segment)
    return gathered


def _add_cost(total: dict[str, float], cost: Mapping[str, float]) -> None:
    for name, value in cost.items():
        total[name] = max(total.get(name, 0), value) if name == "peak_rss_bytes" else total.get(name, 0) + value


def _first_cause(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error to show: a user's before a bug's, the first of its kind."""
    flat: list[BaseException] = []
    stack: list[BaseException] = [errors]
    while stack:
        error = stack.pop()
        if isinstance(error, BaseExceptionGroup):
            stack.extend(reversed(error.exceptions))
        else:
            flat.append(error)
    return next((error for error in flat if isinstance(error, UserError)), flat[0])

"""Carrying out a graph: every task as soon as what it reads exists, and none that was done before.

The order of work is written as coroutines that wait for each other: a layer waits for the layers that it reads, an
exchange for all its parts, a fit for its inputs. A dry run follows the same paths and stops at the first task that
is not in the store; what it stopped at is the plan.
"""

import asyncio
import importlib
from collections.abc import Coroutine, Sequence
from typing import Any

from gristmill.checked import InputChanged
from gristmill.engine.borders import check_destinations
from gristmill.engine.content import ContentHashes
from gristmill.engine.exchange import part_number
from gristmill.engine.executor import Executor
from gristmill.engine.first_part import refuse_lost
from gristmill.engine.graph import Graph, Node
from gristmill.engine.inputs import SourceInputs, find_inputs, hash_files, work_of
from gristmill.engine.obtain import Listener, Tasks
from gristmill.engine.run_sink import by_destination, write_files
from gristmill.engine.seen import Document, Seen
from gristmill.engine.task import (
    Collect,
    Emit,
    Fit,
    Map,
    Reduce,
    Result,
    Task,
    add_counts,
)
from gristmill.errors import UserError, first_cause
from gristmill.recipe.columns import INGEST
from gristmill.store.leases import Lease
from gristmill.store.segments import Segment
from gristmill.store.store import Part, Store

PARTITIONS = 64
"""Partitions of an exchange whose config does not set `partitions`."""


class Run(Seen):
    """One pass over a graph. `executor` is only asked for when there is something to run."""

    def __init__(
        self,
        graph: Graph,
        store: Store,
        executor: Executor,
        contents: ContentHashes,
        listener: Listener,
        dry: bool = False,
        lease: Lease | None = None,
        retry_crashed: bool = False,
    ) -> None:
        self.tasks = Tasks(graph.nodes, store, executor, listener, dry, lease, retry_crashed)
        recipe = graph.recipe
        sample = "" if recipe.sample is None else f" --sample {recipe.sample * 100:.12g}%"
        super().__init__(recipe.name, f"{recipe.path}{sample}", store, graph.nodes, graph.chains, self.tasks.made)
        self.graph = graph
        self.inputs: dict[str, SourceInputs] = {}
        self._store = store
        self._executor = executor
        self._contents = contents
        self.listener = listener
        self.done = self.tasks.done
        self._waits: dict[tuple[str, ...], asyncio.Task[Any]] = {}
        self.group: asyncio.TaskGroup

    async def go(self) -> None:
        """Do everything, or find out what there is to do."""
        try:
            async with asyncio.TaskGroup() as self.group:
                for source in self.graph.recipe.sources:
                    self._once(("source", source), self._source(source))
                for node in self.graph.nodes.values():
                    self._once(("settled", node.id), self._settle(node))
        except BaseExceptionGroup as errors:
            raise first_cause(errors) from None
        finally:
            self._save_contents()

    def _save_contents(self) -> None:
        """Who only looks may have a store that cannot be written: then new files are hashed again next time."""
        try:
            self._contents.save()
        except UserError:
            if not self.tasks.dry:
                raise

    def _once(self, name: tuple[str, ...], work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start some work the first time that it is asked for; later askers wait for the same."""
        if name in self._waits:
            work.close()
        else:
            self._waits[name] = self.group.create_task(work)
        return self._waits[name]

    async def _settle(self, node: Node) -> None:
        """Say when all tasks of a step are known: with its documents; of others than maps, when they come to that."""
        await self.all_documents(node)
        model = self._waits.get(("model", node.id))
        if model is not None:
            await model
        elif node.kind == "exchange":
            await self._once(("exchange", node.id), self._exchange(node))
        self.listener.settled(node)

    # Documents

    async def _source(self, source: str) -> list[Document] | None:
        """All document parts of a source in order, or None where a dry run cannot know them."""
        node = self.graph.read_node(source)
        recipe, note = self.graph.recipe, self.listener.note
        inputs = self.inputs[source] = await find_inputs(recipe, source, self._contents, self._executor, note)
        if (limit := recipe.sources[source].limit) is not None:
            found = await self._read_some(node, inputs, limit)
        else:
            self.listener.expect(node, len(inputs.groups))
            self.listener.settled(node)
            reads = [
                self._once(("read", source, str(number)), self._read(node, inputs, number))
                for number in range(len(inputs.groups))
            ]
            found = [await read for read in reads]
        self.documents[source] = [document for documents in found for document in documents or ()]
        return None if any(documents is None for documents in found) else self.documents[source]

    async def _read_some(self, node: Node, inputs: SourceInputs, limit: int) -> list[list[Document] | None]:
        """Group after group, and no file more, until there are as many records as the limit says."""
        found: list[list[Document] | None] = []
        for number, group in enumerate(inputs.groups):
            await hash_files(inputs, [group], self._contents, self._executor, self.listener.note)
            self.listener.expect(node, 1)
            documents = await self._read(node, inputs, number, limit)
            found.append(documents)
            limit -= sum(document.part.rows for document in documents or ())
            if documents is None or limit <= 0:
                break
        return found

    async def _read(
        self, node: Node, inputs: SourceInputs, number: int, limit: int | None = None
    ) -> list[Document] | None:
        source = self.graph.recipe.sources[inputs.source]
        group = inputs.groups[number]
        work, reads = work_of(source, inputs, group, limit)
        try:
            task, result = await self.tasks.obtain(node, work, reads, group.label, (0, number))
        except InputChanged as changed:
            # Its stamp did not tell; the next run hashes it anew.
            self._contents.forget(changed.uri)
            raise
        chain = self.graph.chains[source.name]
        if number == 0 and result is not None and not self.tasks.dry:
            module, first = importlib.import_module(node.module), inputs.pieces(group)[0]
            refuse_lost(source, module, first, result, self._store, self.graph.recipe)
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
        if not node.has_layers:
            self._once(("model", node.id), self._model(node))
            return
        self.listener.expect(node, 1)
        if node.kind == "exchange":
            self.listener.expect(node, 1)
            self._once(("emit", node.id, document.source, str(document.order)), self._emit(document, node))
        self.layer(document, node.id)

    # Layers

    def layer(self, document: Document, node_id: str) -> asyncio.Task[Part | None]:
        node = self.graph.nodes[node_id]
        work = self._collect(document, node) if node.kind == "exchange" else self._map(document, node)
        return self._once(("layer", node_id, document.source, str(document.order)), work)

    async def view(self, document: Document, node: Node) -> tuple[Part, ...] | None:
        parts = []
        for layer in node.views[document.source].layers:
            part = document.part if layer == INGEST else await self.layer(document, layer)
            if part is None:
                return None
            parts.append(part)
        return tuple(parts)

    async def models(self, node: Node) -> dict[str, Part] | None:
        models = {}
        for name, node_id in node.uses.items():
            part = await self._once(("model", node_id), self._model(self.graph.nodes[node_id]))
            if part is None:
                return None
            models[name] = part
        return models

    async def _map(self, document: Document, node: Node) -> Part | None:
        layers, models = await self.view(document, node), await self.models(node)
        if layers is None or models is None:
            self.made[node.id].waiting += 1
            return None
        view = node.views[document.source]
        work = Map(node.module, node.config, layers, view.columns, view.gates, models)
        task, result = await self.tasks.obtain(node, work, _map_inputs(work), document.label, document.order)
        return self._keep(document, node, task, result)

    def _keep(self, document: Document, node: Node, task: Task, result: Result | None) -> Part | None:
        if result is None:
            return None
        self.made[node.id].layers[document.source, document.order] = (result.parts[0], task.key)
        return result.parts[0]

    # Exchange

    async def _emit(self, document: Document, node: Node) -> Result | None:
        layers, models = await self.view(document, node), await self.models(node)
        if layers is None or models is None:
            self.made[node.id].waiting += 1
            return None
        view = node.views[document.source]
        partitions = getattr(node.config, "partitions", PARTITIONS)
        work = Emit(node.module, node.config, layers, view.columns, view.gates, models, partitions=partitions)
        inputs = {**_map_inputs(work), "verb": "emit", "partitions": partitions}
        _, result = await self.tasks.obtain(node, work, inputs, f"{document.label} emit", document.order)
        self._count(document, node, result, "rows_sent")
        return result

    async def _exchange(self, node: Node) -> dict[str, list[Segment]] | None:
        """Per document part: the segments that hold its answers."""
        documents = await self.all_documents(node)
        _refuse_equal_numbers(documents or ())
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
            gathered = by_destination(results)
            self.listener.expect(node, len(gathered))
            if last:
                self.listener.settled(node)
            waits = [
                self.group.create_task(self._reduce(node, function, number, destination, segments, partitions))
                for destination, segments in sorted(gathered.items(), key=lambda item: int(item[0]))
            ]
            found = [await wait for wait in waits]
            if any(result is None for result in found):
                return None
            results = [result for result in found if result is not None]
        answers = by_destination(results)
        known = {str(part_number(document.rows_mark)) for document in documents}
        check_destinations(answers, known, node.id, node.module)
        return answers

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
        _, result = await self.tasks.obtain(node, work, inputs, label, (number, int(destination)))
        return result

    async def _collect(self, document: Document, node: Node) -> Part | None:
        answers = await self._once(("exchange", node.id), self._exchange(node))
        emit = await self._once(("emit", node.id, document.source, str(document.order)), self._emit(document, node))
        if answers is None or emit is None:
            self.made[node.id].waiting += 1
            return None
        segments = tuple(answers.get(str(part_number(document.rows_mark)), ()))
        poisoned = tuple((row, detail) for row, detail in emit.poisoned)
        work = Collect(node.module, node.config, document.part, segments, poisoned)
        inputs = {
            "verb": "collect",
            "rows": document.rows_mark,
            "segments": [segment.hash for segment in segments],
            "poisoned": emit.poisoned,
        }
        task, result = await self.tasks.obtain(node, work, inputs, document.label, document.order)
        self._count(document, node, result, "dropped")
        return self._keep(document, node, task, result)

    def _count(self, document: Document, node: Node, result: Result | None, name: str) -> None:
        """An exchange sees many sources at once; what each of them lost is counted apart."""
        if result is not None:
            add_counts(self.made[node.id].metrics, {"sources": {document.source: {name: result.metrics[name]}}})

    # Models

    async def _model(self, node: Node) -> Part | None:
        return await (write_files(self, node) if node.kind == "sink" else self._fit(node))

    def keep_model(self, node: Node, task: Task, result: Result | None) -> Part | None:
        if result is None:
            return None
        self.made[node.id].layers["", (0, 0)] = (result.parts[0], task.key)
        return result.parts[0]

    async def _fit(self, node: Node) -> Part | None:
        documents, models = await self.all_documents(node), await self.models(node)
        views = [(document, await self.view(document, node)) for document in documents or ()]
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
        self.listener.expect(node, 1)
        self.listener.settled(node)
        task, result = await self.tasks.obtain(node, work, inputs, "model", (0,))
        return self.keep_model(node, task, result) or self._foresee(node)

    def _foresee(self, node: Node) -> Part | None:
        """A model that is a file of the user's, as it is, is known before it is made: what follows can be looked up."""
        field = getattr(importlib.import_module(node.module), "COPIES", None)
        if field is not None:
            ((_, _, part),) = node.files[getattr(node.config, field)].files
            self.made[node.id].foreseen = part
        return self.made[node.id].foreseen

    async def all_documents(self, node: Node) -> list[Document] | None:
        found = [await self._once(("source", source), self._source(source)) for source in node.sources]
        if any(documents is None for documents in found):
            return None
        return [document for documents in found for document in documents]


def _map_inputs(work: Map) -> dict[str, Any]:
    return {
        "layers": [part.hash for part in work.layers],
        "columns": work.columns,
        "gates": work.gates,
        "models": {name: part.hash for name, part in work.models.items()},
    }


def _refuse_equal_numbers(documents: Sequence[Document]) -> None:
    """Records name their part by 64 bits; answers to two parts of the same number would be mixed up."""
    known: dict[int, Document] = {}
    for document in documents:
        other = known.setdefault(part_number(document.rows_mark), document)
        if other is not document:
            raise UserError(
                f"{other.label} and {document.label} have the same number ({part_number(document.rows_mark):x}) by "
                "chance, and an exchange would mix up their documents. What is finished is kept. Change part_bytes of "
                "a source by a byte and run again."
            )


def _rounds(node: Node) -> Sequence[str]:
    return getattr(importlib.import_module(node.module), "ROUNDS", ("reduce",))

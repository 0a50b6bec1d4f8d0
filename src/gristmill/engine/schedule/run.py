"""Runs a graph: every task as soon as its inputs exist, and no task that was done before.

Whole stages are looked up first (`stage_record.py`). The others go part by part through the chain of their source, as
the frontier schedules them (`frontier.py`); an exchange, a fit and a sink wait until all parts have reached them, an
asset only for its models. A dry run follows the same paths and stops at the first task that is not in the store; the
tasks at which it stops are the plan.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from gristmill.checked import InputChanged
from gristmill.engine.executors.executor import Executor
from gristmill.engine.files.content import ContentHashes
from gristmill.engine.files.grouping import FileGroup
from gristmill.engine.files.tree import Folders
from gristmill.engine.plan.graph import Graph, Node, asks, asks_one_by_one
from gristmill.engine.plan.inputs import SourceInputs, hash_files, layer_inputs, work_of
from gristmill.engine.schedule.asking import report_asking
from gristmill.engine.schedule.corpus_view import DocumentPart
from gristmill.engine.schedule.find_sources import SourceFinder
from gristmill.engine.schedule.first_part import refuse_lost
from gristmill.engine.schedule.frontier import READING, Frontier, WorkItem, items_of
from gristmill.engine.schedule.preview import Previews
from gristmill.engine.schedule.run_context import RunContext
from gristmill.engine.schedule.run_exchange import ExchangeRun
from gristmill.engine.schedule.run_model import fit_model, make_asset
from gristmill.engine.schedule.run_sink import write_files
from gristmill.engine.schedule.stage_record import StageRecords, label
from gristmill.engine.schedule.task_cache import MODEL, Earlier, Listener, Tasks
from gristmill.engine.work.task import MapWork, Result, Task
from gristmill.errors import UserError, first_cause
from gristmill.recipe.checks.columns import INGEST
from gristmill.stages.contract import Asset, Reader
from gristmill.stages.declarations import stage_of
from gristmill.store.leases import Lease
from gristmill.store.store import CorruptPart, Store


class Run(RunContext):
    """One pass over a graph."""

    def __init__(
        self,
        graph: Graph,
        store: Store,
        executor: Executor,
        contents: ContentHashes,
        listener: Listener,
        dry: bool = False,
        lease: Lease | None = None,
        keep: Callable[[Task, Result], bool] | None = None,
        earlier: Earlier | None = None,
        previews: bool = False,
    ) -> None:
        """`keep` chooses tasks to keep in `tasks.kept`; then all tasks are visited one by one, and not whole stages.
        With `previews`, the beginning of every source that was never read is checked before anything else.
        """
        tasks = Tasks(graph.nodes, store, executor, listener, dry, lease, keep or (lambda *_: False), earlier)
        super().__init__(graph, store, executor, tasks, listener)
        recipe = graph.recipe
        self.domains = {name: source.domain for name, source in recipe.sources.items()}
        self.inputs: dict[str, SourceInputs] = {}
        self.ended: dict[str, Any] = {}
        """The record of the run, once it has ended."""
        self.cost: dict[str, int] = {}
        """Requests of the coordinator itself to an object store; those of tasks are in the tasks' cost."""
        self.warned_before: Sequence[dict[str, str]] | None = None
        """The recorded warnings of the last whole run of the recipe; None if there is none."""
        self.shards: str | None = None
        """Where its shards are published, if the recipe has any."""
        self.fault_of_latest: str | None = None
        """Why `latest` still names the shards of an earlier run."""
        self.stages = StageRecords(graph, store, self.tasks, self.documents)
        self._contents = contents
        self._by_task = keep is not None
        self.previews = Previews() if previews else None
        self._sources = SourceFinder(graph, self.tasks, self.stages, contents, executor, store, listener, self.previews)
        self._whole: set[str] = set()
        """Stages that the store has as a whole."""
        self._unread = {node.id: len(node.sources) for node in graph.nodes.values()}
        """How many sources of each node are still to be read."""
        self._exchanges = {node.id: ExchangeRun(self, node) for node in graph.nodes.values() if node.kind == "exchange"}
        self._turns = {node.id: asyncio.Semaphore(1) for node in graph.nodes.values() if asks_one_by_one(node)}
        """For steps that ask servers which all workers share: one task at a time, which bounds their concurrency."""
        self._reports: dict[str, asyncio.Task[None]] = {}
        """For steps that ask servers: what reports their progress."""
        self._frontier = self._make_frontier()

    def _make_frontier(self) -> Frontier:
        chains = {source: items_of(self.graph, source) for source in self.chains}
        frontier = Frontier(chains, self._perform, self._count_waiting, self._window)
        self._bits = {(source, item.node.id, item.emits): item.bit for source in chains for item in chains[source]}
        bits = self._bits
        for node in self.graph.nodes.values():
            if node.kind == "read":
                continue
            if node.has_layers:
                frontier.add_gate(node.id, {source: bits[source, node.id, False] for source in node.sources})
            if node.kind == "exchange":
                frontier.add_gate(_before(node), {source: bits[source, node.id, True] for source in node.sources})
            elif not node.has_layers:
                masks = {}
                for source in node.sources:
                    layers = {*node.views[source].layers, *([node.counts[source]] if node.counts else ())} - {INGEST}
                    masks[source] = sum(bits[source, layer, False] for layer in layers)
                frontier.add_gate(_before(node), masks)
        return frontier

    async def go(self) -> None:
        """Run everything, or find out what there is to run."""
        try:
            async with asyncio.TaskGroup() as self._group:
                self._frontier.start(self._group)
                self._group.create_task(self._all())
        except BaseExceptionGroup as errors:
            raise first_cause(errors) from None
        finally:
            for report in self._reports.values():
                report.cancel()
            self._save_contents()

    def _save_contents(self) -> None:
        """A dry run may have a read-only store: then new files are hashed again next time."""
        try:
            self._contents.save()
        except UserError:
            if not self.tasks.dry:
                raise

    async def _all(self) -> None:
        """Assets begin first, then sources that must be read; everything else begins once it is known which stages are
        whole.
        """
        begun = await self._begin_assets()
        folders = Folders()
        derived = {source: self.graph.recipe.sources[source] for source in self.graph.derived}
        sources = {
            name: self._group.create_task(self._source(name, folders)) for name in self.chains if name not in derived
        }
        read = [source for source, task in sources.items() if await task]
        for node in self.graph.nodes.values():
            if node.id in self._whole or node.id in begun:
                continue
            if node.kind == "read":
                child = derived.get(node.sources[0])
                if child is not None and child.made_by in self._whole and await self._is_made(node):
                    read.append(node.sources[0])
            elif self._inputs_are_whole(node) and await self._is_found(node):
                self._skip(node)
        for node in self.graph.nodes.values():
            if node.id in self._whole:
                self._frontier.open(node.id, node.depth, True)
            elif node.kind != "read" and node.id not in begun:
                self._group.create_task(self._stage(node))
        for source in read:
            self._begin(source, self.documents[source])
            self._complete(source, True)
        for source in derived:
            if source not in read:
                self._group.create_task(self._derived(source))

    async def _begin_assets(self) -> set[str]:
        """Begin assets that only need files: they are whole, or their tasks begin before any source is read."""
        begun: set[str] = set()
        for node in self.graph.nodes.values():
            if node.kind != "asset" or not node.uses <= begun | self._whole:
                continue
            if self._by_task or not node.uses <= self._whole or not await self._is_found(node):
                begun.add(node.id)
                self._group.create_task(self._stage(node))
        return begun

    # Whole stages

    def _inputs_are_whole(self, node: Node) -> bool:
        layers = {layer for view in node.views.values() for layer in view.layers} - {INGEST}
        reads = {f"{source}/{INGEST}" for source in node.sources}
        return {*reads, *layers, *node.uses, *node.counts.values()} <= self._whole

    async def _is_found(self, node: Node) -> bool:
        found = await self.tasks.call_store(self.stages.find, node, self.stages.key_of(node))
        if found is None:
            return False
        self._take(node)
        return True

    def _take(self, node: Node) -> None:
        """Use a whole stage without visiting its tasks."""
        self._whole.add(node.id)
        self.tasks.begun = True
        state = self.states[node.id]
        self.listener.found(node, len(state.tasks), state.cost)

    def _skip(self, node: Node) -> None:
        for source in node.sources if node.has_layers else ():
            self._frontier.skip(source, sum(self._bits.get((source, node.id, emits), 0) for emits in (False, True)))

    async def _stage(self, node: Node) -> None:
        """Run a stage from its first task to its record."""
        if node.kind == "exchange":
            whole = await self._frontier.passed(_before(node)) and await self._exchanges[node.id].answer()
            self._frontier.open(node.id, node.depth, whole)
        if node.has_layers:
            whole = await self._frontier.passed(node.id)
            if node.kind == "exchange":
                self._exchanges[node.id].forget()
        else:
            known = [await self._frontier.passed(_before(node))]
            known += [await self._frontier.opened(model) for model in node.uses]
            whole = await self._model(node, all(known))
            self._frontier.open(node.id, node.depth, whole or self.states[node.id].foreseen is not None)
        if node.id in self._reports:
            self._reports.pop(node.id).cancel()
        if whole:
            await self._write(node)

    async def _write(self, node: Node, inputs: SourceInputs | None = None) -> None:
        limited = any(self.graph.recipe.sources[source].limit is not None for source in node.sources)
        if not self.tasks.dry and not limited:
            await self.tasks.call_store(self.stages.write, node, inputs)

    # Documents

    async def _source(self, source: str, folders: Folders) -> bool:
        """Find a source's files; returns True if all of its document parts exist, otherwise begins to read them."""
        node = self.graph.read_node(source)
        recipe = self.graph.recipe
        inputs = self.inputs[source] = await self._sources.find(source, folders)
        if (limit := recipe.sources[source].limit) is not None:
            self._group.create_task(self._read_some(node, inputs, limit))
            return False
        if await self._was_read(node, inputs):
            return True
        await self._begin_reading(node, inputs)
        return False

    async def _was_read(self, node: Node, inputs: SourceInputs) -> bool:
        """Whether the whole source was read before; takes its documents then."""
        found = None if self._by_task else await self._sources.find_reading(node, inputs)
        if found is None:
            return False
        self.documents[inputs.source] = found
        self._take(node)
        return True

    async def _begin_reading(self, node: Node, inputs: SourceInputs) -> None:
        self.listener.expect(node, len(inputs.groups))
        self.listener.settled(node)
        left = {"groups": len(inputs.groups), "unknown": 0}
        reads = [partial(self._read_one, node, inputs, number, left) for number in _first_then_large(inputs.groups)]
        if not reads:
            await self._read_all(node, inputs, True)
        self._frontier.submit(READING, reads)

    # Derived documents

    async def _is_made(self, node: Node) -> bool:
        """Whether all children of a derived source exist and were read before; takes its documents then."""
        return await self._was_read(node, await self._find_children(node.sources[0]))

    async def _derived(self, source: str) -> None:
        """Read a derived source, once the step on its parents' routes has made all children."""
        node = self.graph.read_node(source)
        if await self._frontier.passed(self.graph.recipe.sources[source].made_by):
            inputs = await self._find_children(source)
            if not await self._was_read(node, inputs):
                await self._begin_reading(node, inputs)
            else:
                self._begin(source, self.documents[source])
                self._complete(source, True)
            return
        self.inputs[source] = layer_inputs(source, self.graph.recipe, [], self.store)
        self.states[node.id].waiting += 1
        self._count_unread(source)
        await self._read_all(node, self.inputs[source], False)

    async def _find_children(self, source: str) -> SourceInputs:
        """The parts of the step that makes them, as the input files of a derived source."""
        maker = self.graph.nodes[self.graph.recipe.sources[source].made_by]
        layers = self.states[maker.id].layers
        parts = [(one.label, layers[one.source, one.order][0]) for one in self.all_documents(maker)]
        inputs = self.inputs[source] = layer_inputs(source, self.graph.recipe, parts, self.store)
        await hash_files(inputs, inputs.groups, self._contents, self._executor, self.listener.note)
        for (label_, part), uri in zip(parts, inputs.files, strict=True):
            if inputs.content[uri].sha256 != part.hash:
                self._contents.forget(uri)
                raise CorruptPart(part.hash, f"({label_}) does not match its hash")
        return inputs

    def _count_unread(self, source: str) -> None:
        for node_id in self.chains[source]:
            self.states[node_id].waiting += source in self.graph.nodes[node_id].views

    async def _read_one(self, node: Node, inputs: SourceInputs, number: int, left: dict[str, int]) -> None:
        documents = await self._read(node, inputs, number)
        left["groups"] -= 1
        left["unknown"] += documents is None
        if not left["groups"]:
            await self._read_all(node, inputs, not left["unknown"])

    async def _read_some(self, node: Node, inputs: SourceInputs, limit: int) -> None:
        """Read group after group, and no more files than needed, until the limit of records is reached."""
        documents: list[DocumentPart] | None = []
        for number, group in enumerate(inputs.groups):
            await hash_files(inputs, [group], self._contents, self._executor, self.listener.note)
            self.listener.expect(node, 1)
            documents = await self._read(node, inputs, number, limit)
            limit -= sum(document.part.rows for document in documents or ())
            if documents is None or limit <= 0:
                break
        await self._read_all(node, inputs, documents is not None)

    async def _read_all(self, node: Node, inputs: SourceInputs, is_known: bool) -> None:
        """Finish a source: no more of its parts will come."""
        source = inputs.source
        self.documents.setdefault(source, []).sort(key=lambda document: document.order)
        if is_known:
            await self._write(node, inputs)
        self._complete(source, is_known)

    async def _read(
        self, node: Node, inputs: SourceInputs, number: int, limit: int | None = None
    ) -> list[DocumentPart] | None:
        source = self.graph.recipe.sources[inputs.source]
        group = inputs.groups[number]
        work, reads = work_of(source, inputs, group, limit)
        try:
            task, result = await self.tasks.obtain(node, work, reads, group.label, (0, number))
        except InputChanged as changed:
            # It changed under the same stamp; the next run hashes it again.
            self._contents.forget(changed.uri)
            raise
        if number == 0 and result is not None and not self.tasks.dry and not source.parents:
            reader, first = stage_of(node.module, Reader), inputs.pieces(group)[0]
            refuse_lost(source, reader, first, result, self.store, self.graph.recipe)
        if result is None:
            self._count_unread(source.name)
            return None
        documents = [
            DocumentPart(source.name, part, mark, (number, index), label(source.name, number, index), task.key)
            for index, (part, mark) in enumerate(zip(result.parts, result.rows_hashes, strict=True))
        ]
        for document in documents:
            self.states[node.id].layers[source.name, document.order] = (document.part, task.key)
        self.documents.setdefault(source.name, []).extend(documents)
        self._begin(source.name, documents)
        return documents

    def _begin(self, source: str, documents: Sequence[DocumentPart]) -> None:
        for node_id in self.chains[source]:
            node = self.graph.nodes[node_id]
            if node.has_layers and node_id not in self._whole:
                self.listener.expect(node, (2 if node.kind == "exchange" else 1) * len(documents))
        self._frontier.begin(source, documents)

    def _complete(self, source: str, is_known: bool) -> None:
        self._frontier.complete(source, is_known)
        for node in (self.graph.nodes[node_id] for node_id in self.chains[source]):
            self._unread[node.id] -= 1
            if node.kind == "map" and not self._unread[node.id]:
                self.listener.settled(node)

    # Layers

    async def _perform(self, document: DocumentPart, item: WorkItem) -> bool:
        if item.emits:
            return await self._exchanges[item.node.id].emit(document)
        if item.node.kind == "exchange":
            return await self._exchanges[item.node.id].collect(document)
        return await self._map(document, item.node)

    def _count_waiting(self, item: WorkItem) -> None:
        self.states[item.node.id].waiting += 1

    async def _map(self, document: DocumentPart, node: Node) -> bool:
        view = node.views[document.source]
        layers = self.view(document, node)
        work = MapWork(node.module, node.config, layers, view.columns, view.gates, self.models(node, document.source))
        async with self._turns.get(node.id, nullcontext()):
            if asks(node) and not self.tasks.dry and node.id not in self._reports:
                self._reports[node.id] = asyncio.create_task(report_asking(self, node))
            task, result = await self.tasks.obtain(node, work, self.map_inputs(work), document.label, document.order)
        return self.keep(document, node, task, result)

    # Models

    async def _model(self, node: Node, inputs_are_whole: bool) -> bool:
        if not inputs_are_whole:
            self.states[node.id].waiting += 1
            return False
        found = await _MAKERS[node.kind](self, node)
        if found is not None:
            task, result = found
            self.states[node.id].layers[MODEL] = (result.parts[0], task.key)
        else:
            self._foresee(node)
        return found is not None

    def _foresee(self, node: Node) -> None:
        """A model that is a copy of a user's file is known before it is made, so later stages can be looked up."""
        stage = stage_of(node.module)
        if isinstance(stage, Asset) and stage.copies is not None:
            ((_, _, part),) = node.files[dict(node.config)[stage.copies]].files
            self.states[node.id].foreseen = part


_MAKERS = {"fit": fit_model, "asset": make_asset, "sink": write_files}


def _first_then_large(groups: Sequence[FileGroup]) -> list[int]:
    """The numbers of groups in reading order: the first, which decides whether the source can be read at all
    (`first_part.py`), then the largest.
    """
    return sorted(range(len(groups)), key=lambda number: (number > 0, -groups[number].size, number))


def _before(node: Node) -> str:
    """The gate before a stage that needs all parts."""
    return f"before {node.id}"

"""Finds the files of all sources, and what earlier runs have read of them.

With previews, the beginning of every source that was never read is checked (`preview.py`), and the faults of all
sources are raised together, before anything is hashed.
"""

import asyncio

from gristmill.counted import counted, size
from gristmill.engine.executors.executor import Executor
from gristmill.engine.files.content import ContentHashes
from gristmill.engine.files.tree import Folders
from gristmill.engine.plan.graph import Graph, Node
from gristmill.engine.plan.inputs import SourceInputs, find_inputs, use_known_content, work_of
from gristmill.engine.schedule.corpus_view import DocumentPart
from gristmill.engine.schedule.preview import Previews
from gristmill.engine.schedule.stage_record import StageRecords
from gristmill.engine.schedule.task_cache import Listener, Tasks, key_of
from gristmill.errors import UserError
from gristmill.store.store import Store


class SourceFinder:
    """Finds the sources of one run."""

    def __init__(
        self,
        graph: Graph,
        tasks: Tasks,
        stages: StageRecords,
        contents: ContentHashes,
        executor: Executor,
        store: Store,
        listener: Listener,
        previews: Previews | None,
    ) -> None:
        self._graph = graph
        self._tasks = tasks
        self._stages = stages
        self._contents = contents
        self._executor = executor
        self._store = store
        self._listener = listener
        self._previews = previews
        self._found: dict[str, list[DocumentPart] | None] = {}
        """By source: the parts of the whole source, if they were looked up."""
        self._unlisted = len(graph.chains) - len(graph.derived)
        self._all_listed = asyncio.Event()

    async def find(self, source: str, folders: Folders) -> SourceInputs:
        """The files of a source, with their hashes."""
        recipe = self._graph.recipe

        async def listed(inputs: SourceInputs) -> None:
            files = f"{counted(len(inputs.files), 'file')} of {source}"
            self._listener.doing(f"reading the beginning of {files}")
            if self._previews is not None:
                if inputs.groups and not await self._was_read(inputs):
                    await self._previews.add(recipe, self._graph.read_node(source), inputs, self._executor)
                await self._all_previewed(self._previews)
            self._listener.doing(f"hashing {files} ({size(sum(file.size for file in inputs.files.values()))})")

        try:
            return await find_inputs(
                recipe, source, folders, self._contents, self._executor, self._listener.note, listed
            )
        except UserError as fault:
            if self._previews is None or not self._unlisted:
                raise
            self._previews.faults[source] = fault
            await self._all_previewed(self._previews)
            raise

    async def find_reading(self, node: Node, inputs: SourceInputs) -> list[DocumentPart] | None:
        """The document parts of a source, if the whole source was read before."""
        if inputs.source in self._found:
            return self._found[inputs.source]
        return await self._tasks.call_store(self._stages.find, node, self._stages.key_of_reading(node, inputs))

    async def _all_previewed(self, previews: Previews) -> None:
        self._unlisted -= 1
        if not self._unlisted:
            previews.refuse(self._graph.recipe)
            self._all_listed.set()
        await self._all_listed.wait()

    async def _was_read(self, inputs: SourceInputs) -> bool:
        """Whether the store has what a run read from a source, or from its first files, unchanged."""
        node, source = self._graph.read_node(inputs.source), self._graph.recipe.sources[inputs.source]
        if source.limit is None and not use_known_content(inputs, inputs.groups, self._contents):
            self._found[source.name] = await self.find_reading(node, inputs)
            if self._found[source.name] is not None:
                return True
        if use_known_content(inputs, inputs.groups[:1], self._contents):
            return False
        _, reads = work_of(source, inputs, inputs.groups[0], source.limit)
        key = key_of(node, reads)
        return await self._tasks.call_store(self._store.read_json, f"tasks/{key}.json") is not None

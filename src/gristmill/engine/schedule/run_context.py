"""What every part of a run uses: tasks, documents, layers, models, and concurrent work."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from gristmill.engine.executors.executor import Executor
from gristmill.engine.plan.graph import Graph, Node
from gristmill.engine.schedule.corpus_view import CorpusView, DocumentPart
from gristmill.engine.schedule.task_cache import Listener, Tasks
from gristmill.engine.work.task import MapWork, Result, Task, layer_hashes
from gristmill.hints import named
from gristmill.store.store import Part, Store

Answer = TypeVar("Answer")

WINDOW = 32
"""The least number of document parts in progress: while some are computed, others are looked up."""
PER_SLOT = 4
"""Document parts in progress for each task that the executor runs at once."""


class RunContext(CorpusView):
    """A corpus that a run is making."""

    def __init__(self, graph: Graph, store: Store, executor: Executor, tasks: Tasks, listener: Listener) -> None:
        recipe = graph.recipe
        super().__init__(recipe.name, named(recipe.path, recipe.sample), store, graph.nodes, graph.chains, tasks.states)
        self.graph = graph
        self.tasks = tasks
        self.listener = listener
        self._executor = executor
        self._group: asyncio.TaskGroup

    def _window(self) -> int:
        """How many parts may be in progress; a cluster may grow meanwhile."""
        return max(WINDOW, PER_SLOT * self._executor.slots)

    def all_documents(self, node: Node) -> list[DocumentPart]:
        """The document parts of all sources of a stage, once they are read."""
        return [document for source in node.sources for document in self.documents[source]]

    def view(self, document: DocumentPart, node: Node) -> tuple[Part, ...]:
        return tuple(self.layer(layer, document) for layer in node.views[document.source].layers)

    def models(self, node: Node, source: str | None = None) -> dict[str, Part]:
        """The models of a step: the same for all of its sources or, for a map step, those for one of them."""
        uses = node.models if source is None else node.views[source].models
        found = {name: self.states[node_id].model or self.states[node_id].foreseen for name, node_id in uses.items()}
        return {name: part for name, part in found.items() if part is not None}

    def keep(self, document: DocumentPart, node: Node, task: Task, result: Result | None) -> bool:
        if result is not None:
            self.states[node.id].layers[document.source, document.order] = (result.parts[0], task.key)
        return result is not None

    @staticmethod
    def map_inputs(work: MapWork) -> dict[str, Any]:
        """The part of the work that enters the key of its task."""
        return {
            "layers": layer_hashes(work.layers, work.columns),
            "columns": work.columns,
            "gates": work.gates,
            "models": {name: part.hash for name, part in work.models.items()},
        }

    @property
    def slots(self) -> int:
        """How many tasks run at once."""
        return self._executor.slots

    async def each(self, works: Iterable[Coroutine[Any, Any, Answer]], at_once: int | None = None) -> list[Answer]:
        """The results of all coroutines, in order; at most `at_once` of them, or as many as the window allows, run at
        the same time.
        """
        begun = at_once or self._window()
        free = asyncio.Semaphore(begun)
        answers: dict[int, Answer] = {}

        async def one(number: int, work: Coroutine[Any, Any, Answer]) -> None:
            answers[number] = await work
            free.release()

        for number, work in enumerate(works):
            await free.acquire()
            self._group.create_task(one(number, work))
        for _ in range(begun):
            await free.acquire()
        return [answers[number] for number in sorted(answers)]

"""Decides which task comes next: a state table over document parts, and a window of parts in progress.

Every stage of a source's chain is one item, or two in an exchange (what a part sends, and the layer that comes back).
Bits say which items of a part are settled. An item is ready when the items that it reads are settled and the barriers
before it are open: a model, or an exchange, that needs all parts. A part in the window continues until none of its
items is ready; then it is only a number, until a barrier opens. Parts that are further along go first, new ones last;
among parts that are equally far, large ones go first, so that no large one delays the end.

A dry run settles items without making them: an absent item makes the items that read it absent, and closes barriers.
"""

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gristmill.engine.plan.graph import Graph, Node
from gristmill.engine.schedule.corpus_view import DocumentPart
from gristmill.recipe.checks.columns import INGEST

READING = 1
"""The priority of reading more; parts have 0 and below."""


@dataclass(frozen=True)
class WorkItem:
    """What a stage does with one document part."""

    node: Node
    emits: bool
    """Whether it sends records to an exchange; otherwise it makes the layer."""
    bit: int
    needs: int
    """Bits of the items that it reads."""
    barriers: frozenset[str]
    """Ids of the stages whose model or answers it reads."""


@dataclass
class _Gate:
    """A point that all parts of some sources pass: each part when its items of `masks` are settled."""

    masks: Mapping[str, int]
    unread: set[str]
    """Sources that may still get more parts."""
    parts: int = 0
    passed: int = 0
    is_whole: bool = True
    """Whether nothing is absent and no part is unknown."""
    over: asyncio.Future[bool] | None = None

    def check(self) -> None:
        if not self.unread and self.passed == self.parts and self.over is not None and not self.over.done():
            self.over.set_result(self.is_whole)


@dataclass
class _Chain:
    """The items of a source, and the progress of its parts."""

    items: Sequence[WorkItem]
    gates: list[_Gate] = field(default_factory=list)
    settled: dict[DocumentPart, int] = field(default_factory=dict)
    absent: dict[DocumentPart, int] = field(default_factory=dict)
    done: int = 0
    """Items that are settled for all parts before they begin."""
    open: list[WorkItem] = field(default_factory=list)
    """Items whose barriers are open."""


Job = DocumentPart | Callable[[], Awaitable[None]]


class Frontier:
    """The parts in progress, at most `window()` at once, and those to come."""

    def __init__(
        self,
        chains: Mapping[str, Sequence[WorkItem]],
        perform: Callable[[DocumentPart, WorkItem], Coroutine[Any, Any, bool]],
        waits: Callable[[WorkItem], None],
        window: Callable[[], int],
    ) -> None:
        self._chains = {source: _Chain(items) for source, items in chains.items()}
        self._waiting: dict[str, list[_Chain]] = {}
        """Barrier -> the chains with an item that waits for it."""
        for chain in self._chains.values():
            for barrier in dict.fromkeys(barrier for item in chain.items for barrier in item.barriers):
                self._waiting.setdefault(barrier, []).append(chain)
        self._perform = perform
        """Performs an item of a part; returns whether its result exists now."""
        self._waits = waits
        """Called with items that cannot be done because something before them is absent."""
        self._window = window
        self._gates: dict[str, _Gate] = {}
        self._passed: dict[str, bool] = {}
        """Barrier -> whether it opened."""
        self._openings: dict[str, asyncio.Event] = {}
        self._queue: list[tuple[int, int, Iterator[Job]]] = []
        self._serial = itertools.count()
        self._active = 0
        self._busy: set[DocumentPart] = set()
        self._group: asyncio.TaskGroup

    def start(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        for gate in self._gates.values():
            gate.over = asyncio.get_running_loop().create_future()
        for chain in self._chains.values():
            chain.open = [item for item in chain.items if not item.barriers]

    def add_gate(self, name: str, masks: Mapping[str, int]) -> None:
        gate = self._gates[name] = _Gate(masks, set(masks))
        for source in masks:
            self._chains[source].gates.append(gate)

    async def passed(self, name: str) -> bool:
        """Wait until all parts have passed a gate; returns whether all of them have the items of its masks."""
        gate = self._gates[name]
        assert gate.over is not None
        gate.check()
        return await gate.over

    def skip(self, source: str, bits: int) -> None:
        """Mark items as existing for all parts of a source; call this before its first part begins."""
        self._chains[source].done |= bits

    def begin(self, source: str, documents: Sequence[DocumentPart]) -> None:
        """Add new parts of a source."""
        chain = self._chains[source]
        for document in documents:
            chain.settled[document] = chain.done
            for gate in chain.gates:
                gate.parts += 1
                gate.passed += chain.done & gate.masks[source] == gate.masks[source]
        self.submit(0, _large_first(documents))

    def complete(self, source: str, is_known: bool) -> None:
        """No more parts of a source will come; `is_known` says whether all parts of the source came."""
        for gate in self._chains[source].gates:
            gate.unread.discard(source)
            gate.is_whole &= is_known
            gate.check()

    def open(self, barrier: str, depth: int, is_open: bool) -> None:
        """A model or the answers of an exchange exist now, or never will."""
        self._passed[barrier] = is_open
        self._openings.setdefault(barrier, asyncio.Event()).set()
        for chain in self._waiting.get(barrier, ()):
            known = self._passed.keys()
            chain.open = [item for item in chain.items if item.barriers <= known]
            self.submit(-depth, _large_first(chain.settled))

    async def opened(self, barrier: str) -> bool:
        """Wait until it is known whether a barrier opens."""
        await self._openings.setdefault(barrier, asyncio.Event()).wait()
        return self._passed[barrier]

    def submit(self, priority: int, jobs: Iterable[Job]) -> None:
        heapq.heappush(self._queue, (priority, next(self._serial), iter(list(jobs))))
        self._pump()

    def _pump(self) -> None:
        while self._active < self._window() and self._queue:
            job = next(self._queue[0][2], None)
            if job is None:
                heapq.heappop(self._queue)
            elif not isinstance(job, DocumentPart):
                self._active += 1
                self._group.create_task(self._carry_out(job))
            elif job not in self._busy:  # a part in progress notices the open barrier itself
                self._busy.add(job)
                self._active += 1
                self._group.create_task(self._carry_out(partial(self._continue, job)))

    async def _carry_out(self, job: Callable[[], Awaitable[None]]) -> None:
        await job()
        self._active -= 1
        self._pump()

    async def _continue(self, document: DocumentPart) -> None:
        while ready := self._ready(document):
            if len(ready) == 1:
                results = [await self._perform(document, ready[0])]
            else:
                tasks = [self._group.create_task(self._perform(document, item)) for item in ready]
                results = [await task for task in tasks]
            absent = [item for item, exists in zip(ready, results, strict=True) if not exists]
            self._settle(document, ready, absent)
        self._busy.discard(document)

    def _ready(self, document: DocumentPart) -> list[WorkItem]:
        """The items of a part that can be done now; settles those that can never be done."""
        chain = self._chains[document.source]
        while True:
            settled, absent = chain.settled[document], chain.absent.get(document, 0)
            ready = [item for item in chain.open if not item.bit & settled and item.needs & settled == item.needs]
            lost = [item for item in ready if item.needs & absent or not all(map(self._passed.get, item.barriers))]
            if not lost:
                return ready
            for item in lost:
                self._waits(item)
            self._settle(document, lost, lost)

    def _settle(self, document: DocumentPart, items: Sequence[WorkItem], absent: Sequence[WorkItem]) -> None:
        chain = self._chains[document.source]
        before = chain.settled[document]
        after = before | sum(item.bit for item in items)
        chain.settled[document] = after
        if absent:
            chain.absent[document] = chain.absent.get(document, 0) | sum(item.bit for item in absent)
        for gate in chain.gates:
            mask = gate.masks[document.source]
            if before & mask != mask and after & mask == mask:
                gate.passed += 1
                if chain.absent and chain.absent.get(document, 0) & mask:
                    gate.is_whole = False
                gate.check()


def _large_first(documents: Iterable[DocumentPart]) -> list[DocumentPart]:
    return sorted(documents, key=lambda document: -document.part.file_bytes)


def items_of(graph: Graph, source: str) -> list[WorkItem]:
    """The items of the stages of a chain, for each document part."""
    items: list[WorkItem] = []
    layer_bits: dict[str, int] = {}
    for node_id in graph.chains[source]:
        node = graph.nodes[node_id]
        if not node.has_layers:
            continue
        needs = sum(layer_bits[layer] for layer in node.views[source].layers if layer != INGEST)
        models = frozenset(node.views[source].models.values())
        if node.kind == "exchange":
            emit = WorkItem(node, True, 1 << len(items), needs, models)
            items.append(emit)
            needs, models = emit.bit, frozenset({node_id})
        item = WorkItem(node, False, 1 << len(items), needs, models)
        layer_bits[node_id] = item.bit
        items.append(item)
    return items

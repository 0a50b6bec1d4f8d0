"""Which task comes next: a state table over document parts, and a window of parts that are worked on.

Every stage of a source's chain is one item, or two in an exchange (what a part sends, and the layer that comes back).
Bits say which items of a part are settled. An item is ready when those that it reads are settled and the barriers
before it are passed: a model, or an exchange, that needs all parts. A part in the window goes on until nothing of it is
ready; then it is a number again, until a barrier opens. Parts that are further on go first, new ones come last; of
those that are as far, large ones go before small ones, so that none is left at the end that all others wait for.

A dry run settles items without making them: what is absent makes what reads it absent, and shuts barriers.
"""

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gristmill.engine.plan.graph import Graph, Node
from gristmill.engine.schedule.corpus_view import Document
from gristmill.recipe.checks.columns import INGEST

READING = 1
"""The priority of reading more; that of parts is 0 and below."""


@dataclass(frozen=True)
class Item:
    """What a stage does with one document part."""

    node: Node
    emits: bool
    """Send records to an exchange; otherwise make the layer."""
    bit: int
    needs: int
    """Bits of the items that it reads."""
    barriers: frozenset[str]
    """Ids of the stages whose model or answers it reads."""


@dataclass
class _Gate:
    """A place that all parts of some sources pass: each when its items of `masks` are settled."""

    masks: Mapping[str, int]
    unread: set[str]
    """Sources of which more parts may come."""
    parts: int = 0
    passed: int = 0
    is_whole: bool = True
    """Nothing absent, no part unknown."""
    over: asyncio.Future[bool] | None = None

    def look(self) -> None:
        if not self.unread and self.passed == self.parts and self.over is not None and not self.over.done():
            self.over.set_result(self.is_whole)


@dataclass
class _Chain:
    """The items of a source, and how far its parts are."""

    items: Sequence[Item]
    gates: list[_Gate] = field(default_factory=list)
    settled: dict[Document, int] = field(default_factory=dict)
    absent: dict[Document, int] = field(default_factory=dict)
    done: int = 0
    """Items that are settled for all parts before they begin."""
    open: list[Item] = field(default_factory=list)
    """Items whose barriers are passed."""


Job = Document | Callable[[], Awaitable[None]]


class Frontier:
    """The parts that are worked on, at most `window()` at once, and those that are to come."""

    def __init__(
        self,
        chains: Mapping[str, Sequence[Item]],
        perform: Callable[[Document, Item], Coroutine[Any, Any, bool]],
        waits: Callable[[Item], None],
        window: Callable[[], int],
    ) -> None:
        self._chains = {source: _Chain(items) for source, items in chains.items()}
        self._behind: dict[str, list[_Chain]] = {}
        """Barrier -> the chains with an item that waits for it."""
        for chain in self._chains.values():
            for barrier in dict.fromkeys(barrier for item in chain.items for barrier in item.barriers):
                self._behind.setdefault(barrier, []).append(chain)
        self._perform = perform
        """Does an item of a part; whether it is there now."""
        self._waits = waits
        """Hears of items that cannot be done as something before them is absent."""
        self._window = window
        self._gates: dict[str, _Gate] = {}
        self._passed: dict[str, bool] = {}
        """Barrier -> whether it opened."""
        self._openings: dict[str, asyncio.Event] = {}
        self._queue: list[tuple[int, int, Iterator[Job]]] = []
        self._serial = itertools.count()
        self._active = 0
        self._busy: set[Document] = set()
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
        """Wait until all parts are through a gate; whether all of them have what it asks for."""
        gate = self._gates[name]
        assert gate.over is not None
        gate.look()
        return await gate.over

    def skip(self, source: str, bits: int) -> None:
        """These items are there for all parts of a source; before the first of them begins."""
        self._chains[source].done |= bits

    def begin(self, source: str, documents: Sequence[Document]) -> None:
        """New parts of a source."""
        chain = self._chains[source]
        for document in documents:
            chain.settled[document] = chain.done
            for gate in chain.gates:
                gate.parts += 1
                gate.passed += chain.done & gate.masks[source] == gate.masks[source]
        self.submit(0, _large_first(documents))

    def complete(self, source: str, is_known: bool) -> None:
        """No more parts of a source will come; whether those that came are all that there are."""
        for gate in self._chains[source].gates:
            gate.unread.discard(source)
            gate.is_whole &= is_known
            gate.look()

    def open(self, barrier: str, depth: int, is_open: bool) -> None:
        """A model or the answers of an exchange are there, or will not be."""
        self._passed[barrier] = is_open
        self._openings.setdefault(barrier, asyncio.Event()).set()
        for chain in self._behind.get(barrier, ()):
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
            elif not isinstance(job, Document):
                self._active += 1
                self._group.create_task(self._carry_out(job))
            elif job not in self._busy:  # one that is on its way sees for itself what has opened
                self._busy.add(job)
                self._active += 1
                self._group.create_task(self._carry_out(partial(self._go_on, job)))

    async def _carry_out(self, job: Callable[[], Awaitable[None]]) -> None:
        await job()
        self._active -= 1
        self._pump()

    async def _go_on(self, document: Document) -> None:
        while ready := self._ready(document):
            if len(ready) == 1:
                made = [await self._perform(document, ready[0])]
            else:
                tasks = [self._group.create_task(self._perform(document, item)) for item in ready]
                made = [await task for task in tasks]
            absent = [item for item, is_made in zip(ready, made, strict=True) if not is_made]
            self._settle(document, ready, absent)
        self._busy.discard(document)

    def _ready(self, document: Document) -> list[Item]:
        """The items of a part that can be done now; those that cannot be done at all are settled on the way."""
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

    def _settle(self, document: Document, items: Sequence[Item], absent: Sequence[Item]) -> None:
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
                gate.look()


def _large_first(documents: Iterable[Document]) -> list[Document]:
    return sorted(documents, key=lambda document: -document.part.file_bytes)


def items_of(graph: Graph, source: str) -> list[Item]:
    """What the stages of a chain do with each document part."""
    items: list[Item] = []
    layer_bits: dict[str, int] = {}
    for node_id in graph.chains[source]:
        node = graph.nodes[node_id]
        if not node.has_layers:
            continue
        needs = sum(layer_bits[layer] for layer in node.views[source].layers if layer != INGEST)
        models = frozenset(node.views[source].models.values())
        if node.kind == "exchange":
            emit = Item(node, True, 1 << len(items), needs, models)
            items.append(emit)
            needs, models = emit.bit, frozenset({node_id})
        item = Item(node, False, 1 << len(items), needs, models)
        layer_bits[node_id] = item.bit
        items.append(item)
    return items

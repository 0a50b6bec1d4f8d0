"""Obtaining the result of a task: from the store if it was done before, otherwise by having it done.

Whatever goes wrong on the way is dealt with: a part that is missing or corrupt is made again here; what is done about
workers that die stands in `insist.py`.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from gristmill.engine.executor import Executor
from gristmill.engine.graph import Node
from gristmill.engine.insist import insist
from gristmill.engine.rows import CRASHED
from gristmill.engine.task import Read, Result, Task, Work, add_counts, digest, result_from_json, result_to_json
from gristmill.errors import CannotBeMet, UserError
from gristmill.store.leases import Lease, claim
from gristmill.store.store import CorruptPart, Part, Store

Answer = TypeVar("Answer")
Item = TypeVar("Item")

WAIT_SECONDS = 0.2
"""How often a run asks whether another one is through with a task that both need."""
ENGINE = 2
"""Part of every key: raised when the engine itself changes what tasks write."""


class Listener(Protocol):
    """Who is told how a run goes."""

    def begin(self, nodes: Iterable[Node], before: Mapping[str, Mapping[str, Any]]) -> None:
        """A run begins, of these steps; `before` is what earlier runs say of some of them."""

    def expect(self, node: Node, tasks: int) -> None: ...
    def settled(self, node: Node) -> None:
        """No further task of a step will be expected."""

    def done(self, node: Node, task: Task, result: Result, cached: bool) -> None: ...
    def note(self, message: str) -> None: ...
    def track(self, name: str, items: Iterable[Item], total: int) -> Iterator[Item]:
        """The items, where there are no tasks of a step: one is done when the next is asked for."""


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
    foreseen: Part | None = None
    """The model that a missing task will make, where that is known: nobody waits for it."""
    metrics: dict[str, Any] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)
    given_up: int = 0
    """Documents that kill their worker."""
    layers: dict[tuple[str, tuple[int, int]], tuple[Part, str]] = field(default_factory=dict)
    """(source, order of the document part) -> layer and the key of its task."""


class NotReproduced(Exception):
    """A part that was made again has other bytes: the run must start over with the new ones."""


class Tasks:
    """The tasks of one run."""

    def __init__(
        self,
        nodes: Mapping[str, Node],
        store: Store,
        executor: Executor,
        listener: Listener,
        dry: bool,
        lease: Lease | None = None,
        retry_crashed: bool = False,
    ) -> None:
        self.made = {node_id: Made() for node_id in nodes}
        self.done: dict[str, tuple[Task, Mapping[str, Any], Result]] = {}
        """Key -> a task that is done, what it reads and what it made."""
        self.begun = False
        """Whether any task was looked up or carried out."""
        self._nodes = nodes
        self._store = store
        self._executor = executor
        self._listener = listener
        self.dry = dry
        self._lease = lease
        self._told_of: set[str] = set()
        """Runs, tasks and parts of which a note has spoken."""
        self._retry_crashed = retry_crashed
        self._producers: dict[str, str] = {}
        self._repairs: dict[str, asyncio.Task[None]] = {}

    async def obtain(
        self, node: Node, work: Work, inputs: Mapping[str, Any], label: str, order: tuple[int, ...]
    ) -> tuple[Task, Result | None]:
        """The result of a task: from the store, or else by running it; None where a dry run would have to."""
        key = digest({"engine": ENGINE, **node.identity, "inputs": inputs})
        task = Task(key, node.id, label, work, (-node.depth, *order), files=node.files)
        made = self.made[node.id]
        self.begun = True
        result = await self._look_up(node, task)
        cached = result is not None
        if result is None:
            if self.dry:
                made.missing[key] = (label, inputs)
                return task, None
            result, cached = await self._execute_once(node, task, inputs)
            if not cached:
                made.executed.add(key)
        self.done[key] = (task, inputs, result)
        self._producers.update((part.hash, key) for part in result.parts)
        made.tasks[key] = label
        made.given_up += len(result.poisoned)
        add_counts(made.metrics, result.metrics)
        _add_cost(made.cost, result.cost)
        self._listener.done(node, task, result, cached)
        return task, result

    async def _look_up(self, node: Node, task: Task) -> Result | None:
        """What the store has of a task, whole."""
        result, lost = await self._ask_store(self._find, task.key)
        if lost:
            self._say_lost(node, task, lost[0].hash, "is missing or damaged")
            return None
        if result is not None and _is_tried_again(task.work, result, self._retry_crashed):
            if not self.dry and task.key not in self._told_of:
                self._told_of.add(task.key)
                self._listener.note(f"{node.id}, {task.label}: documents that were given up are tried again")
            return None
        return result

    async def _execute_once(self, node: Node, task: Task, inputs: Mapping[str, Any]) -> tuple[Result, bool]:
        """Run a task, or wait for another run on the same store that is at it; and whether another did it."""
        if self._lease is None or not self._store.is_shared:
            return await self._execute(node, task, inputs), False
        while (holder := await self._ask_store(claim, self._store, task.key, self._lease)) is not None:
            if holder.id not in self._told_of:
                self._told_of.add(holder.id)
                self._listener.note(f"{holder} works on the same store; waiting for the tasks that it is at")
            await asyncio.sleep(WAIT_SECONDS)
        try:
            # Another run may have ended the task after this one looked and before it had the claim.
            result = await self._look_up(node, task)
            if result is not None:
                return result, True
            return await self._execute(node, task, inputs), False
        finally:
            await self._ask_store(self._store.unmark, f"claims/{task.key}")

    async def _ask_store(self, question: Callable[..., Answer], *about: Any) -> Answer:
        """Many tasks ask at once: a store at the other end of a network must not answer one after the other."""
        return question(*about) if self._store.is_local else await asyncio.to_thread(question, *about)

    def _find(self, key: str) -> tuple[Result | None, list[Part]]:
        """What the store has of a task, and which of its parts are not there."""
        record = self._store.read_json(f"tasks/{key}.json")
        if record is None:
            return None, []
        try:
            result = result_from_json(record)
        except (KeyError, TypeError, AttributeError, IndexError):  # of another shape: as good as none
            return None, []
        return result, [part for part in result.parts if not self._store.has_part(part)]

    async def _execute(self, node: Node, task: Task, inputs: Mapping[str, Any]) -> Result:
        met: set[str] = set()
        while True:
            try:
                result = await insist(task, self._executor, self._listener.note)
                break
            except CannotBeMet as fault:
                raise UserError(f"{node.where}: {fault}") from None
            except CorruptPart as corrupt:
                if corrupt.part_hash in met:
                    raise UserError(
                        f"Part {corrupt.part_hash[:12]} {corrupt.fact}, also after it was made again: the disk under "
                        f"the store {self._store.uri} does not give back what is written to it. Use another store."
                    ) from None
                met.add(corrupt.part_hash)
                await self._repair(corrupt)
        record = {"key": task.key, "node": node.id, "label": task.label, **node.identity, "inputs": inputs}
        self._store.write_json(f"tasks/{task.key}.json", {**record, **result_to_json(result)})
        return result

    async def _repair(self, corrupt: CorruptPart) -> None:
        """Make a broken part again; all tasks that meet it wait for the one repair."""
        if corrupt.part_hash not in self._repairs:
            self._repairs[corrupt.part_hash] = asyncio.create_task(self._make_again(corrupt))
        await self._repairs[corrupt.part_hash]

    async def _make_again(self, corrupt: CorruptPart) -> None:
        task, inputs, _ = self.done[self._producers[corrupt.part_hash]]
        node = self._nodes[task.node]
        self._say_lost(node, task, corrupt.part_hash, corrupt.fact)
        result = await self._execute(node, replace(task, order=(-(10**6),)), inputs)
        self.made[node.id].executed.add(task.key)
        if corrupt.part_hash not in [part.hash for part in result.parts]:
            raise NotReproduced(
                f"{node.id}, {task.label}: made again, part {corrupt.part_hash[:12]} came out with other bytes "
                "(a library of another version, or a stage that is not a pure function); what depends on it runs again"
            )

    def _say_lost(self, node: Node, task: Task, part_hash: str, fact: str) -> None:
        """Once: a task is looked up again when its claim is there."""
        if not self.dry and part_hash not in self._told_of:
            self._told_of.add(part_hash)
            self._listener.note(f"{node.id}, {task.label}: part {part_hash[:12]} {fact}; making it again")


def _is_tried_again(work: Work, result: Result, all_of_them: bool) -> bool:
    """Whether documents that were given up get another chance: when asked for, and where there is no evidence."""
    given_up = bool(result.poisoned) or (isinstance(work, Read) and CRASHED in result.metrics.get("dropped", {}))
    return given_up and (all_of_them or not result.evidence)


def _add_cost(total: dict[str, float], cost: Mapping[str, float]) -> None:
    for name, value in cost.items():
        total[name] = max(total.get(name, 0), value) if name == "peak_rss_bytes" else total.get(name, 0) + value

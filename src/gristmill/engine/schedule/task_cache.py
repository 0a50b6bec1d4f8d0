"""Obtains the result of a task: from the store if it was done before, otherwise by running it.

A result with missing parts is not used. `insist.py` handles workers that die; a part that turns out to be damaged when
it is read ends the attempt (`mill.py` starts over without it).
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from gristmill.engine.executors.executor import Executor
from gristmill.engine.executors.insist import insist
from gristmill.engine.plan.graph import Node, asks
from gristmill.engine.schedule.node_state import MODEL as MODEL
from gristmill.engine.schedule.node_state import NodeState as NodeState
from gristmill.engine.schedule.pace import Pace, PaceRecord, expected_s
from gristmill.engine.schedule.tables import Slots
from gristmill.engine.work.needs import bytes_read
from gristmill.engine.work.task import (
    Build,
    Emit,
    Merge,
    Reduce,
    Result,
    Scatter,
    Task,
    Work,
    add_counts,
    digest,
    result_from_json,
    result_to_json,
)
from gristmill.errors import CannotBeMet, UserError
from gristmill.log import DEBUG, INFO, WARNING, Log
from gristmill.store.leases import Lease, claim
from gristmill.store.store import Part, Store, with_verdicts

Answer = TypeVar("Answer")
Item = TypeVar("Item")

LOG = Log("run")
WAIT_SECONDS = 0.2
"""Seconds between checks whether another run has finished a task that both need."""
ENGINE = 3
"""Part of every key: raised when the engine itself changes what tasks write."""


class Listener(Protocol):
    """Receives the progress of a run."""

    def begin(self, nodes: Iterable[Node], before: Mapping[str, Mapping[str, Any]]) -> None:
        """A run of these steps begins; `before` has the records of earlier runs of some of them."""

    def doing(self, what: str) -> None:
        """What the run does before its tasks are known."""

    def expect(self, node: Node, tasks: int) -> None: ...
    def settled(self, node: Node) -> None:
        """No more tasks of a step will be announced."""

    def done(self, node: Node, task: Task, result: Result, cached: bool) -> None: ...
    def found(self, node: Node, tasks: int, cost: Mapping[str, float]) -> None:
        """A whole step is in the store; `cost` is what its tasks cost when they ran."""

    def note(self, message: str, level: int = ..., /) -> None: ...
    def track(self, name: str, items: Iterable[Item], total: int) -> Iterator[Item]:
        """Yield the items of work that is not a task of a step; an item is done when the next is requested."""


@dataclass
class Earlier:
    """What is known from earlier runs of the same recipe, and from attempts of this run that found a damaged part,
    removed it and started over.
    """

    executed: set[str] = field(default_factory=set)
    """Keys of tasks that they executed."""
    damaged: dict[str, str] = field(default_factory=dict)
    """Hash of a part -> what was wrong with it."""
    paces: Mapping[str, Mapping[str, PaceRecord]] = field(default_factory=dict)
    """Step -> how long its tasks took in its last run."""


class Tasks:
    """The tasks of one run."""

    def __init__(
        self,
        nodes: Iterable[str],
        store: Store,
        executor: Executor,
        listener: Listener,
        dry: bool,
        lease: Lease | None = None,
        keep: Callable[[Task, Result], bool] = lambda *_: False,
        earlier: Earlier | None = None,
    ) -> None:
        slots = Slots()
        self.states = {node_id: NodeState(slots) for node_id in nodes}
        self.kept: list[tuple[Task, Result]] = []
        """Finished tasks that gave documents up, or that `keep` chose."""
        self.begun = False
        """Whether any task was looked up or executed."""
        self._store = store
        self._executor = executor
        self._listener = listener
        self.dry = dry
        self._lease = lease
        self._noted: set[str] = set()
        """Runs, tasks and parts that already have a note."""
        self._keep = keep
        self._lost: dict[str, str] = {}
        """Key of a task that runs again -> its missing part."""
        self._earlier = earlier or Earlier()

    async def obtain(
        self, node: Node, work: Work, inputs: Mapping[str, Any], label: str, order: tuple[int, ...]
    ) -> tuple[Task, Result | None]:
        """The result of a task: from the store, or else by running it; None if a dry run would have to run it. Tasks
        that are further along go first, and among them those that will take long.
        """
        key = key_of(node, inputs)
        verb = inputs.get("verb", node.kind)
        seconds = expected_s(self._earlier.paces.get(node.id, {}), verb, bytes_read(work))
        priority = (-node.depth, -round(1e6 * seconds), *order)
        # A task that asks servers is never run twice at once: it would pay twice.
        expected = 0.0 if asks(node) else seconds
        task = Task(key, node.id, label, work, priority, files=node.files, expected_s=expected)
        state = self.states[node.id]
        self.begun = True
        result = await self._look_up(node, task)
        cached = result is not None
        if result is None:
            if self.dry:
                state.missing[key] = (label, inputs)
                return task, None
            result, cached = await self._execute_once(node, task, inputs)
        state.tasks.add(key, label, not cached or key in self._earlier.executed)
        if isinstance(work, Emit | Merge | Reduce | Scatter | Build):
            for part in result.parts:
                state.files.add(part)
        if result.poisoned or self._keep(task, result):
            self.kept.append((task, result))
        state.given_up += len(result.poisoned)
        add_counts(state.metrics, result.metrics)
        _add_cost(state.cost, result.cost)
        state.paces.setdefault(verb, Pace()).add(label, result)
        self._listener.done(node, task, result, cached)
        how = "in the store" if cached else "done"
        LOG(f"{node.id}, {label}: {how}", DEBUG, step=node.id, task=label, cached=cached, **_counts(result))
        return task, result

    async def _look_up(self, node: Node, task: Task) -> Result | None:
        """The result in the store, if all its parts exist."""
        result, lost = await self.call_store(self._find, task.key)
        if lost:
            self._note_lost(node, task, lost[0])
            return None
        return result

    async def _execute_once(self, node: Node, task: Task, inputs: Mapping[str, Any]) -> tuple[Result, bool]:
        """Run a task, or wait for another run on the same store that runs it; also returns whether another did."""
        if self._lease is None or not self._store.is_shared:
            return await self._execute(node, task, inputs), False
        while (holder := await self.call_store(claim, self._store, task.key, self._lease)) is not None:
            if holder.id not in self._noted:
                self._noted.add(holder.id)
                self._listener.note(f"{holder} uses the same store; waiting for the tasks that it is running", WARNING)
            await asyncio.sleep(WAIT_SECONDS)
        try:
            # Another run may have finished the task between the lookup and the claim.
            result = await self._look_up(node, task)
            if result is not None:
                return result, True
            return await self._execute(node, task, inputs), False
        finally:
            await self.call_store(self._store.unmark, f"claims/{task.key}")

    async def call_store(self, function: Callable[..., Answer], *arguments: object) -> Answer:
        """Call the store; in a thread if it is remote, because many tasks call it at once."""
        return function(*arguments) if self._store.is_local else await asyncio.to_thread(function, *arguments)

    async def call_in_thread(self, function: Callable[..., Answer], *arguments: object) -> Answer:
        """Make a call that takes long on any store, while scheduling continues."""
        return await asyncio.to_thread(function, *arguments)

    def _find(self, key: str) -> tuple[Result | None, list[Part]]:
        """The result of a task in the store, and its missing parts."""
        record = self._store.read_json(f"tasks/{key}.json")
        if record is None:
            return None, []
        try:
            result = result_from_json(record) if record["key"] == key else None
        except (KeyError, TypeError, AttributeError, IndexError):  # a record of another shape is ignored
            result = None
        if result is None:
            return None, []
        return result, [part for part in with_verdicts(result.parts) if not self._store.has_part(part)]

    async def _execute(self, node: Node, task: Task, inputs: Mapping[str, Any]) -> Result:
        state = self.states[node.id]

        def note(message: str, level: int = INFO, /) -> None:
            state.failures += level >= WARNING
            self._listener.note(message, level)

        try:
            result = await insist(task, self._executor, note)
        except CannotBeMet as fault:
            raise UserError(f"{node.where}: {fault}") from None
        record = {"key": task.key, "node": node.id, "label": task.label, **node.identity, "inputs": inputs}
        name = f"tasks/{task.key}.json"
        await self.call_store(self._store.write_json, name, {**record, **result_to_json(result)})
        self._compare(node, task, result)
        return result

    def _note_lost(self, node: Node, task: Task, part: Part) -> None:
        """Note a missing part, once: a task is looked up again after it is claimed."""
        if not self.dry and part.hash not in self._noted:
            self._noted.add(part.hash)
            self._lost[task.key] = part.hash
            fact = self._earlier.damaged.get(part.hash, "is missing or damaged")
            self._listener.note(f"{node.id}, {task.label}: part {part.hash[:12]} {fact}; making it again", WARNING)

    def _compare(self, node: Node, task: Task, result: Result) -> None:
        """Note if a missing part has other bytes after it was made again."""
        lost = self._lost.pop(task.key, None)
        if lost is not None and lost not in [part.hash for part in with_verdicts(result.parts)]:
            self._listener.note(
                f"{node.id}, {task.label}: made again, part {lost[:12]} has other bytes (because of another version of "
                "a library, or a stage that is not a pure function); everything that depends on it runs again",
                WARNING,
            )


def key_of(node: Node, inputs: Mapping[str, Any]) -> str:
    return digest({"engine": ENGINE, **node.identity, "inputs": inputs})


def _counts(result: Result) -> dict[str, Any]:
    """What a task read and dropped, how long it took and where it ran, for the log."""
    found = result.metrics
    counts = {"rows": found.get("rows"), "bytes": found.get("bytes_in"), "dropped": found.get("dropped")}
    return {**counts, "seconds": result.cost.get("wall_s"), "where": result.where or None}


def _add_cost(total: dict[str, float], cost: Mapping[str, float]) -> None:
    for name, value in cost.items():
        total[name] = max(total.get(name, 0), value) if name == "peak_rss_bytes" else total.get(name, 0) + value

"""Obtaining the result of a task: from the store if it was done before, otherwise by having it done.

A result whose parts are not all there counts as none. What is done about workers that die stands in `insist.py`; a part
that turns out to be damaged when it is read ends the attempt (`mill.py` starts over without it).
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from gristmill.engine.executors.executor import Executor
from gristmill.engine.executors.insist import insist
from gristmill.engine.plan.graph import Node
from gristmill.engine.schedule.node_state import MODEL as MODEL
from gristmill.engine.schedule.node_state import NodeState as NodeState
from gristmill.engine.schedule.pace import Pace, Told, expected_s
from gristmill.engine.schedule.tables import Slots
from gristmill.engine.work.needs import bytes_read
from gristmill.engine.work.rows import CRASHED
from gristmill.engine.work.task import (
    Build,
    Emit,
    Merge,
    Read,
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
from gristmill.log import DEBUG, WARNING, Log
from gristmill.store.leases import Lease, claim
from gristmill.store.store import Part, Store, with_verdicts

Answer = TypeVar("Answer")
Item = TypeVar("Item")

LOG = Log("run")
WAIT_SECONDS = 0.2
"""How often a run asks whether another one is through with a task that both need."""
ENGINE = 3
"""Part of every key: raised when the engine itself changes what tasks write."""


class Listener(Protocol):
    """Who is told how a run goes."""

    def begin(self, nodes: Iterable[Node], before: Mapping[str, Mapping[str, Any]]) -> None:
        """A run begins, of these steps; `before` is what earlier runs say of some of them."""

    def doing(self, what: str) -> None:
        """What is done before tasks are known."""

    def expect(self, node: Node, tasks: int) -> None: ...
    def settled(self, node: Node) -> None:
        """No further task of a step will be expected."""

    def done(self, node: Node, task: Task, result: Result, cached: bool) -> None: ...
    def found(self, node: Node, tasks: int, cost: Mapping[str, float]) -> None:
        """A whole step is in the store; what its tasks took in their time."""

    def note(self, message: str, level: int = ..., /) -> None: ...
    def track(self, name: str, items: Iterable[Item], total: int) -> Iterator[Item]:
        """The items, where there are no tasks of a step: one is done when the next is asked for."""


@dataclass
class Earlier:
    """What is known from before: of runs of the same recipe, and of attempts at this one that met a damaged part, which
    was taken away, so that all starts over.
    """

    executed: set[str] = field(default_factory=set)
    """Keys of tasks that they carried out."""
    damaged: dict[str, str] = field(default_factory=dict)
    """Hash of a part -> what was wrong with it."""
    paces: Mapping[str, Mapping[str, Told]] = field(default_factory=dict)
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
        retry_crashed: bool = False,
        keep: Callable[[Task, Result], bool] = lambda *_: False,
        earlier: Earlier | None = None,
    ) -> None:
        slots = Slots()
        self.states = {node_id: NodeState(slots) for node_id in nodes}
        self.kept: list[tuple[Task, Result]] = []
        """Tasks that are done and gave documents up, or are wanted again."""
        self.begun = False
        """Whether any task was looked up or carried out."""
        self._store = store
        self._executor = executor
        self._listener = listener
        self.dry = dry
        self._lease = lease
        self._told_of: set[str] = set()
        """Runs, tasks and parts of which a note has spoken."""
        self._retry_crashed = retry_crashed
        self._keep = keep
        self._lost: dict[str, str] = {}
        """Key of a task that is done again -> a part of it that is gone."""
        self._earlier = earlier or Earlier()

    async def obtain(
        self, node: Node, work: Work, inputs: Mapping[str, Any], label: str, order: tuple[int, ...]
    ) -> tuple[Task, Result | None]:
        """The result of a task: from the store, or else by running it; None where a dry run would have to. Those that
        are far on go first, and among them those that will take long.
        """
        key = key_of(node, inputs)
        verb = inputs.get("verb", node.kind)
        seconds = expected_s(self._earlier.paces.get(node.id, {}), verb, bytes_read(work))
        place = (-node.depth, -round(1e6 * seconds), *order)
        task = Task(key, node.id, label, work, place, files=node.files, expected_s=seconds)
        made = self.states[node.id]
        self.begun = True
        result = await self._look_up(node, task)
        cached = result is not None
        if result is None:
            if self.dry:
                made.missing[key] = (label, inputs)
                return task, None
            result, cached = await self._execute_once(node, task, inputs)
        made.tasks.add(key, label, not cached or key in self._earlier.executed)
        if isinstance(work, Emit | Merge | Reduce | Scatter | Build):
            for part in result.parts:
                made.files.add(part)
        if result.poisoned or self._keep(task, result):
            self.kept.append((task, result))
        made.given_up += len(result.poisoned)
        add_counts(made.metrics, result.metrics)
        _add_cost(made.cost, result.cost)
        made.paces.setdefault(verb, Pace()).add(label, result)
        self._listener.done(node, task, result, cached)
        how = "in the store" if cached else "done"
        LOG(f"{node.id}, {label}: {how}", DEBUG, step=node.id, task=label, cached=cached)
        return task, result

    async def _look_up(self, node: Node, task: Task) -> Result | None:
        """What the store has of a task, whole."""
        result, lost = await self.ask_store(self._find, task.key)
        if lost:
            self._say_lost(node, task, lost[0])
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
        while (holder := await self.ask_store(claim, self._store, task.key, self._lease)) is not None:
            if holder.id not in self._told_of:
                self._told_of.add(holder.id)
                self._listener.note(f"{holder} works on the same store; waiting for the tasks that it is at", WARNING)
            await asyncio.sleep(WAIT_SECONDS)
        try:
            # Another run may have ended the task after this one looked and before it had the claim.
            result = await self._look_up(node, task)
            if result is not None:
                return result, True
            return await self._execute(node, task, inputs), False
        finally:
            await self.ask_store(self._store.unmark, f"claims/{task.key}")

    async def ask_store(self, question: Callable[..., Answer], *about: Any) -> Answer:
        """Many tasks ask at once: a store at the other end of a network must not answer one after the other."""
        return question(*about) if self._store.is_local else await asyncio.to_thread(question, *about)

    async def ask_in_thread(self, question: Callable[..., Answer], *about: Any) -> Answer:
        """What takes long on any store, so that scheduling goes on meanwhile."""
        return await asyncio.to_thread(question, *about)

    def _find(self, key: str) -> tuple[Result | None, list[Part]]:
        """What the store has of a task, and which of its parts are not there."""
        record = self._store.read_json(f"tasks/{key}.json")
        if record is None:
            return None, []
        try:
            result = result_from_json(record) if record["key"] == key else None
        except (KeyError, TypeError, AttributeError, IndexError):  # of another shape: as good as none
            result = None
        if result is None:
            return None, []
        return result, [part for part in with_verdicts(result.parts) if not self._store.has_part(part)]

    async def _execute(self, node: Node, task: Task, inputs: Mapping[str, Any]) -> Result:
        try:
            result = await insist(task, self._executor, self._listener.note)
        except CannotBeMet as fault:
            raise UserError(f"{node.where}: {fault}") from None
        record = {"key": task.key, "node": node.id, "label": task.label, **node.identity, "inputs": inputs}
        name = f"tasks/{task.key}.json"
        await self.ask_store(self._store.write_json, name, {**record, **result_to_json(result)})
        self._compare(node, task, result)
        return result

    def _say_lost(self, node: Node, task: Task, part: Part) -> None:
        """Once: a task is looked up again when its claim is there."""
        if not self.dry and part.hash not in self._told_of:
            self._told_of.add(part.hash)
            self._lost[task.key] = part.hash
            fact = self._earlier.damaged.get(part.hash, "is missing or damaged")
            self._listener.note(f"{node.id}, {task.label}: part {part.hash[:12]} {fact}; making it again", WARNING)

    def _compare(self, node: Node, task: Task, result: Result) -> None:
        """Whether a part that was lost came out as it was."""
        lost = self._lost.pop(task.key, None)
        if lost is not None and lost not in [part.hash for part in with_verdicts(result.parts)]:
            self._listener.note(
                f"{node.id}, {task.label}: made again, part {lost[:12]} came out with other bytes (a library of "
                "another version, or a stage that is not a pure function); what depends on it runs again",
                WARNING,
            )


def key_of(node: Node, inputs: Mapping[str, Any]) -> str:
    return digest({"engine": ENGINE, **node.identity, "inputs": inputs})


def _is_tried_again(work: Work, result: Result, all_of_them: bool) -> bool:
    """Whether documents that were given up get another chance: when asked for, and where there is no evidence."""
    given_up = bool(result.poisoned) or (isinstance(work, Read) and CRASHED in result.metrics.get("dropped", {}))
    return given_up and (all_of_them or not result.evidence)


def _add_cost(total: dict[str, float], cost: Mapping[str, float]) -> None:
    for name, value in cost.items():
        total[name] = max(total.get(name, 0), value) if name == "peak_rss_bytes" else total.get(name, 0) + value

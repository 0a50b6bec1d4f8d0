"""The journal of a run: its progress in the store, for other processes to read while the run goes on.

    progress/<recipe>/<id of the run's lease>.json

Only the coordinator writes it, on any executor, so one small record describes a whole cluster. It is replaced every few
seconds: an object store cannot append, and its size depends on the recipe, not on how long a run takes. A killed run
loses the last seconds of its journal. It is part of no key and no dataset. The next run of the recipe removes the
journals of runs that have ended, and so does garbage collection.
"""

import asyncio
import heapq
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gristmill.engine.plan.graph import Node
from gristmill.engine.publish.throughput import Throughput
from gristmill.engine.schedule.progress import RunProgress, StageProgress
from gristmill.engine.schedule.run import Run
from gristmill.engine.schedule.task_cache import Item, Listener
from gristmill.engine.work.task import Result, Task
from gristmill.log import INFO, WARNING, Log
from gristmill.places import without_secrets
from gristmill.recipe.model import Recipe
from gristmill.stages import CORPUS
from gristmill.stopping import Interrupted
from gristmill.store.leases import Lease, is_alive
from gristmill.store.store import Store

FOLDER = "progress"
LOCAL_S, REMOTE_S = 2.0, 10.0
"""Seconds between two records, on a disk and in an object store."""
MOST_TASKS, MOST_NOTES, MOST_REASONS = 20, 50, 50
"""How many running and slow tasks, messages, and reasons of a stage a record has."""
MOST_CHARACTERS = 2000
"""The length of a message or a label in a record."""

RUNNING, FINISHED, STOPPED, KILLED = "running", "finished", "stopped", "killed"

Observer = Callable[[Mapping[str, Any]], None]
"""Receives every record, in a thread; the last one has a status other than RUNNING."""
_LOG = Log("run")


class Journal(RunProgress):
    """A listener that writes the progress of a run to the store, and passes everything on to another listener."""

    def __init__(self, listener: Listener, store: Store, recipe: Recipe, observers: Sequence[Observer] = ()) -> None:
        super().__init__()
        self._listener, self._store, self._recipe = listener, store, recipe
        self._observers = list(observers)
        self._lease: Lease | None = None
        self._nodes: dict[str, Node] = {}
        self._run: Run | None = None
        self._started = self._moved = datetime.now(UTC)
        self._doing = ""
        self._running: dict[str, dict[str, Any]] = {}
        self._slowest: list[tuple[float, int, dict[str, Any]]] = []
        """Seconds, a number that is different for every task, and the task."""
        self._numbers = itertools.count()
        self._notes: deque[dict[str, Any]] = deque(maxlen=MOST_NOTES)
        self._throughput = Throughput(time.monotonic())
        self._changed = False
        self._end: dict[str, Any] = {"status": RUNNING, "version": None, "error": None}

    # The run

    def open(self, lease: Lease) -> None:
        """Start the journal of the run with this lease, and remove those of runs that have ended."""
        self._lease = lease
        if self._store.is_shared:
            for path, _ in list(self._store.list_files(f"{FOLDER}/{self._recipe.name}")):
                if not is_alive(self._store, path.rpartition("/")[2].removesuffix(".json")):
                    self._store.unmark(path)

    async def beside(self, run: Run) -> None:
        """Carry out a run, and write its progress meanwhile."""
        self._run = run
        beat = asyncio.create_task(self._beat())
        try:
            await run.go()
        finally:
            beat.cancel()

    async def _beat(self) -> None:
        while True:
            if self._changed:
                self._changed = False
                await asyncio.to_thread(self._write, self.record())
            await asyncio.sleep(LOCAL_S if self._store.is_local else REMOTE_S)

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        """Write the last record: of a run that has finished, or of one that an error stopped."""
        if self._run is None:  # it was refused before it began
            return
        status = FINISHED if kind is None else f"{STOPPED}: {kind.__name__}"
        message = None if error is None or isinstance(error, Interrupted) else _short(str(error))
        self._end = {"status": status, "version": self._run.ended.get("version"), "error": message}
        self._running.clear()
        self._write(self.record())

    def _write(self, record: Mapping[str, Any]) -> None:
        """Nothing here may stop a run: the next record may succeed."""
        if self._store.is_shared and self._lease is not None:
            with suppress(Exception):
                self._store.write_json(f"{FOLDER}/{self._recipe.name}/{self._lease.id}.json", record)
        for observer in list(self._observers):
            try:
                observer(record)
            except Exception as error:
                self._observers.remove(observer)
                _LOG.warn(f"the progress of this run is no longer reported: {error}. The run goes on.")

    def record(self) -> dict[str, Any]:
        """The record as it is now."""
        assert self._lease is not None
        left = self.seconds_left
        return {
            "recipe": self._recipe.name,
            "run": self._lease.id,
            "host": self._lease.host,
            "pid": self._lease.pid,
            "store": without_secrets(self._store.uri),
            "sources": {name: list(map(without_secrets, one.paths)) for name, one in self._recipe.sources.items()},
            "started": self._started.isoformat(),
            "written": datetime.now(UTC).isoformat(),
            "moved": self._moved.isoformat(),
            **self._end,
            "doing": self._doing,
            "slots": 0 if self._run is None else self._run.slots,
            "seconds_left": None if left is None else round(left, 1),
            "stages": {name: self._stage(name, stage) for name, stage in self.stages.items()},
            "running": sorted(self._running.values(), key=lambda one: str(one["begun"]))[:MOST_TASKS],
            "slowest": [one for *_, one in sorted(self._slowest, reverse=True)],
            "notes": list(self._notes),
            "throughput": self._throughput.as_record(),
            "funnel": self._funnel(),
        }

    def _stage(self, name: str, stage: StageProgress) -> dict[str, Any]:
        state = None if self._run is None else self._run.states[name]
        metrics, cost = ({}, {}) if state is None else (state.metrics, state.cost)
        return {
            "kind": self._nodes[name].kind,
            "tasks": stage.expected,
            "more": stage.more,
            "done": stage.done,
            "cached": stage.cached,
            "running": sum(one["stage"] == name for one in self._running.values()),
            "seconds_left": stage.seconds_left,
            "rows": metrics.get("rows", 0),
            "bytes": metrics.get("bytes_in", 0),
            "seconds": round(cost.get("wall_s", 0.0) - cost.get("compile_s", 0.0), 3),
            "cpu_s": round(cost.get("cpu_s", 0.0), 3),
            "worked_bytes": stage.bytes_in,
            "worked_s": round(stage.seconds, 3),
            "dropped": {} if self._nodes[name].name == CORPUS else _most(metrics.get("dropped", {})),
            "failures": 0 if state is None else state.failures,
            "given_up": 0 if state is None else state.given_up,
        }

    def _funnel(self) -> dict[str, dict[str, Any]]:
        """Per source, the documents that have passed all steps: how many, how many are kept, and for the others the
        step that dropped them first, and its reason.
        """
        found: dict[str, dict[str, Any]] = {}
        states = {} if self._run is None else self._run.states
        for node in (self._nodes[name] for name in states if self._nodes[name].name == CORPUS):
            if counts := states[node.id].metrics.get("funnel"):
                first = {
                    step: _most({reason: one["rows"] for reason, one in reasons.items()})
                    for step, reasons in counts["first"].items()
                }
                found[node.sources[0]] = {**{side: counts[side]["rows"] for side in ("read", "kept")}, "first": first}
        return found

    # A listener

    def begin(self, nodes: Iterable[Node], before: Mapping[str, Mapping[str, Any]]) -> None:
        self._nodes = {node.id: node for node in nodes}
        self._running.clear()
        super().begin(self._nodes.values(), before)
        self._changed = True
        self._listener.begin(self._nodes.values(), before)

    def doing(self, what: str) -> None:
        self._doing, self._changed = what, True
        self._listener.doing(what)

    def expect(self, node: Node, tasks: int) -> None:
        super().expect(node, tasks)
        self._changed = True
        self._listener.expect(node, tasks)

    def settled(self, node: Node) -> None:
        super().settled(node)
        self._listener.settled(node)

    def begun(self, task: Task, where: str = "") -> None:
        """An executor gives a task to a worker; again if the worker before died."""
        if task.key:  # others belong to no stage: they hash and preview input files
            now = datetime.now(UTC).isoformat()
            self._running[task.key] = {"stage": task.node, "task": _short(task.label), "begun": now, "where": where}
            self._changed = True

    def done(self, node: Node, task: Task, result: Result, cached: bool) -> None:
        super().done(node, task, result, cached)
        self._running.pop(task.key, None)
        self._moved, self._changed = datetime.now(UTC), True
        if not cached:
            seconds = result.cost.get("wall_s", 0.0)
            rows, size = result.metrics.get("rows", 0), result.metrics.get("bytes_in", 0)
            self._throughput.add(time.monotonic(), seconds, size, rows)
            fact = {"stage": node.id, "task": _short(task.label), "seconds": seconds, "bytes": size, "rows": rows}
            push = heapq.heappush if len(self._slowest) < MOST_TASKS else heapq.heappushpop
            push(self._slowest, (seconds, next(self._numbers), {**fact, "where": result.where}))
        self._listener.done(node, task, result, cached)

    def found(self, node: Node, tasks: int, cost: Mapping[str, float]) -> None:
        super().found(node, tasks, cost)
        self._changed = True
        self._listener.found(node, tasks, cost)

    def note(self, message: str, level: int = INFO, /) -> None:
        kind = "warning" if level >= WARNING else "info"
        self._notes.append({"time": datetime.now(UTC).isoformat(), "level": kind, "message": _short(message)})
        self._changed = True
        self._listener.note(message, level)

    def track(self, name: str, items: Iterable[Item], total: int) -> Iterator[Item]:
        return self._listener.track(name, items, total)


def _short(text: str) -> str:
    """A text for a record: bounded, and without secrets in the addresses that it names."""
    return without_secrets(text[:MOST_CHARACTERS])


def _most(reasons: Mapping[str, int]) -> dict[str, int]:
    """The most frequent reasons, and the sum of the others."""
    found = sorted(reasons.items(), key=lambda one: (-one[1], one[0]))
    others = sum(count for _, count in found[MOST_REASONS:])
    return {**dict(found[:MOST_REASONS]), **({"(other reasons)": others} if others else {})}


@dataclass(frozen=True)
class RunJournal:
    """The journal of a run as another process reads it."""

    path: str
    record: Mapping[str, Any]
    state: str
    """RUNNING, FINISHED, STOPPED or KILLED."""


def read_journals(store: Store, recipe: str) -> list[RunJournal]:
    """The journals of a recipe: running ones first, then the newest."""
    found = []
    for path, _ in list(store.list_files(f"{FOLDER}/{recipe}")):
        record = store.read_json(path)
        if not isinstance(record, dict) or not {"run", "status", "started"} <= record.keys():
            continue  # it was removed meanwhile, or is damaged
        state = str(record["status"]).partition(":")[0]
        if state == RUNNING and not is_alive(store, record["run"]):
            again = store.read_json(path) or record  # it may have ended between the two reads
            record, state = again, str(again["status"]).partition(":")[0].replace(RUNNING, KILLED)
        found.append(RunJournal(path, record, state))
    found.sort(key=lambda one: str(one.record["started"]), reverse=True)
    return sorted(found, key=lambda one: one.state != RUNNING)

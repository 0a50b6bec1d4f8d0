"""Counts the tasks of a run by stage, and estimates the time that is left."""

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from gristmill.counted import size

if TYPE_CHECKING:
    from gristmill.engine.plan.graph import Node
    from gristmill.engine.work.task import Result, Task

FEW_TASKS, FEW_SHARE = 5, 0.02
"""With fewer finished tasks than this, or a smaller share, a stage's time is not estimated from them."""

Item = TypeVar("Item")


@dataclass
class StageProgress:
    """The progress of one stage."""

    expected: int = 0
    """Known tasks."""
    done: int = 0
    cached: int = 0
    bytes_in: float = 0
    seconds: float = 0
    """Worker seconds, without compiling."""
    cost_s: float = 0
    """Worker seconds of all timed tasks; a cached task counts with its original time."""
    timed: int = 0
    """Finished tasks, without one that waited for workers to start."""
    more: bool = False
    """Whether there may be tasks that are not known yet."""
    before: tuple[int, float] = (0, 0.0)
    """Tasks of an earlier run and their seconds; for a command without tasks, those of earlier stages."""

    @property
    def is_running(self) -> bool:
        return 0 < self.done < self.expected

    @property
    def is_done(self) -> bool:
        return self.done == self.expected and not self.more

    @property
    def left(self) -> int:
        return self.expected - self.done

    @property
    def tasks_to_come(self) -> int | None:
        """Open tasks that are known, or that an earlier run had; None while neither is known."""
        if self.more and not self.before[0]:
            return None
        return max(self.left, self.before[0] - self.done if self.more else 0)

    @property
    def seconds_left(self) -> float | None:
        """Worker seconds, estimated from the tasks of this run or of an earlier one; None without an estimate."""
        to_come = self.tasks_to_come
        if not to_come:
            return to_come
        tasks, seconds = (self.timed, self.cost_s) if says_enough(self.timed, self.expected) else self.before
        return to_come * seconds / tasks if tasks else None

    @property
    def rate(self) -> str:
        """The bytes that one worker processes per second."""
        if self.seconds:
            return f"{size(self.bytes_in / self.seconds)}/s a worker"
        return "cached" if self.cached else ""


class Track(Protocol):
    """Yields items, and may show how many of the total are done; `name` says what they are."""

    def __call__(self, name: str, items: Iterable[Item], total: int, /) -> Iterable[Item]: ...


def untracked(_: str, items: Iterable[Item], __: int, /) -> Iterable[Item]:
    """Shows nothing."""
    return items


class RunProgress:
    """The progress of all stages of a run. Its methods are those of a listener (`task_cache.py`)."""

    def __init__(self) -> None:
        self.stages: dict[str, StageProgress] = {}
        self._lock = threading.RLock()
        """Guards all counts, which another thread may read."""
        self._worked_since: float | None = None
        """When the first task started that was not cached."""
        self._busy_s = 0.0
        """Seconds of all workers, with compiling."""

    def begin(self, nodes: "Iterable[Node]", before: Mapping[str, Mapping[str, Any]]) -> None:
        """Start with all stages: their number does not change."""
        with self._lock:
            self.stages = {node.id: StageProgress(more=True, before=_earlier(before.get(node.id))) for node in nodes}

    def settled(self, node: "Node") -> None:
        with self._lock:
            self.stages[node.id].more = False

    def expect(self, node: "Node", tasks: int) -> None:
        self.promise(node.id, tasks)

    def promise(self, name: str, total: int) -> None:
        """Announce how many items will follow, so that the remaining number is known from the start."""
        with self._lock:
            self.stages.setdefault(name, StageProgress()).expected += total

    def done(self, node: "Node", task: "Task", result: "Result", cached: bool) -> None:
        with self._lock:
            stage = self.stages[node.id]
            stage.done += 1
            stage.cached += cached
            took = result.cost.get("wall_s", 0)
            worked = took - result.cost.get("compile_s", 0)
            if cached:
                stage.cost_s += worked
                stage.timed += 1
            else:
                stage.bytes_in += result.metrics.get("bytes_in", 0)
                self._worked(stage, took, worked)

    def found(self, node: "Node", tasks: int, cost: Mapping[str, float]) -> None:
        with self._lock:
            stage = self.stages[node.id]
            stage.more = False
            stage.expected = stage.done = stage.cached = stage.timed = tasks
            stage.cost_s = cost.get("wall_s", 0) - cost.get("compile_s", 0)

    def _worked(self, stage: StageProgress, took_s: float, worked_s: float) -> None:
        stage.seconds += worked_s
        stage.cost_s += worked_s
        stage.timed += 1
        self._busy_s += took_s
        if self._worked_since is None:
            self._worked_since = time.monotonic() - took_s

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the end of the run; None while a stage has no estimate, and after the last task."""
        known = [stage.seconds_left for stage in self.stages.values()]
        if self._worked_since is None or None in known or all(stage.is_done for stage in self.stages.values()):
            return None
        at_once = max(1.0, self._busy_s / max(time.monotonic() - self._worked_since, 1e-9))
        return sum(one or 0.0 for one in known) / at_once


def says_enough(timed: int, expected: int) -> bool:
    """Whether enough tasks are timed to estimate the others."""
    return timed >= max(1, min(FEW_TASKS, FEW_SHARE * expected))


def _earlier(node: Mapping[str, Any] | None) -> tuple[int, float]:
    """Tasks of a stage in an earlier run and their seconds, without compiling."""
    if node is None:
        return 0, 0.0
    return node["executed"] + node["cached"], node["cost"].get("wall_s", 0) - node["cost"].get("compile_s", 0)

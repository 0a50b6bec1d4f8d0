"""How long the tasks of a step take: of each kind of its tasks (map; emit, reduce, collect) what was seen of them.

It says which tasks to expect to be long, before they run, and afterwards which were: where the slowest of a kind took
many times what the one in the middle did, the step is skewed, and its report names that task.
"""

from array import array
from collections.abc import Mapping
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gristmill.engine.work.task import Result

BYTES_PER_S = 20e6
"""Of a kind of task that no run has timed: then the order of tasks is that of their bytes."""
SKEWED = 4.0
"""Times what the one in the middle takes: from there on a task is named as skewed,"""
SKEWED_S, SKEWED_TASKS = 2.0, 8
"""if it takes so many seconds, and there are so many of its kind: shorter ones hold up nobody."""

Told = Mapping[str, Any]
"""tasks, wall_s, bytes, median_s, and the slowest: label, wall_s, bytes, hot_key."""


class Pace:
    """What was seen of the tasks of one kind."""

    def __init__(self) -> None:
        self._seconds = array("f")
        self._bytes = 0.0
        self._slowest: dict[str, Any] = {}

    def add(self, label: str, result: "Result") -> None:
        seconds = result.cost.get("wall_s", 0.0) - result.cost.get("compile_s", 0.0)
        size = result.cost.get("input_bytes", 0)
        self._seconds.append(seconds)
        self._bytes += size
        if not self._slowest or seconds > self._slowest["wall_s"]:
            self._slowest = {"label": label, "wall_s": round(seconds, 6), "bytes": int(size)}
            if result.hot_key is not None:
                self._slowest["hot_key"] = list(result.hot_key)

    def told(self) -> dict[str, Any]:
        """For the records of a stage and of a run."""
        return {
            "tasks": len(self._seconds),
            "wall_s": round(sum(self._seconds), 6),
            "bytes": int(self._bytes),
            "median_s": round(median(self._seconds), 6),
            "slowest": self._slowest,
        }


def expected_s(before: Mapping[str, Told], verb: str, size: int) -> float:
    """Seconds that a task of a kind takes for so many bytes, by what an earlier run tells of its step."""
    known = before.get(verb, {})
    rate = known["wall_s"] / known["bytes"] if known.get("bytes") else 1 / BYTES_PER_S
    return float(size * rate)


def skewed(pace: Mapping[str, Told]) -> list[dict[str, Any]]:
    """The kinds of a step's tasks whose slowest took many times what the one in the middle did."""
    found = []
    for verb, told in pace.items():
        slowest, middle = told["slowest"], told["median_s"]
        if told["tasks"] >= SKEWED_TASKS and slowest["wall_s"] >= max(SKEWED_S, SKEWED * middle):
            found.append({"verb": verb, "tasks": told["tasks"], "median_s": middle, **slowest})
    return found

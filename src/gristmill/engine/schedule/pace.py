"""How long the tasks of a step take, measured for each kind of task (map; emit, reduce, collect).

It predicts which tasks will be long before they run, and reports afterwards which were: if the slowest task of a kind
took many times the median, the step is skewed, and its report names that task.
"""

from array import array
from collections.abc import Mapping
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gristmill.engine.work.task import Result

BYTES_PER_S = 20e6
"""Assumed for a kind of task that no run has timed; tasks are then ordered by their bytes."""
SKEWED = 4.0
"""A task is skewed if it takes at least this many times the median,"""
SKEWED_S, SKEWED_TASKS = 2.0, 8
"""at least this many seconds, and there are this many tasks of its kind: shorter ones delay nothing."""

PaceRecord = Mapping[str, Any]
"""tasks, wall_s, bytes, median_s, and the slowest: label, wall_s, bytes, hot_key."""


class Pace:
    """Measurements of the tasks of one kind."""

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

    def as_record(self) -> dict[str, Any]:
        """The summary for the records of a stage and of a run."""
        return {
            "tasks": len(self._seconds),
            "wall_s": round(sum(self._seconds), 6),
            "bytes": int(self._bytes),
            "median_s": round(median(self._seconds), 6),
            "slowest": self._slowest,
        }


def expected_s(before: Mapping[str, PaceRecord], verb: str, size: int) -> float:
    """Seconds that a task of a kind takes for a number of bytes, judged by an earlier run of its step."""
    known = before.get(verb, {})
    rate = known["wall_s"] / known["bytes"] if known.get("bytes") else 1 / BYTES_PER_S
    return float(size * rate)


def skewed(pace: Mapping[str, PaceRecord]) -> list[dict[str, Any]]:
    """The kinds of a step's tasks whose slowest task took many times the median."""
    found = []
    for verb, record in pace.items():
        slowest, middle = record["slowest"], record["median_s"]
        if record["tasks"] >= SKEWED_TASKS and slowest["wall_s"] >= max(SKEWED_S, SKEWED * middle):
            found.append({"verb": verb, "tasks": record["tasks"], "median_s": middle, **slowest})
    return found

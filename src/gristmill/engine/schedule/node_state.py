"""The state of one stage: what it has in the store."""

from collections.abc import Mapping
from typing import Any

from gristmill.engine.schedule.pace import Pace, PaceRecord
from gristmill.engine.schedule.tables import PartFiles, PartLayers, Slots, TaskNames, bytes_of
from gristmill.store.store import Part

MODEL = ("", (0, 0))
"""Replaces source and document part for a stage with files and no layers."""


class NodeState:
    """What one node has in the store, and what is missing."""

    def __init__(self, slots: Slots | None = None, tasks: Mapping[str, str] | None = None) -> None:
        self.tasks = TaskNames(tasks)
        """All tasks, whether found in the store or run by this run."""
        self.layers = PartLayers(slots)
        self.files = PartFiles()
        """Parts other than layers."""
        self.missing: dict[str, tuple[str, Mapping[str, Any]]] = {}
        """Key -> (label, inputs) of tasks that are missing in a dry run."""
        self.waiting = 0
        """Tasks whose inputs do not exist yet, so their keys are unknown; a dry run cannot count tasks after them."""
        self.foreseen: Part | None = None
        """The model that a missing task will make, if that is known, so that nothing needs to wait for it."""
        self.metrics: dict[str, Any] = {}
        self.cost: dict[str, float] = {}
        self.paces: dict[str, Pace] = {}
        """By the kind of its tasks, for tasks that were visited one by one."""
        self.known_pace: Mapping[str, PaceRecord] = {}
        """From the record of a stage that is reused as a whole."""
        self.failures = 0
        """How often a worker died in this run while it ran one of its tasks."""
        self.given_up = 0
        """Documents that kill their worker."""

    @property
    def executed(self) -> set[str]:
        """Keys of the tasks that this run executed."""
        return self.tasks.executed

    @property
    def model(self) -> Part | None:
        """The file of a fit or a sink."""
        return self.layers[MODEL][0] if MODEL in self.layers else None

    @property
    def pace(self) -> Mapping[str, PaceRecord]:
        """How long its tasks took, by their kind."""
        return self.known_pace or {verb: pace.as_record() for verb, pace in self.paces.items()}

    @property
    def cpu_s(self) -> float:
        """CPU seconds of its tasks."""
        return self.cost.get("cpu_s", 0.0)

    @property
    def bytes_per_s(self) -> float | None:
        """Document content read per second of a worker, without compilation; None if it read none."""
        seconds = self.cost.get("wall_s", 0) - self.cost.get("compile_s", 0)
        read = self.metrics.get("bytes_in")
        return read / seconds if read and seconds else None

    @property
    def stored_bytes(self) -> int:
        """Bytes of all files of its tasks in the store."""
        return bytes_of((self.files.sizes(), *self.layers.sizes()))

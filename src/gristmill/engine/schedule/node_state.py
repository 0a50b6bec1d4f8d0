"""What one stage has in the store."""

from collections.abc import Mapping
from typing import Any

from gristmill.engine.schedule.pace import Pace, Told
from gristmill.engine.schedule.tables import Files, Layers, Slots, TaskNames, bytes_of
from gristmill.store.store import Part

MODEL = ("", (0, 0))
"""Stands for source and document part where a stage has files and no layers."""


class NodeState:
    """What one node has in the store, and what it has not."""

    def __init__(self, slots: Slots | None = None, tasks: Mapping[str, str] | None = None) -> None:
        self.tasks = TaskNames(tasks)
        """Of every task, in the store or made by this run."""
        self.layers = Layers(slots)
        self.files = Files()
        """Parts beside the layers."""
        self.missing: dict[str, tuple[str, Mapping[str, Any]]] = {}
        """Key -> (label, inputs) of tasks that a dry run stopped at."""
        self.waiting = 0
        """Tasks whose inputs do not exist yet, so that their keys are unknown; a dry run cannot count further ones."""
        self.foreseen: Part | None = None
        """The model that a missing task will make, where that is known: nobody waits for it."""
        self.metrics: dict[str, Any] = {}
        self.cost: dict[str, float] = {}
        self.paces: dict[str, Pace] = {}
        """By the kind of its tasks, of those that were looked at one by one."""
        self.known_pace: Mapping[str, Told] = {}
        """Of a stage that is taken as a whole, from its record."""
        self.given_up = 0
        """Documents that kill their worker."""

    @property
    def executed(self) -> set[str]:
        """Keys of the tasks that this run carried out."""
        return self.tasks.executed

    @property
    def model(self) -> Part | None:
        """Of a fit or a sink."""
        return self.layers[MODEL][0] if MODEL in self.layers else None

    @property
    def pace(self) -> Mapping[str, Told]:
        """How long its tasks took, by their kind."""
        return self.known_pace or {verb: pace.told() for verb, pace in self.paces.items()}

    @property
    def stored_bytes(self) -> int:
        """Of all files that its tasks have in the store."""
        return bytes_of((self.files.sizes(), *self.layers.sizes()))

"""What a store has of a corpus, for whoever only looks: as a recipe finds it now, or as the record of a run has it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gristmill.engine.plan.facts import NodeFacts
from gristmill.engine.schedule.node_state import NodeState
from gristmill.hints import hint, option
from gristmill.store.store import Part, Store


@dataclass(frozen=True, eq=False, slots=True)
class Document:
    """A document part of a source; the layers of later steps belong to it."""

    source: str
    part: Part
    rows_hash: str
    order: tuple[int, int]
    label: str
    task: str


class CorpusView:
    """Steps, documents and layers of a corpus."""

    def __init__(
        self,
        name: str,
        label: str,
        store: Store,
        nodes: Mapping[str, NodeFacts],
        chains: Mapping[str, tuple[str, ...]],
        states: dict[str, NodeState],
        record: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        """The recipe's."""
        self.label = label
        """How the user names it: the recipe's file, or STORE@NAME."""
        self.store = store
        self.nodes = nodes
        """By id, in an order where inputs come first."""
        self.chains = chains
        """Per source, in the order of the recipe: the ids of its steps after the reader."""
        self.states = states
        self.documents: dict[str, list[Document]] = {}
        """Per source: its document parts in order; of a recipe that has not run to its end, those that exist."""
        self.inputs: dict[str, Any] = {}
        """Per source: its input files, where the recipe is looked at as it is now."""
        self.record = record
        """Of the run that is looked at; None where it is the recipe as it is now."""
        self.domains: Mapping[str, str | None] = {} if record is None else record.get("domains", {})
        """Of sources, as the recipe has them; runs that were recorded before there was such an entry have none."""
        self.passed_over: Sequence[str] = ()
        """What is wrong with records that may be of a newer run."""

    @property
    def to_finish(self) -> str:
        """The end of a message about something that is not there."""
        if not self.store.is_shared:
            return (
                f"The store {self.store.uri} is in the memory of the process that fills it, and empty for every other. "
                f"Name a folder (store: in the recipe, or {option('store')}), and run: {hint('run', recipe=self.label)}"
            )
        if self.record is None:
            return f"Run: {hint('run', recipe=self.label)}"
        return "Another run may have it: name that one, or run the recipe to its end."

    def stored_bytes(self, node_id: str) -> int | None:
        """Of all files that the tasks of a step have in the store; None if the record of the run does not say."""
        if self.record is None:
            return self.states[node_id].stored_bytes
        found: int | None = self.record["nodes"][node_id].get("stored_bytes")
        return found

    def unfinished(self) -> list[str]:
        """Steps that have not run to their end."""
        return [node_id for node_id in self.nodes if self.states[node_id].missing or self.states[node_id].waiting]

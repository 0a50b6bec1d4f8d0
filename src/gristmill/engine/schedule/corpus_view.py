"""A read-only view of a corpus in a store: as the current recipe finds it, or as the record of a run has it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gristmill.engine.plan.facts import NodeFacts
from gristmill.engine.schedule.node_state import NodeState
from gristmill.hints import hint, option
from gristmill.stages import CORPUS, GROUPS, INGEST
from gristmill.store.store import Part, Store


@dataclass(frozen=True, eq=False, slots=True)
class DocumentPart:
    """A document part of a source; the layers of later steps belong to it."""

    source: str
    part: Part
    rows_hash: str
    order: tuple[int, int]
    label: str
    task: str

    @property
    def at(self) -> tuple[str, tuple[int, int]]:
        """Its key among the layers of a step."""
        return self.source, self.order


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
        """The name of the recipe."""
        self.label = label
        """How the user names it: the recipe's file, or STORE@NAME."""
        self.store = store
        self.nodes = nodes
        """By id, in an order where inputs come first."""
        self.chains = chains
        """Per source, in the order of the recipe: the ids of its steps after the reader."""
        self.states = states
        self.documents: dict[str, list[DocumentPart]] = {}
        """Per source: its document parts in order; only those that exist if the recipe has not run to its end."""
        self.inputs: dict[str, Any] = {}
        """Per source: its input files, if this is the current recipe."""
        self.record = record
        """The record of the run; None for the current recipe."""
        self.domains: Mapping[str, str | None] = {} if record is None else record["domains"]
        """Domains of sources, as in the recipe."""
        self.watched: Mapping[str, Any] = {} if record is None else record["watch"]
        """The comparison with the version that the recipe watches, if it watches one (query/watch.py)."""
        self.passed_over: Sequence[str] = ()
        """The faults of damaged records that may be of a newer run."""

    @property
    def to_finish(self) -> str:
        """The end of a message about missing output."""
        if not self.store.is_shared:
            return (
                f"The store {self.store.uri} is in the memory of the process that fills it, and empty for all others. "
                f"Name a folder (store: in the recipe, or {option('store')}), and run: {hint('run', recipe=self.label)}"
            )
        if self.record is None:
            return f"Run: {hint('run', recipe=self.label)}"
        return "Another run may have it: name that one, or run the recipe to its end."

    def stored_bytes(self, node_id: str) -> int | None:
        """Bytes of all files of a step's tasks in the store; None if the record of the run does not say."""
        if self.record is None:
            return self.states[node_id].stored_bytes
        found: int | None = self.record["nodes"][node_id].get("stored_bytes")
        return found

    def named(self, *names: str) -> list[NodeFacts]:
        """The stages with one of these names."""
        return [node for node in self.nodes.values() if node.name in names]

    def metrics_of(self, name: str) -> list[Mapping[str, Any]]:
        """The metrics of every stage of a name."""
        return [self.states[node.id].metrics for node in self.named(name)]

    def model(self, name: str) -> Part | None:
        """The file of the first stage of a name that has made one."""
        return next((part for node in self.named(name) if (part := self.states[node.id].model) is not None), None)

    def token_groups(self) -> Iterator[tuple[str, str, int]]:
        """Source, group of the mixture, and its tokens in the shards, each counted once."""
        for metrics in self.metrics_of(GROUPS):
            for source, groups in metrics.get("groups", {}).items():
                yield from ((source, name, group["tokens"]) for name, group in groups.items())

    def has_layer(self, step: str, document: DocumentPart) -> bool:
        """Whether a step has processed a document part."""
        return step == INGEST or document.at in self.states[step].layers

    def layer(self, step: str, document: DocumentPart) -> Part:
        """The layer of a step for a document part; that of the reader is the part itself."""
        return document.part if step == INGEST else self.states[step].layers[document.at][0]

    def verdicts(self, document: DocumentPart) -> Part:
        """The final verdicts on the rows of a document part."""
        return self.layer(f"{document.source}/{CORPUS}", document)

    def unfinished(self) -> list[str]:
        """Steps that have not run to their end."""
        return [node_id for node_id in self.nodes if self.states[node_id].missing or self.states[node_id].waiting]

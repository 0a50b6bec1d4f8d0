"""Evidence: where documents contain items of an eval suite, and what derived ones say that their parents do not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gristmill.engine.plan.graph import Node, NodeFacts
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.errors import UserError
from gristmill.installed import STEPS, missing
from gristmill.recipe.stage_module import known_steps
from gristmill.stages.contract import Map
from gristmill.stages.declarations import stage_of

if TYPE_CHECKING:  # importing it takes a tenth of the start time of every command, and only one option needs it
    from gristmill.stages.decontaminate.matching.index import OpenSuite
    from gristmill.stages.decontaminate.suite.form import Item

STEP = "decontaminate"
COLUMN = "evidence"
_SUITE = "eval_index"


@dataclass(frozen=True)
class Flag:
    """A passage of a document that matches an item."""

    step: str
    benchmark: str
    item: str
    """The id of the item in its benchmark."""
    piece: str
    """The matching field of the item: question, answer, code or choices."""
    rule: str
    coverage: float
    """The share of the field that the document contains."""
    whole: bool
    """Whether the document has the question together with the answer, half of the choices, or the code."""
    start: int
    """The offset in bytes in the step's input text."""
    stop: int
    passage: str


@dataclass(frozen=True)
class Departure:
    """Something in a derived document that its parent does not say."""

    step: str
    check: str
    """What is new, such as numbers or names."""
    start: int
    """The offset in bytes in the step's input text."""
    stop: int
    passage: str


@dataclass(frozen=True)
class ParentEvidence:
    """A derived document beside its parent."""

    column: str
    """The column of the step that lists the departures."""
    text: str
    """The step's input text."""
    parent: str
    departures: tuple[Departure, ...]


def ids_with_evidence(view: CorpusView) -> set[str]:
    """The ids of the steps that search for eval items."""
    return {node.id for node in view.named(STEP)}


def departures_of(view: CorpusView) -> dict[str, str]:
    """The steps that compare documents with their parents: the column of each with what is new."""
    found = {}
    for node in view.nodes.values():
        name = node.module if isinstance(node, Node) else known_steps(node.name).get(node.name)
        stage = stage_of(name) if name is not None and node.kind == "map" else None
        if isinstance(stage, Map) and stage.departures is not None:
            found[node.id] = stage.departures
    return found


def parent_evidence(
    step: str, column: str, found: Sequence[Mapping[str, Any]] | None, text: str, parent: str | None
) -> ParentEvidence | None:
    """What a row of such a step lists, with both texts; None if it lists nothing."""
    if not found or parent is None:
        return None
    data = text.encode()
    departures = [
        Departure(step=step, passage=data[one["start"] : one["stop"]].decode("utf-8", "replace"), **one)
        for one in found
    ]
    return ParentEvidence(column, text, parent, tuple(departures))


def flags_of(step: str, found: Sequence[Mapping[str, Any]] | None, text: bytes) -> tuple[Flag, ...]:
    """The flags in a row of the layer, with passages of the step's input text; the strongest first."""
    flags = [
        Flag(step=step, passage=text[one["start"] : one["stop"]].decode("utf-8", "replace"), **one)
        for one in found or ()
    ]
    return tuple(
        sorted(flags, key=lambda one: (not one.whole, -one.coverage, one.benchmark, one.item, one.start, one.rule))
    )


def evidence_steps(view: CorpusView) -> list[NodeFacts]:
    """The steps that write evidence. Raises UserError if there are none."""
    found = view.named(STEP)
    if not found:
        raise UserError(
            f"{view.label} has no step {STEP}, so eval items were not searched. Add - {STEP}: {{suite: FOLDER}} "
            "to its steps (docs/decontaminate.md)."
        )
    return found


def steps_with_any_evidence(view: CorpusView) -> list[NodeFacts]:
    """The steps whose findings can be shown beside another text. Raises UserError if there are none."""
    found = ids_with_evidence(view) | departures_of(view).keys()
    if not found and (needed := next(filter(None, (missing(STEPS, node.name) for node in view.nodes.values())), None)):
        raise UserError(needed)
    if not found:
        raise UserError(
            f"{view.label} has no step {STEP} and no step that compares documents with their parents, so no text was "
            f"compared with another one. Add - {STEP}: {{suite: FOLDER}} (docs/decontaminate.md) or, for generated "
            "text, the step of docs/faithful.md to its steps."
        )
    return [node for node in view.nodes.values() if node.id in found]


def part_of_step(step: str, name: str) -> str:
    """The id of a stage that is part of a decontamination step."""
    route, _, own = step.rpartition("/")
    return f"{route}/{own.replace(STEP, name, 1)}"


class Suites:
    """The eval suites of a run, each read once."""

    def __init__(self, view: CorpusView) -> None:
        self._view = view
        self._opened: dict[str, OpenSuite] = {}
        self._items: dict[str, dict[tuple[str, str], Item]] = {}

    def of(self, step: str) -> "OpenSuite":
        if step not in self._opened:
            part = self._view.states[part_of_step(step, _SUITE)].model
            if part is None:
                raise UserError(
                    f"the eval suite of {step} is not in {self._view.store.uri}, so its items cannot be shown. "
                    f"{self._view.to_finish}"
                )
            from gristmill.stages.decontaminate.matching.index import open_suite

            self._opened[step] = open_suite(self._view.store.local_path(part))
        return self._opened[step]

    def item(self, flag: Flag) -> "Item":
        if flag.step not in self._items:
            items = self.of(flag.step).items.values()
            self._items[flag.step] = {(item.benchmark, item.id): item for item in items}
        return self._items[flag.step][flag.benchmark, flag.item]


def text_of(item: "Item", flag: Flag) -> str:
    """The field of an item that a flag names; if it has several texts, the one most similar to the passage."""
    value: str | tuple[str, ...] = getattr(item, flag.piece)
    if isinstance(value, str):
        return value
    words = set(flag.passage.lower().split())
    return max(value, key=lambda text: len(words.intersection(text.lower().split())) / (len(text.split()) or 1))


def plain(flag: Flag, item: "Item") -> dict[str, Any]:
    """A flag with its item, as JSON."""
    return {
        **{name: value for name, value in flag.__dict__.items() if name != "item"},
        "item": {"id": item.id, "digest": item.digest, **dict(list(item._asdict().items())[2:])},
        "text": text_of(item, flag),
    }

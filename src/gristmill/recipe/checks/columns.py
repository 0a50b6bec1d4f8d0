"""Binds what every step of a route reads to earlier steps: columns to layers, and models to the steps that fit them.

The check of a recipe reports what is missing (`unbound.py`), and the graph of a run uses what was found. Both use this
module, so a recipe that loads can run. A name is bound to the newest earlier step that has it, on each source's route.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gristmill.recipe.model import Source, Step
from gristmill.schema import DOCUMENTS, layer_schema
from gristmill.stages import INGEST as INGEST
from gristmill.stages.contract import DocumentStage, LayerStage, Reader, Sink
from gristmill.stages.declarations import stage_of

Route = tuple[Step, ...]
Columns = tuple[tuple[int, str, str], ...]
"""(index of the layer, column in it, name under which the stage sees it)"""


@dataclass(frozen=True)
class View:
    """The part of the documents of one source that a step reads."""

    layers: tuple[str, ...]
    columns: Columns
    gates: tuple[int, ...]
    """Layers whose verdicts hide rows from it."""
    models: Mapping[str, str] = field(default_factory=dict)
    """Name -> id of the step that fits the model."""
    counts: str | None = None
    """For a sink: the step whose metrics say how much there is."""


@dataclass(frozen=True)
class Binding:
    """What a step finds at its position in a route, and what is missing."""

    view: View
    columns: tuple[str, ...] = ()
    """Columns that no earlier layer has, named as the step names them."""
    models: tuple[str, ...] = ()
    """Models that no earlier step fits."""
    counts: str | None = None
    """The step that must count for a sink, if no such step comes before it."""

    @property
    def absent(self) -> tuple[str, ...]:
        """Everything that is missing."""
        return (*self.columns, *self.models, *(() if self.counts is None else (self.counts,)))


class Before:
    """What the steps before a position in a route provide."""

    def __init__(self, more: Sequence[str] = ()) -> None:
        """`more` are columns that only the reader of the source has."""
        names = (*DOCUMENTS.names, *more)
        documents = dict.fromkeys(names, INGEST)
        self.layers: dict[str, dict[str, str]] = {"": dict(documents), INGEST: documents}
        """By step name and by step id ("" means any step): column -> the newest layer that has it."""
        self.every: dict[str, list[str]] = {name: [INGEST] for name in names}
        """Column -> all layers that have it, oldest first."""
        self.models: dict[str, str] = {}
        """Name -> the newest step that fits such a model."""
        self._judges = [INGEST]
        self._newest: dict[str, str] = {}
        """Name of a step -> id of the newest step with that name."""

    def add(self, step: Step, columns: Sequence[str]) -> None:
        """Add a step and the columns of its layer."""
        self._newest[step.name] = step.id
        for name in ("", step.name, step.id):
            self.layers.setdefault(name, {}).update(dict.fromkeys(columns, step.id))
        for column in columns:
            self.every.setdefault(column, []).append(step.id)
        if not adds_layer(step):
            self.models[step.name] = step.id
        elif judges(step):
            self._judges.append(step.id)

    def layer_of(self, read: str) -> str | None:
        """The layer that holds `column` or `step.column`; for `*.column` the newest one."""
        name, _, column = read.removeprefix("*").rpartition(".")
        return self.layers.get(name, {}).get(column)

    def bind(self, step: Step) -> Binding:
        """Bind a step at this position."""
        stage = stage_of(step.module)
        needed, welcome = stage.reads_of(step.config), stage.may_read_of(step.config)
        used: dict[str, int] = {}
        columns = []
        for name in (*needed, *welcome):
            column = name.rpartition(".")[2]
            if name.startswith("*."):
                every = enumerate(self.every.get(column, ()))
                columns += [(used.setdefault(layer, len(used)), column, f"{name}.{number}") for number, layer in every]
            elif (layer := self.layer_of(name)) is not None:
                columns.append((used.setdefault(layer, len(used)), column, name))
        hidden_by = self._judges if isinstance(stage, DocumentStage) and stage.only_kept else ()
        gates = [used.setdefault(layer, len(used)) for layer in hidden_by]
        uses, counts = stage.uses_of(step.config), stage.counts if isinstance(stage, Sink) else None
        models = {name: self.models[name] for name in uses if name in self.models}
        counted_by = None if counts is None else self._newest.get(counts)
        return Binding(
            View(tuple(used), tuple(columns), tuple(gates), models, counted_by),
            tuple(name for name in needed if self.layer_of(name) is None),
            tuple(name for name in uses if name not in models),
            None if counted_by is not None else counts,
        )


def bind_route(
    route: Sequence[Step], known: dict[int, tuple[str, ...]] | None = None, more: Sequence[str] = ()
) -> list[Binding]:
    """A binding for each step of a route, in order; `known` caches the columns of steps that many routes share, and
    `more` are columns that only the reader of the source has.
    """
    before, found = Before(more), []
    known = {} if known is None else known
    for step in route:
        found.append(before.bind(step))
        if id(step) not in known:
            known[id(step)] = columns_of(step)
        before.add(step, known[id(step)])
    return found


def columns_of_source(source: Source) -> tuple[str, ...]:
    """The columns that only the documents of a source have."""
    return tuple(stage_of(source.module, Reader).columns_of(source.config).names)


def columns_of(step: Step) -> tuple[str, ...]:
    """The columns of the layer that a step adds; empty if the step writes files."""
    stage = stage_of(step.module)
    return tuple(layer_schema(stage.schema_of(step.config)).names) if isinstance(stage, LayerStage) else ()


def adds_layer(step: Step) -> bool:
    """Whether a step adds columns to the documents; other steps write files."""
    return isinstance(stage_of(step.module), LayerStage)


def extracts(step: Step) -> bool:
    """Whether a step extracts text from markup."""
    return "text" in columns_of(step) and "html" in stage_of(step.module).reads_of(step.config)


def judges(step: Step) -> bool:
    """Whether a step decides what belongs to the corpus."""
    stage = stage_of(step.module)
    return not isinstance(stage, LayerStage) or stage.judges

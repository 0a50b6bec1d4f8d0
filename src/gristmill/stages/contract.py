"""What a stage is: one of six kinds, which its module declares as `STAGE`.

    STAGE = Map(version=1, config=Config, reads=("text",), schema=SCHEMA, apply=apply)

`Reader` reads a format, `Map` adds columns to each row, `Exchange` compares rows, `Fit` trains a model file on
documents, `Asset` makes a file of files, `Sink` writes sets of files. A field of type `Given` is a value, or a function
of the config that returns it. The arguments of each function are in calls.py.

A column is named `text` (the newest that an earlier step wrote) or `signals.words` (of a certain step). `*.text` means
that of every earlier step that writes it; the stage sees them as `*.text.0` (as it was read), `*.text.1`, ... Every
layer has `drop` (the reason to drop a document, or null) and `detail`, and `text_bytes` where it has `text`. A column
`withheld` names the list for which nothing of a document may be shown (query/takedown/withheld.py).

A stage must treat each row alone: the engine may call it with any slice of a part. Its answers are checked: exactly the
promised columns, of the promised types; nothing is cast. A stage that breaks its promise or raises stops the run.

Three fields of a config are special: `seed` and `source_domains` are filled from the recipe, and a field of type `File`
is a path whose content is in the task key. A field with a `ReportMark` is in no key.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import pyarrow as pa
from pydantic import Field

from gristmill.counted import counted, size
from gristmill.errors import BrokenPromise
from gristmill.stages.calls import (
    BatchCall,
    BuildCall,
    Counts,
    Entry,
    FactsCall,
    FitCall,
    Given,
    LayoutCall,
    MakeCall,
    Match,
    ReadCall,
    RoundCall,
    SetupCall,
    SummaryCall,
)
from gristmill.stages.config_types import AsCount as AsCount
from gristmill.stages.config_types import Bytes as Bytes
from gristmill.stages.config_types import CodeLanguageName as CodeLanguageName
from gristmill.stages.config_types import Count as Count
from gristmill.stages.config_types import File as File
from gristmill.stages.config_types import LanguageName as LanguageName
from gristmill.stages.config_types import LicenseName as LicenseName
from gristmill.stages.config_types import ReportMark as ReportMark
from gristmill.stages.config_types import SourceName as SourceName
from gristmill.stages.config_types import StageConfig as StageConfig
from gristmill.stages.piece import Piece as Piece

C = TypeVar("C", bound=StageConfig)
T = TypeVar("T")
Kind = Literal["read", "map", "exchange", "fit", "asset", "sink"]


class Resources(StageConfig):
    """What one task of a stage needs while it runs. It is in no key."""

    memory: Bytes = 0
    """Bytes that its worker holds in all: the model, the batch, and 250 MB for Python. 0: the engine estimates it."""
    cores: int = Field(default=1, ge=1)
    """A task gets at most those of one machine, or the `workers` of the run."""
    gpus: int = Field(default=0, ge=0)
    """Whole GPUs, which no other task sees meanwhile."""

    def __str__(self) -> str:
        shown = [f"{size(self.memory)} of memory"] if self.memory else []
        shown += [counted(self.cores, "core")] if self.cores > 1 else []
        return ", ".join([*shown, *([counted(self.gpus, "GPU")] if self.gpus else [])]) or "1 core"


class OtherSetting(NamedTuple):
    """A setting that decides in place of another."""

    path: str
    is_built_in: bool = False
    """Whether it comes with the step, and the recipe does not set it."""


class Prerequisite(NamedTuple):
    """A stage that runs just before a step, as a part of it."""

    name: str
    """The name of its layer."""
    module: str
    config: StageConfig | None = None
    """None: the fields that it has in common with the step's config."""


def value_for(given: Given[T, C], config: C) -> T:
    """The value of a field that may depend on the config."""
    return given(config) if callable(given) else given


@dataclass(frozen=True, kw_only=True)
class Stage(Generic[C]):
    """What every kind declares."""

    kind: ClassVar[Kind]
    verb: ClassVar[str]
    """The function that only this kind has."""

    version: int
    """Raised by one with every change of the output. Steps of your own need not: their code is in the task key."""
    config: type[C]
    """What a recipe may set: a frozen model with a line and a unit under every field."""
    libraries: Given[tuple[str, ...], C] = ()
    """Distributions whose version changes the output; in the task key. `unicode` is the character database."""
    resources: Resources | Callable[[C, int], Resources] | None = None
    """What one task needs; as a function it gets the bytes of text of a part. Executors schedule by it."""
    check: Callable[[C], None] | None = None
    """Called when a recipe is loaded. Raises WrongSetting, which names a field, or another UserError."""
    warnings: Callable[[dict[str, Any], C], Sequence[str]] | None = None
    """Called at the end of a run with the summed metrics: what silently did nothing."""
    explain: Callable[[C], Sequence[str]] | None = None
    """Lines that a plan shows under the step."""
    explain_fully: Callable[[C], Sequence[str]] | None = None
    """Lines that the explained plan shows in their place."""

    def __new__(cls, *_: Any, **declared: Any) -> "Stage[C]":
        known = {one.name: one.default is MISSING and one.default_factory is MISSING for one in fields(cls)}
        for name in declared.keys() - known.keys():
            near = get_close_matches(name, known, 1)
            hint = f"Did you mean {near[0]}?" if near else f"Fields: {', '.join(known)}"
            raise TypeError(f"{cls.__name__} has no field {name}. {hint}")
        if missing := [name for name, is_needed in known.items() if is_needed and declared and name not in declared]:
            raise TypeError(f"{cls.__name__} needs {' and '.join(missing)}")
        return super().__new__(cls)

    def libraries_of(self, config: C) -> tuple[str, ...]:
        return tuple(value_for(self.libraries, config))

    def resources_of(self, config: C, part_bytes: int) -> Resources | None:
        """What one task needs, for a part with so many bytes of text; None: it declares nothing."""
        declared = self.resources(config, part_bytes) if callable(self.resources) else self.resources
        if declared is not None and not isinstance(declared, Resources):
            raise BrokenPromise(
                f"its resources are of type {type(declared).__name__}, not Resources (gristmill.stages.contract)"
            )
        return declared

    def config_within(self, config: StageConfig) -> C:
        """The config of a stage that runs before its step: those fields of the step's that it has."""
        values = dict(config)
        return self.config(**{name: values[name] for name in self.config.model_fields})

    # What only some kinds declare; of the others, nothing.

    def reads_of(self, config: C) -> tuple[str, ...]:
        return ()

    def may_read_of(self, config: C) -> tuple[str, ...]:
        return ()

    def uses_of(self, config: C) -> tuple[str, ...]:
        return ()

    def before(self, config: C) -> list[Prerequisite]:
        return []

    def schema_of(self, config: C) -> pa.Schema:
        return pa.schema([])


@dataclass(frozen=True, kw_only=True)
class Reader(Stage[C]):
    """Reads a format: records of files."""

    kind = "read"
    verb = "read"

    read: ReadCall[C]
    """Opens its files with `piece.open()`, which returns only bytes that were hashed, and in no other way."""
    splittable: Callable[[str], bool]
    """Whether reading can start in the middle of a file of that name."""
    positions: str = "positions of the reader"
    """What the positions of its records count (bytes of the file, rows), for the display of documents."""
    beside: tuple[str, ...] = ()
    """Reasons of records that are no documents by the nature of the format: not a loss, even of a whole first part."""
    used: tuple[str, ...] = ()
    """Reasons of records that later steps use all the same."""
    markup: bool = False
    """Whether its documents are pages: their route must then have a step that extracts text."""
    wanted: Callable[[str, C], bool] | None = None
    """Whether a file of a folder is read at all, by its name."""
    other_suffix: Callable[[str, C], str | None] | None = None
    """The suffix for which an unwanted file is not read, unless the recipe excludes it; a run counts such files."""
    skipped_folder: Callable[[str, C], str | None] | None = None
    """The folder whose name keeps an unwanted file from being read."""
    companions: Callable[[Sequence[str]], Mapping[str, tuple[str, ...]]] | None = None
    """{name: names of files to look at beside it}; `read` gets them as `companions=`, and they are in the task key."""


@dataclass(frozen=True, kw_only=True)
class StepStage(Stage[C]):
    """What all kinds but a reader declare."""

    uses: Given[tuple[str, ...], C] = ()
    """Names of earlier steps (fit, asset, sink) whose files the stage gets as `models=`. A map gets those of the route
    of the documents that it sees, any other kind the same for all of its sources."""
    prerequisites: Given[Iterable[str | Prerequisite], C] = ()
    """Modules of stages that run just before this one, each a layer with the module's last name. Their configs have
    fields of the step's config, so that a change of its other fields does not run them again."""

    def uses_of(self, config: C) -> tuple[str, ...]:
        return tuple(value_for(self.uses, config))

    def before(self, config: C) -> list[Prerequisite]:
        """The stages that run just before this one, as parts of it."""
        found = value_for(self.prerequisites, config)
        return [Prerequisite(one.rpartition(".")[2], one) if isinstance(one, str) else one for one in found]


@dataclass(frozen=True, kw_only=True)
class DocumentStage(StepStage[C]):
    """What kinds declare that read documents."""

    reads: Given[tuple[str, ...], C]
    """Columns that it needs."""
    may_read: Given[tuple[str, ...], C] = ()
    """Columns that it gets, after those of `reads`, on routes where an earlier step writes them."""
    only_kept: bool = False
    """Whether it sees only rows that no earlier step dropped."""

    def reads_of(self, config: C) -> tuple[str, ...]:
        return tuple(value_for(self.reads, config))

    def may_read_of(self, config: C) -> tuple[str, ...]:
        needed = self.reads_of(config)
        return tuple(name for name in value_for(self.may_read, config) if name not in needed)


@dataclass(frozen=True, kw_only=True)
class LayerStage(DocumentStage[C]):
    """What kinds declare that write columns, aligned with the documents."""

    schema: Given[pa.Schema, C]
    """The columns that it writes. Those that documents have (`text`, `url`, `drop`) have their type."""
    judges: bool = True
    """Whether its `drop` takes documents out of the corpus."""
    setup: SetupCall[C] | None = None
    """Called once in each worker. What it returns or yields is given to `apply` or `emit` as `loaded=`; what comes
    after a `yield` runs when the worker ends."""
    highlights: Callable[[pa.RecordBatch, C], Sequence[Match]] | None = None
    """Finds again what the stage acted on, for `gristmill audit`, in bytes of the text before the step. The batch has
    that `text`, `language.label` where it is known, and what the stage wrote. Such a stage counts under `found` in its
    metrics: {type: {source: {language: documents}}}."""
    matched: tuple[str, ...] = ()
    """Columns that hold something where the stage acted on a row without dropping it, for `gristmill audit`."""
    exceptions: Callable[[C, str], Mapping[str, OtherSetting]] | None = None
    """Those for whom another setting decides in place of the one at a path; `gristmill whatif` says so."""
    for_all_languages: Callable[[C], Sequence[str]] | None = None
    """Settings that replace built-in ones for other languages; `gristmill whatif` says so."""
    trained: Literal["classifiers", "language_models"] | None = None
    """The field of a recipe's `quality` whose models it can use."""

    def schema_of(self, config: C) -> pa.Schema:
        return value_for(self.schema, config)


@dataclass(frozen=True, kw_only=True)
class Map(LayerStage[C]):
    """Adds columns to each row."""

    kind = "map"
    verb = "apply"

    apply: BatchCall[C]
    """One row of `schema` for each row of the batch."""
    metrics: Callable[[pa.RecordBatch, pa.RecordBatch, C], Counts] | None = None
    """Counts of a batch and its answers, for `warnings` and reports."""


@dataclass(frozen=True, kw_only=True)
class Exchange(LayerStage[C]):
    """Compares rows: sends records to keys, sees all records of a key, answers to rows. Its metrics have `sources`: the
    rows that each source sent and lost.
    """

    kind = "exchange"
    verb = "reduce"

    record_schema: pa.Schema
    """What travels, without `key`, `row` and `part`, which every record has."""
    emit: BatchCall[C]
    """Records with `key` (uint64, a hash: where it goes) and `row` (index in the batch); any number for a row."""
    reduce: RoundCall[C]
    """The last round: sorted records, all of a key at once, to a table with `part` and `row` as they came, and with
    `schema`. Any round may return counts as well, which are summed over all calls."""
    rounds: Mapping[str, RoundCall[C]] = field(default_factory=dict)
    """Rounds that run before `reduce`, in order: they return records with a new `key`. The name is in the task key."""
    summaries: Mapping[str, SummaryCall[C]] = field(default_factory=dict)
    """By the name of a round: describes a piece of a key that is too large for memory in a few rows. The round gets the
    rows of all other pieces as `others=`. Without one a key is given whole."""
    tally: Callable[[pa.RecordBatch, pa.RecordBatch, C], Counts] | None = None
    """Counts of a batch and its records, summed over all documents for `totals`."""
    totals: Callable[[dict[str, Any], C], Mapping[str, Any]] | None = None
    """A JSON object made of these counts, for every round as `totals=`. It is in their task keys: say what changes an
    answer, and no more."""
    memory_field: str | None = None
    """The setting that makes a task need less memory, named when it runs out."""

    @property
    def all_rounds(self) -> dict[str, RoundCall[C]]:
        return {**self.rounds, "reduce": self.reduce}


@dataclass(frozen=True, kw_only=True)
class Fit(DocumentStage[C]):
    """Trains a model file on documents."""

    kind = "fit"
    verb = "fit"

    fit: FitCall[C]
    """Writes the file at the path and returns counts."""
    suffix: str = "model"
    """The suffix of its file in the store."""
    memory_field: str | None = None
    """As of an exchange."""


@dataclass(frozen=True, kw_only=True)
class Asset(StepStage[C]):
    """Makes a file of the files that its config names, before any source is read."""

    kind = "asset"
    verb = "make"

    make: MakeCall[C]
    """Writes the file at the path and returns counts."""
    suffix: str = "model"
    """The suffix of its file in the store."""
    copies: str | None = None
    """The field of the config (a File) that the file is a copy of: a plan then knows it."""


@dataclass(frozen=True, kw_only=True)
class Sink(DocumentStage[C]):
    """Writes sets of files. Later steps can use their catalogue: entries, hashes, metrics, facts."""

    kind = "sink"
    verb = "build"

    counts: str
    """An earlier map step whose metrics say how much there is."""
    record_schema: pa.Schema
    """What travels, without `key`."""
    layout: LayoutCall[C]
    """{source: entries}, an entry (a JSON object) for each set of files to be written."""
    emit: Callable[[pa.RecordBatch, C, Sequence[Entry]], pa.RecordBatch]
    """Records with `key`: the index of the entry that a record is for."""
    build: BuildCall[C]
    """Writes the files of an entry into the folder."""
    files: Callable[[C], tuple[str, ...]]
    """Their names."""
    facts: FactsCall[C]
    """A JSON object about all sets."""
    carries_rows: bool = False
    """Whether `emit` gives `row` too, as in an exchange: records then come to `build` with `part` and `row`."""
    memory_field: str | None = None
    """As of an exchange."""


AnyStage = Stage[Any]
KINDS: tuple[type[AnyStage], ...] = (Reader, Map, Exchange, Fit, Asset, Sink)

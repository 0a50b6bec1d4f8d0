"""The six kinds of stage. A module declares one of them as `STAGE`.

    STAGE = Map(version=1, config=Config, reads=("text",), schema=SCHEMA, apply=apply)

`Reader` reads a format, `Map` adds columns to each row, `Exchange` compares rows, `Fit` trains a model file on
documents, `Asset` builds a file from other files, `Sink` writes sets of files. A field of type `Given` is a value, or a
function that computes it from the config. calls.py lists the arguments of each function.

A column is named `text` (the newest that an earlier step wrote) or `signals.words` (from a certain step). `*.text`
means the column of every earlier step that writes one; the stage receives them as `*.text.0` (as it was read),
`*.text.1`, ... Every layer has `drop` (the reason to drop a document, or null) and `detail`, and `text_bytes` if it has
`text`. A column `withheld` names the list because of which no part of a document may be shown
(query/takedown/withheld.py).

A stage must treat each row separately: the engine may call it with any slice of a part. The engine checks the result:
exactly the declared columns, of the declared types, with values in the declared ranges; it casts nothing. A stage that
breaks this contract or raises an exception stops the run.

Three config fields are special: `seed` and `source_domains` are filled in from the recipe, and a field of type `File`
is a path whose content is in the task key. A field with a `ReportMark` is in no key.
"""

import importlib.metadata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import pyarrow as pa
from pydantic import SerializeAsAny

from gristmill.errors import BrokenPromise
from gristmill.schema import Record
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
    ModelRequest,
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
from gristmill.stages.page_views import PageViews
from gristmill.stages.piece import Piece as Piece
from gristmill.stages.resources import Resources as Resources
from gristmill.stages.resources import refuse_unknown

C = TypeVar("C", bound=StageConfig)
T = TypeVar("T")
Kind = Literal["read", "map", "exchange", "fit", "asset", "sink"]


NOT_A_THRESHOLD = "not a threshold"
"""Marks a number of a config that documents are not compared with, such as a seed: Annotated[int, NOT_A_THRESHOLD]."""


class OtherSetting(NamedTuple):
    """A setting that overrides another one."""

    path: str
    is_built_in: bool = False
    """Whether it comes with the step instead of the recipe."""


class OtherStage(StageConfig):
    """A stage that another one calls, with its config."""

    module: str
    config: SerializeAsAny[StageConfig]


@dataclass(frozen=True)
class BodyFormat(Generic[C]):
    """How a format reads the body of a record in a web archive. Its Reader needs a version."""

    media_types: tuple[str, ...]
    """Media types of its bodies."""
    opens: Callable[[bytes], bool]
    """Whether a body of any media type is of the format, by its first KiB."""
    fill: Callable[[Record, bytes, C], Mapping[str, object]]
    """Fills the record, or gives it a reason. Returns metadata that the archive's is extended with."""


class Prerequisite(NamedTuple):
    """A stage that runs just before a step, as a part of it."""

    name: str
    """The name of its layer."""
    module: str
    config: StageConfig | None = None
    """None: the fields that it shares with the step's config."""


@cache
def version_of(library: str) -> str:
    """The version of an installed distribution, or of the character tables of Gristmill (`unicode`).

    Cached, since parsing a distribution's metadata takes a millisecond and a plan needs it for each of its steps.
    """
    if library == "unicode":
        from gristmill.kernels.text.unicode_data import UNICODE_VERSION  # it imports Numba

        return UNICODE_VERSION
    return importlib.metadata.version(library)


def value_for(given: Given[T, C], config: C) -> T:
    """The value of a field that may depend on the config."""
    return given(config) if callable(given) else given


@dataclass(frozen=True, kw_only=True)
class Stage(Generic[C]):
    """What every kind of stage declares."""

    kind: ClassVar[Kind]
    verb: ClassVar[str]
    """The function that only this kind has."""

    version: int | None = None
    """Raise it by one with every change of the output. Your own step leaves it out: its code is then in the task key.
    With a version, its code is not, and only another version runs it again."""
    config: type[C]
    """What a recipe may set: a frozen model in which a line under every field gives its meaning and unit."""
    libraries: Given[tuple[str | tuple[str, str], ...], C] = ()
    """Distributions whose version changes the output; they are in the task key. `unicode` is the character database.
    What is no distribution, such as a data file, is given with its version: `("lines.model", "0f3c…")`."""
    resources: Resources | Callable[[C, int], Resources | None] | None = None
    """What one task needs. A function is called with the bytes of text in a part. Executors schedule by it."""
    check: Callable[[C], None] | None = None
    """Called when a recipe is loaded. Raises WrongSetting, which names a field, or another UserError."""
    warnings: Callable[[dict[str, Any], C], Sequence[str]] | None = None
    """Called with the summed metrics at the end of a run. Returns warnings, such as for a filter that dropped nothing.
    """
    others: Callable[[C], Mapping[str, OtherStage]] | None = None
    """Stages that it calls, which are in its task keys with it."""
    explain: Callable[[C], Sequence[str]] | None = None
    """Lines that the plan shows under the step."""
    explain_fully: Callable[[C], Sequence[str]] | None = None
    """Lines that the plan shows instead when it explains."""

    def __new__(cls, *_: object, **declared: object) -> "Stage[C]":
        known = {one.name: one.default is MISSING and one.default_factory is MISSING for one in fields(cls)}
        refuse_unknown(cls.__name__, declared, known)
        if missing := [name for name, is_needed in known.items() if is_needed and declared and name not in declared]:
            raise TypeError(f"{cls.__name__} needs {' and '.join(missing)}")
        return super().__new__(cls)

    def libraries_of(self, config: C) -> dict[str, str]:
        """The versions of its libraries. Raises PackageNotFoundError."""
        named = value_for(self.libraries, config)
        return dict((name, version_of(name)) if isinstance(name, str) else name for name in named)

    def resources_of(self, config: C, part_bytes: int) -> Resources | None:
        """What one task needs for a part with this many bytes of text. None: the stage declares nothing."""
        declared = self.resources(config, part_bytes) if callable(self.resources) else self.resources
        if declared is not None and not isinstance(declared, Resources):
            raise BrokenPromise(
                f"its resources are of type {type(declared).__name__}, not Resources (gristmill.stages.contract)"
            )
        return declared

    def config_within(self, config: StageConfig) -> C:
        """The config of a prerequisite: the fields that it shares with the step's config."""
        values = dict(config)
        return self.config(**{name: values[name] for name in self.config.model_fields})

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
    """Reads a format: turns files into records."""

    kind = "read"
    verb = "read"

    read: ReadCall[C]
    """Yields the records of a piece. It may open files only with `piece.open()`, which returns the hashed bytes."""
    splittable: bool = False
    """Whether reading can start in the middle of a plain file. A compressed one is read by one task."""
    positions: str = "positions of the reader"
    """What the positions of its records count (bytes of the file, rows). Shown with documents."""
    columns: Given[pa.Schema, C] = field(default_factory=lambda: pa.schema([]))
    """Columns that its documents have in addition to those of all documents."""
    metrics: Callable[[pa.RecordBatch, C], Counts] | None = None
    """Counts for some of its documents, for `warnings`."""
    fixes: Given[Mapping[str, str], C] = field(default_factory=dict)
    """By reason: what to do about records that could not be read, for warnings."""
    body: BodyFormat[C] | None = None
    """How it reads bodies of records in web archives."""
    pages: PageViews | None = None
    """How pages of its documents are shown."""
    beside: tuple[str, ...] = ()
    """Reasons of records that the format has in addition to documents. They are not a loss, even if a first part has no
    others."""
    used: tuple[str, ...] = ()
    """Reasons of dropped records that later steps still use."""
    markup: bool = False
    """Whether its documents are web pages. Their route then needs a step that extracts text."""
    wanted: Callable[[str, C], bool] | None = None
    """Whether a file of a folder is read, decided by its name."""
    other_suffix: Callable[[str, C], str | None] | None = None
    """The suffix because of which a file is skipped, unless the recipe excludes it. The run counts such files."""
    skipped_folder: Callable[[str, C], str | None] | None = None
    """The folder because of whose name a file is skipped."""
    companions: Callable[[Sequence[str]], Mapping[str, tuple[str, ...]]] | None = None
    """{name: names of other files that its reader needs}. `read` gets them as `companions=`; they are in the task key.
    Files that need the same ones should have the same tuple: each tuple is hashed once."""

    def columns_of(self, config: C) -> pa.Schema:
        return value_for(self.columns, config)

    def fixes_of(self, config: C) -> Mapping[str, str]:
        return value_for(self.fixes, config)


@dataclass(frozen=True, kw_only=True)
class StepStage(Stage[C]):
    """What all kinds but `Reader` declare."""

    uses: Given[tuple[str, ...], C] = ()
    """Names of earlier steps (fit, asset, sink) whose files the stage gets as `models=`. A map gets the files of its
    documents' route, any other kind the same files for all sources."""
    prerequisites: Given[Iterable[str | Prerequisite], C] = ()
    """Modules of stages that run just before this one. Each is a layer with the module's last name. Their config fields
    are a subset of the step's, so changing the step's other fields does not run them again."""

    def uses_of(self, config: C) -> tuple[str, ...]:
        return tuple(value_for(self.uses, config))

    def before(self, config: C) -> list[Prerequisite]:
        """The stages that run just before this one, as parts of it."""
        found = value_for(self.prerequisites, config)
        return [Prerequisite(one.rpartition(".")[2], one) if isinstance(one, str) else one for one in found]


@dataclass(frozen=True, kw_only=True)
class DocumentStage(StepStage[C]):
    """What all kinds that read documents declare."""

    reads: Given[tuple[str, ...], C]
    """Columns that it needs."""
    may_read: Given[tuple[str, ...], C] = ()
    """Columns that it gets, after those in `reads`, on routes where an earlier step writes them."""
    only_kept: bool = False
    """Whether it sees only rows that no earlier step dropped."""

    def reads_of(self, config: C) -> tuple[str, ...]:
        return tuple(value_for(self.reads, config))

    def may_read_of(self, config: C) -> tuple[str, ...]:
        needed = self.reads_of(config)
        return tuple(name for name in value_for(self.may_read, config) if name not in needed)


@dataclass(frozen=True, kw_only=True)
class LayerStage(DocumentStage[C]):
    """What all kinds that write columns, aligned with the documents, declare."""

    schema: Given[pa.Schema, C]
    """The columns that it writes. Columns that documents also have (`text`, `url`, `drop`) keep their type."""
    ranges: Given[Mapping[str, tuple[float, float]], C] = field(default_factory=dict)
    """The least and the largest value of columns of numbers, or of lists of numbers: {"score": (0, 1)}. A value outside
    or a NaN stops the run; null is allowed."""
    spans: tuple[str, ...] = ()
    """Columns with lists of spans: start, stop, start, stop, ascending, in bytes of the `text` that the stage reads."""
    judges: bool = True
    """Whether its `drop` removes documents from the corpus."""
    setup: SetupCall[C] | None = None
    """Called once in each worker. What it returns or yields is passed to `apply` or `emit` as `loaded=`. Code after a
    `yield` runs when the worker ends."""
    highlights: Callable[[pa.RecordBatch, C], Sequence[Match]] | None = None
    """Finds the spans that the stage acted on, for `gristmill audit`, as byte offsets into the text before the step.
    The batch has that `text`, `language.label` if it is known, and the stage's columns. Such a stage counts documents
    under `found` in its metrics: {type: {source: {language: documents}}}.
    """
    matched: tuple[str, ...] = ()
    """Columns that are not null where the stage changed a row without dropping it, for `gristmill audit`."""
    exceptions: Callable[[C, str], Mapping[str, OtherSetting]] | None = None
    """{name: the setting that overrides the one at a path}, for `gristmill whatif`."""
    for_all_languages: Callable[[C], Sequence[str]] | None = None
    """Settings that replace built-in ones for other languages, for `gristmill whatif`."""
    rule_set: str | None = None
    """A module with rules over the step's columns, `Config` and `SET` (shared/rule.py): a set of the step `heuristics`
    under the name of the step."""
    departures: str | None = None
    """A column with what a text says and its parent does not, which evidence screens show in both: a list of
    {check, start, stop}, in bytes of the text. The step reads the parent's text as `parent_text`."""
    trained: str | None = None
    """The field of the recipe's `quality` section whose models it can use (quality/model_kind.py)."""

    def schema_of(self, config: C) -> pa.Schema:
        return value_for(self.schema, config)

    def ranges_of(self, config: C) -> Mapping[str, tuple[float, float]]:
        return value_for(self.ranges, config)


@dataclass(frozen=True, kw_only=True)
class Map(LayerStage[C]):
    """Adds columns to each row."""

    kind = "map"
    verb = "apply"

    apply: BatchCall[C]
    """Returns one row of `schema` for each row of the batch."""
    metrics: Callable[[pa.RecordBatch, pa.RecordBatch, C], Counts] | None = None
    """Counts for a batch and its results, for `warnings` and reports."""
    answers: Callable[[C], str | None] | None = None
    """For a step that asks servers outside: the folder of its answers in the store, which `apply` gets as `answers=`.
    None: with this config it asks nobody. Tasks of such a step are never run twice at once. It needs `requests`, and a
    config with the fields of `RequestFields` (calls.py)."""
    requests: Callable[[pa.RecordBatch, C], Sequence[ModelRequest]] | None = None
    """The requests for the documents of a batch, each once, stored or not, from which `plan` estimates the cost."""
    children: str | None = None
    """For a step that makes the documents of a derived source (derived.py): the module of the reader of its layers."""
    kept: Callable[[C], str | None] | None = None
    """For a step whose work on one record takes long: the folder of its results in the store, which `apply` gets as
    `answers=`, so that a task that is interrupted does not repeat them. Its name has all that they depend on."""

    def scope_of(self, config: C) -> str | None:
        """The folder of its answers; None for a step that asks no server."""
        return None if self.answers is None else self.answers(config)


@dataclass(frozen=True, kw_only=True)
class Exchange(LayerStage[C]):
    """Compares rows: `emit` sends records to keys, and `reduce` sees all records of a key and returns results for rows.
    Its metrics have `sources`: the rows that each source sent and lost."""

    kind = "exchange"
    verb = "reduce"

    record_schema: pa.Schema
    """The columns of its records, without `key`, `row` and `part`, which every record has."""
    emit: BatchCall[C]
    """Returns records with `key` (uint64, a hash: the partition) and `row` (index in the batch); any number per row."""
    reduce: RoundCall[C]
    """The last round. It gets sorted records, all records of a key at once, and returns a table with their `part` and
    `row` and the columns of `schema`. Any round may also return counts, which are summed over all calls."""
    rounds: Mapping[str, RoundCall[C]] = field(default_factory=dict)
    """Rounds before `reduce`, in order. They return records with a new `key`. The names are in the task key."""
    summaries: Mapping[str, SummaryCall[C]] = field(default_factory=dict)
    """By the name of a round: describes, in a few rows, a piece of a key that is too large for memory. The round gets
    the rows of all other pieces as `others=`. A round without a summary gets each key whole."""
    tally: Callable[[pa.RecordBatch, pa.RecordBatch, C], Counts] | None = None
    """Counts for a batch and its records, summed over all documents and passed to `totals`."""
    totals: Callable[[dict[str, Any], C], Mapping[str, Any]] | None = None
    """A JSON object computed from these counts, which every round gets as `totals=`. It is in their task keys, so
    include only what changes a result."""
    memory_field: str | None = None
    """The setting that reduces the memory of a task. It is named when a task runs out of memory."""

    @property
    def all_rounds(self) -> dict[str, RoundCall[C]]:
        return {**self.rounds, "reduce": self.reduce}


@dataclass(frozen=True, kw_only=True)
class Fit(DocumentStage[C]):
    """Trains a model file on documents. With a config for which it reads no column, it trains on the files of the
    config alone: it gets no batches, and runs before any source is read.
    """

    kind = "fit"
    verb = "fit"

    fit: FitCall[C]
    """Writes the file at the path and returns counts."""
    suffix: str = "model"
    """The suffix of its file in the store."""
    memory_field: str | None = None
    """As for `Exchange`."""


@dataclass(frozen=True, kw_only=True)
class Asset(StepStage[C]):
    """Builds a file from the files that its config names, before any source is read."""

    kind = "asset"
    verb = "make"

    make: MakeCall[C]
    """Writes the file at the path and returns counts."""
    suffix: str = "model"
    """The suffix of its file in the store."""
    copies: str | None = None
    """The config field (a File) whose content is copied. The plan then knows the result."""


@dataclass(frozen=True, kw_only=True)
class Sink(DocumentStage[C]):
    """Writes sets of files. Later steps can use their catalogue: entries, hashes, metrics, facts."""

    kind = "sink"
    verb = "build"

    counts: str
    """An earlier map step whose metrics say how much there is to write."""
    record_schema: pa.Schema
    """The columns of its records, without `key`."""
    layout: LayoutCall[C]
    """{source: entries}, with one entry (a JSON object) for each set of files."""
    emit: Callable[[pa.RecordBatch, C, Sequence[Entry]], pa.RecordBatch]
    """Records with `key`: the index of the entry that the record belongs to."""
    build: BuildCall[C]
    """Writes the files of an entry into the folder."""
    files: Callable[[C], tuple[str, ...]]
    """The names of these files."""
    facts: FactsCall[C]
    """A JSON object about all sets of files."""
    carries_rows: bool = False
    """Whether `emit` also returns `row`, as in an exchange. `build` then gets records with `part` and `row`."""
    memory_field: str | None = None
    """As for `Exchange`."""


AnyStage = Stage[Any]
KINDS: tuple[type[AnyStage], ...] = (Reader, Map, Exchange, Fit, Asset, Sink)

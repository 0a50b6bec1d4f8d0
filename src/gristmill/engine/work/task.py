"""Tasks: pure functions from parts to parts, each with a key that says everything its output depends on.

The key holds the stage's name, VERSION, config, the versions of the libraries that it declares, and the hashes of
what it reads. Paths, worker counts and batch sizes are not in it: they cannot change a byte of the output.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from gristmill.engine.files.config_files import ConfigFile
from gristmill.places import Place
from gristmill.recipe.checks.columns import Columns
from gristmill.stages.contract import Piece, StageConfig
from gristmill.store.records import digest as digest
from gristmill.store.segments import Segment, SegmentFile
from gristmill.store.store import Part
from gristmill.store.store import part_from_json as part_from_json
from gristmill.store.store import part_to_json as part_to_json


@dataclass(frozen=True)
class Hash:
    """Hash the content of files."""

    places: tuple[Place, ...]
    blocks: bool = True
    """Whether readers will need the digests of blocks."""


@dataclass(frozen=True)
class Read:
    """Turn stretches of input files into document parts."""

    module: str
    config: StageConfig
    pieces: tuple[Piece, ...]
    companions: Mapping[str, tuple[Piece, ...]]
    """Per file name: other files that the reader looks at beside it (license texts)."""
    source: str
    snapshot: str | None
    license: str | None
    part_bytes: int
    limit: int | None = None
    """Records that are taken at most."""
    share: float | None = None
    """Of the records, by a hash of each (sampling.py)."""
    poisoned: tuple[tuple[str, int, str], ...] = ()
    """(exact file name, position, detail) of records that kill their reader: rows without content."""


@dataclass(frozen=True)
class Preview(Read):
    """Read the beginning of some files, and store nothing."""


@dataclass(frozen=True)
class Map:
    """Add a layer to one document part."""

    module: str
    config: StageConfig
    layers: tuple[Part, ...]
    columns: Columns
    gates: tuple[int, ...]
    """Layers whose verdicts hide a row from this stage."""
    models: Mapping[str, Part]
    rows: tuple[int, int] | None = None
    """A probe reads only these rows and stores nothing."""
    poisoned: tuple[tuple[int, str], ...] = ()
    """(row, detail) of records that kill their worker: no stage sees them."""


@dataclass(frozen=True)
class Emit(Map):
    """Send records of one document part off by their keys."""


@dataclass(frozen=True)
class Merge:
    """Bring what many files have for a range of destinations into one file, cut finer."""

    files: tuple[SegmentFile, ...]
    first: int
    last: int
    """Destinations, in the numbers of the files."""
    column: str
    """The number that says where a record goes."""
    shift: int
    """By how many bits it is shifted to give the destination."""
    keeps: bool = True
    """Whether the column goes on with the record."""


@dataclass(frozen=True)
class Reduce:
    """Work on all records of some range of keys."""

    module: str
    config: StageConfig
    function: str
    segments: Sequence[Segment]
    column: str
    """What the answers go by: `key` to the next round, or, in the last one, `part`."""
    shift: int
    """By how many bits that is shifted to give the destination."""
    totals: Any = None
    """What the stage makes of the counts of all parts."""


@dataclass(frozen=True)
class Collect:
    """Bring the records of an exchange back to the rows of one document part."""

    module: str
    config: StageConfig
    documents: Part
    segments: Sequence[Segment]
    poisoned: tuple[tuple[int, str], ...] = ()
    """(row, detail) of those that killed their worker when they were to be sent."""


@dataclass(frozen=True)
class Fit:
    """Train a model on whole datasets."""

    module: str
    config: StageConfig
    inputs: tuple[tuple[Part, ...], ...]
    """Layers of each document part, in order."""
    columns: tuple[Columns, ...]
    gates: tuple[tuple[int, ...], ...]
    models: Mapping[str, Part]


@dataclass(frozen=True)
class Make:
    """Make a file of files: those that its config names, and models."""

    module: str
    config: StageConfig
    models: Mapping[str, Part]


@dataclass(frozen=True)
class Scatter:
    """Send records of one document part to the sets of files of a sink."""

    module: str
    config: StageConfig
    layers: tuple[Part, ...]
    columns: Columns
    gates: tuple[int, ...]
    layout: "Layout"
    """The entries of the part's source."""
    shift: int
    """By how many bits the number of an entry is shifted to give the destination."""
    keeps: bool
    """Whether records are told apart later, by a merge, and take their number with them."""


@dataclass(frozen=True)
class Layout:
    """The entries of a source's layout, small enough to be sent with every part's task."""

    packed: bytes
    hash: str

    @classmethod
    def of(cls, entries: Sequence[Mapping[str, Any]]) -> "Layout":
        return cls(zlib.compress(orjson.dumps(entries)), digest(entries))

    def entries(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(orjson.loads(zlib.decompress(self.packed)))


@dataclass(frozen=True)
class Build:
    """Write one set of files from all records that were sent to it."""

    module: str
    config: StageConfig
    entry: Mapping[str, Any]
    segments: Sequence[Segment]
    models: Mapping[str, Part]


@dataclass(frozen=True)
class Gather:
    """Write the catalogue of a sink's files."""

    module: str
    config: StageConfig
    outputs: tuple[tuple[Mapping[str, Any], tuple[Part, ...], Mapping[str, Any]], ...]
    """Entry, files and metrics of every set."""
    models: Mapping[str, Part]
    documents: tuple[str, ...] = ()
    """Marks of the document parts in their order, where records carry the rows that they come from."""


Work = Hash | Read | Map | Emit | Merge | Reduce | Collect | Fit | Make | Scatter | Build | Gather


@dataclass(frozen=True)
class Task:
    """One piece of work under its key."""

    key: str
    node: str
    label: str
    work: Work
    order: tuple[int, ...] = ()
    """Who goes first when workers are short; it changes no output."""
    probe: bool = False
    """A trial in the search for a record that kills workers: nothing is stored."""
    files: Mapping[str, ConfigFile] = field(default_factory=dict)
    """Location -> the file or folder that the config names so, as the store keeps it."""
    expected_s: float = 0.0
    """Seconds that it is thought to take, by what its kind took before or by its bytes; 0 where nobody says."""


@dataclass
class Result:
    """What a task made and what it cost."""

    parts: list[Part] = field(default_factory=list)
    tables: list[tuple[int, str]] = field(default_factory=list)
    """Of each part of an exchange: the number of its segments, and the hash of its table."""
    rows_hashes: list[str] = field(default_factory=list)
    """Which documents the parts speak of, one mark a part."""
    metrics: dict[str, Any] = field(default_factory=dict)
    """Counts: the same for every run of the task."""
    cost: dict[str, float] = field(default_factory=dict)
    """cpu_s, wall_s, compile_s, peak_rss_bytes: different in every run. input_bytes, input_pieces; whether it was the
    first of its kind of its worker, which loaded what it needs; of a reader, write_cpu_s.
    """
    poisoned: list[list[Any]] = field(default_factory=list)
    """Records that were given up as they kill their worker: [row, detail]; of a reader [file, position, detail]."""
    evidence: list[dict[str, Any]] = field(default_factory=list)
    """How each of them was found to be fatal: different in every run."""
    tally: dict[str, Any] = field(default_factory=dict)
    """What `tally` of an exchange counted."""
    values: list[Any] = field(default_factory=list)
    """Answers of a task that makes no parts."""
    files: dict[str, int] = field(default_factory=dict)
    """Of a reader: rows by file."""
    hot_key: tuple[str, int] | None = None
    """Of a reducer: the key that has the most records, in hexadecimal, and how many, where that is a large share."""

    @property
    def segment_files(self) -> list[SegmentFile]:
        """The parts of a task that sends records on."""
        return [SegmentFile(part, *table) for part, table in zip(self.parts, self.tables, strict=True)]


def sent(files: Sequence[SegmentFile], **more: Any) -> Result:
    """The result of a task that sends records on."""
    return Result([file.part for file in files], [(file.segments, file.table) for file in files], **more)


def add_counts(total: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add nested counts into `total`; of a text, an example of something, the first in the alphabet stays."""
    for name, value in more.items():
        if isinstance(value, Mapping):
            add_counts(total.setdefault(name, {}), value)
        elif isinstance(value, str):
            total[name] = min(total.get(name, value), value)
        else:
            total[name] = total.get(name, 0) + value


def gated_only(layers: int, columns: Columns) -> list[bool]:
    """Of each layer, whether nothing but its verdicts is read."""
    beyond = {layer for layer, column, _ in columns if column != "drop"}
    return [layer not in beyond for layer in range(layers)]


def layer_hash(part: Part, verdicts_only: bool) -> str:
    """What of a layer enters a key."""
    return part.verdicts.drop if verdicts_only and part.verdicts is not None else part.hash


def layer_hashes(layers: Sequence[Part], columns: Columns) -> list[str]:
    """The same of all that a task reads: equal verdicts in another part are no reason to run again."""
    return list(map(layer_hash, layers, gated_only(len(layers), columns)))


def result_to_json(result: Result) -> dict[str, Any]:
    return {
        "parts": [part_to_json(part) for part in result.parts],
        "rows_hashes": result.rows_hashes,
        "tables": result.tables,
        "metrics": result.metrics,
        "cost": result.cost,
        "poisoned": result.poisoned,
        "evidence": result.evidence,
        **({"tally": result.tally} if result.tally else {}),
        **({"files": result.files} if result.files else {}),
        **({"hot_key": result.hot_key} if result.hot_key else {}),
    }


def result_from_json(record: Mapping[str, Any]) -> Result:
    return Result(
        [part_from_json(part) for part in record["parts"]],
        [(int(segments), str(table)) for segments, table in record.get("tables", ())],
        record["rows_hashes"],
        record["metrics"],
        record["cost"],
        record["poisoned"],
        record.get("evidence", []),
        record.get("tally", {}),
        hot_key=None if (hot := record.get("hot_key")) is None else (str(hot[0]), int(hot[1])),
    )


def with_work(task: Task, **changes: Any) -> Task:
    return replace(task, work=replace(task.work, **changes))

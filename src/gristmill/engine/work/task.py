"""Tasks: pure functions from parts to parts, each with a key that covers everything its output depends on.

The key contains the stage's name, VERSION and config, the versions of the libraries that it declares, and the hashes of
its inputs. It does not contain paths, worker counts and batch sizes: they cannot change a byte of the output.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from gristmill.engine.files.config_files import ConfigFile
from gristmill.places import FileLocation
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

    places: tuple[FileLocation, ...]
    blocks: bool = True
    """Whether readers will need the digests of blocks."""


@dataclass(frozen=True)
class IndexInput:
    """Find where a file can be opened (engine/files/indexing.py)."""

    piece: Piece


@dataclass(frozen=True)
class Read:
    """Turn pieces of input files into document parts."""

    module: str
    config: StageConfig
    pieces: tuple[Piece, ...]
    companions: Mapping[str, tuple[Piece, ...]]
    """Per file name: other files that the reader needs with it (license texts)."""
    source: str
    snapshot: str | None
    license: str | None
    part_bytes: int
    limit: int | None = None
    """The most records to take."""
    share: float | None = None
    """The share of the records to take, chosen by a hash of each (sampling.py)."""
    poisoned: tuple[tuple[str, int, str], ...] = ()
    """(exact file name, position, detail) of records that kill their reader: rows without content."""


@dataclass(frozen=True)
class Preview(Read):
    """Read the beginning of some files without storing anything."""


@dataclass(frozen=True)
class MapWork:
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
    """(row, detail) of records that kill their worker: they are hidden from every stage."""


@dataclass(frozen=True)
class Emit(MapWork):
    """Send records of one document part to reducers by their keys."""


@dataclass(frozen=True)
class Merge:
    """Merge the records of many files for a range of destinations into one file with finer destinations."""

    files: tuple[SegmentFile, ...]
    first: int
    last: int
    """The range of destinations, numbered as in the files."""
    column: str
    """The column with the number that determines a record's destination."""
    shift: int
    """By how many bits the number is shifted to get the destination."""
    keeps: bool = True
    """Whether records keep the column."""


@dataclass(frozen=True)
class Reduce:
    """Process all records of a range of keys."""

    module: str
    config: StageConfig
    function: str
    segments: Sequence[Segment]
    column: str
    """The column that determines where answers go: `key` for the next round, `part` in the last one."""
    shift: int
    """By how many bits the number in it is shifted to get the destination."""
    totals: Any = None
    """What the stage computed from the counts of all parts."""


@dataclass(frozen=True)
class Collect:
    """Align the answers of an exchange with the rows of one document part."""

    module: str
    config: StageConfig
    documents: Part
    segments: Sequence[Segment]
    poisoned: tuple[tuple[int, str], ...] = ()
    """(row, detail) of records that killed their worker in `emit`."""


@dataclass(frozen=True)
class FitWork:
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
    """Make a file from the files that its config names, and from models."""

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
    """By how many bits the number of an entry is shifted to get the destination."""
    keeps: bool
    """Whether records keep their number, because a merge cuts them finer later."""


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
    """Rows hashes of the document parts in order, if records carry their rows."""


Work = Hash | IndexInput | Read | MapWork | Emit | Merge | Reduce | Collect | FitWork | Make | Scatter | Build | Gather


@dataclass(frozen=True)
class Task:
    """One unit of work with its key."""

    key: str
    node: str
    label: str
    work: Work
    order: tuple[int, ...] = ()
    """Tasks with the lowest order start first when workers are short; it changes no output."""
    probe: bool = False
    """Whether this is a probe in the search for a record that kills workers: nothing is stored."""
    files: Mapping[str, ConfigFile] = field(default_factory=dict)
    """Location -> the file or folder that the config names, as stored in the store."""
    expected_s: float = 0.0
    """Seconds that it probably takes, from earlier tasks of its kind or from its bytes; 0 if unknown."""

    @property
    def module(self) -> str:
        """The module of its stage; empty for work that runs no stage."""
        return "" if isinstance(self.work, Hash | IndexInput | Merge) else self.work.module

    @property
    def kind(self) -> tuple[str, type, str]:
        """Tasks of one kind run the same code: the step, the type of work, and the round of an exchange."""
        return self.node, type(self.work), self.work.function if isinstance(self.work, Reduce) else ""


@dataclass
class Result:
    """The output of a task and its cost."""

    parts: list[Part] = field(default_factory=list)
    tables: list[tuple[int, str]] = field(default_factory=list)
    """For each part of an exchange: the number of its segments, and the hash of its table."""
    rows_hashes: list[str] = field(default_factory=list)
    """Which documents the parts are about: one rows hash per part."""
    metrics: dict[str, Any] = field(default_factory=dict)
    """Counts; they are the same in every run of the task."""
    cost: dict[str, float] = field(default_factory=dict)
    """cpu_s, wall_s, compile_s, peak_rss_bytes: different in every run. input_bytes, input_pieces; whether it was the
    first task of its kind in its worker, which loaded what it needs; for a reader, write_cpu_s.
    """
    poisoned: list[list[Any]] = field(default_factory=list)
    """Records that were given up because they kill their worker: [row, detail], or [file, position, detail]."""
    tally: dict[str, Any] = field(default_factory=dict)
    """The counts of an exchange's `tally`."""
    values: list[Any] = field(default_factory=list)
    """The values of a task that makes no parts."""
    files: dict[str, int] = field(default_factory=dict)
    """For a reader: rows by file."""
    where: str = ""
    """The machine and the process that ran it; not stored."""
    hot_key: tuple[str, int] | None = None
    """For a reducer: the key with the most records, in hexadecimal, and their number, if that is a large share."""

    @property
    def segment_files(self) -> list[SegmentFile]:
        """The parts of a task that sends records."""
        return [SegmentFile(part, *table) for part, table in zip(self.parts, self.tables, strict=True)]


def sent(files: Sequence[SegmentFile], **more: Any) -> Result:
    """The result of a task that sends records."""
    return Result([file.part for file in files], [(file.segments, file.table) for file in files], **more)


def add_counts(total: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add nested counts into `total`; of texts, which are examples, the first in alphabetical order stays."""
    for name, value in more.items():
        if isinstance(value, Mapping):
            add_counts(total.setdefault(name, {}), value)
        elif isinstance(value, str):
            total[name] = min(total.get(name, value), value)
        else:
            total[name] = total.get(name, 0) + value


def gated_only(layers: int, columns: Columns) -> list[bool]:
    """For each layer, whether only its verdicts are read."""
    beyond = {layer for layer, column, _ in columns if column != "drop"}
    return [layer not in beyond for layer in range(layers)]


def layer_hash(part: Part, verdicts_only: bool) -> str:
    """The hash of a layer that enters a key."""
    return part.verdicts.drop if verdicts_only and part.verdicts is not None else part.hash


def layer_hashes(layers: Sequence[Part], columns: Columns) -> list[str]:
    """The same for all layers of a task: a part with equal verdicts is no reason to run again."""
    return list(map(layer_hash, layers, gated_only(len(layers), columns)))


def result_to_json(result: Result) -> dict[str, Any]:
    return {
        "parts": [part_to_json(part) for part in result.parts],
        "rows_hashes": result.rows_hashes,
        "tables": result.tables,
        "metrics": result.metrics,
        "cost": result.cost,
        "poisoned": result.poisoned,
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
        record.get("tally", {}),
        hot_key=None if (hot := record.get("hot_key")) is None else (str(hot[0]), int(hot[1])),
    )


def with_work(task: Task, **changes: Any) -> Task:
    return replace(task, work=replace(task.work, **changes))


def working_cpu_s(cost: Mapping[str, float]) -> float:
    """CPU seconds of tasks without compilation. Compiling is measured by the clock, and a busy machine gives a process
    only a share of that, so CPU time is divided as wall time is.
    """
    wall_s, compile_s = cost.get("wall_s", 0.0), cost.get("compile_s", 0.0)
    return cost.get("cpu_s", 0.0) * (1 - min(compile_s / wall_s, 1.0) if wall_s else 1.0)

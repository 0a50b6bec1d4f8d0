"""What a stage is: a module. The functions that it defines say which kind it is.

    VERSION: int                    raised by one with every change of the stage's output; the code of a step of a
                                    user's own is in its key besides (own_code.py)
    LIBRARIES: tuple[str, ...]      distributions whose version changes the output; part of the task key
                                    (`unicode`: the character database of the running Python)
    class Config(StageConfig)       what a recipe may set: frozen, a line and a unit under every field

  reader    read(piece, config) -> Iterator[Record]; it opens its files with `piece.open()`, which gives out nothing but
            what was hashed, and in no other way
            SPLITTABLE(name) -> bool: whether reading can start in the middle of a file of that name
            optional: POSITIONS, what the positions of its records count: bytes of the file, rows, ...
            optional: BESIDE, reasons of records that stand beside documents by the nature of the format, and USED, of
            records that later steps use all the same: no losses, when a first part with nothing else stops a run
            optional: MARKUP = True: its documents are pages, so their route must have a step that extracts text
            optional: WANTED(name, config) -> bool: whether a file of a folder is read at all
            optional: OTHER_SUFFIX(name, config) -> str | None: the suffix for which an unwanted file is not read, where
            nobody said so; a run tells how many there are
            optional: SKIPPED_FOLDER(name, config) -> str | None: the folder in whose name an unwanted file is not read
            optional: companions(names) -> {name: names}: files that are looked at beside a file (license texts);
            `read` then takes `companions=`, and their content enters the task key
  map       READS: columns that it needs; SCHEMA: columns that it writes
            apply(batch, config) -> RecordBatch with one row for each row of `batch`
  exchange  READS; RECORD_SCHEMA: what travels; SCHEMA: what comes back to each row
            emit(batch, config) -> RecordBatch with RECORD_SCHEMA, `key` (uint64: where the record goes; a hash, so that
            keys are spread) and `row` (index in the batch, any integer type); any number of records a row
            reduce(records, config) -> Table with `part` and `row` as they came and the columns of SCHEMA; records come
            sorted, all of a key at once; how many keys a call sees says nothing
            optional: ROUNDS, names of functions like reduce that run one after the other; all but the last return
            records with a new `key`. A round may return (records, counts): counts are summed over all its calls
            optional: tally(batch, records, config) -> counts, summed over all documents, and totals(counts, config) ->
            a JSON object, which every round gets as `totals=`. It is in the keys of their tasks: let it say what
            changes an answer, and not more
            optional: SUMMARIES, {round: name of a function}. A key with more records than fit into memory is given in
            pieces; the function says of a piece in few rows what the other pieces need to know (records, config and
            `totals=` where there are some), and the round gets these rows of all other pieces as `others=`. Without
            one a key is given whole, however large
  fit       READS
            fit(batches, config, path) -> metrics; writes the model file to `path`
  asset     make(config, path) -> metrics; writes to `path` a file that is made of files: those that config fields of
            type `File` name, and models that it USES. It reads no documents, so it waits for none, is keyed by its
            files alone, and runs before any source is read
            optional: COPIES, the config field (a File) that the model is a copy of, byte for byte: a plan knows it then
  sink      READS; RECORD_SCHEMA; COUNTS: an earlier map step whose metrics say how much there is
            layout(counts, config) -> {source: entries}: one entry (a JSON object) for each set of files to be written
            emit(batch, config, layout) -> RecordBatch with RECORD_SCHEMA and `key`: the entry that a record is for
            optional: CARRIES_ROWS = True: emit also gives `row`, as in an exchange, and records come to `build` with
            `part` and `row`; the catalogue then has `parts`, the names of all document parts in their order
            build(records, config, entry, folder) -> metrics; writes the files of `files`
            files(config) -> their names; facts(config) -> a JSON object about all of them
            Its model, for later steps that use it, is a catalogue of the files: entries, hashes, metrics, facts

What a stage answers is checked where it enters the engine: exactly the promised columns, by name, of the promised
types, and nothing is cast. A column that documents have (`text`, `url`, `drop`, ...) has their type in every step. A
stage that answers otherwise, raises or exits stops the run; no document is blamed for it. A filter may also be a plain
function (own_function.py).

A map stage sees every row, dropped or not, and must treat each by itself: the engine may call it with any slice of a
part. `ONLY_KEPT = True` makes the engine hand over only the rows that no earlier step dropped. Every stage may write
`drop` (a reason or null) and `detail`; one with `JUDGES = False` has no say in what belongs to the corpus, and nobody
who reads survivors depends on it. A column is named `text` (the newest that an earlier step wrote) or `signals.words`
(of a certain step). `*.text` stands for that of every earlier step that writes it; the stage sees them as `*.text.0`
(as it was read), `*.text.1`, ... Every layer has `drop` and `detail`, and `text_bytes` where it has `text`. A stage
with `USES = ("name",)` gets `models={"name": path}`, the model files of earlier steps (fit, asset, sink): a map stage
those of the route of the documents that it sees, any other the same for all of its sources. A config field named `seed`
is filled from the recipe, and so is `source_domains`, with the domain of each source; a field of type `File` is a path
whose content, not name, enters the task key; a task sees the path of the copy that the store keeps of that content. A
field that only reports read (`ReportMark`) is in no key.

A step that needs its documents twice is several stages: `PREREQUISITES = ("package.module",)` names those that run just
before it, each a layer of its own called by the module's last name. Their configs are cut out of the step's: it has
the same fields and more, so that a change of those others does not run the earlier stages again. Where they depend on
the config, `prerequisites(config)` gives them in order, each a Prerequisite: its layer's name, its module, its config.

Where they depend on the config, `reads(config)`, `schema(config)`, `libraries(config)` and `uses(config)` take the
place of READS, SCHEMA, LIBRARIES and USES (`models=` is given where there are some). Optional:
`MAY_READ = ("language.label",)` (or `may_read(config)`) names columns that a map stage gets, behind those of READS, on
routes where an earlier step writes them, and does without elsewhere;
`check(config)` raises UserError when a recipe is loaded (a library that is not installed), or WrongSetting, which names
the field and so has its line; `metrics(batch, answers, config)` gives counts that are summed over all batches;
`warnings(metrics, config)` tells what silently did nothing (the metrics of an exchange have `sources`: per source, rows
sent and dropped); `explain(config)` gives lines that a plan shows, and `explain_fully(config)` those that
the explained plan shows in their place;
`MEMORY_FIELD`, the config field that says how much a reducer or a builder holds, is named where memory runs out;
`highlights(batch, config)` finds again what a stage acted on, for `gristmill audit`: (row, start, stop, label) of every
match, in bytes of the text before the step. `batch` has that `text`, `language.label` where it is known, and what
the stage wrote besides; its rows are those that it dropped, or for which a column of MATCHED holds something. A stage
that has it counts under `found` in its metrics: {type: {source: {language: documents}}};
`RESOURCES = Resources(memory="2GB", cores=1, gpus=0)` says what one task needs, or `resources(config, part_bytes)`,
which gets the bytes of text of a part: executors schedule by it, a plan shows it, and it is in no key;
`setup(config)` (with `models=` where it USES some) is called once in each worker of a map or an exchange. What it
returns, or yields, is given to `apply` or `emit` as `loaded=`; what comes after a `yield` runs when the worker ends;
`withheld`, a column of that name: the list for which nothing of a document may be shown (query/takedown/withheld.py);
`exceptions(config, path)` names those for whom another setting decides in place of the one at `path`, with that one.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import IO, Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from gristmill.checked import Content, open_checked
from gristmill.counted import counted, size
from gristmill.places import Place, place_of


class StageConfig(BaseModel):
    """A frozen config that refuses fields it does not know. What a field means stands in a string below it."""

    model_config = ConfigDict(frozen=True, extra="forbid")


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*+([A-Za-z]*)")
SIZE_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
SIZE_UNITS |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
"""What may stand behind the number of a size, written so: `Mb` are megabits to some."""


def parse_bytes(value: Any) -> Any:
    """`64MB`, `1.5 GiB` or a plain number, as a number of bytes."""
    if not isinstance(value, str):
        return value
    found = _SIZE.fullmatch(value.strip())
    unit = SIZE_UNITS.get(found[2] or "B") if found else None
    if found is None or unit is None:
        told = f"{value!r} is not a size; write a number of bytes, or a number with {', '.join(SIZE_UNITS)}"
        near = [name for name in SIZE_UNITS if found and name.lower().startswith(found[2].lower())]
        raise ValueError(f"{told}. Did you mean {found[1]}{near[0]}?" if found and near else told)
    number = float(found[1]) * unit
    return int(number) if number <= MOST_BYTES else MOST_BYTES + 1  # refused by the bound, infinity too


MOST_BYTES = 2**60
Bytes = Annotated[int, BeforeValidator(parse_bytes), Field(ge=0, le=MOST_BYTES)]
"""A size in a config: a number of bytes, or a number with a unit."""


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


MOST_COUNT = 10**18
_SCALES = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "G": 10**9, "T": 10**12}
_SCALE_OF_SIZE = {"KB": "k", "MB": "M", "GB": "B", "TB": "T", "KIB": "k", "MIB": "M", "GIB": "B", "TIB": "T"}
"""What stands behind a size, and what who writes it behind a count means."""
_COUNT = re.compile(r"([0-9][0-9_]{0,99}(?:\.[0-9]{1,99})?(?:[eE]\+?[0-9]{1,3})?)\s*+([A-Za-z]?)")


def parse_count(value: Any) -> Any:
    """`100B`, `1.5T`, `2e9` or a plain number, as a whole number; what is neither text nor number is left alone."""
    if isinstance(value, bool) or not isinstance(value, str | float):
        return value
    text = repr(value) if isinstance(value, float) else value
    found = _COUNT.fullmatch(text.strip())
    scale = _SCALES.get(found[2].upper()) if found else None
    if found is None or scale is None:
        told = f"{value!r} is not a count; write a number, such as 2000000, 2e9, 100B or 1.5T (k, M, B, T)"
        size = _SIZE.fullmatch(text.strip())
        near = _SCALE_OF_SIZE.get(size[2].upper()) if size else None
        raise ValueError(f"{told}. Did you mean {size[1]}{near}?" if size and near else told)
    number = Fraction(found[1].replace("_", "")) * scale
    if number > MOST_COUNT:
        raise ValueError(f"{value!r} is out of all range: a count goes to {MOST_COUNT:.0e}")
    if number.denominator != 1:
        raise ValueError(f"{value!r} is {float(number):g}, and a count is a whole number")
    return int(number)


AsCount = BeforeValidator(parse_count)
"""For numbers with bounds of their own that people may write large."""
Count = Annotated[int, AsCount, Field(ge=1, le=MOST_COUNT)]
"""A number of tokens, documents or the like in a config: plain, or with k, M, B or T."""


class OtherSetting(NamedTuple):
    """A setting that decides in the place of another."""

    path: str
    is_built_in: bool = False
    """Whether it comes with the step, and the recipe does not say it."""


class Prerequisite(NamedTuple):
    """A stage that runs just before a step, as a part of it."""

    name: str
    """That of its layer."""
    module: str
    config: StageConfig | None = None
    """None: cut out of the step's."""


class FileMark:
    """Marks a config field as the path of a file or folder that the stage reads."""


File = Annotated[str, FileMark()]
"""A path in a config: relative to the recipe, any location that fsspec opens."""


@dataclass(frozen=True, slots=True)
class NameMark:
    """Marks text in a config as the name of something that must exist; a recipe with another name is refused."""

    kind: Literal["language", "code language", "source", "license"]


LanguageName = Annotated[str, NameMark("language")]
"""A label of the model of the step `language`, in any case."""
CodeLanguageName = Annotated[str, NameMark("code language")]
"""A programming language as the reader `code` names it, in any case."""
SourceName = Annotated[str, NameMark("source")]
"""A source of the recipe."""
LicenseName = Annotated[str, NameMark("license")]
"""An SPDX identifier, or LicenseRef- and a name of one's own."""


class ReportMark:
    """Marks a config field that `warnings` and `explain` read and nothing else: no output depends on it, so it is in no
    key, and another value runs nothing again.
    """


def fields_of_output(config: StageConfig) -> set[str]:
    """The fields of a config that an output may depend on."""
    kind = type(config)
    return {
        name for name, field in kind.model_fields.items() if not any(isinstance(m, ReportMark) for m in field.metadata)
    }


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of one input file: the records whose position lies in [start, stop)."""

    uri: str
    """Where the file is, for people; without `place` also for whoever opens it."""
    name: str
    """The file's path below its source's root: survives a move of the data; the reader uses it for suffixes."""
    start: int = 0
    stop: int | None = None
    """None: to the end of the file."""
    place: Place | None = None
    """The file as it was found."""
    content: Content | None = None
    """What the file held when it was hashed; None: take it as it is."""

    def open(self) -> IO[bytes]:
        """The file, from its start. What is read of it is what was hashed, or InputChanged is raised."""
        place = self.place or place_of(self.uri)
        return place.open() if self.content is None else open_checked(place, self.content, self.uri)

"""Export a corpus as a dataset: files with selected columns, a dataset card, and Croissant metadata.

    README.md                          the card, with the metadata for Hugging Face
    croissant.json                     the same for programs
    data/train-00000-of-00012.parquet  the kept documents, in the order of sources and parts

The assignment of rows to files depends only on the sizes of their texts, so any number of workers writes the same
bytes. The folder is written under a temporary name and renamed at the end, so an existing export is always complete.
"""

import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from backports import zstd

from gristmill.engine.plan.graph import Node
from gristmill.engine.publish.kept_takedowns import later_takedowns
from gristmill.engine.schedule.corpus_view import CorpusView, DocumentPart
from gristmill.engine.schedule.progress import Track, untracked
from gristmill.errors import UserError, cause_of
from gristmill.hints import hint, option
from gristmill.log import Log
from gristmill.places import is_url
from gristmill.processes import name_of_self, runs
from gristmill.query.documents.columns import ColumnReader, origin_of
from gristmill.query.export.croissant import croissant
from gristmill.query.export.dataset_card import Exported, card
from gristmill.query.opening import check_finished
from gristmill.query.removal.audit import recorded_config
from gristmill.recipe.checks.mistakes import listed, suggest
from gristmill.stages.scrub import scrub
from gristmill.store.parquet import join, open_parts

FORMATS = ("parquet", "jsonl.zst")
FILE_BYTES = 500_000_000
LEAST_FILE_BYTES = 1_000
ROW_BYTES = 64
"""Bytes that each document counts in addition to its text, so that short documents fill files, too."""
GROUP_BYTES = 16 << 20
"""The size of a row group before compression."""
PARTIAL = ".partial"
_LOG = Log("export")
_EXACT = ("doc_id", "source", "text")
"""Columns that need no scrubbing: ids, names from the recipe, and texts, which the step has scrubbed."""
_COUNTED = ("source", "license", "language", "text_bytes")

Stretch = tuple[DocumentPart, int, int]
"""A part and a range of its rows, including dropped ones."""


@dataclass
class _Written:
    """A written file and its counts."""

    name: str
    rows: int = 0
    file_bytes: int = 0
    sha256: str = ""
    sources: Counter[str] = field(default_factory=Counter)
    text_bytes: Counter[str] = field(default_factory=Counter)
    licenses: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    """Documents by source and license."""
    languages: Counter[str] = field(default_factory=Counter)
    replaced: Counter[str] = field(default_factory=Counter)
    """The number of values that scrub changed, by column."""


def export(
    view: CorpusView,
    out: Path | str,
    file_format: str = "parquet",
    columns: Sequence[str] | None = None,
    file_bytes: int = FILE_BYTES,
    workers: int = 1,
    track: Track = untracked,
) -> Exported:
    """Write the export. If it fails, it raises UserError and leaves no files."""
    if file_format not in FORMATS:
        raise UserError(f"{option('format', file_format)} is not a format. {suggest(file_format, FORMATS, 'Formats')}")
    if file_bytes < LEAST_FILE_BYTES:
        raise UserError(
            f"{option('file_bytes', file_bytes)} is too small: a file needs at least {LEAST_FILE_BYTES} bytes."
        )
    folder = _free(out)
    check_finished(view, "export")
    chosen = ColumnReader(view, columns)
    names = chosen.schema.names
    read = ColumnReader(view, [*names, *(name for name in _COUNTED if name not in names)])
    files = list(_cut(read, file_bytes))
    if not files:
        raise UserError(f"{view.label} keeps no documents, so there is nothing to export. {hint('funnel')} shows why.")
    configs = scrub_configs(view)
    if requests := later_takedowns(view):
        _LOG.warn(
            f"{view.label} is older than the takedowns of {view.name} ({listed(requests, 10)}), so the dataset may "
            f"have documents that they took down. To leave them out, export {view.store.uri}@{view.name}"
        )
    temporary = _temporary(folder)
    try:
        (temporary / "data").mkdir(parents=True)
        work = [
            (temporary, f"data/train-{number:05}-of-{len(files):05}.{file_format}", stretches)
            for number, stretches in enumerate(files)
        ]
        write = _write_parquet if file_format == "parquet" else _write_lines
        with ThreadPoolExecutor(max(workers, 1)) as pool:
            done = pool.map(lambda one: _write(read, chosen.schema, write, configs, *one), work)
            written = list(track("export", done, len(work)))
        exported = _summary(view, file_format, chosen.schema, written, frozenset(configs))
        (temporary / "README.md").write_text(card(view, exported), encoding="utf-8")
        (temporary / "croissant.json").write_bytes(croissant(exported))
        os.rename(temporary, folder)
    except OSError as error:
        raise UserError(
            f"{option('out', folder)} cannot be written: {cause_of(error)}. The partial export was removed. "
            "Free some space, or name another folder."
        ) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return exported


def _free(out: Path | str) -> Path:
    """The folder as an absolute path. Raises UserError unless it is missing or empty."""
    if is_url(str(out)):
        raise UserError(
            f"{option('out', out)}: an export needs a folder on this machine. Nothing was done. Name a folder."
        )
    folder = Path(os.path.abspath(out))
    try:
        os.stat(folder)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        raise UserError(
            f"{option('out', out)} is not usable: {cause_of(error)}. Nothing was done. Name another folder."
        ) from None
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        fact = "is not empty" if folder.is_dir() else "is a file"
        raise UserError(
            f"{option('out', out)} {fact}, and an export never overwrites files. Nothing was done. Name another folder."
        )
    if not folder.parent.is_dir():
        raise UserError(
            f"{option('out', out)}: the folder {folder.parent} does not exist. Nothing was done. Create it first."
        )
    return folder


def _temporary(folder: Path) -> Path:
    """A temporary folder next to it; those of dead processes are removed."""
    for left in folder.parent.glob(f".{folder.name}.*{PARTIAL}"):
        if runs(left.name.removeprefix(f".{folder.name}.").removesuffix(PARTIAL)) is False:
            shutil.rmtree(left, ignore_errors=True)
    return folder.parent / f".{folder.name}.{name_of_self()}{PARTIAL}"


def _cut(read: ColumnReader, file_bytes: int) -> Iterator[list[Stretch]]:
    """The rows of each file, by the bytes of kept texts. Only verdicts and sizes are read."""
    file: list[Stretch] = []
    held = 0
    for document in read.parts:
        sizes = np.concatenate([np.zeros(0, np.int64), *_sizes(read.view, document)])
        rows = np.flatnonzero(sizes)
        sums = np.concatenate([[0], np.cumsum(sizes[rows])])
        first = 0
        while first < len(rows):
            last = int(np.searchsorted(sums, sums[first] + file_bytes - held, "right")) - 1
            if last <= first and not file:
                last = first + 1  # a document that is larger than the limit gets its own file
            if last > first:
                file.append((document, int(rows[first]), int(rows[last - 1]) + 1))
                held += int(sums[last] - sums[first])
                first = last
            if first < len(rows):
                yield file
                file, held = [], 0
    if file:
        yield file


def _sizes(view: CorpusView, document: DocumentPart) -> Iterator[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """The bytes that each row counts; 0 for dropped rows."""
    ((layer, column),) = origin_of(view, document.source, "text_bytes", True).layers
    parts = [view.layer(layer, document), view.verdicts(document)]
    for batch in join(open_parts(view.store, parts), [(0, column, "bytes"), (1, "drop", "drop")]):
        kept = batch.column("drop").is_null().to_numpy(zero_copy_only=False)
        sizes = pc.fill_null(batch.column("bytes"), 0).to_numpy(zero_copy_only=False)
        yield np.where(kept, sizes + ROW_BYTES, 0)


def _write(
    read: ColumnReader,
    schema: pa.Schema,
    write: Callable[[Path, pa.Schema, Iterator[pa.Table]], None],
    configs: Mapping[str, scrub.Config],
    folder: Path,
    name: str,
    stretches: Sequence[Stretch],
) -> _Written:
    written = _Written(name)

    def batches() -> Iterator[pa.RecordBatch]:
        for document, start, stop in stretches:
            for batch in read.read(document, (start, stop)):
                if document.source in configs:
                    batch = scrub_batch(batch, configs[document.source], written.replaced)
                _count(written, batch)
                yield batch.select(schema.names)

    path = folder / name
    write(path, schema, _grouped(batches()))
    written.file_bytes = path.stat().st_size
    with path.open("rb") as file:
        written.sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return written


def scrub_configs(view: CorpusView) -> dict[str, scrub.Config]:
    """The settings of the last step `scrub` of each source that has one."""
    found = {}
    for source, chain in view.chains.items():
        for node in (view.nodes[step] for step in chain if view.nodes[step].name == "scrub"):
            config = node.config if isinstance(node, Node) else recorded_config(view, node, scrub.STAGE)
            if not isinstance(config, scrub.Config):
                raise UserError(
                    f"The store has no copy of a folder that {node.id} uses, so the columns other than the text cannot "
                    "be scrubbed. Nothing was written. Name the recipe instead of the run."
                )
            found[source] = config
    return found


def scrub_batch(
    batch: pa.RecordBatch, config: scrub.Config, replaced: Counter[str], exact: Collection[str] = _EXACT
) -> pa.RecordBatch:
    """The batch with scrubbed columns; changed values are counted by column."""
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        after, changed = (column, 0) if name in exact else scrub.scrub_column(column, config)
        replaced[name] += changed
        columns.append(after)
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _count(made: _Written, batch: pa.RecordBatch) -> None:
    made.rows += batch.num_rows
    source = batch.column("source")[0].as_py()  # all rows of a batch are from one part
    made.sources[source] += batch.num_rows
    made.text_bytes[source] += pc.sum(batch.column("text_bytes")).as_py() or 0
    for entry in pc.value_counts(batch.column("license")).to_pylist():
        made.licenses[source, entry["values"]] += entry["counts"]
    for entry in pc.value_counts(batch.column("language").drop_null()).to_pylist():
        made.languages[entry["values"]] += entry["counts"]


def _grouped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Collect batches until there is enough for a row group."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= GROUP_BYTES:
            yield pa.Table.from_batches(held)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held)


def _write_parquet(path: Path, schema: pa.Schema, tables: Iterator[pa.Table]) -> None:
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for table in tables:
            writer.write_table(table, row_group_size=table.num_rows)


def _write_lines(path: Path, schema: pa.Schema, tables: Iterator[pa.Table]) -> None:
    with zstd.open(path, "wb", level=3) as out:
        for table in tables:
            for batch in table.to_batches():
                out.write(b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in batch.to_pylist()))


def _summary(
    view: CorpusView, file_format: str, schema: pa.Schema, written: Sequence[_Written], scrubbed: frozenset[str]
) -> Exported:
    """The sums over all files."""
    names = ("sources", "text_bytes", "licenses", "languages", "replaced")
    sums: Mapping[str, Counter[object]] = {name: Counter() for name in names}
    for one in written:
        for name, counts in sums.items():
            counts.update(getattr(one, name))
    return Exported(
        view.name,
        file_format,
        schema,
        {one.name: (one.file_bytes, one.sha256, one.rows) for one in written},
        scrubbed,
        *(dict(sorted(counts.items(), key=lambda item: str(item[0]))) for counts in sums.values()),  # type: ignore[arg-type]
    )

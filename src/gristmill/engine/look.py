"""Looking at documents: rows of a recipe's layers with the verdicts that were given on them."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from gristmill.engine.graph import CORPUS, Node
from gristmill.engine.mill import Mill
from gristmill.engine.rows import read_many
from gristmill.engine.run import Document, Run
from gristmill.errors import UserError
from gristmill.recipe.columns import INGEST
from gristmill.recipe.mistakes import nearest
from gristmill.store.parquet import PartReader

COLUMNS = ("doc_id", "source", "locator", "url", "snapshot", "license", "content_type", "charset", "meta")


@dataclass(frozen=True)
class Row:
    """One document as it stands after a step."""

    fields: dict[str, Any]
    step: str | None
    """The first step that dropped it."""
    reason: str | None
    detail: str | None
    text: str | None
    columns: dict[str, Any]
    """What the step itself wrote."""


def find_step(mill: Mill, stage: str | None) -> str | None:
    """The step that a user means by a name, checked."""
    if stage is None or stage == INGEST:
        return stage
    known = sorted({name for node in mill.graph.nodes.values() for name in (node.id, node.name) if node.has_layers})
    if stage not in known:
        near = nearest(stage, known)
        hint = f"Did you mean {near}? " if near else ""
        raise UserError(f"--stage {stage}: {mill.recipe.path} has no such step. {hint}Steps: {', '.join(known)}")
    return stage


def rows(
    mill: Mill, run: Run, stage: str | None, dropped: bool | None, reason: str | None, sources: Sequence[str] = ()
) -> Iterator[Row]:
    """Documents after a step, dropped by it or before it (`dropped`), living (False), or all (None)."""
    for source in mill.recipe.sources:
        if sources and source not in sources:
            continue
        for document in run.documents.get(source, ()):
            for found in _rows_of_part(mill, run, document, stage):
                if dropped is not None and (found.step is not None) != dropped:
                    continue
                if reason is None or found.reason == reason:
                    yield found.whole()


def row_at(mill: Mill, run: Run, document: Document, row: int, stage: str | None = None) -> Row:
    """One row of a part, by its number, as it stands after a step or at the end."""
    return next(itertools.islice(_rows_of_part(mill, run, document, stage), row, None)).whole()


def kept_batches(mill: Mill, run: Run, node: Node, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The documents of the corpus, as a step saw them: columns that it reads, by the names that it has for them."""
    for source in node.sources:
        view = node.views[source]
        wanted = tuple((layer, column, name) for layer, column, name in view.columns if name in columns)
        for document in run.documents[source]:
            at = (source, document.order)
            parts = [document.part if layer == INGEST else run.made[layer].layers[at][0] for layer in view.layers]
            corpus = run.made[f"{source}/{CORPUS}"].layers[at][0]
            work = ([(*parts, corpus)], [wanted], [(len(parts),)])
            yield from read_many(*work, mill.store)


def unfinished(mill: Mill, run: Run, stage: str | None) -> list[str]:
    """Steps up to `stage` that have not run to their end."""
    wanted = {f"{source}/{INGEST}" for source in mill.recipe.sources}
    for source in mill.recipe.sources:
        wanted.update(_chain(mill, source, stage))
    return [node_id for node_id in mill.graph.nodes if node_id in wanted and _is_open(run, node_id)]


def _is_open(run: Run, node_id: str) -> bool:
    return bool(run.made[node_id].missing or run.made[node_id].waiting)


def _chain(mill: Mill, source: str, stage: str | None) -> list[str]:
    nodes = [mill.graph.nodes[node_id] for node_id in mill.graph.chains[source]]
    layers = [node for node in nodes if node.has_layers and node.name != CORPUS]
    if stage is None or stage == CORPUS:
        return [node.id for node in layers]
    if stage == INGEST:
        return []
    last = [index for index, node in enumerate(layers) if stage in (node.id, node.name)]
    return [node.id for node in layers[: last[-1] + 1]] if last else []


class _Part:
    """The layers of one document part up to a step; columns of a row group are read when somebody asks for them."""

    def __init__(self, mill: Mill, run: Run, document: Document, stage: str | None) -> None:
        parts = [(INGEST, document.part)]
        for node_id in _chain(mill, document.source, stage):
            made = run.made[node_id].layers
            if (document.source, document.order) in made:
                parts.append((node_id, made[document.source, document.order][0]))
        self.names = [name for name, _ in parts]
        self.readers = [PartReader(mill.store, part) for _, part in parts]
        self._read: dict[tuple[int, int, str], Any] = {}

    def column(self, layer: int, group: int, name: str) -> Any:
        key = (layer, group, name)
        if key not in self._read:
            if any(known != group for _, known, _ in self._read):
                self._read.clear()
            self._read[key] = self.readers[layer].read_group(group, [name]).column(name)
        return self._read[key]

    def has(self, layer: int, name: str) -> bool:
        return name in self.readers[layer].file.schema_arrow.names


@dataclass(frozen=True)
class _Found:
    """A row before anything but its verdicts was read."""

    part: _Part
    group: int
    row: int
    layer: int | None
    """The first layer that dropped it."""

    @property
    def step(self) -> str | None:
        return None if self.layer is None else self.part.names[self.layer]

    @property
    def reason(self) -> str | None:
        return None if self.layer is None else self._get(self.layer, "drop")

    def whole(self) -> Row:
        last = len(self.part.readers) - 1
        own = [] if last == 0 else [item.name for item in self.part.readers[last].file.schema_arrow]
        return Row(
            {name: self._get(0, name) for name in COLUMNS},
            self.step,
            self.reason,
            None if self.layer is None else self._get(self.layer, "detail"),
            self._text(),
            {name: self._get(last, name) for name in own if name not in ("text", "text_bytes", "drop", "detail")},
        )

    def _get(self, layer: int, name: str) -> Any:
        return self.part.column(layer, self.group, name)[self.row].as_py()

    def _text(self) -> str | None:
        """As the last layer that has a text left it; for a page that was dropped before, what there was."""
        for layer in range(len(self.part.readers) - 1, -1, -1):
            for name in ("text", "html") if layer == 0 else ("text",):
                if self.part.has(layer, name) and (text := self._get(layer, name)) is not None:
                    return str(text)
        return None


def _rows_of_part(mill: Mill, run: Run, document: Document, stage: str | None) -> Iterator[_Found]:
    part = _Part(mill, run, document, stage)
    for group, rows_in_group in enumerate(part.readers[0].groups):
        drops = [part.column(layer, group, "drop").is_valid().to_pylist() for layer in range(len(part.readers))]
        for row in range(rows_in_group):
            yield _Found(part, group, row, next((layer for layer, dropped in enumerate(drops) if dropped[row]), None))

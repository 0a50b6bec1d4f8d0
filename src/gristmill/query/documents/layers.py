"""One row through all layers of its document part, in the order of its steps."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from gristmill.engine.schedule.corpus_view import CorpusView, DocumentPart
from gristmill.recipe.checks.columns import INGEST
from gristmill.store.parquet import open_parts


class DocumentLayers:
    """The layers of a document part, or those of some steps. Columns of the last row group that was used are cached."""

    def __init__(self, view: CorpusView, document: DocumentPart, steps: Sequence[str] | None = None) -> None:
        chain = view.chains[document.source] if steps is None else steps
        layers = [INGEST, *(step for step in chain if view.nodes[step].has_layers)]
        names = [name for name in layers if view.has_layer(name, document)]
        self.document = document
        readers = open_parts(view.store, [view.layer(name, document) for name in names])
        self._readers = dict(zip(names, readers, strict=True))
        self._group = -1
        self._read: dict[tuple[str, str], pa.Array] = {}

    def __iter__(self) -> Iterator[str]:
        """The ids of the reader and of the steps that have a layer."""
        return iter(self._readers)

    @property
    def groups(self) -> Sequence[int]:
        """The rows of each row group."""
        return self._readers[INGEST].groups

    @property
    def rows(self) -> int:
        return sum(self.groups)

    def columns(self, layer: str) -> list[str]:
        return self._readers[layer].names

    def has(self, layer: str, column: str) -> bool:
        return column in self._readers[layer].names

    def column(self, layer: str, column: str, group: int) -> pa.Array:
        """A column of a row group."""
        self._load(layer, [column], group)
        return self._read[layer, column]

    def _load(self, layer: str, columns: Sequence[str], group: int) -> None:
        """Read the columns that are not cached, together."""
        if group != self._group:
            self._read.clear()
            self._group = group
        if new := [name for name in columns if (layer, name) not in self._read]:
            table = self._readers[layer].read_group(group, new)
            self._read |= {(layer, name): table[name].combine_chunks() for name in new}

    def cell(self, layer: str, column: str, row: int) -> pa.Array:
        """A value as an array of one row."""
        group, place = self.place(row)
        # `take`, not `slice`: the caller may read the buffers.
        return self.column(layer, column, group).take(pa.array([place]))

    def value(self, layer: str, column: str, row: int) -> Any:
        group, place = self.place(row)
        return self.column(layer, column, group)[place].as_py()

    def row(self, layer: str, row: int) -> dict[str, Any]:
        """All values of a layer."""
        group, place = self.place(row)
        names = self.columns(layer)
        self._load(layer, names, group)
        return {name: self._read[layer, name][place].as_py() for name in names}

    def dropped_by(self, row: int) -> str | None:
        """The first layer that dropped a row."""
        return next((layer for layer in self if self.value(layer, "drop", row) is not None), None)

    def place(self, row: int) -> tuple[int, int]:
        """The row group of a row, and its place in the group."""
        for group, rows in enumerate(self.groups):
            if row < rows:
                return group, row
            row -= rows
        raise IndexError(f"the part has no row that is {row} rows after its last")

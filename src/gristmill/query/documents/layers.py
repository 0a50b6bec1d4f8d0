"""One row through all layers of its document part, in the order of its steps."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from gristmill.engine.schedule.corpus_view import CorpusView, DocumentPart
from gristmill.recipe.checks.columns import INGEST
from gristmill.store.parquet import PartReader


class DocumentLayers:
    """The layers of a document part. Columns of the last row group that was used are cached."""

    def __init__(self, view: CorpusView, document: DocumentPart) -> None:
        at = (document.source, document.order)
        parts = {INGEST: document.part}
        for node_id in view.chains[document.source]:
            if view.nodes[node_id].has_layers and at in view.states[node_id].layers:
                parts[node_id] = view.states[node_id].layers[at][0]
        self.document = document
        self._readers = {name: PartReader(view.store, part) for name, part in parts.items()}
        self._group = -1
        self._read: dict[tuple[str, str], pa.Array] = {}

    def __iter__(self) -> Iterator[str]:
        """The ids of the reader and of the steps that have a layer."""
        return iter(self._readers)

    @property
    def rows(self) -> int:
        return sum(self._readers[INGEST].groups)

    def columns(self, layer: str) -> list[str]:
        return self._readers[layer].names

    def has(self, layer: str, column: str) -> bool:
        return column in self._readers[layer].names

    def cell(self, layer: str, column: str, row: int) -> pa.Array:
        """A value as an array of one row."""
        group, place = self._place(row)
        if group != self._group:
            self._read.clear()
            self._group = group
        if (layer, column) not in self._read:
            table = self._readers[layer].read_group(group, [column])
            self._read[layer, column] = table[column].combine_chunks()
        # `take`, not `slice`: the caller may read the buffers.
        return self._read[layer, column].take(pa.array([place]))

    def value(self, layer: str, column: str, row: int) -> Any:
        return self.cell(layer, column, row)[0].as_py()

    def row(self, layer: str, row: int) -> dict[str, Any]:
        """All values of a layer."""
        return {name: self.value(layer, name, row) for name in self.columns(layer)}

    def dropped_by(self, row: int) -> str | None:
        """The first layer that dropped a row."""
        return next((layer for layer in self if self.value(layer, "drop", row) is not None), None)

    def _place(self, row: int) -> tuple[int, int]:
        for group, rows in enumerate(self._readers[INGEST].groups):
            if row < rows:
                return group, row
            row -= rows
        raise IndexError(row)

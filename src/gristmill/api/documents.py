"""Documents of a corpus for a program: Arrow batches that stream, and the ways from them to other libraries."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from gristmill.api.faults import as_python
from gristmill.api.tables import require
from gristmill.query.documents.columns import ColumnReader


class Documents:
    """Rows and columns that were asked for. Nothing is read before somebody iterates, and never more than a part of it
    is in memory, but for `to_arrow` and `to_pandas`, which hold all.
    """

    def __init__(self, columns: ColumnReader) -> None:
        self._columns = columns
        self.schema: pa.Schema = columns.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        with as_python(self._columns.view.label):
            yield from self._columns.batches()

    def rows(self) -> Iterator[dict[str, Any]]:
        """One document after the other."""
        for batch in self:
            yield from batch.to_pylist()

    def reader(self) -> pa.RecordBatchReader:
        """For whoever takes a stream of Arrow: DuckDB, polars, `pyarrow.dataset.write_dataset`."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.reader().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        """All of them in memory."""
        return pa.Table.from_batches(iter(self), self.schema)

    def to_pandas(self) -> Any:
        """All of them as a DataFrame."""
        require("pandas", "to_pandas()")
        return self.to_arrow().to_pandas()

    def to_hf(self) -> Any:
        """A Hugging Face `datasets.IterableDataset`: it streams, and has as many shards as there are parts, so that the
        workers of a DataLoader share them.
        """
        datasets = require("datasets", "to_hf()")
        features = datasets.Features.from_arrow_schema(self.schema)
        parts = {"parts": list(range(len(self._columns.parts)))}
        return datasets.IterableDataset.from_generator(self._rows_of, features=features, gen_kwargs=parts)

    def _rows_of(self, parts: list[int]) -> Iterator[dict[str, Any]]:
        for number in parts:
            with as_python(self._columns.view.label):
                for batch in self._columns.read(self._columns.parts[number]):
                    yield from batch.to_pylist()

    def __repr__(self) -> str:
        which = {True: "kept documents", False: "dropped documents", None: "all documents"}[self._columns.kept]
        return f"<{which} of {self._columns.view.label}: {', '.join(self.schema.names)}>"

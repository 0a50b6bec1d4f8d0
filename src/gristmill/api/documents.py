"""Documents of a corpus as streaming Arrow batches, with conversions for other libraries."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from gristmill.api.faults import as_python
from gristmill.api.tables import require
from gristmill.query.documents.columns import ColumnReader


class Documents:
    """Selected rows and columns, read part by part during iteration; `to_arrow` and `to_pandas` load everything."""

    def __init__(self, columns: ColumnReader) -> None:
        self._columns = columns
        self.schema: pa.Schema = columns.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        with as_python(self._columns.view.label):
            yield from self._columns.batches()

    def rows(self) -> Iterator[dict[str, Any]]:
        """Iterate over the documents as dictionaries."""
        for batch in self:
            yield from batch.to_pylist()

    def reader(self) -> pa.RecordBatchReader:
        """An Arrow stream for DuckDB, polars or `pyarrow.dataset.write_dataset`."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.reader().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        """All documents as one table in memory."""
        return pa.Table.from_batches(iter(self), self.schema)

    def to_pandas(self) -> Any:
        """All documents as a DataFrame."""
        require("pandas", "to_pandas()")
        return self.to_arrow().to_pandas()

    def to_hf(self) -> Any:
        """A streaming Hugging Face `datasets.IterableDataset` with one shard per part, for several DataLoader
        workers.
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

"""Columns of the documents of a source as a table that DuckDB scans by the columns and the filter of a query."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.query.documents.columns import ColumnReader


class StoreFaults:
    """The last error of the store, which DuckDB would hide in a traceback."""

    fault: BaseException | None = None


class SourceColumns(ds.InMemoryDataset):  # type: ignore[misc]
    """All documents of a source, whether they are kept or not."""

    def __init__(self, view: CorpusView, faults: StoreFaults, source: str, columns: Mapping[str, str]) -> None:
        """`columns` has the columns of a ColumnReader, by the names in the table."""
        self._view, self._faults, self._source, self._columns = view, faults, source, columns
        kinds = self._reader([*columns]).schema.types
        self.table_schema = pa.schema([*zip(columns, kinds, strict=True)])
        super().__init__(self.table_schema.empty_table())

    def scanner(self, columns: list[str] | None = None, filter: pc.Expression | None = None, **_: Any) -> ds.Scanner:
        """A scanner as DuckDB requests it, once for a query."""
        names = self.table_schema.names if columns is None else columns
        text = "" if filter is None else str(filter)
        needed = [name for name in self.table_schema.names if name in names or name in text]
        schema = pa.schema([self.table_schema.field(name) for name in needed or self.table_schema.names[:1]])
        batches = pa.RecordBatchReader.from_batches(schema, self._batches(schema))
        return ds.Scanner.from_batches(batches, columns=names, filter=filter, use_threads=False)

    def _reader(self, names: Sequence[str]) -> ColumnReader:
        return ColumnReader(self._view, [self._columns[name] for name in names], None, [self._source])

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._reader(schema.names).batches():
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        except Exception as error:
            self._faults.fault = error
            raise

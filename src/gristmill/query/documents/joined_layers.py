"""Columns of several layers of document parts as one table, which DuckDB scans.

DuckDB reads a `pyarrow` dataset by the columns and the filter that a query needs. Layers have the same rows in the same
row groups, so their columns are joined by position. All bytes are verified against their hashes.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from gristmill.store.parquet import PartReader
from gristmill.store.store import Part, Store

PART, ROW = "part", "row"
"""Columns with the location of a row: the same part and row number mean the same document in every table."""
LayerColumns = Sequence[tuple[str, Part, Sequence[str]]]
"""(step, its part, the columns to include), which are named "step.column"."""


class StoreFaults:
    """The last error of the store, which DuckDB would hide in a traceback."""

    fault: BaseException | None = None


class JoinedLayers(ds.InMemoryDataset):  # type: ignore[misc]
    """The rows of `count` document parts."""

    def __init__(self, store: Store, faults: StoreFaults, count: int, layers: Callable[[int], LayerColumns]) -> None:
        first = layers(0)
        schema = pa.schema(
            [
                *((PART, pa.int64()), (ROW, pa.int64())),
                *(
                    (f"{step}.{name}", PartReader(store, part).schema.field(name).type)
                    for step, part, names in first
                    for name in names
                ),
            ]
        )
        super().__init__(schema.empty_table())
        self.joined_schema = schema
        self._store, self._faults, self._count, self._layers = store, faults, count, layers

    def scanner(self, columns: list[str] | None = None, filter: pc.Expression | None = None, **_: Any) -> ds.Scanner:
        """A scanner as DuckDB requests it, once for a query."""
        names = self.joined_schema.names if columns is None else columns
        wanted = set(names) | _columns_in(filter, self.joined_schema.names)
        schema = pa.schema([field for field in self.joined_schema if field.name in wanted])
        batches = pa.RecordBatchReader.from_batches(schema, self._batches(schema))
        return ds.Scanner.from_batches(batches, columns=names, filter=filter, use_threads=False)

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        try:
            for number in range(self._count):
                yield from self._part(number, schema)
        except Exception as error:
            self._faults.fault = error
            raise

    def _part(self, number: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        layers = self._layers(number)
        wanted = {step: [name for name in names if f"{step}.{name}" in schema.names] for step, _, names in layers}
        readers = {step: PartReader(self._store, part) for step, part, _ in layers if wanted[step]}
        groups = next(iter(readers.values()), PartReader(self._store, layers[0][1])).groups
        first = 0
        for group, rows in enumerate(groups):
            tables = {step: reader.read_group(group, wanted[step]) for step, reader in readers.items()}
            columns = {f"{step}.{name}": table[name] for step, table in tables.items() for name in wanted[step]}
            columns[PART] = pa.repeat(pa.scalar(number, pa.int64()), rows)
            columns[ROW] = pa.array(range(first, first + rows), pa.int64())
            yield from pa.table([columns[name] for name in schema.names], schema=schema).to_batches()
            first += rows


def _columns_in(filter_expression: pc.Expression | None, names: Sequence[str]) -> set[str]:
    """The columns that a filter may need."""
    text = "" if filter_expression is None else str(filter_expression)
    return {name for name in names if name in text}

"""Reads aligned layers for a stage, and aligns its answers with all rows again."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.engine.work.task import MapWork, Scatter
from gristmill.recipe.checks.columns import Columns
from gristmill.stages.reading.json_value import REPAIRED
from gristmill.store.parquet import PartReader, join, open_parts
from gristmill.store.store import Part, Store

CRASHED = "worker_crashed"
"""The verdict on a record that kills every worker that processes it."""


class RowBatch:
    """Consecutive rows of a part: the columns that a stage reads, and which rows are visible to it."""

    def __init__(self, columns: pa.RecordBatch, first_row: int, visible: npt.NDArray[np.bool_]) -> None:
        self.first_row = first_row
        self.rows = columns.num_rows
        self.visible = visible
        self.columns = columns if visible.all() else columns.filter(pa.array(visible))

    def spread(self, answers: pa.RecordBatch) -> list[pa.Array]:
        """The answers for the visible rows, with nulls for the others."""
        if answers.num_rows == self.rows:
            return list(answers.columns)
        index = np.full(self.rows, -1, np.int64)
        index[self.visible] = np.arange(answers.num_rows)
        positions = pa.array(index, mask=index < 0)
        return [column.take(positions) for column in answers.columns]


def read_batches(work: MapWork, store: Store) -> tuple[str, Iterator[RowBatch]]:
    """The rows hash of a part, and its batches with the rows that the stage may read."""
    readers = open_parts(store, work.layers)
    return readers[0].rows_hash, _batches(readers, work.columns, work.gates, work.rows, work.poisoned)


def read_whole(work: Scatter, store: Store) -> tuple[str, Iterator[RowBatch]]:
    """The same for a sink."""
    readers = open_parts(store, work.layers)
    return readers[0].rows_hash, _batches(readers, work.columns, work.gates, None, ())


def read_many(
    inputs: Sequence[tuple[Part, ...]],
    columns: Sequence[Columns],
    gates: Sequence[tuple[int, ...]],
    store: Store,
) -> Iterator[pa.RecordBatch]:
    """The visible rows of many parts, one after the other."""
    for layers, wanted, gate in zip(inputs, columns, gates, strict=True):
        for batch in _batches(open_parts(store, layers), wanted, gate, None, ()):
            if batch.columns.num_rows:
                yield batch.columns


def _batches(
    readers: Sequence[PartReader],
    columns: Columns,
    gates: tuple[int, ...],
    rows: tuple[int, int] | None,
    poisoned: Sequence[tuple[int, str]],
) -> Iterator[RowBatch]:
    verdicts = tuple((layer, "drop", f"drop of layer {layer}") for layer in gates)
    first_row = 0
    for table in join(readers, columns + verdicts):
        start, stop = first_row, first_row + table.num_rows
        first_row = stop
        if rows is not None:
            start_at, stop_at = max(start, rows[0]), min(stop, rows[1])
            if start_at >= stop_at:
                continue
            table, start, stop = table.slice(start_at - start, stop_at - start_at), start_at, stop_at
        visible = np.ones(stop - start, np.bool_)
        for column in range(len(columns), table.num_columns):
            visible &= table.column(column).is_null().to_numpy(zero_copy_only=False)
        for row, _ in poisoned:
            if start <= row < stop:
                visible[row - start] = False
        yield RowBatch(table.select(range(len(columns))), start, visible)


def model_paths(models: Mapping[str, Part], store: Store) -> dict[str, dict[str, Path]]:
    """The keyword argument for a stage that uses models; empty for others."""
    return {"models": {name: store.local_path(part) for name, part in models.items()}} if models else {}


def mark_crashed(columns: dict[str, pa.Array], poisoned: Sequence[tuple[int, str]], first_row: int, rows: int) -> None:
    """Write the verdict on rows that no stage could process, and how they were found."""
    here = [(row - first_row, detail) for row, detail in poisoned if first_row <= row < first_row + rows]
    if not here:
        return
    drops, details = columns["drop"].to_pylist(), columns["detail"].to_pylist()
    for row, detail in here:
        drops[row], details[row] = CRASHED, detail
    columns["drop"], columns["detail"] = pa.array(drops, pa.string()), pa.array(details, pa.string())


def count_repaired(batch: pa.RecordBatch) -> int:
    """Records with a fault that their reader repaired."""
    return pc.sum(pc.match_substring(batch.column("meta"), f'"{REPAIRED}":')).as_py() or 0


def count_reasons(drop: pa.Array) -> dict[str, int]:
    """Dropped rows by reason."""
    counted = pc.value_counts(drop.drop_null())
    return {entry["values"].as_py(): entry["counts"].as_py() for entry in counted}

"""Checks the values that a stage writes: numbers are within their declared ranges, and spans within the text.

A score of 7, a NaN or a span beyond the end of a text would only show in a later step, or in the corpus.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.engine.work.borders import label_of
from gristmill.errors import BrokenPromise
from gristmill.stages.contract import LayerStage, StageConfig
from gristmill.store.parquet import PartReader
from gristmill.store.store import Part, Store

Rows = npt.NDArray[np.int64]


def check_values(
    answers: pa.RecordBatch | pa.Table,
    stage: LayerStage[StageConfig],
    config: StageConfig,
    module: str,
    text: pa.Array | None,
    name_row: Callable[[int], str],
) -> None:
    """Raise BrokenPromise for the first value outside of its range. `text` is what spans are in, and `name_row` names
    the document of a row.
    """
    for name, (low, high) in stage.ranges_of(config).items():
        for row, value in _outside(_column(answers, name, stage, module), low, high):
            bound = f"its ranges declare {low:g} to {high:g}"
            raise _wrong(stage, module, f"{value} in the column {name} of {name_row(row)}, but {bound}")
    if text is None:
        return
    for name in stage.spans:
        for row, spans in _beyond(_column(answers, name, stage, module), text):
            bound = f"its text has {len((text[row].as_py() or '').encode())} bytes"
            raise _wrong(stage, module, f"the spans {spans} in the column {name} of {name_row(row)}, but {bound}")


def document_of(parts: Sequence[Part], row: int, store: Store) -> str:
    """A document as a message names it: its id, if one of the parts has ids, and its row."""
    for part in parts:
        reader = PartReader(store, part)
        if "doc_id" in reader.schema.names:
            return f"document {reader.read(['doc_id'])['doc_id'][row].as_py().hex()} (row {row})"
    return f"row {row}"


def _column(answers: pa.RecordBatch | pa.Table, name: str, stage: LayerStage[StageConfig], module: str) -> pa.Array:
    if name not in answers.schema.names:
        declares = f"declares the range or the spans of {name}, which its schema does not have. Remove it."
        raise BrokenPromise(f"{label_of(module, stage.verb)} {declares}")
    column = answers.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _wrong(stage: LayerStage[StageConfig], module: str, fact: str) -> BrokenPromise:
    return BrokenPromise(f"{label_of(module, stage.verb)} wrote {fact}. Correct the value, or the declaration.")


def _outside(column: pa.Array, low: float, high: float) -> Iterator[tuple[int, float]]:
    rows, values = _values(column)
    is_inside = (values >= low) & (values <= high)  # false for NaN
    if not is_inside.all():
        first = int(np.argmin(is_inside))
        yield int(rows[first]), values[first].item()


def _beyond(column: pa.Array, text: pa.Array) -> Iterator[tuple[int, list[int]]]:
    """The first spans that are not pairs, not ascending, or not within the text."""
    rows, bounds = _values(column)
    lengths = pc.fill_null(pc.binary_length(text), 0).to_numpy(zero_copy_only=False)
    is_wrong = (bounds < 0) | (bounds > lengths[rows])
    is_wrong[1:] |= (np.diff(bounds) < 0) & (np.diff(rows) == 0)
    is_wrong |= np.bincount(rows, minlength=len(column))[rows] % 2 == 1
    if is_wrong.any():
        row = int(rows[np.argmax(is_wrong)])
        yield row, column[row].as_py()


def _values(column: pa.Array) -> tuple[Rows, npt.NDArray[np.float64]]:
    """The values of a column of numbers or of lists of numbers, without nulls, and their rows."""
    rows = np.arange(len(column))
    if pa.types.is_list(column.type):
        rows = np.repeat(rows, pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False))
        column = column.flatten()
    if column.null_count:
        rows, column = rows[column.is_valid().to_numpy(zero_copy_only=False)], column.drop_null()
    return rows, column.to_numpy(zero_copy_only=False)

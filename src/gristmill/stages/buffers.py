"""Converts Arrow strings to the arrays that kernels take, and back."""

from typing import Any

import numpy as np
import pyarrow as pa

Array = np.ndarray[Any, Any]

_NOTHING = np.zeros(1, np.uint8)


def bytes_of(column: pa.Array) -> tuple[Array, Array]:
    """The bytes of a string or binary column and its offsets (int32). A null has no bytes."""
    if column.null_count:
        column = column.fill_null("" if pa.types.is_string(column.type) else b"")
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return _NOTHING, np.zeros(len(column) + 1, np.int32)
    return (
        np.frombuffer(data, np.uint8) if data.size else _NOTHING,
        np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1],
    )


def changes(*columns: Array) -> Array:
    """A mask of the rows that differ from the row before in any column; the first row counts as different."""
    begins = np.zeros(len(columns[0]), np.bool_)
    begins[:1] = True
    for column in columns:
        begins[1:] |= column[1:] != column[:-1]
    return begins


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """A column as one chunk; it is only copied if it has several."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def views_of(column: pa.StringArray) -> tuple[Array, Array, Array]:
    """Offsets (int32), bytes and validity of a string column, not copied. Read-only, as compiled kernels require."""
    _, offsets, data = column.buffers()
    starts = np.zeros(1, np.int32)
    if len(column):
        starts = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    characters = np.frombuffer(data or b"", np.uint8)
    starts.setflags(write=False)
    characters.setflags(write=False)
    return starts, characters, column.is_valid().to_numpy(zero_copy_only=False)


def strings(offsets: Array, data: Array, valid: Array | None = None) -> pa.Array:
    """A string column from offsets (int32) and bytes; rows that are not `valid` are null."""
    column = pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))
    if valid is None:
        return column
    return column.take(pa.array(np.arange(len(valid)), mask=~valid))


def spread(found: dict[int, str], rows: int) -> tuple[Array, pa.Array]:
    """Which of `rows` rows are keys of `found`, and a string column of their values."""
    hit = np.zeros(rows, np.bool_)
    hit[list(found)] = True
    places = np.full(rows, -1, np.int64)
    places[list(found)] = np.arange(len(found))
    return hit, pa.array(list(found.values()), pa.string()).take(pa.array(places, mask=~hit))

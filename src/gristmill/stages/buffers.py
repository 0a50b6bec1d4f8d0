"""Converts Arrow strings to the arrays that kernels take, and back."""

from typing import Any

import numpy as np
import pyarrow as pa

Array = np.ndarray[Any, Any]


def read_only(buffer: Any, kind: Any) -> Array:
    """A buffer as an array that cannot be written; an empty one for None.

    Some Arrow buffers can be written and some cannot, depending on where they come from. Numba would compile a kernel
    for both.
    """
    return np.frombuffer(memoryview(b"" if buffer is None else buffer).toreadonly(), kind)


_NOTHING = read_only(bytes(1), np.uint8)


def bytes_of(column: pa.Array) -> tuple[Array, Array]:
    """The bytes of a string or binary column and its offsets (int32), both read-only. A null has no bytes."""
    if column.null_count:
        column = column.fill_null("" if pa.types.is_string(column.type) else b"")
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return _NOTHING, read_only(bytes(4 * (len(column) + 1)), np.int32)
    return (
        read_only(data, np.uint8) if data.size else _NOTHING,
        read_only(offsets, np.int32)[column.offset : column.offset + len(column) + 1],
    )


def fixed_bytes(column: pa.Array) -> Array:
    """A fixed-size binary column without nulls as a matrix of bytes, not copied."""
    width = column.type.byte_width
    data = read_only(column.buffers()[1], np.uint8)
    return data[column.offset * width : (column.offset + len(column)) * width].reshape(len(column), width)


def first_numbers(column: pa.Array, order: str) -> Array:
    """The first 8 bytes of each value of a fixed-size binary column as a number (uint64). With the order `>` numbers
    sort like the values.
    """
    first = np.ascontiguousarray(fixed_bytes(column)[:, :8])
    return first.view(f"{order}u8").ravel().astype(np.uint64)


def large_texts(column: pa.LargeStringArray) -> tuple[Array, Array]:
    """The bytes of a large_string column and its offsets (int64), both read-only and not copied."""
    if not len(column):
        return _NOTHING, read_only(bytes(8), np.int64)
    _, offsets, data = column.buffers()
    bounds = read_only(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    return read_only(data, np.uint8) if data is not None and data.size else _NOTHING, bounds


def text_spans(text: pa.Array) -> tuple[Array, Array, Array]:
    """The bytes of a column of texts, and where each text begins and ends in them (int64). A null has no bytes."""
    data, bounds = large_texts(text.cast(pa.large_string()))
    begins, ends = bounds[:-1].copy(), bounds[1:].copy()
    if text.null_count:
        ends = np.where(text.is_null().to_numpy(zero_copy_only=False), begins, ends)
    return data, begins, ends


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
    """Offsets (int32) and bytes of a string column, both read-only and not copied, and its validity."""
    _, offsets, data = column.buffers()
    starts = read_only(offsets if len(column) else bytes(4), np.int32)
    starts = starts[column.offset : column.offset + len(column) + 1] if len(column) else starts
    return starts, read_only(data, np.uint8), column.is_valid().to_numpy(zero_copy_only=False)


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

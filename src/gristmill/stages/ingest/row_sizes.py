"""Counts the bytes of the strings in each row of an Arrow column, with dictionaries expanded.

A dictionary column holds a text once, no matter how many rows have it: a small file can hold gigabytes of rows.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_type

Array = np.ndarray[Any, Any]


def row_bytes(column: pa.Array) -> Array:
    """The bytes of strings in each row (int64), at any depth. Numbers and nulls count 0."""
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        return row_bytes(column.storage)
    if is_type.is_dictionary(kind):
        sizes = row_bytes(column.dictionary)
        return sizes[_filled(column.indices)] * _filled(column.is_valid()) if len(sizes) else _none(column)
    if (
        is_type.is_string(kind)
        or is_type.is_binary(kind)
        or is_type.is_large_string(kind)
        or is_type.is_large_binary(kind)
    ):
        return _filled(pc.binary_length(column))
    if is_type.is_struct(kind):
        return sum((row_bytes(child) for child in column.flatten()), _none(column))
    if is_type.is_map(kind):
        column = column.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
    if is_type.is_list(column.type) or is_type.is_large_list(column.type):
        inner = row_bytes(column.flatten())
        rows = _filled(pc.list_parent_indices(column))
        return np.bincount(rows, inner, len(column)).astype(np.int64) if len(rows) else _none(column)
    return _none(column)


def _none(column: pa.Array) -> Array:
    return np.zeros(len(column), np.int64)


def _filled(values: pa.Array) -> Array:
    found: Array = values.fill_null(0 if not is_type.is_boolean(values.type) else False).to_numpy(zero_copy_only=False)
    return found.astype(np.int64)

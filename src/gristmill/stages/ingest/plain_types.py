"""Converts Arrow columns to values that mean the same everywhere.

`to_pylist` returns pandas objects for nanoseconds if pandas is installed, fails if it is not, and reads time zones from
the machine's own database. So times become microseconds and zones UTC first.
"""

import pyarrow as pa
import pyarrow.types as is_type


def plain(column: pa.Array) -> pa.Array:
    """The column with such types replaced, at any depth."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    wanted = _plain_type(column.type)
    return column if wanted == column.type else column.cast(wanted, safe=False)


def _plain_type(given: pa.DataType) -> pa.DataType:
    if is_type.is_timestamp(given):
        return pa.timestamp("us", None if given.tz is None else "UTC")
    if is_type.is_time64(given):
        return pa.time64("us")
    if is_type.is_duration(given):
        return pa.duration("us")
    if is_type.is_dictionary(given):
        return _plain_type(given.value_type)
    if is_type.is_struct(given):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in given])
    if is_type.is_list(given):
        return pa.list_(given.value_field.with_type(_plain_type(given.value_type)))
    if is_type.is_map(given):
        return pa.map_(_plain_type(given.key_type), _plain_type(given.item_type), given.keys_sorted)
    if is_type.is_large_list(given):
        return pa.large_list(given.value_field.with_type(_plain_type(given.value_type)))
    return given


def selected(schema: pa.Schema, path: str) -> str | None:
    """The column to read from Parquet for a path: the column with exactly that name, or one leaf of a struct; a list is
    read whole. None if the schema has no such path."""
    if path in schema.names:
        return path
    top, *steps = path.split(".")
    if top not in schema.names:
        return None
    given = schema.field(schema.names.index(top)).type
    taken = top
    for step in steps:
        if is_type.is_struct(given):
            if given.get_field_index(step) < 0:
                return None
            given = given.field(step).type
            taken = f"{taken}.{step}"
        else:
            return taken if is_type.is_nested(given) and step.isdecimal() else None
    return taken

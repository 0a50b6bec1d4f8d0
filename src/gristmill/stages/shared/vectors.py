"""Columns of a batch as numbers, truth values or texts that may be missing, and operations on them.

A comparison with a missing value is unknown, and `and`, `or`, `not` treat unknown values as SQL does: `not (words > 5)`
does not hold for a row without `words`. NaN is missing. Dividing by 0 gives 0, since what is counted in an empty text
is 0 as well.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.errors import UserError

Kind = Literal["number", "truth", "text"]
Mask = npt.NDArray[np.bool_]


class Vector(NamedTuple):
    """One value per row; a NumPy scalar or a str is the value of every row."""

    kind: Kind
    data: Any
    """float64 for numbers; bool for truth values, False if unknown; pa.Array for texts."""
    valid: Mask | None = None
    """Which rows have a value; None: all."""


class ColumnVectors:
    """The columns of a batch, each converted to a vector on first use."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self.rows: int = batch.num_rows
        self._vectors: dict[str, Vector] = {}

    def __getitem__(self, name: str) -> Vector:
        if name not in self._vectors:
            self._vectors[name] = _vector(self.batch.column(name), name)
        return self._vectors[name]


def _vector(column: pa.Array, name: str) -> Vector:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return Vector("text", column)
    if not (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise UserError(
            f"the column {name} has type {kind}, but rules compare numbers, texts and truth values. Use another column."
        )
    valid = None if column.null_count == 0 else column.is_valid().to_numpy(zero_copy_only=False)
    if valid is not None:
        column = column.fill_null(False if pa.types.is_boolean(kind) else 0)
    values = column.to_numpy(zero_copy_only=False)
    if pa.types.is_boolean(kind):
        return Vector("truth", values, valid)
    numbers = values.astype(np.float64)
    if pa.types.is_floating(kind) and (missing := np.isnan(numbers)).any():
        numbers[missing] = 0.0
        valid = ~missing if valid is None else valid & ~missing
    return Vector("number", numbers, valid)


def both(first: Mask | None, second: Mask | None) -> Mask | None:
    """Rows where neither is missing."""
    if first is None or second is None:
        return second if first is None else first
    return first & second


def number(vector: Vector, what: str) -> Vector:
    """The vector as numbers; true is 1."""
    if vector.kind == "text":
        raise UserError(f"{what} is text, but the rule needs a number here. Compare it with a text in quotes.")
    return vector if vector.kind == "number" else Vector("number", np.asarray(vector.data, np.float64), vector.valid)


def truth(vector: Vector, what: str) -> Vector:
    if vector.kind != "truth":
        raise UserError(f"{what} is not a condition. Compare it with something: {what} > 0.")
    return vector


def divide(first: object, second: object) -> Any:
    """first / second, and 0 where second is 0."""
    first, second = np.asarray(first), np.asarray(second)
    shape = np.broadcast_shapes(first.shape, second.shape)
    return np.divide(first, second, out=np.zeros(shape), where=second != 0)


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": divide,
    "max": np.maximum,
    "min": np.minimum,
}
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_COMPARE_TEXT = {
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "==": pc.equal,
    "!=": pc.not_equal,
}


def arithmetic(sign: str, first: Vector, second: Vector, what: str) -> Vector:
    first, second = number(first, what), number(second, what)
    return Vector("number", ARITHMETIC[sign](first.data, second.data), both(first.valid, second.valid))


def compare(sign: str, first: Vector, second: Vector, what: str) -> Vector:
    if first.kind == "text" and second.kind == "text":
        return _from_arrow(_COMPARE_TEXT[sign](first.data, second.data))
    if first.kind == "text" or second.kind == "text":
        raise UserError(f"{what} compares a text with a number. Texts are in quotes, numbers are not.")
    first, second = number(first, what), number(second, what)
    return _known(COMPARE[sign](first.data, second.data), both(first.valid, second.valid))


def is_among(vector: Vector, options: Sequence[Vector], what: str) -> Vector:
    if vector.kind == "text":
        texts = [option.data for option in options if option.kind == "text"]
        if len(texts) < len(options):
            raise UserError(f"{what} looks for a text in a list with numbers. Put quotes around them.")
        found = pc.is_in(vector.data, value_set=pa.array(texts, vector.data.type))
        return _from_arrow(pc.if_else(vector.data.is_valid(), found, pa.scalar(None, pa.bool_())))
    numbers = [number(option, what).data for option in options]
    return _known(np.isin(number(vector, what).data, np.array(numbers)), vector.valid)


def is_null(vector: Vector, rows: int) -> Vector:
    if vector.kind == "text":
        return _from_arrow(vector.data.is_null())
    return Vector("truth", np.zeros(rows, np.bool_) if vector.valid is None else ~vector.valid)


def invert(vector: Vector) -> Vector:
    return _known(~np.asarray(vector.data, np.bool_), vector.valid)


def conjoin(first: Vector, second: Vector) -> Vector:
    """Unknown unless one is false or both are known."""
    held = first.data & second.data
    if first.valid is None and second.valid is None:
        return Vector("truth", held)
    false = _is_false(first) | _is_false(second)
    return Vector("truth", held, held | false)


def disjoin(first: Vector, second: Vector) -> Vector:
    """Unknown unless one is true or both are known."""
    held = first.data | second.data
    if first.valid is None and second.valid is None:
        return Vector("truth", held)
    return Vector("truth", held, held | (_is_false(first) & _is_false(second)))


def _is_false(vector: Vector) -> Any:
    return ~vector.data if vector.valid is None else vector.valid & ~vector.data


def _known(held: Any, valid: Mask | None) -> Vector:
    return Vector("truth", held if valid is None else held & valid, valid)


def _from_arrow(found: Any) -> Vector:
    if found.null_count == 0:
        return Vector("truth", found.to_numpy(zero_copy_only=False))
    valid = found.is_valid().to_numpy(zero_copy_only=False)
    return Vector("truth", found.fill_null(False).to_numpy(zero_copy_only=False), valid)

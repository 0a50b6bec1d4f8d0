"""Columns of a batch as numbers, truth values or texts that may be missing, and what can be done with them.

A missing value makes every comparison that uses it unknown, and `and`, `or`, `not` treat the unknown as SQL does:
`not (words > 5)` does not hold for a row without `words`. A number that is not a number is missing. A share of nothing
is 0: dividing by 0 gives 0, since what is counted in an empty text is 0 as well.
"""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.errors import UserError

Vector = Any
"""An array of Arrow, one value a row, or a scalar that stands for the same value in every row: double, bool or string;
null where it is missing or unknown."""


class Columns:
    """The columns of a batch, each made a vector when it is first asked for."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self.rows: int = batch.num_rows
        self._made: dict[str, Vector] = {}

    def __getitem__(self, name: str) -> Vector:
        if name not in self._made:
            self._made[name] = _vector(self.batch.column(name), name)
        return self._made[name]


def _vector(column: pa.Array, name: str) -> Vector:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind):
        return column
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise UserError(
            f"the column {name} holds {kind}, and a rule compares numbers, texts and truth values. Use another column."
        )
    numbers = column.cast(pa.float64(), safe=False)
    return pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.float64()), numbers)


def kind_of(vector: Vector) -> Literal["number", "truth", "text"]:
    if pa.types.is_floating(vector.type):
        return "number"
    return "truth" if pa.types.is_boolean(vector.type) else "text"


def number(vector: Vector, what: str) -> Vector:
    """The vector as numbers; true is 1."""
    if kind_of(vector) == "text":
        raise UserError(f"{what} is text where a rule needs a number. Compare it with a text in quotes.")
    return vector.cast(pa.float64())


def truth(vector: Vector, what: str) -> Vector:
    if kind_of(vector) != "truth":
        raise UserError(f"{what} is no condition. Compare it with something: {what} > 0.")
    return vector


def holds(vector: Vector) -> npt.NDArray[np.bool_]:
    """For each row whether it is known and true."""
    found: npt.NDArray[np.bool_] = vector.fill_null(False).to_numpy(zero_copy_only=False)
    return found


def numbers_of(vector: Vector) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """The number of each row, 0 where it is missing; and which are there. Both may be written to."""
    valid = vector.is_valid().to_numpy(zero_copy_only=False)
    return vector.fill_null(0.0).to_numpy(zero_copy_only=False).copy(), valid


def divide(first: Vector, second: Vector) -> Vector:
    """first / second, and 0 where second is 0."""
    by_zero = pc.equal(second, 0.0)
    nothing = pc.if_else(pc.is_valid(first), 0.0, pa.scalar(None, pa.float64()))
    return pc.if_else(by_zero, nothing, pc.divide(first, pc.if_else(by_zero, 1.0, second)))


def _extreme(pick: Any, first: Vector, second: Vector) -> Vector:
    """The larger or smaller one; what is not a number stays so (infinity times 0)."""
    is_none = pc.or_(pc.is_nan(first), pc.is_nan(second))
    return pc.if_else(is_none, np.nan, pick(first, second, skip_nulls=False))


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": pc.add,
    "-": pc.subtract,
    "*": pc.multiply,
    "/": divide,
    "max": partial(_extreme, pc.max_element_wise),
    "min": partial(_extreme, pc.min_element_wise),
}
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "==": pc.equal,
    "!=": pc.not_equal,
}


def arithmetic(sign: str, first: Vector, second: Vector, what: str) -> Vector:
    return ARITHMETIC[sign](number(first, what), number(second, what))


def compare(sign: str, first: Vector, second: Vector, what: str) -> Vector:
    texts = {kind_of(first), kind_of(second)} & {"text"}
    if texts and kind_of(first) != kind_of(second):
        raise UserError(f"{what} compares a text with a number. Texts are in quotes, numbers are not.")
    return COMPARE[sign](first, second) if texts else COMPARE[sign](number(first, what), number(second, what))


def is_among(vector: Vector, options: Sequence[Vector], what: str) -> Vector:
    if kind_of(vector) == "text" and not all(kind_of(option) == "text" for option in options):
        raise UserError(f"{what} looks for a text in a list with numbers. Put quotes around them.")
    if kind_of(vector) != "text":
        vector, options = number(vector, what), [number(option, what) for option in options]
    return reduce(pc.or_kleene, (pc.equal(vector, option) for option in options))

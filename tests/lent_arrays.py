"""Arrays as stages pass them to kernels: those of a column are read-only, and Numba compiles nothing for other ones."""

from typing import Any


def lent(*arrays: Any) -> tuple[Any, ...]:
    """The same arrays, read-only."""
    for array in arrays:
        array.flags.writeable = False
    return arrays

"""Shrinks spans of texts so that they end between characters, or between lines."""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import view

Array = np.ndarray[Any, Any]

_NEWLINE = 10


@njit(nogil=True, cache=True)
def snap_spans(text: Array, offsets: Array, firsts: Array, bounds: Array, lines: bool) -> tuple[Array, Array]:
    """Returns the same spans without partial characters (or lines, with their newline) at both ends; empty ones are
    dropped.

    `bounds[firsts[row] : firsts[row + 1]]` are start, stop, start, stop ... of a row's spans; the result has the same
    form.
    """
    rows = len(offsets) - 1
    data = view(text)
    new_firsts = np.zeros(rows + 1, np.int64)
    new_bounds = np.empty(len(bounds), np.int64)
    count = 0
    # Rows are independent of each other.
    for row in range(rows):
        begin, size = np.int64(offsets[row]), np.int64(offsets[row + 1]) - np.int64(offsets[row])
        # Move both ends inward, to a line or to a character.
        for place in range(firsts[row], firsts[row + 1], 2):
            start, stop = bounds[place], bounds[place + 1]
            if lines:
                while start < stop and start > 0 and data[begin + start - 1] != _NEWLINE:
                    start += 1
                while start < stop < size and data[begin + stop - 1] != _NEWLINE:
                    stop -= 1
            else:
                while start < stop and data[begin + start] & 0xC0 == 0x80:
                    start += 1
                while start < stop < size and data[begin + stop] & 0xC0 == 0x80:
                    stop -= 1
            if start < stop:
                new_bounds[count], new_bounds[count + 1] = start, stop
                count += 2
        new_firsts[row + 1] = count
    return new_firsts, new_bounds[:count].copy()

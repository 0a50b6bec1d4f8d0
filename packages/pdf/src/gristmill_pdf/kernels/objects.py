"""Counts what is drawn on a page of a PDF file: its objects, those inside its forms, and the segments of its paths."""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.memory_calls import call_int_on, call_pointer, call_pointer_at

PATH, FORM = 2, 5
"""Types of objects in pdfium."""
MOST_DEPTH = 64
"""Forms in forms. pdfium draws 40 at most."""
FUNCTIONS = (
    "FPDFPage_CountObjects",
    "FPDFPage_GetObject",
    "FPDFPageObj_GetType",
    "FPDFPath_CountSegments",
    "FPDFFormObj_CountObjects",
    "FPDFFormObj_GetObject",
)
"""The functions whose addresses the kernel needs, in this order."""


@njit(nogil=True, cache=True)
def count_drawn(functions: np.ndarray, page: int, most: int) -> int:
    """The objects and path segments of a loaded page; more than `most` if there are more."""
    holders, at, stops = np.zeros(MOST_DEPTH, np.int64), np.zeros(MOST_DEPTH, np.int64), np.zeros(MOST_DEPTH, np.int64)
    holders[0], stops[0] = page, call_int_on(functions[0], page)
    depth = total = 0
    # Depth first, with a stack of forms.
    while depth >= 0 and total <= most:
        index = at[depth]
        if index >= stops[depth]:
            depth -= 1
            continue
        at[depth] += 1
        total += 1
        item = call_pointer(functions[1], page, index) if depth == 0 else 0
        if depth > 0:
            item = call_pointer_at(functions[5], holders[depth], index)
        kind = call_int_on(functions[2], item)
        if kind == PATH:
            total += max(call_int_on(functions[3], item), 0)
        elif kind == FORM and depth + 1 < MOST_DEPTH:
            depth += 1
            holders[depth], at[depth], stops[depth] = item, 0, call_int_on(functions[4], item)
    return total


def addresses(library: Any, names: tuple[str, ...]) -> np.ndarray:
    """The addresses of functions of a library."""
    import ctypes

    return np.array([ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in names], np.int64)

"""No kernel uses a view of an array that may be freed: this checks the syntax tree of every kernel."""

from textwrap import dedent

import pytest
from tests.kernels.sources import kernel_files
from tests.laws.lifetimes import faults

HEAD = """
import numpy as np
from numba import njit
from gristmill.kernels.memory import borrow, tail, view

TABLE = np.zeros(256, np.uint8)

@njit
def count(data, size):
    return data[size - 1]

@njit
def places(tables):
    return view(tables.pages), 7

@njit(inline="always")
def inlined(data):
    return view(data)[0]
"""


def of(code: str) -> list[str]:
    return faults({"kernel": HEAD + dedent(code)})


def test_kernels_take_views_of_parameters_only():
    """The caller keeps these arrays alive, so no kernel reads or writes freed memory."""
    sources = {module: path.read_text(encoding="utf-8") for module, path in kernel_files().items()}
    assert "view(" in sources["gristmill.kernels.dedup.line_units"]
    assert faults(sources) == []


@pytest.mark.parametrize(
    "code",
    [
        "@njit\ndef f(data):\n    return count(view(data), len(data))",
        "@njit\ndef f(tables):\n    return view(tables.pages)[0]",
        "@njit\ndef f(rows, at):\n    return count(view(rows[at]), len(rows[at]))",
        "@njit\ndef f(data):\n    part = data[3:]\n    return view(part)[0]",
        "@njit\ndef f(data):\n    return view(TABLE)[data[0]]",
        "@njit\ndef f(data):\n    data = borrow(data)\n    return data[0]",
        "@njit\ndef f(a, b):\n    a, b = borrow(a), borrow(b)\n    a, b = b, a\n    a[0] = b[0]",
        "@njit\ndef f(tables):\n    where = places(tables)\n    return where[0][0]",
        "@njit\ndef g(data):\n    return view(data)[0]\n@njit\ndef f():\n    return g(np.zeros(9))",
        "@njit\ndef f(data):\n    return inlined(data)",
        "def f(room):\n    return -room.ctypes.data % 64",
    ],
)
def test_views_that_cannot_outlive_their_array_are_allowed(code):
    """Parameters, their parts and constants are allowed, and so are local arrays passed to another kernel."""
    assert of(code) == []


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (
            "@njit\ndef f(n):\n    room = np.empty(n)\n    at = view(room)\n    return at[0]",
            "f lends room",
        ),
        ("@njit\ndef f(n):\n    return count(view(np.empty(n)), n)", "f lends np.empty(n)"),
        ("@njit\ndef f(n):\n    room = np.empty(n)\n    return count(view(room[1:]), n)", "f lends room[1:]"),
        ("@njit\ndef f(n):\n    room = np.empty(n)\n    lent = borrow(room)\n    return lent[0]", "f lends room"),
        ("@njit\ndef f(data):\n    data = data.copy()\n    return view(data)[0]", "f lends data"),
        ("@njit\ndef f(data):\n    data += 1\n    return view(data)[0]", "f lends data"),
        ("@njit\ndef f(data):\n    for data in (1, 2):\n        view(data)[0]", "f lends data"),
        ("@njit\ndef f(a, b):\n    c = a if b else a.copy()\n    return view(c)[0]", "f lends c"),
        ("@njit\ndef f(a):\n    b, c = a, np.empty(9)\n    return view(c)[0]", "f lends c"),
        (
            "@njit\ndef f(n):\n    own = np.empty(n)\n    where = places(own)\n    return where[0][0]",
            "f lends own",
        ),
        ("@njit\ndef f(n):\n    own = np.empty(n)\n    return inlined(own)", "f lends own"),
        ("@njit\ndef f(data, kept):\n    kept[0] = view(data)", "f stores what is lent in kept[0]"),
        (
            "@njit\ndef f(data, kept):\n    at = view(data)\n    kept[0] = tail(at, 8)",
            "f stores what is lent in kept[0]",
        ),
        ("@njit\ndef f(data, out):\n    view(out)[0] = view(data)", "f stores what is lent in view(out)[0]"),
        ("def f(tables):\n    return places(tables)", "Python gets what places lends"),
        ("@njit(parallel=True)\ndef f(data):\n    return data[0]", "f is compiled with parallel"),
        ("from numba import carray", "carray: pointers are made"),
        ("def f(builder, a):\n    return builder.inttoptr(a, 8)", "inttoptr: pointers are made"),
        ("@njit\ndef f(data):\n    return byte_at(data.ctypes.data, 0)", ".ctypes is for questions of alignment"),
    ],
)
def test_views_that_can_outlive_their_array_are_found(code, fault):
    """Every known way to get a view that outlives its array is found."""
    found = of(code)
    assert len(found) >= 1
    assert fault in found[0]

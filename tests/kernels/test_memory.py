"""Kernels where memory bites: freed memory is gone, arrays stand between fences, every access is checked.

`make test-memory` runs all tests of kernels and of stages so, for half an hour; the slow tests here send any bytes
through every kernel, which finds most for its time.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

import gristmill
from gristmill.kernels.memory import eight_bytes_at, tail, view

ROOT = Path(__file__).parents[2]
SOURCE = Path(gristmill.__file__).parents[1]
FREED = {"MALLOC_PERTURB_": "165", "MALLOC_MMAP_THRESHOLD_": "4096"}

UNITS = """
import sys
import numpy as np
from gristmill.kernels.dedup.line_units import count_units, find_units

line = b"the  mill  grinds  the  grain  of  the  valley\\n"
for size in map(int, sys.argv[1:]):
    text = np.frombuffer(line * (size // len(line)), np.uint8)
    offsets = np.array([0, len(text)], np.int32)
    keys, _, _, counts = count_units(text, offsets, False, 1)
    spans, _, _ = find_units(text, offsets, np.array([0, 1]), keys, False, 1)
    print(len(keys), counts.tolist() == [len(spans)] == [size // len(line)])
"""

BEYOND = """
import sys
import numpy as np
from numba import njit
from gristmill.kernels.memory import eight_bytes_at, view

@njit
def last(data, index):
    return eight_bytes_at(view(data), index)

@njit
def first(data, index):
    return view(data)[index]

@njit
def write(data, index):
    view(data)[index] = 1

data = np.zeros(100, np.uint8)
"""

DIED = """
import os

for call in (last, first, write):
    call(data, 50)

def died(call):
    child = os.fork()
    if child == 0:
        eval(call)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) < 0

"""

LENT = """
import sys
import numpy as np
from numba import njit
from gristmill.kernels.memory import view

@njit(forceinline=True)
def innermost(room, size):
    bytes_, total = view(room), 0
    for place in range(size):
        bytes_[place] = place
    for place in range(size):
        total += bytes_[place]
    return total

@njit
def inner(rooms, size):
    return innermost(rooms[0], size) + innermost(rooms[1][:size], size)

@njit
def handed_on(size):
    rooms = np.empty(size, np.uint8), np.empty(2 * size, np.uint8)
    return inner(rooms, size) + innermost(np.empty(size, np.uint8), size)

@njit
def freed(size):
    room = np.empty(size, np.uint8)
    bytes_, total = view(room), 0
    for place in range(size):
        bytes_[place] = place
    for place in range(size):
        total += bytes_[place]
    return total

print(globals()[sys.argv[1]](1 << 20))
"""


def python(*arguments, **environment):
    """A new Python process with the package under test."""
    paths = os.pathsep.join(map(str, (SOURCE, ROOT, ROOT / "tests", *sys.path)))
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
    )


def run_tests(plugin, *arguments, **environment):
    done = python("-X", "faulthandler", "-m", "pytest", "-p", f"tests.kernels.{plugin}", *arguments, **environment)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]


@njit
def change(data, at, first, value):
    numbers = view(data)
    before = numbers[at], tail(numbers, first)[at - first]
    numbers[at] = value
    return before


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int32, np.uint64])
def test_a_view_reads_and_writes_elements(kind):
    """Every element is read with its sign and written with its width, counted from the front or from a tail, and its
    neighbours stay unchanged.
    """
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    data = np.array([[low, 1, high], [high, low, 2]], kind)
    flat = data.ravel().tolist()
    for at in range(len(flat)):
        assert change(data, at, at // 2, kind(7)) == (flat[at], flat[at])
        flat[at] = 7
        assert data.ravel().tolist() == flat


def test_a_number_is_no_view():
    """An address cannot be computed outside of `memory`: intrinsics refuse integers, and arithmetic refuses views."""

    @njit
    def at_address(address):
        return eight_bytes_at(address, 0)

    @njit
    def shifted(data):
        return eight_bytes_at(view(data) + 8, 0)

    for kernel, given in ((at_address, 4096), (shifted, np.zeros(16, np.uint8))):
        with pytest.raises(TypingError):
            kernel(given)


def test_lines_with_double_spaces_are_read_from_live_memory():
    """Above the size from which the C library gives freed memory back, a scan of freed scratch is a crash."""
    done = python("-c", UNITS, "140000", "5000000", MALLOC_MMAP_THRESHOLD_="131072", MALLOC_PERTURB_="165")
    assert (done.returncode, done.stdout.split("\n")) == (0, ["1 True"] * 2 + [""]), done.stderr


@pytest.mark.slow
def test_numba_keeps_what_is_handed_on_and_frees_the_rest():
    """What the rule for addresses rests on (tests/laws/lifetimes.py): arguments live as long as the call, however it is
    compiled. And what it is for: the array of a loop that has its address alone is gone, and that shows.
    """
    total = sum(place & 255 for place in range(1 << 20))
    done = python("-c", LENT, "handed_on", **FREED)
    assert (done.returncode, done.stdout) == (0, f"{3 * total}\n"), done.stderr
    assert python("-c", LENT, "freed", **FREED).returncode < 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("side", "inside", "beyond"),
    [
        ("behind", ["last(data, 92)", "write(data, 99)", "first(data, 99)"], ["last(data, 93)", "write(data, 100)"]),
        ("before", ["first(data, 0)", "write(data, 0)"], ["first(data, -1)", "write(data, -1)"]),
    ],
)
def test_a_fence_stops_what_goes_beyond(side, inside, beyond):
    """The fence itself: the first and last bytes are there, one more is a crash."""
    each = f"for call in {inside + beyond}:\n    print(died(call))\n"
    done = python("-c", f"import tests.kernels.fenced_memory\n{BEYOND}{DIED}{each}", FENCE=side)
    assert done.stdout.split() == ["False"] * len(inside) + ["True"] * len(beyond), done.stderr


@pytest.mark.slow
def test_a_check_reports_an_access_out_of_bounds(tmp_path):
    """The check itself: it finds an access one byte outside, even inside another array, and prevents it."""
    calls = ["last(data, 92)", "last(data, 93)", "first(data, -1)", "write(data, 99)", "write(data, 100)"]
    code = f"import tests.kernels.checked_memory as checked\n{BEYOND}data = np.zeros((3, 100), np.uint8)[1]\n"
    script = "".join(f"{call}\nprint(checked.what_went_wrong())\n" for call in calls)
    done = python("-c", code + script, NUMBA_CACHE_DIR=str(tmp_path))
    first = "1 accesses out of bounds, the first of"
    assert done.stdout.splitlines() == [
        "None",
        f"{first} 8 bytes at 93 of an array of 100",
        f"{first} 1 bytes at -1 of an array of 100",
        "None",
        f"{first} 1 bytes at 100 of an array of 100",
    ], done.stderr


@pytest.mark.early
@pytest.mark.slow
def test_kernels_stay_between_fences():
    """The machine code that users run, with arrays that end (begin) at a page that is not there."""
    run_tests("fenced_memory", "tests/kernels/test_any_bytes.py", FENCE="behind,before", EXAMPLES="25", **FREED)

"""Files of trees: reading returns what was written, and a damaged file is refused with a fix."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.errors import UserError
from gristmill.kernels.html.trees import Trees
from gristmill.stages.shared.arrow_file import ArrowFile, arrays_to_bytes, intact
from gristmill.stages.shared.trees_file import trees_in, trees_to_bytes


def ensemble(seed: int, trees: int = 3, depth: int = 2, columns: int = 5) -> Trees:
    draw = np.random.default_rng(seed)
    return Trees(
        draw.integers(0, columns, (trees, depth)).astype(np.uint16),
        draw.integers(0, 256, (trees, depth)).astype(np.uint8),
        draw.integers(-(2**15), 2**15, (trees, 1 << depth)).astype(np.int16),
        int(draw.integers(-(2**28), 2**28)),
        columns,
    )


MADE = {"one": ensemble(1), "two": ensemble(2, 1, 1)}
GOOD = trees_to_bytes(MADE, {"about": "mills"})
MESSAGE = r"^model\.trees is not trees, or is damaged \(.+\), so nothing can be done. Train it again"


def read(data: bytes) -> dict[str, Trees]:
    with intact("model.trees", "trees", "nothing can be done", "Train it again."):
        return trees_in(ArrowFile(pa.py_buffer(data)))


@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 8), st.integers(1, 2**16))
def test_what_was_written_is_read(seed, trees, depth, columns):
    made = ensemble(seed, trees, depth, columns)
    found = read(trees_to_bytes({"a": made}, {}))["a"]
    for one, other in zip(found, made, strict=True):
        assert np.array_equal(one, other)
        assert getattr(one, "dtype", None) == getattr(other, "dtype", None)
    assert all(one.flags.c_contiguous and one.flags.aligned and one.flags.writeable for one in found[:3])


@pytest.mark.parametrize("data", [b"", b"ARROW1", b"PK\3\4" + GOOD, GOOD[:-40], GOOD[:40], arrays_to_bytes({}, {})])
def test_another_file_is_refused(data):
    with pytest.raises(UserError, match=MESSAGE):
        read(data)


@given(st.integers(0, len(GOOD) - 1), st.integers(1, 255))
def test_a_byte_that_changed_is_found_or_changes_nothing(offset, change):
    damaged = bytearray(GOOD)
    damaged[offset] ^= change
    try:
        found = read(bytes(damaged))
    except UserError:
        return
    assert trees_to_bytes(found, {"about": "mills"}) == GOOD


@pytest.mark.parametrize(
    ("other", "fact"),
    [
        ({"columns": 2}, "uses column 4 of 2"),
        ({"columns": True}, "of True"),
        ({"bias": 2**29}, "a bias of"),
        ({"bias": 0.5}, "a bias of"),
        ({"features": np.zeros((3, 9), np.uint16)}, "3 trees of depth 9"),
        ({"features": np.zeros((0, 2), np.uint16)}, "0 trees of depth 2"),
        ({"features": np.zeros((3, 1), np.uint16)}, "other sizes"),
        ({"leaves": np.zeros((3, 2), np.int16)}, "other sizes"),
        ({"leaves": np.zeros((3, 4), np.int64)}, "other types"),
    ],
)
def test_trees_with_which_a_loop_would_leave_its_arrays_are_neither_written_nor_read(other, fact, monkeypatch):
    wrong = {"one": ensemble(1)._replace(**other)}
    with pytest.raises(ValueError, match=fact):
        trees_to_bytes(wrong, {})
    with monkeypatch.context() as unchecked:
        unchecked.setattr("gristmill.stages.shared.trees_file._check", lambda trees: None)
        data = trees_to_bytes(wrong, {})
    with pytest.raises(UserError, match=fact):
        read(data)

"""Files of trees: reading returns what was written, and a damaged file is rejected with a fix."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.errors import UserError
from gristmill.kernels.html.trees import Trees
from gristmill.stages.shared.trees_file import from_bytes, to_bytes


def ensemble(seed: int, trees: int = 3, depth: int = 2, columns: int = 5) -> Trees:
    draw = np.random.default_rng(seed)
    return Trees(
        draw.integers(0, columns, (trees, depth)).astype(np.uint16),
        draw.integers(0, 256, (trees, depth)).astype(np.uint8),
        draw.integers(-(2**15), 2**15, (trees, 1 << depth)).astype(np.int16),
        int(draw.integers(-(2**28), 2**28)),
        columns,
    )


GOOD = to_bytes(ensemble(1))


def sealed(data: bytes) -> bytes:
    """Adds a valid hash, as if the damage had been there before the file was written."""
    return data + hashlib.sha256(data).digest()


@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 8), st.integers(1, 2**16))
def test_what_was_written_is_read(seed, trees, depth, columns):
    made = ensemble(seed, trees, depth, columns)
    found = from_bytes(to_bytes(made), "model")
    for one, other in zip(found, made, strict=True):
        assert np.array_equal(one, other)
        assert getattr(one, "dtype", None) == getattr(other, "dtype", None)
    assert all(one.flags.c_contiguous and one.flags.aligned for one in found[:3])


def test_the_layout_is_the_one_that_is_described():
    """Every later version must read the bytes that this version wrote."""
    features, thresholds = np.array([[258, 1]], np.uint16), np.array([[7, 255]], np.uint8)
    made = Trees(features, thresholds, np.array([[1, -1, 256, 0]], np.int16), -2, 300)
    head = b"gm trees" + bytes([1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 44, 1, 0, 0, 254, 255, 255, 255])
    assert to_bytes(made) == sealed(head + bytes([2, 1, 1, 0, 7, 255, 1, 0, 255, 255, 0, 1, 0, 0]))


@pytest.mark.parametrize("size", range(len(GOOD)))
def test_a_file_that_ends_early_is_refused(size):
    with pytest.raises(UserError, match=r"^model\.trees .+, so no text can be extracted with it\. Train it again"):
        from_bytes(GOOD[:size], "model.trees")


@given(st.integers(0, len(GOOD) - 1), st.integers(1, 255))
def test_a_byte_that_changed_is_found(at, change):
    damaged = bytearray(GOOD)
    damaged[at] ^= change
    with pytest.raises(UserError, match=r"^model\.trees .+, so no text can be extracted with it\. Train it again"):
        from_bytes(bytes(damaged), "model.trees")


@given(st.binary(max_size=200))
def test_any_bytes_after_a_mark_are_refused(data):
    """For any sizes that they claim, and with a valid hash."""
    for made in (data, b"gm trees" + data, b"gm trees\1\0\0\0" + data, sealed(b"gm trees\1\0\0\0" + data)):
        with pytest.raises(UserError):
            from_bytes(made, "model.trees")


def patched(at: int, value: bytes) -> bytes:
    return sealed(GOOD[:at] + value + GOOD[at + len(value) : -32])


@pytest.mark.parametrize(
    ("data", "fact"),
    [
        (b"", "is not a file of trees"),
        (b"PK\3\4" + GOOD, "is not a file of trees"),
        (patched(8, b"\2"), "has version 2, but this gristmill reads version 1"),
        (patched(12, b"\0"), "0 trees of depth 2"),
        (patched(12, b"\xff" * 4), "4294967295 trees of depth 2"),
        (patched(16, b"\x09"), "3 trees of depth 9"),
        (patched(20, b"\0"), "0 columns"),
        (patched(24, b"\xff\xff\xff\x7f"), "a bias of 2147483647"),
        (patched(28, b"\5\0"), "uses column 5 of 5"),
        (sealed(GOOD[:-32] + b"\0"), "bytes instead of 102"),
        (GOOD[:40] + bytes([GOOD[40] ^ 1]) + GOOD[41:], "does not match its hash"),
    ],
)
def test_each_fault_is_named(data, fact):
    """Even with a valid hash: a loop would read outside its arrays."""
    with pytest.raises(UserError, match=fact):
        from_bytes(data, "model.trees")


@pytest.mark.parametrize("other", [{"columns": 2}, {"columns": 0}, {"bias": 2**29}])
def test_invalid_trees_are_not_written(other):
    made = ensemble(1)
    assert made.features.max() >= 2
    with pytest.raises(ValueError, match=r"column|bias"):
        to_bytes(made._replace(**other))

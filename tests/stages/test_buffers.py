"""Columns as kernels get them: the same kind of arrays wherever a column comes from."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from gristmill.stages.buffers import bytes_of, read_only, views_of

TEXTS = ["mill", "", "stone"]


def column(writable):
    """A column over buffers that can be written, as Arrow's own are, or over bytes, as those of a file are."""
    data, offsets = "".join(TEXTS).encode(), np.array([0, 4, 4, 9], np.int32).tobytes()
    make = bytearray if writable else bytes
    return pa.StringArray.from_buffers(3, pa.py_buffer(make(offsets)), pa.py_buffer(make(data)))


@pytest.mark.parametrize("writable", [True, False])
@pytest.mark.parametrize("rows", [slice(0, 3), slice(1, 2), slice(0, 0)])
def test_the_arrays_of_a_column_are_read_only(writable, rows):
    """Numba compiles a kernel again for arrays that can be written."""
    some = column(writable)[rows]
    for data, offsets in (bytes_of(some), views_of(some)[1::-1]):
        assert not data.flags.writeable
        assert not offsets.flags.writeable
        assert [bytes(data[a:b]).decode() for a, b in pairwise(offsets)] == TEXTS[rows]


def test_a_missing_buffer_is_empty():
    assert read_only(None, np.int64).tolist() == []

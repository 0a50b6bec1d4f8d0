"""Bytes that are not UTF-8 give sensible values, not a crash."""

import random

import numpy as np
import pyarrow as pa
import pytest

from gristmill.stages.measure import language, signals
from gristmill.stages.select import lines

SURROGATES = [
    b"\xed\xa0\x80",
    b"words \xed\xbf\xbf and \xed\xa0\x80\xed\xb0\x80 more",
    b"\xff\xfe\xfd",
    b"a\xc3",
    b"\xf0\x9f",
]


def unchecked(texts):
    """A string column that was not validated."""
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(b"".join(texts)))


@pytest.mark.parametrize("stage", [signals, language, lines])
def test_lone_surrogates_and_random_bytes_are_measured_without_a_crash(stage):
    """One row for each text, and plain numbers in it."""
    draw = random.Random(2)
    texts = [*SURROGATES, *(bytes(draw.randrange(256) for _ in range(draw.randrange(400))) for _ in range(300))]
    batch = pa.RecordBatch.from_arrays([unchecked(texts)], names=["text"])
    answers = stage.apply(batch, stage.Config())
    assert answers.num_rows == len(texts)
    for column in answers.columns:
        if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
            values = column.drop_null().to_numpy(zero_copy_only=False)
            assert np.isfinite(values).all()
            assert (values >= 0).all()

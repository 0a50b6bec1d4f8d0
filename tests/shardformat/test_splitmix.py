"""One finaliser, in three forms: for a number, for an array, and compiled."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.hash.splitmix import GOLDEN as STEP
from gristmill.kernels.hash.splitmix import mix
from gristmill.shardformat.splitmix import GOLDEN, mix_all, mixed


def test_the_published_stream():
    """SplitMix64 from seed 1234567, as in the reference implementation's own check."""
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [mixed((1234567 + turn * GOLDEN) % 2**64) for turn in range(1, 5)] == expected


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1))
def test_all_forms_are_one(numbers):
    """What a kernel sorts by is what the loader and the stages sort by."""
    assert int(STEP) == GOLDEN
    expected = [mixed(number) for number in numbers]
    array = np.array(numbers, np.uint64)
    assert mix.py_func(array).tolist() == expected
    assert [int(mix(number)) for number in array] == expected
    assert mix_all(array.copy()).tolist() == expected

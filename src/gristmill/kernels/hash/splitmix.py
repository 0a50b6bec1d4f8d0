"""The finaliser of SplitMix64 (Steele, Lea, Flood 2014), with the constants of Stafford's variant 13."""

import numpy as np

from gristmill.kernels.compile import njit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 / golden ratio: the step of SplitMix64 from one state to the next."""
_ONE = np.uint64(0xBF58476D1CE4E5B9)
_TWO = np.uint64(0x94D049BB133111EB)


@njit(nogil=True, cache=True)
def mix(value: np.uint64) -> np.uint64:
    """Returns a number (uint64) whose every bit depends on every bit of the value; one-to-one, so nothing is lost.

    `mix.py_func` does the same for an array, without a compiler.
    """
    value = (value ^ (value >> np.uint64(30))) * _ONE
    value = (value ^ (value >> np.uint64(27))) * _TWO
    return value ^ (value >> np.uint64(31))

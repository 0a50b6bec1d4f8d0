"""The finaliser of SplitMix64 (Steele, Lea, Flood 2014) in plain Python and NumPy, which orders documents and samples.

`kernels.hash.splitmix` is the same for compiled loops; the loader does not need Numba.
"""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

GOLDEN = 0x9E3779B97F4A7C15
ALL = 2**64 - 1
_ONE, _TWO = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def mixed(value: int) -> int:
    """The hash of one number below 2^64."""
    value = (value ^ value >> 30) * _ONE & ALL
    value = (value ^ value >> 27) * _TWO & ALL
    return value ^ value >> 31


def mix_all(values: Array) -> Array:
    """The hashes of many numbers (uint64), in place."""
    values ^= values >> np.uint64(30)
    values *= np.uint64(_ONE)
    values ^= values >> np.uint64(27)
    values *= np.uint64(_TWO)
    values ^= values >> np.uint64(31)
    return values

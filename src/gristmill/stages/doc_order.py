"""An order of documents that is random and the same everywhere: by a hash of a seed and the doc_id."""

from typing import Any

import numpy as np
import pyarrow as pa

Array = np.ndarray[Any, Any]


def doc_order(doc_ids: pa.Array, seed: int) -> tuple[Array, Array]:
    """A hash of seed and doc_id (uint64), and a tie-breaker: the two together are different for each document."""
    data = np.frombuffer(doc_ids.buffers()[1] or b"", np.uint8)
    data = data[16 * doc_ids.offset : 16 * (doc_ids.offset + len(doc_ids))]
    halves = np.ascontiguousarray(data).view(">u8").reshape(-1, 2).astype(np.uint64)
    salt = _mixed(np.array([seed % 2**64], np.uint64) + np.uint64(0x9E3779B97F4A7C15))
    return _mixed(halves[:, 0] ^ _mixed(halves[:, 1] ^ salt)), halves[:, 1]


def _mixed(values: Array) -> Array:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014), one to one."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(values ^ (values >> np.uint64(31)))

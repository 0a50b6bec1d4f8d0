"""A random order of documents that is the same everywhere: sorted by a hash of the seed and the doc_id."""

from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.shardformat.splitmix import GOLDEN, mix_all, mixed
from gristmill.stages.buffers import fixed_bytes

Array = np.ndarray[Any, Any]


def doc_order(doc_ids: pa.Array, seed: int) -> tuple[Array, Array]:
    """A hash of seed and doc_id (uint64) and a tie-breaker. Together they are unique for each document."""
    halves = fixed_bytes(doc_ids).view(">u8").astype(np.uint64)
    salt = np.uint64(mixed((seed + GOLDEN) % 2**64))
    return mix_all(halves[:, 0] ^ mix_all(halves[:, 1] ^ salt)), halves[:, 1]

"""The scope in which a dedup stage searches for copies."""

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.stages.dedup.scope_words import Scope as Scope

Array = np.ndarray[Any, Any]

_COLUMNS: dict[Scope, tuple[str, ...]] = {
    "global": (),
    "snapshot": ("snapshot",),
    "source": ("source",),
    "source_and_snapshot": ("source", "snapshot"),
}


def scope_reads(scope: Scope) -> tuple[str, ...]:
    """The columns that determine the scope of a document."""
    return _COLUMNS[scope]


def scope_marks(batch: pa.RecordBatch, scope: Scope) -> Array:
    """128 bits per row that differ between scopes. XORed into hashes, they keep documents of two scopes apart."""
    marks = np.zeros((1, 2), np.uint64)
    place = np.zeros(batch.num_rows, np.int64)
    for name in _COLUMNS[scope]:
        column = batch.column(name).dictionary_encode(null_encoding="encode")
        values = column.dictionary.to_pylist()
        digests = b"".join(hashlib.blake2b(repr((name, value)).encode(), digest_size=16).digest() for value in values)
        marks = (marks[:, None, :] ^ np.frombuffer(digests, "<u8").reshape(1, -1, 2)).reshape(-1, 2)
        place = place * len(values) + column.indices.to_numpy(zero_copy_only=False)
    return marks[place]


def salts(batch: pa.RecordBatch, scope: Scope) -> Array:
    """64 bits (uint64) per row, the same within a scope and different between scopes."""
    return np.ascontiguousarray(scope_marks(batch, scope)[:, 0])

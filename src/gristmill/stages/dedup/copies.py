"""Shared code of the stages that search for equal URLs or texts: the records that are sent and the verdicts.

A URL or text is identified by 128 bits. The first half is the key of the exchange, and the second half is in the
record; both halves must be equal.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.kernels.dedup.keepers import keepers
from gristmill.stages.buffers import fixed_bytes, one_chunk
from gristmill.stages.contract import StageConfig
from gristmill.stages.dedup.scope import Scope, scope_marks, scope_reads
from gristmill.stages.shared.keep_order import ID_BYTES, RANK, KeepOrder, ranks
from gristmill.stages.shared.keep_order import reads as keep_reads

Array = np.ndarray[Any, Any]

RECORD_SCHEMA = pa.schema([("low", pa.uint64()), ("rank", RANK)])
"""`low`: the second half of the hash."""

_HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint8).reshape(256, 2)
_OF = np.frombuffer(b"of ", np.uint8)
_CHUNK = 1 << 24  # rows: their details, 35 bytes each, fit into one Arrow array of strings (2 GiB)


def reads(scope: Scope, order: KeepOrder) -> tuple[str, ...]:
    """The columns that a scope and a keep order need."""
    return tuple(dict.fromkeys((*scope_reads(scope), *keep_reads(order))))


def records(batch: pa.RecordBatch, hashes: Array, rows: Array, scope: Scope, order: KeepOrder) -> pa.RecordBatch:
    """The records of the given rows of a batch; `hashes` has two columns of uint64 for all rows of the batch."""
    here = hashes[rows] ^ scope_marks(batch, scope)[rows]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.ascontiguousarray(here[:, 0])),
            pa.array(rows, pa.int32()),
            pa.array(np.ascontiguousarray(here[:, 1])),
            ranks(batch, order).take(pa.array(rows)),
        ],
        names=["key", "row", *RECORD_SCHEMA.names],
    )


def verdicts(found: pa.Table, others: pa.Table | None, reason: str, count: str) -> pa.Table:
    """The number of equal records, in the column `count`, and a verdict on all of them but the best.

    `others`: the `summary` of equal records elsewhere.
    """
    if others is not None:
        found = pa.concat_tables([found, others], promote_options="default")
        found = found.take(pa.array(np.argsort(found["key"].to_numpy(), kind="stable")))
    found = found.combine_chunks()
    high, low = (np.asarray(found[name].to_numpy()) for name in ("key", "low"))
    order = fixed_bytes(one_chunk(found["rank"]))
    best, sizes = keepers(high, low, order)
    if others is not None:
        more = np.zeros(len(best), np.int32)
        np.add.at(more, best, found["times"].fill_null(1).to_numpy() - 1)
        sizes = sizes + more[best]
    lost = best != np.arange(len(best))
    answers = found.select(["part", "row"])
    answers = answers.append_column(count, pa.array(sizes))
    answers = answers.append_column("drop", pc.if_else(pa.array(lost), reason, pa.scalar(None, pa.string())))
    starts = range(0, max(len(best), 1), _CHUNK)
    details = [_of(order, best[start : start + _CHUNK], lost[start : start + _CHUNK]) for start in starts]
    answers = answers.append_column("detail", pa.chunked_array(details))
    return answers if others is None else answers.filter(answers["part"].is_valid())


def summary(found: pa.Table, config: StageConfig) -> pa.Table:
    """The best of each set of equal records, and the size of the set."""
    found = found.combine_chunks()
    high, low = (np.asarray(found[name].to_numpy()) for name in ("key", "low"))
    best, sizes = keepers(high, low, fixed_bytes(one_chunk(found["rank"])))
    kept = np.unique(best)
    found = found.select(["key", *RECORD_SCHEMA.names]).take(pa.array(kept))
    return found.append_column("times", pa.array(sizes[kept]))


def _of(order: Array, best: Array, lost: Array) -> pa.Array:
    """`of <doc_id in hexadecimal>` for rows that are dropped, else null."""
    ids = order[best[lost], -ID_BYTES:]
    text = np.empty((len(ids), len(_OF) + 2 * ID_BYTES), np.uint8)
    text[:, : len(_OF)] = _OF
    text[:, len(_OF) :] = _HEX[ids].reshape(len(ids), 2 * ID_BYTES)
    ends = np.zeros(len(lost) + 1, np.int32)
    np.cumsum(lost * text.shape[1], out=ends[1:], dtype=np.int32)
    valid = pa.py_buffer(np.packbits(lost, bitorder="little"))
    return pa.StringArray.from_buffers(len(lost), pa.py_buffer(ends), pa.py_buffer(text), valid, int((~lost).sum()))

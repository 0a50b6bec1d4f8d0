"""An exchange stage: of equal texts the one with the smallest id stays."""

import hashlib

import numpy as np
import pyarrow as pa

from gristmill.stages.contract import Exchange, StageConfig

RECORD_SCHEMA = pa.schema([("doc_id", pa.binary(16))])
SCHEMA = pa.schema([("drop", pa.string()), ("copies", pa.int32())])


class Config(StageConfig):
    """No settings."""


def emit(batch, config):
    texts = batch.column("text").to_pylist()
    keys = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") for text in texts]
    return pa.RecordBatch.from_arrays(
        [pa.array(keys, pa.uint64()), pa.array(np.arange(len(keys)), pa.int32()), batch.column("doc_id")],
        names=["key", "row", "doc_id"],
    )


def reduce(records, config):
    keys, ids = records["key"].to_pylist(), records["doc_id"].to_pylist()
    keepers, copies = {}, {}
    for key, doc_id in zip(keys, ids, strict=True):
        keepers[key] = min(keepers.get(key, doc_id), doc_id)
        copies[key] = copies.get(key, 0) + 1
    drop = [None if keepers[key] == doc_id else "duplicate" for key, doc_id in zip(keys, ids, strict=True)]
    answers = records.select(["part", "row"]).append_column("drop", pa.array(drop, pa.string()))
    return answers.append_column("copies", pa.array([copies[key] for key in keys], pa.int32()))


STAGE = Exchange(
    config=Config,
    reads=("text", "doc_id"),
    only_kept=True,
    schema=SCHEMA,
    record_schema=RECORD_SCHEMA,
    emit=emit,
    reduce=reduce,
)

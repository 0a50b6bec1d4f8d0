"""An exchange stage that ships its texts."""

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.stages.contract import Exchange, StageConfig

RECORD_SCHEMA = pa.schema([("text", pa.string())])
SCHEMA = pa.schema([("bytes_shipped", pa.int64())])


class Config(StageConfig):
    """No settings."""


def emit(batch, config):
    texts = batch.column("text")
    keys = [int.from_bytes(hashlib.sha256(text.as_buffer()).digest()[:8], "big") for text in texts]
    rows = pa.array(np.arange(len(texts)), pa.int32())
    return pa.RecordBatch.from_arrays([pa.array(keys, pa.uint64()), rows, texts], names=["key", "row", "text"])


def reduce(records, config):
    sizes = pc.binary_length(records["text"]).cast(pa.int64())
    return records.select(["part", "row"]).append_column("bytes_shipped", sizes)


STAGE = Exchange(config=Config, reads=("text",), schema=SCHEMA, record_schema=RECORD_SCHEMA, emit=emit, reduce=reduce)

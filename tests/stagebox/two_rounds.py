"""An exchange of two rounds: how many documents share a document's length class, by way of its first letter."""

import numpy as np
import pyarrow as pa

from gristmill.stages.contract import Exchange, StageConfig

RECORD_SCHEMA = pa.schema([("length", pa.int32())])
SCHEMA = pa.schema([("same_length", pa.int32())])
SPREAD = 2**64 // 256


class Config(StageConfig):
    """No settings."""


def emit(batch, config):
    texts = batch.column("text").to_pylist()
    keys = [text.encode()[0] * SPREAD for text in texts]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(keys, pa.uint64()),
            pa.array(np.arange(len(texts)), pa.int32()),
            pa.array([len(text) for text in texts], pa.int32()),
        ],
        names=["key", "row", "length"],
    )


def by_letter(records, config):
    keys = [length % 256 * SPREAD for length in records["length"].to_pylist()]
    return records.set_column(records.schema.get_field_index("key"), "key", pa.array(keys, pa.uint64()))


def reduce(records, config):
    lengths = records["length"].to_pylist()
    count = {length: lengths.count(length) for length in set(lengths)}
    return records.select(["part", "row"]).append_column(
        "same_length", pa.array([count[length] for length in lengths], pa.int32())
    )


STAGE = Exchange(
    config=Config,
    reads=("text",),
    only_kept=True,
    schema=SCHEMA,
    record_schema=RECORD_SCHEMA,
    emit=emit,
    reduce=reduce,
    rounds={"by_letter": by_letter},
)

"""A map stage whose metrics say how many bundles there will be."""

import pyarrow as pa

from gristmill.stages.contract import StageConfig

VERSION = 1
READS = ("text",)
ONLY_KEPT = True
SCHEMA = pa.schema([("weight", pa.int32())])


class Config(StageConfig):
    pass


def apply(batch, config):
    return pa.RecordBatch.from_arrays(
        [pa.array([len(text) for text in batch["text"].to_pylist()], pa.int32())], SCHEMA.names
    )


def metrics(batch, answers, config):
    return {"documents": batch.num_rows}

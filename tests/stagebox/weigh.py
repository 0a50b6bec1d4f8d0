"""A map stage whose metrics say how many bundles there will be."""

import pyarrow as pa

from gristmill.stages.contract import Map, StageConfig

SCHEMA = pa.schema([("weight", pa.int32())])


class Config(StageConfig):
    pass


def apply(batch, config):
    return pa.RecordBatch.from_arrays(
        [pa.array([len(text) for text in batch["text"].to_pylist()], pa.int32())], SCHEMA.names
    )


def metrics(batch, answers, config):
    return {"documents": batch.num_rows}


STAGE = Map(config=Config, reads=("text",), only_kept=True, schema=SCHEMA, apply=apply, metrics=metrics)

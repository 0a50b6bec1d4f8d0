"""A map stage that prints what it reads, as a step under construction does."""

import sys

import pyarrow as pa

from gristmill.stages.contract import Map, StageConfig

SCHEMA = pa.schema([("n", pa.int32())])


class Config(StageConfig):
    pass


def apply(batch, config):
    for text in batch.column("text").drop_null().to_pylist():
        print(text, file=sys.stderr, flush=True)
    return pa.RecordBatch.from_arrays([pa.array([0] * batch.num_rows, pa.int32())], schema=SCHEMA)


STAGE = Map(config=Config, reads=("text",), schema=SCHEMA, apply=apply)

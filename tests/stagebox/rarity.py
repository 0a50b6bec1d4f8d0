"""A map stage that uses the model of a fit stage."""

import json

import pyarrow as pa

from gristmill.stages.contract import Map, StageConfig

SCHEMA = pa.schema([("rarest", pa.int32())])


class Config(StageConfig):
    pass


def apply(batch, config, models):
    counts = dict(json.loads(models["vocabulary"].read_text()))
    rarest = [min((counts[word] for word in text.split()), default=0) for text in batch.column("text").to_pylist()]
    return pa.RecordBatch.from_arrays([pa.array(rarest, pa.int32())], schema=SCHEMA)


STAGE = Map(config=Config, uses=("vocabulary",), reads=("text",), only_kept=True, schema=SCHEMA, apply=apply)

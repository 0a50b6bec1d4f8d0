"""A map stage with a bug."""

import pyarrow as pa

from gristmill.stages.contract import Map, StageConfig

SCHEMA = pa.schema([("n", pa.int32())])


class Config(StageConfig):
    pass


def apply(batch, config):
    return batch.num_rows / 0


STAGE = Map(config=Config, reads=("text",), schema=SCHEMA, apply=apply)

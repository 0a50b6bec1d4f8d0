"""A map stage that waits until a pipe is opened for writing: a test decides when its task ends."""

import pyarrow as pa

from gristmill.stages.contract import Map, StageConfig

SCHEMA = pa.schema([("seen", pa.bool_())])


class Config(StageConfig):
    pipe: str
    """The named pipe."""


def apply(batch, config):
    with open(config.pipe):
        return pa.RecordBatch.from_arrays([pa.array([True] * batch.num_rows)], schema=SCHEMA)


STAGE = Map(version=1, config=Config, reads=("text",), schema=SCHEMA, apply=apply)

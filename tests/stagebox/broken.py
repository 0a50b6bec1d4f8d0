"""A map stage with a bug."""

import pyarrow as pa

from gristmill.stages.contract import StageConfig

VERSION = 1
READS = ("text",)
SCHEMA = pa.schema([("n", pa.int32())])


class Config(StageConfig):
    pass


def apply(batch, config):
    return batch.num_rows / 0

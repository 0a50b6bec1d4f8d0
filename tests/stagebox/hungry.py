"""A map stage that needs more memory than some jobs have: there it takes it, and waits for its end."""

import os
import signal

import pyarrow as pa

from gristmill.stages.contract import Map, StageConfig

SCHEMA = pa.schema([("seen", pa.bool_())])


class Config(StageConfig):
    megabytes: int
    """A job of Slurm that has less is too small."""


def apply(batch, config):
    if int(os.environ.get("SLURM_MEM_PER_NODE", 1 << 30)) < config.megabytes:
        _held = b"x" * (config.megabytes << 20)
        while True:
            signal.pause()
    return pa.RecordBatch.from_arrays([pa.array([True] * batch.num_rows)], schema=SCHEMA)


STAGE = Map(config=Config, reads=("text",), schema=SCHEMA, apply=apply)

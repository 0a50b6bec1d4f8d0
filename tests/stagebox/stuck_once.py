"""A map stage that never ends the first time: whoever sees the mark that it leaves can kill what runs it."""

import os
import signal

import pyarrow as pa

from gristmill.stages.contract import Map, StageConfig

SCHEMA = pa.schema([("seen", pa.bool_())])


class Config(StageConfig):
    mark: str
    """The file that it writes the id of its job to."""


def apply(batch, config):
    try:
        with open(f"{config.mark}.tmp", "x") as file:
            file.write(f"{os.environ.get('SLURM_ARRAY_JOB_ID')}_{os.environ.get('SLURM_ARRAY_TASK_ID')}")
    except FileExistsError:
        return pa.RecordBatch.from_arrays([pa.array([True] * batch.num_rows)], schema=SCHEMA)
    os.link(f"{config.mark}.tmp", config.mark)
    while True:
        signal.pause()


STAGE = Map(config=Config, reads=("text",), schema=SCHEMA, apply=apply)

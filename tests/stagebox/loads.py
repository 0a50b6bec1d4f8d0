"""A map stage that loads something once in each worker, and keeps a diary of it in a folder."""

import os
from pathlib import Path

import pyarrow as pa

from gristmill.stages.contract import Bytes, Map, Resources, StageConfig

SCHEMA = pa.schema([("seen", pa.bool_())])


class Config(StageConfig):
    diary: str
    memory: Bytes = 0
    gpus: int = 0


def resources(config, part_bytes):
    return Resources(memory=config.memory, gpus=config.gpus)


def setup(config):
    def write(word):
        with (Path(config.diary) / str(os.getpid())).open("a") as file:
            file.write(f"{word} {os.environ.get('CUDA_VISIBLE_DEVICES')}\n")

    write("load")
    yield write
    write("release")


def apply(batch, config, loaded):
    loaded("use")
    return pa.RecordBatch.from_arrays([pa.array([True] * batch.num_rows)], schema=SCHEMA)


STAGE = Map(version=1, config=Config, reads=("text",), schema=SCHEMA, resources=resources, setup=setup, apply=apply)

"""A map stage that decides on what another measured."""

import pyarrow as pa
import pyarrow.compute as pc

from gristmill.stages.contract import Map, StageConfig

SCHEMA = pa.schema([("drop", pa.string())])


class Config(StageConfig):
    chars: int = 5
    """Characters."""


def apply(batch, config):
    over = pc.fill_null(pc.greater(batch.column("length.chars"), config.chars), True)
    return pa.RecordBatch.from_arrays(
        [pc.if_else(over, pa.scalar(None, pa.string()), pa.scalar("not_longer"))], schema=SCHEMA
    )


STAGE = Map(version=1, config=Config, reads=("length.chars",), schema=SCHEMA, apply=apply)

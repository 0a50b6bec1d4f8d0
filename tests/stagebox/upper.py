"""A map stage that changes text and gives verdicts."""

import pyarrow as pa
import pyarrow.compute as pc

from gristmill.stages.contract import Map, StageConfig

SCHEMA = pa.schema([("text", pa.string()), ("drop", pa.string())])


class Config(StageConfig):
    min_chars: int = 10
    """Characters."""


def apply(batch, config):
    text = batch.column("text")
    short = pc.less(pc.fill_null(pc.utf8_length(text), 0), config.min_chars)
    drop = pc.if_else(short, pa.scalar("too_short"), pa.scalar(None, pa.string()))
    return pa.RecordBatch.from_arrays([pc.utf8_upper(text), drop], schema=SCHEMA)


STAGE = Map(version=1, config=Config, libraries=("pyarrow",), reads=("text",), schema=SCHEMA, apply=apply)

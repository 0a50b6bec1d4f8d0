"""A map stage that measures: its output must not depend on any threshold."""

import pyarrow as pa
import pyarrow.compute as pc

from gristmill.stages.contract import Map, StageConfig

SCHEMA = pa.schema([("chars", pa.int32())])


class Config(StageConfig):
    pass


def apply(batch, config):
    return pa.RecordBatch.from_arrays([pc.utf8_length(batch.column("text"))], schema=SCHEMA)


STAGE = Map(version=1, config=Config, reads=("text",), schema=SCHEMA, apply=apply)

"""A map stage that uses an asset: documents without a word of the list are dropped."""

import pyarrow as pa

from gristmill.stages.contract import Map, StageConfig

SCHEMA = pa.schema([("drop", pa.string())])


class Config(StageConfig):
    pass


def apply(batch, config, models):
    words = set(models["word_list"].read_text().split())
    drop = [None if words.intersection(text.split()) else "not_listed" for text in batch["text"].to_pylist()]
    return pa.RecordBatch.from_arrays([pa.array(drop, pa.string())], schema=SCHEMA)


STAGE = Map(config=Config, uses=("word_list",), reads=("text",), only_kept=True, schema=SCHEMA, apply=apply)

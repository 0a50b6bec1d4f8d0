"""Counts the tokens of each text with an existing tokenizer, for `keep_quality` with `by: tokens`.

The tokens themselves are not stored: later steps may still cut the text, and the corpus tokenizer may be trained on the
result.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.stages.contract import File, Map, StageConfig
from gristmill.stages.shards.tokens import open_tokenizer
from gristmill.stages.tokenizer.tokenizer_file import check_file

SCHEMA = pa.schema([("tokens", pa.int32())])


class Config(StageConfig):
    tokenizer: File
    """The tokenizer.json that counts; special tokens and ends of documents are not counted."""


def check(config: Config) -> None:
    check_file("tokenizer", config.tokenizer)


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    text = batch.column("text")
    _, offsets = open_tokenizer(config.tokenizer).encode(text)
    missing = text.is_null().to_numpy(zero_copy_only=False)
    return pa.RecordBatch.from_arrays([pa.array(np.diff(offsets).astype(np.int32), mask=missing)], schema=SCHEMA)


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    counts = answers.column("tokens").drop_null().to_numpy()
    return {"documents": len(counts), "tokens": int(counts.sum(dtype=np.int64))}


STAGE = Map(
    version=1,
    config=Config,
    libraries=("tokenizers",),
    reads=("text",),
    only_kept=True,
    schema=SCHEMA,
    apply=apply,
    metrics=metrics,
    check=check,
)

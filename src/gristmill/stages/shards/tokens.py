"""Encodes every document of the corpus once; whatever is done with the tokens later reads them from here.

`ids` holds the raw little-endian ids of a document, two bytes each where the vocabulary fits and otherwise four,
with the end-of-document token behind them, once. Text is text: the string of a special token in it is no special token.
"""

import warnings as python_warnings
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.stages.contract import Map, StageConfig
from gristmill.stages.shards.special_ids import special_ids

Array = np.ndarray[Any, Any]

SCHEMA = pa.schema([("ids", pa.large_binary()), ("tokens", pa.int64()), ("drop", pa.string())])

NOTHING = "no_tokens"
"""The verdict on a document without text."""


class Config(StageConfig):
    end_of_document: str | None = None
    """Special token behind every document; without one, the usual name that the tokenizer has."""
    library_may_encode: bool = False
    """Whether the tokenizer comes from elsewhere, so that `tokenizers` may have to encode; the recipe's loader says."""


def libraries(config: Config) -> tuple[str, ...]:
    """Our own encoder depends on none."""
    return ("tokenizers",) if config.library_may_encode else ()


def apply(batch: pa.RecordBatch, config: Config, models: Mapping[str, Path]) -> pa.RecordBatch:
    tokenizer = open_tokenizer(str(models["tokenizer"]))
    end, _ = special_ids(tokenizer, config.end_of_document, None)
    ids, offsets = tokenizer.encode(batch.column("text"))
    empty = np.diff(offsets) == 0
    ids, offsets = _with_ends(ids, offsets, empty, end)
    width = token_type(tokenizer.vocab_size)
    data = pa.py_buffer(ids.astype(width))
    places = pa.py_buffer((offsets * width.itemsize).astype(np.int64))
    column = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(empty), [None, places, data])
    counts = pa.array(np.diff(offsets), pa.int64(), mask=empty)
    drop = pa.array([NOTHING]).take(pa.array(np.zeros(len(empty), np.int8), mask=~empty))
    if empty.any():
        column = column.take(pa.array(np.arange(len(empty)), mask=empty))
    return pa.RecordBatch.from_arrays([column, counts, drop], schema=SCHEMA)


def token_type(vocab_size: int) -> np.dtype[Any]:
    """How an id lies on disk."""
    return np.dtype("<u2") if vocab_size <= 1 << 16 else np.dtype("<u4")


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """Documents and tokens, ends included."""
    counts = answers.column("tokens").drop_null().to_numpy()
    return {"documents": len(counts), "tokens": int(counts.sum())}


def _with_ends(ids: Array, offsets: Array, empty: Array, end: int) -> tuple[Array, Array]:
    """The ids with an end behind every text that has any."""
    starts = offsets + np.concatenate(([0], np.cumsum(~empty)))
    out = np.empty(starts[-1], np.uint32)
    is_end = np.zeros(len(out), np.bool_)
    is_end[starts[1:][~empty] - 1] = True
    out[is_end] = end
    out[~is_end] = ids
    return out, starts


@lru_cache(maxsize=2)
def open_tokenizer(path: str) -> Any:
    """The tokenizer, kept by the worker with what its cache has learnt; one of `count_tokens` beside it."""
    from gristmill.tokenizer.files import load  # only a worker needs the encoder

    with python_warnings.catch_warnings():
        python_warnings.simplefilter("ignore")  # that the library encodes is told at the end of the run
        return load(path, probe="once")


STAGE = Map(
    version=1,
    config=Config,
    libraries=libraries,
    reads=("text",),
    only_kept=True,
    uses=("tokenizer",),
    schema=SCHEMA,
    apply=apply,
    metrics=metrics,
)

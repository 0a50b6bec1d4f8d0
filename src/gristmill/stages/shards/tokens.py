"""Encodes every document of the corpus once; later steps read the tokens from this layer.

`ids` has the raw little-endian ids of a document, two bytes each if the vocabulary fits and otherwise four, followed by
one end-of-document token. The string of a special token in a text is encoded as plain text.
"""

import math
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
    """The special token after every document. null: the first usual name that the tokenizer has."""
    library_may_encode: bool = False
    """Whether `tokenizers` may have to encode, since we did not train the tokenizer; set by the recipe's loader."""


def libraries(config: Config) -> tuple[str, ...]:
    """Our own encoder depends on no library."""
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
    """The type of an id on disk."""
    return np.dtype("<u2") if vocab_size <= 1 << 16 else np.dtype("<u4")


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """Count the documents and tokens, including ends of documents."""
    counts = answers.column("tokens").drop_null().to_numpy()
    return {"documents": len(counts), "tokens": int(counts.sum())}


def _with_ends(ids: Array, offsets: Array, empty: Array, end: int) -> tuple[Array, Array]:
    """The ids with an end token after every text that is not empty."""
    starts = offsets + np.concatenate(([0], np.cumsum(~empty)))
    out = np.empty(starts[-1], np.uint32)
    is_end = np.zeros(len(out), np.bool_)
    is_end[starts[1:][~empty] - 1] = True
    out[is_end] = end
    out[~is_end] = ids
    return out, starts


@lru_cache(maxsize=2)
def open_tokenizer(path: str) -> Any:
    """The tokenizer, kept by the worker with its warm cache; `count_tokens` may need a second one."""
    from gristmill.tokenizer.files import load  # only a worker needs the encoder

    with python_warnings.catch_warnings():
        python_warnings.simplefilter("ignore")  # the run warns at its end if the library encodes
        return load(path, probe="once")


STAGE = Map(
    version=1,
    config=Config,
    libraries=libraries,
    reads=("text",),
    only_kept=True,
    uses=("tokenizer",),
    schema=SCHEMA,
    ranges={"tokens": (0, math.inf)},
    apply=apply,
    metrics=metrics,
)

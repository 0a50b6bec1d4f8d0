"""Chooses the documents that a quality model is trained on: so many bytes of each side, in the order of a hash.

The same exchange as that of the tokenizer's sample (tokenizer_sample.py), by side of a classifier in the place of
domains. What is held out is chosen later, by site: pages of one site are too much alike to judge each other.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any

import pyarrow as pa
from pydantic import Field

from gristmill.counted import counted
from gristmill.stages.contract import Bytes, Exchange, StageConfig
from gristmill.stages.tokenizer import tokenizer_sample
from gristmill.stages.tokenizer.tokenizer_sample import TRAIN


class Config(StageConfig):
    sample_bytes: Annotated[Bytes, Field(ge=1)]
    """Bytes of text of each side."""
    sides: dict[str, str]
    """The side of each source that has one; the recipe's loader fills it."""
    seed: int = 0
    """Another seed takes other documents."""


@lru_cache(maxsize=64)
def _by_side(sides: tuple[tuple[str, str], ...], sample_bytes: int, seed: int) -> tokenizer_sample.Config:
    budgets = {side: sample_bytes for _, side in sides}
    return tokenizer_sample.Config(sample_bytes=budgets, held_out_share=0, seed=seed, domains=dict(sides))


def _sampled(config: Config) -> tokenizer_sample.Config:
    return _by_side(tuple(config.sides.items()), config.sample_bytes, config.seed)


def emit(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    return tokenizer_sample.emit(batch, _sampled(config))


def tally(batch: pa.RecordBatch, records: pa.RecordBatch, config: Config) -> dict[str, Any]:
    return tokenizer_sample.tally(batch, records, _sampled(config))


def totals(counts: dict[str, Any], config: Config) -> dict[str, Any]:
    return tokenizer_sample.totals(counts, _sampled(config))


def reduce(records: pa.Table, config: Config, totals: dict[str, Any]) -> tuple[pa.Table, dict[str, Any]]:
    return tokenizer_sample.reduce(records, _sampled(config), totals)


def warnings(found: dict[str, Any], config: Config) -> Sequence[str]:
    """Sides of which there is nothing, or much less than asked for."""
    told = []
    for side in sorted(set(config.sides.values())):
        sources = ", ".join(name for name, other in config.sides.items() if other == side)
        counts = found.get("domains", {}).get(side)
        taken = counts[TRAIN]["bytes"] if counts else 0
        if counts is None:
            told.append(f"no text of {sources} is left to learn from ({side})")
        elif not taken:
            budget = counted(config.sample_bytes, "byte")
            told.append(f"no document of {sources} fits into {budget} ({side}). Raise sample_bytes")
    return told


def explain(config: Config) -> Sequence[str]:
    return [f"{side}: {config.sample_bytes:,} bytes" for side in sorted(set(config.sides.values()))]


STAGE = Exchange(
    version=1,
    config=Config,
    reads=tokenizer_sample.READS,
    only_kept=True,
    judges=False,
    record_schema=tokenizer_sample.RECORD_SCHEMA,
    schema=tokenizer_sample.SCHEMA,
    emit=emit,
    tally=tally,
    totals=totals,
    reduce=reduce,
    warnings=warnings,
    explain=explain,
)

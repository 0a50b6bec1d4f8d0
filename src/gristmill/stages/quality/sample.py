"""Samples the documents that a quality model is trained on: a number of bytes for each side, in the order of a hash.

The same exchange as for the tokenizer's sample (tokenizer_sample.py), with the sides of a classifier instead of
domains. Texts are held out later, by site, since pages of one site are too similar to test each other.
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
from gristmill.warned import Warnings


class Config(StageConfig):
    sample_bytes: Annotated[Bytes, Field(ge=1)]
    """Bytes of text for each side."""
    sides: dict[str, str]
    """The side of each source that has one; set by the recipe's loader."""
    seed: int = 0
    """Another seed samples other documents."""


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


def warnings(metrics: dict[str, Any], config: Config) -> Sequence[str]:
    messages = Warnings()
    for side in sorted(set(config.sides.values())):
        sources = ", ".join(name for name, other in config.sides.items() if other == side)
        counts = metrics.get("domains", {}).get(side)
        taken = counts[TRAIN]["bytes"] if counts else 0
        if counts is None:
            messages.add("no_text", f"there is no text of {sources} to train on ({side})")
        elif not taken:
            budget = counted(config.sample_bytes, "byte")
            messages.add(
                "sample_bytes", f"every document of {sources} is larger than {budget} ({side}). Raise sample_bytes"
            )
    return messages


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

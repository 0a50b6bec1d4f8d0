"""Drops documents that must not be trained on: by digests of known content, listed words, or the score of a classifier.

    listed_hash     hashes: its URL or text is on a list of digests; no part of it is ever shown
    unsafe_score    max_scores: a column of the step `quality` is above its limit
    unsafe_terms    max_blocked_share: at least min_blocked words inside the blocked terms of the step `signals`, and
                    more than this share of all words

The rules are applied in this order, and the first that a document fails gives the reason. Earlier steps measure what
the rules need, so another threshold measures nothing again. `detail` has numbers and names, never a term. Domains by
category are the `block_domains` of the step `gate`.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from gristmill.stages.contract import Count, Map
from gristmill.stages.natural_languages import LABEL
from gristmill.stages.scrub import safety_hashes
from gristmill.stages.shared.counting import found_in, languages_of
from gristmill.warned import Warnings

SCHEMA = pa.schema([("drop", pa.string()), ("detail", pa.string())])
BLOCKED, WORDS = "signals.blocked_tokens", "signals.words"

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Config(safety_hashes.Config):
    max_blocked_share: Share | None = None
    """Words inside blocked terms per word above which a document is dropped, 0 to 1; null: words are not judged."""
    min_blocked: Count = 3
    """The fewest words inside blocked terms for which a document is dropped."""
    max_scores: dict[str, Annotated[float, Field(ge=0, le=1000)]] = Field(default={})
    """Classifiers of the step `quality`, by their column, and the score above which a document is dropped."""

    @model_validator(mode="after")
    def _does_something(self) -> "Config":
        if self.hashes is None and self.max_blocked_share is None and not self.max_scores:
            raise ValueError("it has no rule, so it would keep everything; set hashes, max_blocked_share or max_scores")
        return self


def reads(config: Config) -> tuple[str, ...]:
    hashes = ("safety_hashes.withheld",) if config.hashes else ()
    counts = (BLOCKED, WORDS) if config.max_blocked_share is not None else ()
    return ("source", *hashes, *counts, *(f"quality.{name}" for name in config.max_scores))


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    drop = detail = pa.nulls(batch.num_rows, pa.string())
    for reason, hit, details in _rules(batch, config):
        mask = pc.and_(hit, drop.is_null())
        drop, detail = pc.if_else(mask, reason, drop), pc.if_else(mask, details, detail)
    return pa.RecordBatch.from_arrays([drop, detail], schema=SCHEMA)


def _rules(batch: pa.RecordBatch, config: Config) -> Iterator[tuple[str, pa.Array, pa.Array]]:
    """For each rule its reason, the rows that fail it, and their details."""
    if config.hashes:
        withheld = batch["safety_hashes.withheld"]
        yield "listed_hash", withheld.is_valid(), withheld
    for name, limit in config.max_scores.items():
        score = batch[f"quality.{name}"]
        # Both in float32: the float32 nearest to 0.8 is above 0.8.
        above = pc.greater(score, pa.scalar(np.float32(limit), pa.float32())).fill_null(False)
        rounded = pc.round(score.cast(pa.float64()), 4).cast(pa.string())
        yield "unsafe_score", above, pc.binary_join_element_wise(name, rounded, " ")
    if config.max_blocked_share is not None:
        yield "unsafe_terms", *_many_terms(batch, config)


def _many_terms(batch: pa.RecordBatch, config: Config) -> tuple[pa.Array, pa.Array]:
    blocked, words = (batch[name].fill_null(0).to_pylist() for name in (BLOCKED, WORDS))
    most = Fraction(repr(config.max_blocked_share))  # exact: 1 of 100 is not above 0.01
    hits = [
        some >= config.min_blocked and some * most.denominator > most.numerator * count
        for some, count in zip(blocked, words, strict=True)
    ]
    rows = zip(hits, blocked, words, languages_of(batch).to_pylist(), strict=True)
    details = [f"{some} of {count} words, {language}" if hit else None for hit, some, count, language in rows]
    return pa.array(hits, pa.bool_()), pa.array(details, pa.string())


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """`found`: dropped documents by reason, source and language."""
    dropped = ((row, (drop,)) for row, drop in enumerate(answers["drop"].to_pylist()) if drop is not None)
    return {"found": found_in(dropped, batch), "judged": batch.num_rows}


def warnings(found: dict[str, Any], config: Config) -> Sequence[str]:
    """Warns about rules that dropped no document."""
    messages = Warnings()
    for field, reason in (("max_blocked_share", "unsafe_terms"), ("max_scores", "unsafe_score")):
        limit = getattr(config, field)
        if limit not in (None, {}) and found.get("judged") and not found["dropped"].get(reason):
            messages.add("no_effect", f"{field} dropped no documents: none is above it")
    return messages


def highlights(batch: pa.RecordBatch, config: Config) -> tuple[()]:
    """The audit shows how each document begins: the terms are in the config of `signals`."""
    return ()


STAGE = Map(
    version=4,
    config=Config,
    reads=reads,
    may_read=(LABEL,),
    only_kept=True,
    prerequisites=("gristmill.stages.scrub.safety_hashes",),
    schema=SCHEMA,
    apply=apply,
    metrics=metrics,
    highlights=highlights,
    warnings=warnings,
)

"""All signals at once against datatrove's four heuristic filters, on the same texts and one core.

datatrove's filters run one after the other on each document, as in its pipeline (its cache of the last five tokenized
texts stays on), and their times are summed. They are slower, so they get only the first documents. Both are measured in
CPU time; ours is the best of five rounds.
"""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.inputs import measurement, texts
from gristmill.stages.measure.signals import Config, apply

LIMIT_BYTES = 16_000_000
PEER_BYTES = 1_500_000
ROUNDS = 5
PEER = "datatrove, gopher + c4 + fineweb filters"
SMALL: dict[str, object] = {"LIMIT_BYTES": 100_000, "PEER_BYTES": 10_000, "ROUNDS": 1}
"""The constants that set its size, for its test."""


def run(data: Path | None) -> Iterable[dict]:
    found = texts(data, LIMIT_BYTES)
    few = first(found, PEER_BYTES)
    apply(batch_of(few[:1]), Config())
    filters = peer_filters()
    rates: dict[str, float] = {}
    if filters:
        for judge in filters:
            judge(few[0])  # loads the tokenizer
        begun = time.process_time()
        for text in few:
            for judge in filters:
                judge(text)
        rates["peer"] = size_of(few) / (time.process_time() - begun) / 1e6
    yield measurement("signals.all_columns", rate_of(few), "MB/s, texts of the peer", PEER, rates.get("peer"))
    yield measurement("signals.all_columns_more_text", rate_of(found), "MB/s")


def first(found: list[str], limit_bytes: int) -> list[str]:
    """The first texts up to a total size; at least one."""
    total = 0
    for count, text in enumerate(found):
        total += len(text.encode())
        if total > limit_bytes:
            return found[: max(count, 1)]
    return found


def rate_of(found: list[str]) -> float:
    batch = batch_of(found)
    return size_of(found) / min(seconds(batch) for _ in range(ROUNDS)) / 1e6


def seconds(batch: pa.RecordBatch) -> float:
    begun = time.process_time()
    apply(batch, Config())
    return time.process_time() - begun


def size_of(found: list[str]) -> int:
    return sum(len(text.encode()) for text in found)


def batch_of(found: list[str]) -> pa.RecordBatch:
    return pa.record_batch({"text": pa.array(found, pa.string())})


def peer_filters() -> list[Callable[[str], object]]:
    """datatrove's filters with their published thresholds; none if datatrove or its tokenizer is not installed."""
    try:
        import spacy  # noqa: F401
        from datatrove.data import Document
        from datatrove.pipeline.filters import (
            C4QualityFilter,
            FineWebQualityFilter,
            GopherQualityFilter,
            GopherRepetitionFilter,
        )
    except ImportError:
        return []

    def judge(one: Any) -> Callable[[str], object]:
        return lambda text: one.filter(Document(text=text, id=""))

    kinds = (GopherRepetitionFilter, GopherQualityFilter, C4QualityFilter, FineWebQualityFilter)
    return [judge(kind()) for kind in kinds]

"""The last word on every row: the first step that dropped it and why, or nothing if the row is in the corpus.

The engine puts this step at the end of every route. It reads only verdicts and sizes, so it is cheap to run again,
and its metrics are the funnel: rows and bytes that each reason took first.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.stages.contract import StageConfig

VERSION = 1
LIBRARIES = ()
SCHEMA = pa.schema([("step", pa.string()), ("drop", pa.string())])


class Config(StageConfig):
    """The steps of one route."""

    steps: tuple[str, ...]
    """Names of the steps before this one, in order; a row belongs to the first that dropped it."""


def reads(config: Config) -> tuple[str, ...]:
    """The verdict of every step, the bytes that were read, and the bytes of text as they stand at the end."""
    return (*(f"{step}.drop" for step in config.steps), "ingest.text_bytes", "text_bytes")


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    step: Any = pa.nulls(batch.num_rows, pa.string())
    reason: Any = pa.nulls(batch.num_rows, pa.string())
    for index in range(len(config.steps) - 1, -1, -1):
        verdict = batch.column(index)
        step = pc.if_else(verdict.is_valid(), config.steps[index], step)
        reason = pc.coalesce(verdict, reason)
    return pa.RecordBatch.from_arrays([step, reason], schema=SCHEMA)


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """The funnel: what was read, what each step took first and for which reason, what is kept."""
    read_bytes = _sizes(batch.column(len(config.steps)))
    text_bytes = _sizes(batch.column(len(config.steps) + 1))
    kept = answers.column("drop").is_null().to_numpy(zero_copy_only=False)
    first: dict[str, dict[str, dict[str, int]]] = {}
    both = pa.table({"step": answers["step"], "reason": answers["drop"], "bytes": read_bytes})
    counted = both.filter(pa.array(~kept)).group_by(["step", "reason"]).aggregate([("bytes", "sum"), ([], "count_all")])
    for entry in counted.to_pylist():
        counts = {"rows": entry["count_all"], "bytes": entry["bytes_sum"]}
        first.setdefault(entry["step"], {})[entry["reason"]] = counts
    return {
        "funnel": {
            "read": {"rows": batch.num_rows, "bytes": int(read_bytes.sum())},
            "first": first,
            "kept": {
                "rows": int(kept.sum()),
                "bytes": int(read_bytes[kept].sum()),
                "text_bytes": int(text_bytes[kept].sum()),
            },
        }
    }


def _sizes(column: pa.Array) -> Any:
    return column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)


def warnings(found: dict[str, Any], config: Config) -> Sequence[str]:
    """A corpus of nothing is said aloud."""
    if found["funnel"]["read"]["rows"] and not found["funnel"]["kept"]["rows"]:
        return ("no document survived",)
    return ()

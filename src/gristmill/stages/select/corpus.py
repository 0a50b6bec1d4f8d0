"""The last word on every row: the first step that dropped it and why, or nothing if the row is in the corpus.

The engine puts this step at the end of every route. It reads only verdicts and sizes, so it is cheap to run again,
and its metrics are the funnel: rows and bytes that each reason took first; and, on a route with a step `language`, the
same rows by language.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.stages.contract import StageConfig
from gristmill.stages.natural_languages import LABEL
from gristmill.stages.select.keep_language import OTHER
from gristmill.stages.select.tally import NOTHING

VERSION = 1
LIBRARIES = ()
MAY_READ = (LABEL,)
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
        **({"languages": _languages(batch.column(LABEL), answers)} if LABEL in batch.schema.names else {}),
        "funnel": {
            "read": {"rows": batch.num_rows, "bytes": int(read_bytes.sum())},
            "first": first,
            "kept": {
                "rows": int(kept.sum()),
                "bytes": int(read_bytes[kept].sum()),
                "text_bytes": int(text_bytes[kept].sum()),
            },
        },
    }


def _sizes(column: pa.Array) -> Any:
    return column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)


def _languages(labels: pa.Array, answers: pa.RecordBatch) -> dict[str, Any]:
    """For each language the rows that were read, those that each step took first, and why, and those that are kept."""
    table = pa.table(
        {"label": labels.cast(pa.string()).fill_null(NOTHING), "step": answers["step"], "reason": answers["drop"]}
    )
    found: dict[str, Any] = {}
    for entry in table.group_by(["label", "step", "reason"]).aggregate([([], "count_all")]).to_pylist():
        rows, language = entry["count_all"], found.setdefault(entry["label"], {"read": 0, "kept": 0, "first": {}})
        language["read"] += rows
        if entry["step"] is None:
            language["kept"] += rows
        else:
            language["first"].setdefault(entry["step"], {})[entry["reason"]] = rows
    return found


MOST_OF_IT = 0.8
"""The share of a language or a source from which on a rule that takes it is told."""
FEWEST = 20
"""Documents that a rule must have seen before its share says anything."""


def warnings(found: dict[str, Any], config: Config) -> Sequence[str]:
    """A corpus of nothing is said aloud, and so is a rule that takes nearly all of a language or of the source."""
    funnel = found["funnel"]
    told = []
    if funnel["read"]["rows"] and not funnel["kept"]["rows"]:
        told.append("no document survived")
    rules = set()
    for label, counts in sorted(found.get("languages", {}).items()):
        for step, reason, rows, seen in _greedy(counts["read"], counts["first"], config) if label != NOTHING else ():
            rules.add((step, reason))
            told.append(
                f"{step} took {rows:,} of {seen:,} documents in {label} ({rows / seen:.0%}) for {reason}, so that "
                f"hardly any {label} is left. Read some of them (gristmill inspect --reason {reason}); if the rule "
                f"does not fit the language, change its threshold for {label} (by_language in heuristics), or stop "
                f"keeping {label}"
            )
    first = {step: {why: counts["rows"] for why, counts in some.items()} for step, some in funnel["first"].items()}
    for step, reason, rows, seen in _greedy(funnel["read"]["rows"], first, config):
        if (step, reason) not in rules:
            told.append(
                f"{step} took {rows:,} of {seen:,} documents of this source ({rows / seen:.0%}) for {reason}. Read "
                f"some of them (gristmill inspect --reason {reason}); if the rule does not fit the source, change it "
                "(by_source in heuristics), or give the source steps of its own"
            )
    return told


def _greedy(read: int, first: Mapping[str, Mapping[str, int]], config: Config) -> Iterator[tuple[str, str, int, int]]:
    """Rules that take most of what comes to them: step, reason, rows taken, rows that came.

    What is no document at all (the reader's verdicts) and what nobody asked to keep (other languages) does not count.
    """
    left = read - sum(first.get(config.steps[0], {}).values())
    for step in config.steps[1:]:
        taken = dict(first.get(step, {}))
        left -= taken.pop(OTHER, 0)
        for reason, rows in taken.items():
            if left >= FEWEST and rows > MOST_OF_IT * left:
                yield step, reason, rows, left
        left -= sum(taken.values())

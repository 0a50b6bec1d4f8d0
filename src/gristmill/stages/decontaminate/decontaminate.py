"""Drops documents that contain items of an eval suite, or cuts the items out of them, and records the evidence.

    eval_index      the suite and its search index (a file)
    eval_scan       the matches in each document
    eval_match      the matches that count, judged over all documents
    decontaminate   the verdict

A flag names the item, the rule, the share of the item that the document contains, and its position. All flags are in
`evidence`; the command line shows it with both texts side by side, and lists the items that were found.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from gristmill.counted import counted
from gristmill.kernels.text.snap_spans import snap_spans
from gristmill.stages.buffers import bytes_of
from gristmill.stages.contract import NOT_A_THRESHOLD, Bytes, Map
from gristmill.stages.decontaminate import eval_index, eval_match
from gristmill.stages.decontaminate.matching.evidence import MILLION, RULES
from gristmill.stages.decontaminate.matching.index import open_suite
from gristmill.stages.decontaminate.matching.units import PIECES
from gristmill.stages.decontaminate.suite.form import Item
from gristmill.stages.natural_languages import LABEL
from gristmill.stages.shared.counting import found_in
from gristmill.stages.shared.cut import FIELDS, SPAN_TYPE, cut, spans_of
from gristmill.warned import idle

CONTAMINATED = "eval_item"
NOTHING_LEFT = "all_text_contaminated"
FLAG = pa.struct(
    [
        ("benchmark", pa.string()),
        ("item", pa.string()),
        ("piece", pa.string()),
        ("rule", pa.string()),
        ("coverage", pa.float32()),
        ("whole", pa.bool_()),
        ("start", pa.int32()),
        ("stop", pa.int32()),
    ]
)
"""item: its id in the benchmark; start, stop: byte offsets in the text before this step."""
EVIDENCE = pa.field("evidence", pa.list_(pa.field("item", FLAG)))
_READ = "eval_match.evidence"
Array = np.ndarray[Any, Any]


class Config(eval_index.Config, eval_match.Config):
    action: Literal["drop", "cut"] = "drop"
    """drop: remove the document. cut: remove the matched text with a margin, and keep the rest."""
    margin_bytes: Annotated[Bytes, Field(le=10**6), NOT_A_THRESHOLD] = 200
    """cut: the bytes removed on both sides of a match, since the item may continue there in other words."""


def reads(config: Config) -> tuple[str, ...]:
    return (_READ, "source", "text") if config.action == "cut" else (_READ, "source")


def schema(config: Config) -> pa.Schema:
    if config.action == "cut":
        return pa.schema([EVIDENCE, *FIELDS])
    return pa.schema([EVIDENCE, ("drop", pa.string()), ("detail", pa.string())])


def apply(batch: pa.RecordBatch, config: Config, models: Mapping[str, Path]) -> pa.RecordBatch:
    """Return the evidence, with names instead of numbers, and the verdict."""
    items = open_suite(models["eval_index"]).items
    flags = [_flags(evidence or (), items) for evidence in batch.column(_READ).to_pylist()]
    columns: dict[str, pa.Array] = {}
    if config.action == "cut":
        columns = _cut(batch.column("text"), flags, config.margin_bytes)
    else:
        columns["drop"] = pa.array([CONTAMINATED if found else None for found in flags], pa.string())
        columns["detail"] = pa.array([_detail(found) for found in flags], pa.string())
    columns["evidence"] = pa.array([found or None for found in flags], EVIDENCE.type)
    output = schema(config)
    return pa.RecordBatch.from_arrays([columns[name] for name in output.names], schema=output)


def _flags(evidence: Sequence[Mapping[str, Any]], items: Mapping[int, Item]) -> list[dict[str, Any]]:
    """One flag for each span, item, piece and rule. If several spellings of a piece match, the best one is kept."""
    flags: dict[tuple[Any, ...], dict[str, Any]] = {}
    for finding in evidence:
        item, spans = items[finding["item"]], finding["spans"]
        for start, stop in zip(spans[::2], spans[1::2], strict=True):
            flag = {
                "benchmark": item.benchmark,
                "item": item.id,
                "piece": PIECES[finding["piece"]],
                "rule": RULES[finding["rule"]],
                "coverage": finding["share"] / MILLION,
                "whole": finding["whole"],
                "start": start,
                "stop": stop,
            }
            key = (item.benchmark, item.id, finding["piece"], finding["rule"], start, stop)
            flags[key] = max(flags.get(key, flag), flag, key=lambda other: (other["whole"], other["coverage"]))
    return sorted(flags.values(), key=lambda flag: tuple(flag.values()))


def _detail(flags: Sequence[Mapping[str, Any]]) -> str | None:
    """Describe the flag with the largest share of an item, and count the other items."""
    if not flags:
        return None
    best = max(flags, key=lambda flag: (flag["whole"], flag["coverage"], flag["benchmark"], flag["item"]))
    items = {(flag["benchmark"], flag["item"]) for flag in flags}
    more = f" and {counted(len(items) - 1, 'other item')}" if len(items) > 1 else ""
    share = f"{100 * best['coverage']:.0f}% of the {best['piece']}, {best['rule']}"
    return f"{best['benchmark']} {best['item']}: {share}{more}"


def _at_words(text: Array, start: int, stop: int, margin: int) -> tuple[int, int]:
    """The span to cut for a match: the match and a margin on both sides, without splitting a word."""
    low, high = max(start - margin, 0), min(stop + margin, len(text))
    before, after = np.flatnonzero(text[low:start] <= 32), np.flatnonzero(text[stop:high] <= 32)
    if low > 0 and len(before):
        low += int(before[0])
    if high < len(text) and len(after):
        high = stop + int(after[-1])
    return low, high


def _cut(text: pa.Array, flags: Sequence[Sequence[Mapping[str, Any]]], margin: int) -> dict[str, pa.Array]:
    data, offsets = bytes_of(text)
    flagged = [(row, one["start"], one["stop"]) for row, found in enumerate(flags) for one in found]
    rows = np.array([row for row, _, _ in flagged], np.int64)
    removed = [_at_words(data[offsets[row] : offsets[row + 1]], start, stop, margin) for row, start, stop in flagged]
    starts, stops = (np.array([one[side] for one in removed], np.int64) for side in (0, 1))
    spans = spans_of(rows, starts, stops, len(text))
    firsts = spans.offsets.to_numpy().astype(np.int64)
    firsts, bounds = snap_spans(data, offsets, firsts, spans.flatten().to_numpy(), False)
    snapped = pa.ListArray.from_arrays(pa.array(firsts.astype(np.int32)), pa.array(bounds)).cast(SPAN_TYPE)
    return cut(text, snapped, NOTHING_LEFT)


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """Count documents per benchmark and flags per rule. `found` counts the documents that are dropped, or cut for a
    benchmark, by source and language.
    """
    documents: Counter[str] = Counter()
    rules: Counter[str] = Counter()
    kinds: list[tuple[int, list[str]]] = []
    drops = answers.column("drop").to_pylist()
    for row, flags in enumerate(answers.column("evidence").to_pylist()):
        benchmarks = sorted({flag["benchmark"] for flag in flags or ()})
        kinds.append((row, [drops[row]] if benchmarks and drops[row] else benchmarks))
        documents.update(benchmarks)
        rules.update(flag["rule"] for flag in flags or ())
    return {
        "documents_seen": batch.num_rows,
        "benchmarks": dict(documents),
        "flags": dict(rules),
        "found": found_in(kinds, batch),
    }


def warnings(found: Mapping[str, Any], config: Config) -> Sequence[str]:
    return idle(
        found.get("documents_seen"),
        found.get("benchmarks"),
        "no document was flagged for an item of the suite. `gristmill suite touched` lists the matches ignored as "
        "common phrases (common_documents); to test the suite, put one of its items into a document",
    )


def highlights(batch: pa.RecordBatch, config: Config) -> list[tuple[int, int, int, str]]:
    """The matched spans, each with its benchmark."""
    return [
        (row, flag["start"], flag["stop"], flag["benchmark"])
        for row, found in enumerate(batch.column("evidence").to_pylist())
        for flag in found or ()
    ]


STAGE = Map(
    version=2,
    config=Config,
    reads=reads,
    may_read=(LABEL,),
    only_kept=True,
    uses=("eval_index",),
    prerequisites=(
        "gristmill.stages.decontaminate.eval_index",
        "gristmill.stages.decontaminate.eval_scan",
        "gristmill.stages.decontaminate.eval_match",
    ),
    schema=schema,
    apply=apply,
    metrics=metrics,
    matched=("evidence",),
    highlights=highlights,
    check=eval_index.check,
    warnings=warnings,
)

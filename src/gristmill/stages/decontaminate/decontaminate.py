"""Documents that hold items of an eval suite: dropped, or the items cut out of them; with evidence for every one.

    eval_suite, eval_index, eval_index_new   the suite, and what is looked for (files)
    eval_scan, eval_scan_new                 what each document holds
    eval_match                               what of it counts, seen over all documents
    decontaminate                            the verdict

A flag is a document, an item, the rule, the share of the item that is there, and where; all in `evidence`. `gristmill
inspect` shows the evidence, both texts side by side, `gristmill suite touched` the items that were met.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from gristmill.counted import counted
from gristmill.kernels.text.snap_spans import snap_spans
from gristmill.stages.buffers import bytes_of
from gristmill.stages.contract import Bytes, Map
from gristmill.stages.decontaminate import eval_index, eval_match, eval_suite
from gristmill.stages.decontaminate.eval_suite import Opened, open_suite
from gristmill.stages.decontaminate.matching.findings import MILLION, RULES
from gristmill.stages.decontaminate.matching.units import PIECES
from gristmill.stages.natural_languages import LABEL
from gristmill.stages.shared.cut import FIELDS, SPANS, cut, spans_of
from gristmill.stages.shared.tally import NOTHING

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
"""item: its id in the benchmark; start, stop: bytes of the text before this step."""
EVIDENCE = pa.field("evidence", pa.list_(pa.field("item", FLAG)))
_READ = "eval_match.evidence"
Array = np.ndarray[Any, Any]


class Config(eval_index.Config, eval_match.Config):
    action: Literal["drop", "cut"] = "drop"
    """drop: the document goes; cut: what is of an item goes, with a margin, and the rest stays."""
    margin_bytes: Annotated[Bytes, Field(le=10**6)] = 200
    """Cut: text on both sides of a hit that goes with it, as the item may go on there in other words."""


def check(config: Config) -> None:
    eval_suite.check(config)


def reads(config: Config) -> tuple[str, ...]:
    return (_READ, "source", "text") if config.action == "cut" else (_READ, "source")


def schema(config: Config) -> pa.Schema:
    if config.action == "cut":
        return pa.schema([EVIDENCE, *FIELDS])
    return pa.schema([EVIDENCE, ("drop", pa.string()), ("detail", pa.string())])


def apply(batch: pa.RecordBatch, config: Config, models: Mapping[str, Path]) -> pa.RecordBatch:
    """Evidence with names, and the verdict."""
    suite = open_suite(models["eval_suite"])
    flags = [_flags(found or (), suite) for found in batch.column(_READ).to_pylist()]
    columns: dict[str, pa.Array] = {}
    if config.action == "cut":
        columns = _cut(batch.column("text"), flags, config.margin_bytes)
    else:
        columns["drop"] = pa.array([CONTAMINATED if found else None for found in flags], pa.string())
        columns["detail"] = pa.array([_told(found) for found in flags], pa.string())
    columns["evidence"] = pa.array([found or None for found in flags], EVIDENCE.type)
    made = schema(config)
    return pa.RecordBatch.from_arrays([columns[name] for name in made.names], schema=made)


def _flags(found: Sequence[Mapping[str, Any]], suite: Opened) -> list[dict[str, Any]]:
    """One for each stretch, item, piece and rule: spellings of a piece that were found there are told by the best."""
    flags: dict[tuple[Any, ...], dict[str, Any]] = {}
    for one in found:
        item = suite.items[one["item"]].item
        spans = one["spans"]
        for start, stop in zip(spans[::2], spans[1::2], strict=True):
            flag = {
                "benchmark": item.benchmark,
                "item": item.id,
                "piece": PIECES[one["piece"]],
                "rule": RULES[one["rule"]],
                "coverage": one["share"] / MILLION,
                "whole": one["whole"],
                "start": start,
                "stop": stop,
            }
            key = (item.benchmark, item.id, one["piece"], one["rule"], start, stop)
            if key not in flags or _strength(flags[key]) < _strength(flag):
                flags[key] = flag
    return sorted(flags.values(), key=lambda flag: tuple(flag.values()))


def _strength(flag: Mapping[str, Any]) -> tuple[bool, float]:
    return flag["whole"], flag["coverage"]


def _told(flags: Sequence[Mapping[str, Any]]) -> str | None:
    """The flag with the most of an item, and how many other items there are."""
    if not flags:
        return None
    best = max(flags, key=lambda flag: (flag["whole"], flag["coverage"], flag["benchmark"], flag["item"]))
    items = {(flag["benchmark"], flag["item"]) for flag in flags}
    more = f" and {counted(len(items) - 1, 'other item')}" if len(items) > 1 else ""
    share = f"{100 * best['coverage']:.0f}% of the {best['piece']}, {best['rule']}"
    return f"{best['benchmark']} {best['item']}: {share}{more}"


def _at_words(text: Array, start: int, stop: int, margin: int) -> tuple[int, int]:
    """What goes of a text with a hit: a margin on both sides, as far as no word is cut in two."""
    low, high = max(start - margin, 0), min(stop + margin, len(text))
    before, behind = np.flatnonzero(text[low:start] <= 32), np.flatnonzero(text[stop:high] <= 32)
    if low > 0 and len(before):
        low += int(before[0])
    if high < len(text) and len(behind):
        high = stop + int(behind[-1])
    return low, high


def _cut(text: pa.Array, flags: Sequence[Sequence[Mapping[str, Any]]], margin: int) -> dict[str, pa.Array]:
    data, offsets = bytes_of(text)
    placed = [(row, one["start"], one["stop"]) for row, found in enumerate(flags) for one in found]
    rows = np.array([row for row, _, _ in placed], np.int64)
    going = [_at_words(data[offsets[row] : offsets[row + 1]], start, stop, margin) for row, start, stop in placed]
    starts, stops = (np.array([one[side] for one in going], np.int64) for side in (0, 1))
    spans = spans_of(rows, starts, stops, len(text))
    firsts = spans.offsets.to_numpy().astype(np.int64)
    firsts, bounds = snap_spans(data, offsets, firsts, spans.flatten().to_numpy(), False)
    snapped = pa.ListArray.from_arrays(pa.array(firsts.astype(np.int32)), pa.array(bounds)).cast(SPANS)
    return cut(text, snapped, NOTHING_LEFT)


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """Documents with items of each benchmark, and flags by rule; `found`: documents that are dropped, or cut by the
    items of a benchmark, by source and language.
    """
    documents: dict[str, int] = {}
    rules: dict[str, int] = {}
    told: dict[str, dict[str, dict[str, int]]] = {}
    languages = batch.column(LABEL).to_pylist() if LABEL in batch.schema.names else [None] * batch.num_rows
    drops, sources = answers.column("drop").to_pylist(), batch.column("source").to_pylist()
    for row, found in enumerate(answers.column("evidence").to_pylist()):
        for kind in sorted({drops[row] or flag["benchmark"] for flag in found or ()}):
            of_source = told.setdefault(kind, {}).setdefault(sources[row], {})
            of_source[languages[row] or NOTHING] = of_source.get(languages[row] or NOTHING, 0) + 1
        for benchmark in sorted({flag["benchmark"] for flag in found or ()}):
            documents[benchmark] = documents.get(benchmark, 0) + 1
        for flag in found or ():
            rules[flag["rule"]] = rules.get(flag["rule"], 0) + 1
    return {"documents_seen": batch.num_rows, "benchmarks": documents, "flags": rules, "found": told}


def warnings(found: Mapping[str, Any], config: Config) -> Sequence[str]:
    if found.get("documents_seen") and not found.get("benchmarks"):
        return (
            "no document was flagged for an item of the suite. That may be so; `gristmill suite touched` tells what "
            "was let go because more than common_documents have it; put an item into a document to see it found",
        )
    return ()


def highlights(batch: pa.RecordBatch, config: Config) -> list[tuple[int, int, int, str]]:
    """What is of an item, with its benchmark."""
    return [
        (row, flag["start"], flag["stop"], flag["benchmark"])
        for row, found in enumerate(batch.column("evidence").to_pylist())
        for flag in found or ()
    ]


STAGE = Map(
    version=1,
    config=Config,
    reads=reads,
    may_read=(LABEL,),
    only_kept=True,
    uses=("eval_suite",),
    prerequisites=(
        "gristmill.stages.decontaminate.eval_suite",
        "gristmill.stages.decontaminate.eval_index",
        "gristmill.stages.decontaminate.eval_index_new",
        "gristmill.stages.decontaminate.eval_scan",
        "gristmill.stages.decontaminate.eval_scan_new",
        "gristmill.stages.decontaminate.eval_match",
    ),
    schema=schema,
    apply=apply,
    metrics=metrics,
    matched=("evidence",),
    highlights=highlights,
    check=check,
    warnings=warnings,
)

"""Drops documents that contain items of an eval suite, and records the evidence.

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
from typing import Any

import pyarrow as pa

from gristmill.counted import counted
from gristmill.stages.contract import Map
from gristmill.stages.decontaminate import eval_index, eval_match
from gristmill.stages.decontaminate.matching.evidence import MILLION, RULES
from gristmill.stages.decontaminate.matching.index import open_suite
from gristmill.stages.decontaminate.matching.units import PIECES
from gristmill.stages.decontaminate.suite.form import Item
from gristmill.stages.natural_languages import LABEL
from gristmill.stages.shared.counting import found_in
from gristmill.warned import idle

CONTAMINATED = "eval_item"
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
"""item: its id in the benchmark; start, stop: byte offsets in the text."""
_READ = "eval_match.evidence"
SCHEMA = pa.schema([("evidence", pa.list_(pa.field("item", FLAG))), ("drop", pa.string()), ("detail", pa.string())])


class Config(eval_index.Config, eval_match.Config):
    """The settings of all parts."""


def apply(batch: pa.RecordBatch, config: Config, models: Mapping[str, Path]) -> pa.RecordBatch:
    """Return the evidence, with names instead of numbers, and the verdict."""
    items = open_suite(models["eval_index"]).items
    flags = [_flags(evidence or (), items) or None for evidence in batch.column(_READ).to_pylist()]
    drops = [found and CONTAMINATED for found in flags]
    details = [found and _detail(found) for found in flags]
    return pa.RecordBatch.from_pydict({"evidence": flags, "drop": drops, "detail": details}, schema=SCHEMA)


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


def _detail(flags: Sequence[Mapping[str, Any]]) -> str:
    """Describe the flag with the largest share of an item, and count the other items."""
    best = max(flags, key=lambda flag: (flag["whole"], flag["coverage"], flag["benchmark"], flag["item"]))
    items = {(flag["benchmark"], flag["item"]) for flag in flags}
    more = f" and {counted(len(items) - 1, 'other item')}" if len(items) > 1 else ""
    share = f"{100 * best['coverage']:.0f}% of the {best['piece']}, {best['rule']}"
    return f"{best['benchmark']} {best['item']}: {share}{more}"


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """Count documents per benchmark and flags per rule, and the dropped documents by source and language."""
    documents: Counter[str] = Counter()
    rules: Counter[str] = Counter()
    drops: list[tuple[int, list[str]]] = []
    for row, flags in enumerate(answers.column("evidence").to_pylist()):
        documents.update({flag["benchmark"] for flag in flags or ()})
        rules.update(flag["rule"] for flag in flags or ())
        drops.append((row, [CONTAMINATED] if flags else []))
    return {
        "documents_seen": batch.num_rows,
        "benchmarks": dict(documents),
        "flags": dict(rules),
        "found": found_in(drops, batch),
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
    version=3,
    config=Config,
    reads=(_READ, "source"),
    may_read=(LABEL,),
    only_kept=True,
    uses=("eval_index",),
    prerequisites=(
        "gristmill.stages.decontaminate.eval_index",
        "gristmill.stages.decontaminate.eval_scan",
        "gristmill.stages.decontaminate.eval_match",
    ),
    schema=SCHEMA,
    apply=apply,
    metrics=metrics,
    matched=("evidence",),
    highlights=highlights,
    check=eval_index.check,
    warnings=warnings,
)

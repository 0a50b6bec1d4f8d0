"""Decides which findings count, over all documents: words in many documents are a phrase, not a copy of an item.

GPT-3 (Brown et al. 2020, appendix C) ignored 13-grams that occur in more than ten documents, and so missed items that
leaked often. Here a unit that occurs in more documents must carry more information (words.py): a finding with ENOUGH
letters of it counts in up to `common_documents` documents, one with DOUBLES letters more in twice as many, and so on. A
line of forty letters is flagged in up to 2,560 documents, a long question in any number. Documents with the whole item
(question and answer, or half of the choices, or the code) are not counted, and are always flagged.

    emit     sends the findings of each document to their item
    by_item  counts the documents of each unit, and judges their findings
    reduce   collects the evidence of each document
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from gristmill.counted import counted
from gristmill.stages.buffers import changes
from gristmill.stages.contract import AsCount, Exchange, StageConfig
from gristmill.stages.decontaminate.eval_scan import HIT, SPAN_TYPE
from gristmill.stages.decontaminate.matching.evidence import EXACT, FUZZY, MILLION
from gristmill.stages.decontaminate.matching.index import open_suite
from gristmill.stages.decontaminate.matching.words import ENOUGH

_HIT = [field for field in HIT if field.name != "item"]
RECORD_SCHEMA = pa.schema([*_HIT, ("name", pa.string())])
"""key: the item; name: the benchmark and id of the item."""
EVIDENCE = pa.struct(
    [
        ("item", pa.uint64()),
        ("piece", pa.uint8()),
        ("rule", pa.uint8()),
        ("whole", pa.bool_()),
        ("share", pa.uint32()),
        ("spans", SPAN_TYPE),
    ]
)
SCHEMA = pa.schema([("evidence", pa.list_(pa.field("item", EVIDENCE)))])
DOUBLES = 4
"""Letters of information that make a finding count in twice as many documents."""
NAMED = 5
"""Items that a warning names."""
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class Config(StageConfig):
    coverage: Annotated[float, Field(gt=0, le=1)] = 0.8
    """The share of an item's n-grams, among those that count, that flags a document."""
    common_documents: Annotated[int, AsCount, Field(ge=1)] = 10
    """How many documents may have a short everyday question before it is ignored as a phrase; longer ones may occur
    more often (docs/decontaminate.md). Documents that have the item with its answer are not counted."""


def emit(batch: pa.RecordBatch, config: Config, models: Mapping[str, Path]) -> pa.RecordBatch:
    """Send the findings of each document to their items."""
    items = open_suite(models["eval_index"]).items
    column = batch.column(0)
    hits = pc.list_flatten(column)
    keys = pc.struct_field(hits, "item")
    named = [items[key] for key in keys.to_pylist()]
    columns = {
        "key": keys,
        "row": pc.list_parent_indices(column).cast(pa.int64()),
        **{field.name: pc.struct_field(hits, field.name) for field in _HIT},
        "name": pa.array([f"{item.benchmark} {item.id}" for item in named], pa.string()),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _units(records: pa.Table, coverage: float) -> Counter[tuple[int, int]]:
    """In how many documents without the whole item each unit (of an item, by number) is."""
    share, alike, rule = (records.column(name).to_numpy() for name in ("share", "alike", "rule"))
    counts = (alike > 0) | (rule == EXACT) | (share >= round(coverage * MILLION))
    found = records.filter(pa.array(counts & ~records.column("whole").to_numpy()))
    return Counter(zip(found.column("key").to_pylist(), found.column("unit").to_pylist(), strict=True))


def by_item(records: pa.Table, config: Config, others: pa.Table | None = None) -> tuple[pa.Table, dict[str, Any]]:
    """Send the findings that count to their documents; also count the findings of each item ignored as phrases."""
    documents = _units(records, config.coverage)
    for other in [] if others is None else others.to_pylist():
        documents[other["key"], other["unit"]] += other["documents"]
    needed = round(config.coverage * MILLION)
    kept, shares, rules = [], [], []
    ignored: Counter[str] = Counter()
    columns = ("key", "unit", "rule", "whole", "share", "alike", "information", "name")
    rows = zip(*(records.column(name).to_pylist() for name in columns), strict=True)
    for row, (key, unit, rule, whole, share, alike, letters, name) in enumerate(rows):
        is_verbatim = rule != FUZZY and share >= needed
        if not is_verbatim and not alike:
            continue
        if whole or documents[key, unit] <= _most_documents(letters, config.common_documents):
            kept.append(row)
            shares.append(share if is_verbatim else alike)
            rules.append(rule if is_verbatim else FUZZY)
        else:
            ignored[name] += 1
    sent = records.select(["part", "row", "key", "piece", "whole", "spans"]).take(pa.array(kept, pa.int64()))
    sent = sent.rename_columns(["part", "row", "item", "piece", "whole", "spans"])
    part, row_of = sent.column("part").to_numpy(), sent.column("row").to_numpy().astype(np.uint64)
    sent = sent.append_column("rule", pa.array(rules, pa.uint8())).append_column("share", pa.array(shares, pa.uint32()))
    sent = sent.append_column("key", pa.array((part ^ (row_of * _SPREAD)) * _SPREAD))
    return sent, {"findings": records.num_rows, "let_go_as_phrases": ignored.total(), "let_go_items": dict(ignored)}


def warnings(found: Mapping[str, Any], config: Config) -> Sequence[str]:
    items = found.get("let_go_items", {})
    if not items:
        return ()
    most = sorted(items, key=lambda name: (-items[name], name))
    more = f" and {counted(len(items) - NAMED, 'other item')}" if len(items) > NAMED else ""
    return (
        f"{counted(found['let_go_as_phrases'], 'finding was', 'findings were')} ignored as common phrases, since many "
        f"documents have the same words: {', '.join(most[:NAMED])}{more}. `gristmill suite touched` lists them all; "
        "raise common_documents to flag them",
    )


def _most_documents(letters: int, common: int) -> int:
    """The most documents in which a finding with this much information counts."""
    twice, rest = divmod(max(letters - ENOUGH, 0), DOUBLES)
    return (common << min(twice, 64)) * (DOUBLES + rest) // DOUBLES


def in_short(records: pa.Table, config: Config) -> pa.Table:
    """In how many documents each unit is."""
    documents = _units(records, config.coverage)
    keys, units = ([unit[at] for unit in documents] for at in (0, 1))
    columns = [pa.array(keys, pa.uint64()), pa.array(units, pa.uint32()), pa.array(documents.values(), pa.int64())]
    return pa.table(columns, names=["key", "unit", "documents"])


def reduce(records: pa.Table, config: Config) -> pa.Table:
    """The evidence of each document, sorted by item, piece and rule."""
    names = EVIDENCE.names
    ordered = records.sort_by(
        [(name, "ascending") for name in ("part", "row", "item", "piece", "rule", "share", "whole")]
    )
    part, row = (ordered.column(name).to_numpy() for name in ("part", "row"))
    begins = changes(part, row)
    offsets = np.append(np.flatnonzero(begins), len(part)).astype(np.int32)
    values = pa.StructArray.from_arrays(
        [ordered.column(name).combine_chunks() for name in names], fields=list(EVIDENCE)
    )
    lists = pa.ListArray.from_arrays(pa.array(offsets), values).cast(SCHEMA.field("evidence").type)
    return pa.table({"part": pa.array(part[begins]), "row": pa.array(row[begins]), "evidence": lists})


STAGE = Exchange(
    version=4,
    config=Config,
    reads=("eval_scan.hits",),
    only_kept=True,
    judges=False,
    uses=("eval_index",),
    record_schema=RECORD_SCHEMA,
    schema=SCHEMA,
    emit=emit,
    rounds={"by_item": by_item},
    reduce=reduce,
    summaries={"by_item": in_short},
    warnings=warnings,
)

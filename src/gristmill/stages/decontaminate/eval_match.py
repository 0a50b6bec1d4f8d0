"""Decides which findings count, over all documents: an n-gram in many documents is a phrase, not a copy of an item.

GPT-3 (Brown et al. 2020, appendix C) ignored 13-grams that occur in more than ten documents, and so missed items that
leaked often. Here a unit that occurs in more documents must carry more information (words.py): a finding with ENOUGH
letters of it counts in up to `common_documents` documents, one with DOUBLES letters more in twice as many, and so on. A
line of forty letters is flagged in up to 2,560 documents, a long question in any number. Documents with the whole item
(question and answer, or half of the choices, or the code) are not counted, and are always flagged.

    emit     sends the findings of each document to their item
    by_item  gives n-grams less weight the more documents have them, and compares the rest with `coverage`
    reduce   collects the evidence of each document
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from gristmill.counted import counted
from gristmill.stages.buffers import changes
from gristmill.stages.contract import AsCount, Exchange, StageConfig
from gristmill.stages.decontaminate.eval_scan import HIT, SPAN_TYPE
from gristmill.stages.decontaminate.matching.evidence import EXACT, FUZZY, MILLION, NGRAM
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
LEFT = 5
"""A unit is ignored if fewer than one in five of its n-grams are uncommon."""
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
Array = np.ndarray[Any, Any]


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


class _Tally(NamedTuple):
    """How many documents without the whole item have a unit, and each of its n-grams."""

    units: int
    ngrams: Array

    def __add__(self, other: "_Tally") -> "_Tally":  # type: ignore[override]
        if not len(self.ngrams) or not len(other.ngrams):
            return _Tally(self.units + other.units, self.ngrams if len(self.ngrams) else other.ngrams)
        return _Tally(self.units + other.units, self.ngrams + other.ngrams)


_Unit = tuple[int, int]
"""The numbers of an item and of a unit."""


class _FindingRows:
    """The columns of the records as Python lists."""

    def __init__(self, records: pa.Table, coverage: float) -> None:
        self.count = records.num_rows
        self.needed = round(coverage * MILLION)
        """The least share of a unit that flags, in millionths."""
        names = ("key", "unit", "rule", "whole", "share", "alike", "windows", "information", "name", "bits")
        columns = [records.column(name).to_pylist() for name in names]
        self.keys, self.units, self.rules, self.whole, self.shares, self.alike = columns[:6]
        self.windows, self.information, self.names, bits = columns[6:]
        self.bits = [np.unpackbits(np.frombuffer(packed, np.uint8)).astype(np.int64) for packed in bits]

    def unit(self, row: int) -> _Unit:
        return self.keys[row], self.units[row]

    def has_unit(self, row: int) -> bool:
        """Whether a document has a unit, by any rule."""
        return bool(self.alike[row] or self.rules[row] == EXACT or self.shares[row] >= self.needed)

    def tally(self) -> dict[_Unit, _Tally]:
        tallies: dict[_Unit, _Tally] = {}
        for row in range(self.count):
            if not self.whole[row]:
                tally = _Tally(int(self.has_unit(row)), self.bits[row])
                sums = tallies.get(self.unit(row))
                tallies[self.unit(row)] = tally if sums is None else sums + tally
        return tallies


def by_item(records: pa.Table, config: Config, others: pa.Table | None = None) -> tuple[pa.Table, dict[str, Any]]:
    """Send the findings that count to their documents; also count the findings of each item ignored as phrases."""
    rows = _FindingRows(records, config.coverage)
    tallies = rows.tally()
    for other in [] if others is None else others.to_pylist():
        unit, more = (other["key"], other["unit"]), _Tally(other["units"], np.array(other["ngrams"], np.int64))
        tallies[unit] = tallies[unit] + more if unit in tallies else more
    judged = [_judged(rows, row, tallies.get(rows.unit(row)), config.common_documents) for row in range(rows.count)]
    kept = [row for row, (share, _) in enumerate(judged) if share]
    sent = records.select(["part", "row", "key", "piece", "whole", "spans"]).take(pa.array(kept, pa.int64()))
    sent = sent.rename_columns(["part", "row", "item", "piece", "whole", "spans"])
    part, row_of = sent.column("part").to_numpy(), sent.column("row").to_numpy().astype(np.uint64)
    added = {
        "rule": pa.array([judged[row][1] for row in kept], pa.uint8()),
        "share": pa.array([judged[row][0] for row in kept], pa.uint32()),
        "key": pa.array((part ^ (row_of * _SPREAD)) * _SPREAD),
    }
    for name, column in added.items():
        sent = sent.append_column(name, column)
    ignored = Counter(rows.names[row] for row, (share, _) in enumerate(judged) if not share and rows.has_unit(row))
    return sent, {"findings": rows.count, "let_go_as_phrases": ignored.total(), "let_go_items": dict(ignored)}


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


def _judged(rows: _FindingRows, row: int, tally: _Tally | None, common: int) -> tuple[int, int]:
    """The share of a unit that a document has, in millionths, and the rule that found it; 0 if that is not enough."""
    share, alike, rule, windows = rows.shares[row], rows.alike[row], rows.rules[row], rows.windows[row]
    is_copy = rows.whole[row] or tally is None or tally.units <= _most_documents(rows.information[row], common)
    if rule == NGRAM and tally is not None and not rows.whole[row] and not (is_copy and share >= rows.needed):
        counts = MILLION * common // np.maximum(tally.ngrams, common)
        left = windows * MILLION - int((MILLION - counts).sum())  # an n-gram in twice as many documents counts half
        share = int(counts[rows.bits[row] > 0].sum()) * MILLION // left if left * LEFT >= windows * MILLION else 0
    if share >= rows.needed and (rule == NGRAM or (is_copy and rule != FUZZY)):
        return share, rule
    return (alike, FUZZY) if alike and is_copy else (0, rule)


def in_short(records: pa.Table, config: Config) -> pa.Table:
    """For each unit, how many documents have it and each of its n-grams."""
    tallies = _FindingRows(records, config.coverage).tally()
    units = sorted(tallies)
    return pa.table(
        {
            "key": pa.array([key for key, _ in units], pa.uint64()),
            "unit": pa.array([unit for _, unit in units], pa.uint32()),
            "units": pa.array([tallies[unit].units for unit in units], pa.int64()),
            "ngrams": pa.array([tallies[unit].ngrams.tolist() for unit in units], pa.list_(pa.int64())),
        }
    )


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
    version=3,
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

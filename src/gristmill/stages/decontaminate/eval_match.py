"""Which findings count, seen over all documents: n-grams that many documents have are phrases, not copies of an item.

GPT-3 (Brown et al. 2020, appendix C) ignored 13-grams that more than ten documents have. Taken as it stands, that rule
also forgives an item that has leaked often. So only documents which do not hold the item as a whole (question and
answer, or half of the choices, or the code) count here, and those which do are flagged however many they are.

    emit     the findings of each document, to their item
    by_item  n-grams in more than `common_documents` documents do not count; what is left is compared with `coverage`
    reduce   the evidence of each document
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from gristmill.stages.contract import AsCount, StageConfig
from gristmill.stages.decontaminate.eval_scan import HIT, SPANS
from gristmill.stages.decontaminate.eval_suite import open_suite
from gristmill.stages.decontaminate.findings import EXACT, FUZZY, MILLION, NGRAM

VERSION = 1
LIBRARIES = ()
JUDGES = False
ONLY_KEPT = True
USES = ("eval_suite",)
READS = ("eval_scan.hits", "eval_scan_new.hits")
ROUNDS = ("by_item", "reduce")
SUMMARIES = {"by_item": "in_short"}
_HIT = [field for field in HIT if field.name != "item"]
RECORD_SCHEMA = pa.schema([*_HIT, ("needed", pa.uint32())])
"""key: the item; needed: the least share that flags, in millionths."""
EVIDENCE = pa.struct(
    [
        ("item", pa.uint64()),
        ("piece", pa.uint8()),
        ("rule", pa.uint8()),
        ("whole", pa.bool_()),
        ("share", pa.uint32()),
        ("spans", SPANS),
    ]
)
SCHEMA = pa.schema([("evidence", pa.list_(pa.field("item", EVIDENCE)))])
LEFT = 5
"""A unit of whose n-grams less than one in so many is not common says too little."""
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
Array = np.ndarray[Any, Any]


class Config(StageConfig):
    coverage: Annotated[float, Field(gt=0, le=1)] = 0.8
    """The share of an item's n-grams that a document has to hold to be flagged, of those that count. A benchmark of the
    suite may say its own."""
    common_documents: Annotated[int, AsCount, Field(ge=1)] = 10
    """Documents that may have an n-gram, or a whole short item, before it is taken for a phrase and does not count.
    Documents that hold the item with its answer are not among them."""


def emit(batch: pa.RecordBatch, config: Config, models: Mapping[str, Path]) -> pa.RecordBatch:
    """The findings of each document, to their items."""
    suite = open_suite(models["eval_suite"])
    rows, values = [], []
    for column in batch.columns:
        rows.append(pc.list_parent_indices(column).to_numpy(zero_copy_only=False))
        values.append(pc.list_flatten(column))
    hits = pa.concat_arrays(values)
    items = pc.struct_field(hits, "item")
    needed = [
        config.coverage if (own := suite.coverage[suite.items[item].item.benchmark]) is None else own
        for item in items.to_pylist()
    ]
    columns = {
        "key": items,
        "row": pa.array(np.concatenate(rows).astype(np.int64)),
        **{field.name: pc.struct_field(hits, field.name) for field in _HIT},
        "needed": pa.array([round(share * MILLION) for share in needed], pa.uint32()),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


class _Tally(NamedTuple):
    """In how many documents without the whole item a unit is, and each of its n-grams."""

    units: int
    ngrams: Array

    def __add__(self, other: "_Tally") -> "_Tally":  # type: ignore[override]
        if not len(self.ngrams) or not len(other.ngrams):
            return _Tally(self.units + other.units, self.ngrams if len(self.ngrams) else other.ngrams)
        return _Tally(self.units + other.units, self.ngrams + other.ngrams)


_Unit = tuple[int, int]
"""The numbers of an item and of a unit."""


class _Rows:
    """Records as Python has them."""

    def __init__(self, records: pa.Table) -> None:
        self.count = records.num_rows
        (self.keys, self.units, self.rules, self.whole, self.shares, self.alike, self.windows, self.needed, bits) = (
            records.column(name).to_pylist()
            for name in ("key", "unit", "rule", "whole", "share", "alike", "windows", "needed", "bits")
        )
        self.bits = [np.unpackbits(np.frombuffer(one, np.uint8)).astype(np.int64) for one in bits]

    def unit(self, row: int) -> _Unit:
        return self.keys[row], self.units[row]

    def has_unit(self, row: int) -> bool:
        """Whether a document has a unit, by whatever rule."""
        return bool(self.alike[row] or self.rules[row] == EXACT or self.shares[row] >= self.needed[row])

    def tally(self) -> dict[_Unit, _Tally]:
        found: dict[_Unit, _Tally] = {}
        for row in range(self.count):
            if not self.whole[row]:
                one = _Tally(int(self.has_unit(row)), self.bits[row])
                held = found.get(self.unit(row))
                found[self.unit(row)] = one if held is None else held + one
        return found


def by_item(records: pa.Table, config: Config, others: pa.Table | None = None) -> tuple[pa.Table, dict[str, int]]:
    """The findings that count, to their documents; and how many were let go as phrases."""
    rows = _Rows(records)
    tally = rows.tally()
    for other in [] if others is None else others.to_pylist():
        unit, more = (other["key"], other["unit"]), _Tally(other["units"], np.array(other["ngrams"], np.int64))
        tally[unit] = tally[unit] + more if unit in tally else more
    judged = [_judged(rows, row, tally.get(rows.unit(row)), config.common_documents) for row in range(rows.count)]
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
    let_go = sum(rows.has_unit(row) for row, (share, _) in enumerate(judged) if not share)
    return sent, {"findings": rows.count, "let_go_as_phrases": let_go}


def _judged(rows: _Rows, row: int, tally: _Tally | None, most: int) -> tuple[int, int]:
    """What a document has of a unit, in millionths, and the rule that says so; 0 where that does not flag it."""
    share, alike, rule, windows = rows.shares[row], rows.alike[row], rows.rules[row], rows.windows[row]
    is_phrase = not rows.whole[row] and tally is not None and tally.units > most
    if rule == NGRAM and not rows.whole[row] and tally is not None:
        phrases = tally.ngrams > most
        left = windows - int(phrases.sum())
        share = int((rows.bits[row][~phrases] > 0).sum()) * MILLION // left if left * LEFT >= windows else 0
    if share >= rows.needed[row] and (rule == NGRAM or (not is_phrase and rule != FUZZY)):
        return share, rule
    return (alike, FUZZY) if alike and not is_phrase else (0, rule)


def in_short(records: pa.Table, config: Config) -> pa.Table:
    """Of each unit in how many documents it and its n-grams are."""
    tally = _Rows(records).tally()
    units = sorted(tally)
    return pa.table(
        {
            "key": pa.array([key for key, _ in units], pa.uint64()),
            "unit": pa.array([unit for _, unit in units], pa.uint32()),
            "units": pa.array([tally[unit].units for unit in units], pa.int64()),
            "ngrams": pa.array([tally[unit].ngrams.tolist() for unit in units], pa.list_(pa.int64())),
        }
    )


def reduce(records: pa.Table, config: Config) -> pa.Table:
    """The evidence of each document, sorted by item, piece and rule."""
    names = EVIDENCE.names
    ordered = records.sort_by(
        [(name, "ascending") for name in ("part", "row", "item", "piece", "rule", "share", "whole")]
    )
    part, row = (ordered.column(name).to_numpy() for name in ("part", "row"))
    begins = np.ones(len(part), np.bool_)
    begins[1:] = (part[1:] != part[:-1]) | (row[1:] != row[:-1])
    offsets = np.append(np.flatnonzero(begins), len(part)).astype(np.int32)
    values = pa.StructArray.from_arrays(
        [ordered.column(name).combine_chunks() for name in names], fields=list(EVIDENCE)
    )
    lists = pa.ListArray.from_arrays(pa.array(offsets), values).cast(SCHEMA.field("evidence").type)
    return pa.table({"part": pa.array(part[begins]), "row": pa.array(row[begins]), "evidence": lists})

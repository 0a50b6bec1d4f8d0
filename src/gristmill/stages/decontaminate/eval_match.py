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
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from gristmill.stages.contract import AsCount, StageConfig
from gristmill.stages.decontaminate.eval_scan import HIT, SPANS
from gristmill.stages.decontaminate.eval_suite import open_suite
from gristmill.stages.decontaminate.findings import FUZZY, MILLION, NGRAM

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


class _Tally:
    """In how many documents without the whole item each n-gram of a unit is; a unit of another rule is one n-gram."""

    def __init__(self) -> None:
        self.counts: dict[tuple[int, int, bool], Array] = {}

    def add(self, key: tuple[int, int, bool], counts: Array) -> None:
        held = self.counts.get(key)
        self.counts[key] = counts if held is None else held + counts

    def add_records(self, records: pa.Table) -> None:
        for key, rows in _units(records).items():
            several = [bits for bits, whole in zip(*_bits(records, key, rows), strict=True) if not whole]
            if several:
                self.add(key, np.asarray(np.sum(several, axis=0, dtype=np.int64)))


def _units(records: pa.Table) -> dict[tuple[int, int, bool], list[int]]:
    """Rows of each item, unit, and whether it is by n-grams."""
    found: dict[tuple[int, int, bool], list[int]] = {}
    names = ("key", "unit", "rule")
    for row, (key, unit, rule) in enumerate(zip(*(records.column(name).to_pylist() for name in names), strict=True)):
        found.setdefault((key, unit, rule == NGRAM), []).append(row)
    return found


def _bits(records: pa.Table, key: tuple[int, int, bool], rows: list[int]) -> tuple[list[Array], list[bool]]:
    """The n-grams that documents have of a unit, and whether they have the whole item."""
    taken = records.take(pa.array(rows))
    whole = taken.column("whole").to_pylist()
    if not key[2]:
        return [np.ones(1, np.uint8)] * len(rows), whole
    return [np.unpackbits(np.frombuffer(one, np.uint8)) for one in taken.column("bits").to_pylist()], whole


def by_item(records: pa.Table, config: Config, others: pa.Table | None = None) -> tuple[pa.Table, dict[str, int]]:
    """The findings that count, to their documents; and how many were let go as phrases."""
    tally = _Tally()
    tally.add_records(records)
    for row in [] if others is None else others.to_pylist():
        tally.add((row["key"], row["unit"], row["by_ngrams"]), np.array(row["counts"], np.int64))
    kept: list[int] = []
    shares: list[int] = []
    common = 0
    needed, windows = records.column("needed").to_pylist(), records.column("windows").to_pylist()
    found, rules = records.column("share").to_pylist(), records.column("rule").to_pylist()
    for key, rows in _units(records).items():
        counts = tally.counts.get(key)
        phrases = counts > config.common_documents if counts is not None else None
        for row, bits, whole in zip(rows, *_bits(records, key, rows), strict=True):
            share = _share(found[row], windows[row], bits, None if whole else phrases, key[2])
            least = 0 if rules[row] == FUZZY else needed[row]
            if share > 0 and share >= least:
                kept.append(row)
                shares.append(share)
            elif found[row] >= least:
                common += 1
    order = np.argsort(np.array(kept, np.int64), kind="stable")
    sent = records.select(["part", "row", "key", "piece", "rule", "whole", "spans"]).take(
        pa.array(np.array(kept, np.int64)[order])
    )
    part, row_of = sent.column("part").to_numpy(), sent.column("row").to_numpy().astype(np.uint64)
    sent = sent.rename_columns(["part", "row", "item", "piece", "rule", "whole", "spans"])
    sent = sent.append_column("share", pa.array(np.array(shares, np.uint32)[order], pa.uint32()))
    sent = sent.append_column("key", pa.array((part ^ (row_of * _SPREAD)) * _SPREAD))
    return sent, {"findings": records.num_rows, "let_go_as_phrases": common}


def _share(found: int, windows: int, bits: Array, phrases: Array | None, by_ngrams: bool) -> int:
    """What a document has of a unit, in millionths, when phrases do not count."""
    if phrases is None or not phrases.any():
        return found
    if not by_ngrams:
        return 0
    left = windows - int(phrases.sum())
    if left * LEFT < windows:
        return 0
    return int((bits.astype(np.bool_) & ~phrases).sum()) * MILLION // left


def in_short(records: pa.Table, config: Config) -> pa.Table:
    """Of each unit in how many documents its n-grams are."""
    tally = _Tally()
    tally.add_records(records)
    keys = sorted(tally.counts)
    return pa.table(
        {
            "key": pa.array([key for key, _, _ in keys], pa.uint64()),
            "unit": pa.array([unit for _, unit, _ in keys], pa.uint32()),
            "by_ngrams": pa.array([by for _, _, by in keys], pa.bool_()),
            "counts": pa.array([tally.counts[key].tolist() for key in keys], pa.list_(pa.int64())),
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

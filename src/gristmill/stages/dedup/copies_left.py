"""Counts exact copies that are left in the corpus because no dedup step compared them with each other.

The engine adds this step where documents are deduplicated in several groups: by snapshot, by source, or by a step in
each of several routes. Texts are compared as `exact_dedup` does. Of the kept documents with one text, the first of each
group counts as a copy, except in the first group: a wider scope would have removed these. No document is dropped.
"""

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from gristmill.counted import counted
from gristmill.stages.contract import StageConfig
from gristmill.stages.dedup import exact_dedup
from gristmill.stages.dedup.keep_order import KeepOrder, fixed_bytes
from gristmill.stages.dedup.scope import SCOPE_WORDS, Scope, salts

VERSION = 1
LIBRARIES = ("unicode",)
JUDGES = False
ONLY_KEPT = True
READS = ("text", "doc_id", "source", "snapshot")
RECORD_SCHEMA = pa.schema([("low", pa.uint64()), ("group", pa.uint64()), ("document", pa.uint64())])
SCHEMA = pa.schema([("is_copy", pa.bool_())])
SUMMARIES = {"reduce": "in_short"}

_BY_TEXT = exact_dedup.Config(keep=KeepOrder(by=()))
Array = np.ndarray[Any, Any]


class Config(StageConfig):
    groups: dict[str, tuple[str, Scope]]
    """For each source the dedup step that compares most of its documents, and the scope of that step."""


def emit(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """A record for every text; a batch is of one source."""
    found = exact_dedup.emit(batch, _BY_TEXT)
    source = batch.column("source").slice(0, 1).to_pylist()
    step, scope = config.groups[source[0]] if source else ("", "global")
    group = salts(batch, scope) + np.uint64(crc32(step.encode()))
    document = np.ascontiguousarray(fixed_bytes(batch.column("doc_id"))[:, :8]).view(np.uint64).ravel()
    more = [pa.array(column[found.column("row").to_numpy()]) for column in (group, document)]
    names = ["key", "row", *RECORD_SCHEMA.names]
    return pa.RecordBatch.from_arrays([*(found.column(name) for name in names[:3]), *more], names)


def reduce(records: pa.Table, config: Config, others: pa.Table | None = None) -> tuple[pa.Table, dict[str, Any]]:
    """The copies. `others`: what `in_short` gives for the other pieces of a key."""
    if others is not None:
        records = pa.concat_tables([records, others], promote_options="default")
    first = _first_of_each(records)
    found = first.filter(pa.array(~_begins(first, ("key", "low")))).select(["part", "row"])
    found = found.filter(found["part"].is_valid())
    return found.append_column("is_copy", pa.array(np.ones(len(found), np.bool_))), {"copies": len(found)}


def in_short(records: pa.Table, config: Config) -> pa.Table:
    return _first_of_each(records).select(["key", *RECORD_SCHEMA.names])


def _first_of_each(records: pa.Table) -> pa.Table:
    """The first document of each group with each text, by text and group."""
    records = records.sort_by([(name, "ascending") for name in ("key", *RECORD_SCHEMA.names)])
    return records.filter(pa.array(_begins(records, ("key", "low", "group"))))


def _begins(records: pa.Table, names: Sequence[str]) -> Array:
    """Where one of these columns is not what it is a row before."""
    columns = [records.column(name).to_numpy() for name in names]
    begins: Array = np.logical_or.reduce([np.diff(column, prepend=~column[:1]) != 0 for column in columns])
    return begins


def explain(config: Config) -> list[str]:
    return ["counts exact copies that no dedup step compared with each other; drops nothing"]


def warnings(found: dict[str, Any], config: Config) -> Sequence[str]:
    if not found.get("copies"):
        return ()
    (step, scope), *others = dict.fromkeys(config.groups.values())
    told, fix = f"{step} compares documents {SCOPE_WORDS[scope]}", f"Set `scope: global` for {step}"
    if others:
        told = f"{' and '.join([step, *(one for one, _ in others)])} each compare documents of their own sources"
        fix = "Put one `exact_dedup` under `all`, where it compares all sources"
    copies = counted(found["copies"], "document is an exact copy of another", "documents are exact copies of others")
    return (f"{copies} in the corpus, because dedup did not compare them with each other: {told}. {fix}",)

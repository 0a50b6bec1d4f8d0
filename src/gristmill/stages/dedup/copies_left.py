"""Counts the exact copies that dedup leaves in the corpus.

The engine adds this step if no dedup step compares all final texts: the steps compare by snapshot, by source or by
route, a source has no such step, or a later step changes texts. Texts are compared as in `exact_dedup`; all but the
first of equal texts count. No document is dropped.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import pyarrow as pa

from gristmill.counted import counted
from gristmill.stages.buffers import first_numbers
from gristmill.stages.contract import Exchange, ReportMark, StageConfig
from gristmill.stages.dedup import exact_dedup
from gristmill.stages.shared.keep_order import KeepOrder

RECORD_SCHEMA = pa.schema([("low", pa.uint64()), ("document", pa.uint64())])

_BY_TEXT = exact_dedup.Config(keep=KeepOrder(by=()))
Array = np.ndarray[Any, Any]


class Config(StageConfig):
    why: Annotated[tuple[str, ...], ReportMark()] = ()
    """Reasons why copies may be left, for the warning."""
    fix: Annotated[str, ReportMark()] = ""
    """The change of the recipe that would remove them."""


def emit(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """Send a record for every text."""
    found = exact_dedup.emit(batch, _BY_TEXT)
    document = first_numbers(batch.column("doc_id"), "<")
    names = ["key", "row", *RECORD_SCHEMA.names]
    documents = pa.array(document[found.column("row").to_numpy()])
    return pa.RecordBatch.from_arrays([*(found.column(name) for name in names[:3]), documents], names)


def reduce(records: pa.Table, config: Config, others: pa.Table | None = None) -> tuple[pa.Table, dict[str, Any]]:
    """Mark the copies. `others`: the `summary` of the other pieces of a key."""
    if others is not None:
        records = pa.concat_tables([records, others], promote_options="default")
    records, begins = _by_text(records)
    found = records.filter(pa.array(~begins)).select(["part", "row"])
    found = found.filter(found["part"].is_valid())
    return found.append_column("is_copy", pa.array(np.ones(len(found), np.bool_))), {"copies": len(found)}


def summary(records: pa.Table, config: Config) -> pa.Table:
    """The first document with each text."""
    records, begins = _by_text(records)
    return records.filter(pa.array(begins)).select(["key", *RECORD_SCHEMA.names])


def _by_text(records: pa.Table) -> tuple[pa.Table, Array]:
    """The records sorted by text, and a mask of the first record of each text."""
    records = records.sort_by([(name, "ascending") for name in ("key", *RECORD_SCHEMA.names)])
    columns = [records.column(name).to_numpy() for name in ("key", "low")]
    begins: Array = np.logical_or.reduce([np.diff(column, prepend=~column[:1]) != 0 for column in columns])
    return records, begins


def explain(config: Config) -> list[str]:
    return [f"counts exact copies that dedup leaves, because {' and '.join(config.why)}; drops nothing"]


def warnings(found: dict[str, Any], config: Config) -> Sequence[str]:
    if not found.get("copies"):
        return ()
    copies = counted(found["copies"], "document is an exact copy of another", "documents are exact copies of others")
    return (f"{copies} in the corpus, because {' and '.join(config.why)}. {config.fix}",)


STAGE = Exchange(
    version=2,
    config=Config,
    libraries=("unicode",),
    reads=("text", "doc_id"),
    only_kept=True,
    judges=False,
    record_schema=RECORD_SCHEMA,
    schema=pa.schema([("is_copy", pa.bool_())]),
    emit=emit,
    reduce=reduce,
    summaries={"reduce": summary},
    warnings=warnings,
    explain=explain,
)

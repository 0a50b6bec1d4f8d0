"""Finds the items of the suite in each document, without judging the documents.

hits  findings (findings.py): the item, its unit, the rule, the share that was found, and the positions
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gristmill.counted import counted
from gristmill.hints import hint
from gristmill.stages.contract import Map, StageConfig
from gristmill.stages.decontaminate.matching.findings import find
from gristmill.stages.decontaminate.matching.index import open_index

SPAN_TYPE = pa.list_(pa.field("item", pa.int32()))
HIT = pa.struct(
    [
        ("item", pa.uint64()),
        ("unit", pa.uint32()),
        ("piece", pa.uint8()),
        ("rule", pa.uint8()),
        ("whole", pa.bool_()),
        ("share", pa.uint32()),
        ("alike", pa.uint32()),
        ("spans", SPAN_TYPE),
        ("information", pa.uint32()),
    ]
)
SCHEMA = pa.schema([("hits", pa.list_(pa.field("item", HIT))), ("bounded", pa.bool_())])
"""bounded: whether the text reached the work limit, so that copies may be missing."""


class Config(StageConfig):
    """No settings: the index has them."""


def apply(batch: pa.RecordBatch, config: Config, models: Mapping[str, Path]) -> pa.RecordBatch:
    """Find the items of the suite in each text of a batch."""
    findings, bounded = find(batch.column("text"), open_index(models["eval_index"]))
    hits: list[list[dict[str, Any]]] = [[] for _ in range(batch.num_rows)]
    for finding in findings:
        hits[finding.row].append({name: getattr(finding, name) for name in HIT.names})
    columns = [pa.array(hits, SCHEMA.field("hits").type), pa.array(bounded)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: StageConfig) -> dict[str, Any]:
    """Count the documents with hits, and those that reached the work limit."""
    lengths = answers.column("hits").value_lengths()
    return {
        "documents_with_hits": pc.sum(pc.greater(lengths, 0)).as_py() or 0,
        "documents_bounded": pc.sum(answers.column("bounded")).as_py() or 0,
    }


def warnings(found: dict[str, Any], config: StageConfig) -> Sequence[str]:
    count = found.get("documents_bounded", 0)
    if not count:
        return ()
    return (
        f"{counted(count, 'document')} reached the work limit, so some copies may not be found there. "
        f"{hint('sql')} finds these documents by the column eval_scan.bounded",
    )


STAGE = Map(
    version=8,
    config=Config,
    libraries=("unicode",),
    reads=("text",),
    only_kept=True,
    judges=False,
    uses=("eval_index",),
    schema=SCHEMA,
    apply=apply,
    metrics=metrics,
    warnings=warnings,
)

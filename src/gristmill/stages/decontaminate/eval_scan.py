"""What of the items of `eval_index` each document holds; nobody is judged here.

    hits  findings (findings.py): the item, the unit of it, the rule, the share that is there, which n-grams, and where
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.counted import counted
from gristmill.stages.contract import StageConfig
from gristmill.stages.decontaminate.findings import Finding, find
from gristmill.stages.decontaminate.index import open_index

VERSION = 1
LIBRARIES = ("unicode",)
JUDGES = False
ONLY_KEPT = True
USES = ("eval_index",)
READS = ("text",)
SPANS = pa.list_(pa.field("item", pa.int32()))
HIT = pa.struct(
    [
        ("item", pa.uint64()),
        ("unit", pa.uint32()),
        ("piece", pa.uint8()),
        ("rule", pa.uint8()),
        ("whole", pa.bool_()),
        ("share", pa.uint32()),
        ("windows", pa.uint32()),
        ("bits", pa.binary()),
        ("spans", SPANS),
    ]
)
SCHEMA = pa.schema([("hits", pa.list_(pa.field("item", HIT))), ("bounded", pa.uint8())])
"""bounded: 1 where the bound on work was reached in some of the texts that were looked at together with this one."""


class Config(StageConfig):
    """What is looked for is in the index."""


def apply(batch: pa.RecordBatch, config: Config, models: Mapping[str, Path]) -> pa.RecordBatch:
    return scan(batch, models["eval_index"])


def scan(batch: pa.RecordBatch, path: Path) -> pa.RecordBatch:
    """The findings of each text of a batch with the items of an index."""
    found, _ = find(batch.column("text"), open_index(path))
    return pa.RecordBatch.from_arrays([lists_of(found, batch.num_rows), pa.nulls(batch.num_rows, pa.uint8())], schema=SCHEMA)


def lists_of(found: Sequence[Finding], rows: int) -> pa.Array:
    """Findings, sorted by row, as a column of lists."""
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(np.bincount([one.row for one in found], minlength=rows), out=offsets[1:])
    values = pa.array([{name: getattr(one, name) for name in HIT.names} for one in found], HIT)
    return pa.ListArray.from_arrays(pa.array(offsets), values).cast(SCHEMA.field("hits").type)

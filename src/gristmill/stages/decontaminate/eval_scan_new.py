"""Finds the items of `eval_index_new` in each document, like `eval_scan`. Without new items, it reads no text."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa

from gristmill.stages.contract import Map, ReportMark, StageConfig
from gristmill.stages.decontaminate import eval_scan
from gristmill.stages.decontaminate.eval_scan import lists_of, metrics, scan, warnings
from gristmill.stages.decontaminate.eval_suite import SuiteFolder
from gristmill.stages.decontaminate.matching.index import open_index
from gristmill.stages.decontaminate.suite.lock import has_lock

SCHEMA = eval_scan.SCHEMA


class Config(StageConfig):
    suite: Annotated[SuiteFolder, ReportMark()]
    """The suite, to see whether it was ever pinned: only then can it have new items. The items are in the index."""


def reads(config: Config) -> tuple[str, ...]:
    """Read texts only if the suite may have new items."""
    return ("text",) if has_lock(config.suite) else ("doc_id",)


def apply(batch: pa.RecordBatch, config: Config, models: Mapping[str, Path]) -> pa.RecordBatch:
    if "text" in batch.schema.names and open_index(models["eval_index_new"]).items:
        return scan(batch, models["eval_index_new"])
    nothing = np.zeros(batch.num_rows, np.bool_)
    return pa.RecordBatch.from_arrays([lists_of([], batch.num_rows), pa.array(nothing)], schema=SCHEMA)


STAGE = Map(
    version=6,
    config=Config,
    libraries=("unicode",),
    reads=reads,
    only_kept=True,
    judges=False,
    uses=("eval_index_new",),
    schema=SCHEMA,
    apply=apply,
    metrics=metrics,
    warnings=warnings,
)

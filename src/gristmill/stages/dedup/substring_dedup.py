"""Cuts substrings of at least `min_bytes` bytes that another document of the block also has; one copy stays.

`substring_spans`, which runs first, defines which bytes are repeated and which documents are compared. A cut removes
whole characters, or whole lines with `snap: line`. It never removes more than the repeated bytes, so it may be shorter
than `min_bytes` and leave a part of a character or line. The text before and after a cut is joined without a separator:
most repeated substrings end within a word, and `snap: line` keeps half words from being joined. It leaves 1.5 to 3.5%
of the repeated bytes of manuals and code, and more where a line is a long paragraph.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.kernels.text.snap_spans import snap_spans
from gristmill.stages.buffers import bytes_of
from gristmill.stages.contract import Map
from gristmill.stages.dedup import substring_spans
from gristmill.stages.shared.cut import FIELDS, SPAN_TYPE, cut
from gristmill.warned import idle

READS = ("text", "substring_spans.spans")
SCHEMA = pa.schema(FIELDS)
NOTHING_LEFT = "all_text_repeated"


class Config(substring_spans.Config):
    snap: Literal["character", "line"] = "character"
    """Where a cut may begin and end. character: between any two characters; line: at line ends, so that only whole
    lines are removed."""


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    text, spans = batch.column("text"), batch.column("substring_spans.spans")
    firsts = np.zeros(len(text) + 1, np.int64)
    np.cumsum(pc.list_value_length(spans).fill_null(0).to_numpy(zero_copy_only=False), out=firsts[1:])
    bounds = spans.flatten().to_numpy(zero_copy_only=False)
    firsts, bounds = snap_spans(*bytes_of(text), firsts, bounds, config.snap == "line")
    snapped = pa.ListArray.from_arrays(pa.array(firsts.astype(np.int32)), pa.array(bounds)).cast(SPAN_TYPE)
    columns = cut(text, snapped, NOTHING_LEFT)
    return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """Count the documents and bytes that were cut, and the repeated bytes that snapping left."""
    spans = batch.column("substring_spans.spans").flatten().to_numpy(zero_copy_only=False)
    cut_bytes = pc.sum(answers["cut_bytes"]).as_py() or 0
    return {
        "documents_seen": answers.num_rows - answers["text"].null_count,
        "documents_cut": pc.sum(pc.greater(answers["cut_bytes"], 0)).as_py() or 0,
        "text_bytes_cut": cut_bytes,
        "repeated_bytes_left_by_snapping": int((spans[1::2] - spans[::2]).sum()) - cut_bytes,
    }


def warnings(found: Mapping[str, Any], config: Config) -> Sequence[str]:
    return idle(
        found.get("documents_seen"),
        found.get("documents_cut"),
        f"no text was cut: no substring of {config.min_bytes} bytes occurs twice in a block. If you expect some, use a "
        "larger block_bytes or a wider scope",
    )


STAGE = Map(
    version=1,
    config=Config,
    reads=READS,
    only_kept=True,
    prerequisites=("gristmill.stages.dedup.substring_blocks", "gristmill.stages.dedup.substring_spans"),
    schema=SCHEMA,
    spans=("cut_spans",),
    apply=apply,
    metrics=metrics,
    warnings=warnings,
)

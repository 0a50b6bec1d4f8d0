"""Cuts spans out of texts and records them.

A cut is a list of spans, start, stop, start, stop ... in bytes of the text before the cut, in ascending order and
without overlap. With that text, which an earlier step wrote, anyone can see what was cut and restore it. A stage that
cuts writes FIELDS, in addition to its own columns:

    spans = spans_of(rows, starts, stops, batch.num_rows) columns = cut(batch.column("text"), spans,
    "all_lines_repeated")
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.kernels.text.cut_spans import first_bad_row, without_spans
from gristmill.schema import VERDICT
from gristmill.stages.buffers import bytes_of, strings

SPAN_TYPE = pa.list_(pa.field("item", pa.int64()))
FIELDS = (pa.field("text", pa.string()), pa.field("cut_spans", SPAN_TYPE), pa.field("cut_bytes", pa.int64()), *VERDICT)
"""The remaining text, the spans, their bytes, and the verdict on a text of which nothing remains."""


def spans_of(rows: npt.ArrayLike, starts: npt.ArrayLike, stops: npt.ArrayLike, count: int) -> pa.ListArray:
    """A column of `count` lists of spans, from spans in any order; touching and overlapping spans are merged."""
    row, start, stop = (np.asarray(one, np.int64) for one in (rows, starts, stops))
    if (np.diff(row << 32 | start) < 0).any():
        order = np.lexsort((start, row))
        row, start, stop = row[order], start[order], stop[order]
    if not len(row):
        return pa.ListArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), pa.array([], pa.int64())).cast(
            SPAN_TYPE
        )
    # The furthest stop so far within a row. A step that no stop of a text (< 2^31) reaches separates rows.
    step = row << 32
    reach = np.maximum.accumulate(step + stop)
    begins = np.ones(len(row), np.bool_)
    begins[1:] = step[1:] + start[1:] > reach[:-1]
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(row)) - 1
    bounds = np.stack([start[first], reach[last] - step[last]], axis=1).reshape(-1)
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(row[first], minlength=count) * 2, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(bounds)).cast(SPAN_TYPE)


def cut(text: pa.StringArray, spans: pa.ListArray, reason: str) -> dict[str, pa.Array]:
    """The columns of FIELDS; a null in `spans` cuts nothing.

    `reason` is the verdict on texts that lost bytes and whose rest is invisible (white space, zero-width characters). A
    row without text has only nulls.
    """
    firsts, bounds = _bounds(spans, text)
    data, offsets = bytes_of(text)
    bad = first_bad_row(data, offsets, firsts, bounds)
    if bad >= 0:
        raise ValueError(
            f"spans {spans[bad].as_py()} of row {bad} cannot cut its {offsets[bad + 1] - offsets[bad]} bytes: they "
            "must be ascending, not empty, not overlap, and begin and end between UTF-8 characters"
        )
    missing = text.is_null().to_numpy(zero_copy_only=False)
    if len(bounds):
        left, ends, blank = without_spans(data, offsets, firsts, bounds)
        cut_bytes = (np.diff(offsets) - np.diff(ends)).astype(np.int64)
        shortened = strings(ends, left, ~missing if text.null_count else None)
    else:
        blank, cut_bytes, shortened = np.zeros(len(text), np.bool_), np.zeros(len(text), np.int64), text
    emptied = pa.array(blank & (cut_bytes > 0))
    counted = pa.array(cut_bytes, mask=missing)
    detail = pc.binary_join_element_wise(counted.cast(pa.string()), "bytes cut", " ")
    none = pa.scalar(None, pa.string())
    return {
        "text": shortened,
        "cut_spans": _listed(firsts, bounds, missing),
        "cut_bytes": counted,
        "drop": pc.if_else(emptied, reason, none),
        "detail": pc.if_else(emptied, detail, none),
    }


def _bounds(spans: pa.ListArray, text: pa.StringArray) -> tuple[Any, Any]:
    """Where each row's bounds begin, and all bounds; a null has none."""
    if len(spans) != len(text):
        raise ValueError(f"{len(spans)} lists of spans for {len(text)} texts")
    lengths = pc.list_value_length(spans).fill_null(0).to_numpy(zero_copy_only=False)
    firsts = np.zeros(len(spans) + 1, np.int64)
    np.cumsum(lengths, out=firsts[1:])
    return firsts, spans.flatten().cast(pa.int64()).to_numpy(zero_copy_only=False)


def _listed(firsts: Any, bounds: Any, missing: Any) -> pa.ListArray:
    mask = pa.array(missing) if missing.any() else None
    return pa.ListArray.from_arrays(pa.array(firsts.astype(np.int32)), pa.array(bounds, pa.int64()), mask=mask).cast(
        SPAN_TYPE
    )

"""The audit sample as an HTML page."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from gristmill.counted import counted
from gristmill.report.page import render


def page(
    name: str, examples: Sequence[Mapping[str, Any]], counts: Sequence[Mapping[str, Any]], notes: Sequence[str]
) -> str:
    """The counts of the steps, and the sampled documents (query/removal/audit.py) by type."""
    order = list(dict.fromkeys((one["step"], one["type"]) for one in examples))
    by_type = sorted(examples, key=lambda one: order.index((one["step"], one["type"])))
    return render(
        Path(__file__).with_name("audit_sample.html"),
        title=f"Audit of {name}",
        drawn=counted(len(examples), "document"),
        notes=notes,
        counts=[
            (*(row[key] for key in ("step", "type", "source", "language")), f"{row['documents']:,}") for row in counts
        ],
        kinds=[(kind, list(some)) for kind, some in groupby(by_type, lambda one: (one["step"], one["type"]))],
        remarks=_remarks,
        is_cut=_is_cut,
    )


def _remarks(one: Mapping[str, Any]) -> str:
    shown = sum(label is not None for passage in one["passages"] for _, label in passage["pieces"])
    remarks = [one["detail"]] if one["detail"] else []
    remarks += [counted(one["matches"], "match", "matches")] if one["matches"] else []
    remarks += [f"{one['matches'] - shown:,} not shown"] if one["matches"] > shown else []
    return "; ".join(remarks) or str(one["type"])


def _is_cut(passage: Mapping[str, Any], text_bytes: int) -> bool:
    """Whether the text goes on after the passage."""
    return bool(passage["start"] + sum(len(text.encode()) for text, _ in passage["pieces"]) < text_bytes)

"""The HTML page of a comparison: plots, tables, and documents at the edge of the cutoff."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gristmill.counted import counted, percent, size
from gristmill.report import charts
from gristmill.report.page import render

MOST_SHOWN = 40
"""Groups of one kind in a plot; the table has all."""
NEEDED_BY = "The page of a comparison"
SERIES = dict(zip(("documents", "bytes"), charts.PALETTE, strict=False))


def page(
    name: str,
    whole: Mapping[str, Any],
    groups: Sequence[Mapping[str, Any]],
    edge: Sequence[Mapping[str, Any]],
    loud: Sequence[str],
    notes: Sequence[str],
) -> str:
    """The page with all groups of a step (commands.py has their fields), documents to read, and notes."""
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for group in groups:
        by_kind.setdefault(group["by"], []).append(group)
    return render(
        Path(__file__).with_name("bias.html"),
        title=f"What {name} kept and removed",
        documents=counted(whole["documents"]["all"], "document"),
        kept=f"{whole['documents']['kept']:,}",
        whole=whole,
        share=_share,
        loud=loud,
        notes=notes,
        kinds=[(by, _plot(own, whole), [(_row(one), one["under_half"]) for one in own]) for by, own in by_kind.items()],
        edge=edge,
        facts=_facts,
    )


def _share(found: Mapping[str, Any]) -> str:
    if not found["all"]:
        return ""
    return f"{percent(found['kept'], found['all'])} ({found['low']:.1%} to {found['high']:.1%})"


def _plot(groups: Sequence[Mapping[str, Any]], whole: Mapping[str, Any]) -> charts.Spec | None:
    """The plot of the kept share of each group with its interval; dashed: the overall share."""
    rows = [
        {"group": one["group"], "series": series, **{key: one[series][key] for key in ("low", "high")}}
        | {"value": one[series]["share"]}
        for one in groups[:MOST_SHOWN]
        if one["documents"]["all"]
        for series in SERIES
        if one[series]["all"]
    ]
    marks = [{"value": whole[series]["share"], "series": series} for series in SERIES if whole[series]["all"]]
    reach = max((row[key] for row in [*rows, *marks] for key in ("value", "high") if key in row), default=1.0)
    return _intervals(rows, reach or 1.0, marks) if rows else None


def _intervals(rows: Sequence[Mapping[str, Any]], reach: float, marks: Sequence[Mapping[str, Any]]) -> charts.Spec:
    """For each group, a point at each value with a line from `low` to `high`; `marks` are vertical lines at values."""
    step = max(Counter(row["group"] for row in rows).values())
    x = {"type": "quantitative", "scale": {"domain": [0.0, reach], "nice": False}, "title": "kept"}
    x["axis"] = {"format": ".3~%", "tickCount": 6}
    y = {"field": "group", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 300, "grid": True}}
    scale = {"domain": [*SERIES], "range": [*SERIES.values()]}
    both: charts.Spec = {
        "y": y,
        **({"yOffset": {"field": "series", "sort": list(SERIES)}} if step > 1 else {}),
        "color": {"field": "series", "type": "nominal", "scale": scale, "title": None},
    }
    layers: list[charts.Spec] = [
        {
            "data": {"values": list(marks)},
            "mark": {"type": "rule", "strokeDash": [4, 3]},
            "encoding": {"x": {**x, "field": "value"}, "color": both["color"]},
        },
        {
            "data": {"values": list(rows)},
            "mark": {"type": "rule", "strokeWidth": 2.5},
            "encoding": {**both, "x": {**x, "field": "low"}, "x2": {"field": "high"}},
        },
        {
            "data": {"values": list(rows)},
            "mark": {"type": "point", "size": 60, "filled": True, "opacity": 1},
            "encoding": {**both, "x": {**x, "field": "value"}},
        },
    ]
    room = {"left": 24, "top": 5, "right": 30, "bottom": 5}  # fonts are wider than the library believes
    height = {"step": 22 if step == 1 else 13}
    return charts.spec([], padding=room, width=charts.WIDTH - 180, height=height, layer=layers)


def _row(group: Mapping[str, Any]) -> Sequence[str]:
    documents, data = group["documents"], group["bytes"]
    ratios = [f"{one['ratio']:.2f}" if one["all"] else "" for one in (documents, data)]
    return (
        *(group["group"], f"{documents['all']:,}", _share(documents), ratios[0]),
        *(size(data["all"]), _share(data), ratios[1], f"{group['hosts']:,}"),
    )


def _facts(one: Mapping[str, Any]) -> str:
    scores = [f"{name} {'none' if value is None else f'{value:.6g}'}" for name, value in one["scores"].items()]
    return "; ".join([one["side"], *([one["reason"]] if one["reason"] else []), *scores])

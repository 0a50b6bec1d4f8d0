"""The chart specifications of all pages. `page.py` renders them to SVG, so that a page runs no script.

Every chart is Vega-Lite, except the flow diagram and the histograms, which are Vega.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from gristmill.query.documents.histograms import KEPT, REMOVED, Histogram

Spec = dict[str, Any]

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#999999")
"""Okabe and Ito's colours, which people with any kind of colour blindness can tell apart."""
OTHER = "all others"
COLOURS = {KEPT: PALETTE[0], REMOVED: PALETTE[1], OTHER: PALETTE[-1]}
WIDTH, NARROW = 640, 330
CELL = (240, 80)
"""Width and height of a small histogram."""
LABEL = "#777"
"""Text on a white and on a black page."""
VEGA = "https://vega.github.io/schema/vega/v5.json"
CONFIG: Spec = {
    "aria": False,
    "background": None,
    "font": "sans-serif",
    "padding": 5,
    "view": {"stroke": None},
    "axis": {
        "labelColor": LABEL,
        "titleColor": LABEL,
        "gridColor": "#8883",
        "domainColor": "#8888",
        "tickColor": "#8888",
    },
    "legend": {"labelColor": LABEL, "titleColor": LABEL, "orient": "top", "columns": 4},
    "title": {"color": LABEL, "anchor": "start", "fontSize": 12, "fontWeight": "bold"},
    "text": {"color": LABEL},
    "bar": {"color": PALETTE[0]},
}


def spec(data: Sequence[Mapping[str, Any]], **rest: Any) -> Spec:
    schema = "https://vega.github.io/schema/vega-lite/v5.json"
    return {"$schema": schema, "config": CONFIG, "data": {"values": list(data)}, **rest}


def bars(
    rows: Sequence[Mapping[str, Any]],
    label: str,
    value: str,
    colour: str | None = None,
    *,
    is_upright: bool = False,
) -> Spec:
    """Bars in the order of the rows: horizontal, below their labels, and stacked by colour; or upright, and grouped."""
    order = list(dict.fromkeys(row[label] for row in rows))
    names, values = ("x", "y") if is_upright else ("y", "x")
    places: Spec = {"field": label, "type": "nominal", "sort": order, "title": None, "axis": {"labelAngle": 0}}
    if not is_upright:
        above = {"labelAlign": "left", "labelBaseline": "bottom", "labelOffset": -8, "labelPadding": -2}
        places["axis"] = {**above, "labelLimit": NARROW, "ticks": False, "domain": False}
        places["scale"] = {"paddingInner": 0.55, "paddingOuter": 0.4}
    largest_value = max((row[value] for row in rows), default=0)
    form = "~s" if largest_value >= 10_000 else ",.0f" if largest_value >= 10 else "~g"
    numbers = {"format": form, "tickCount": 5}
    encoding: Spec = {names: places, values: {"field": value, "type": "quantitative", "title": value, "axis": numbers}}
    if colour is not None:
        sums: Counter[str] = Counter()
        for row in rows:
            sums[row[colour]] += row[value]
        if len(sums) > len(PALETTE):
            largest = {name for name, _ in sums.most_common(len(PALETTE) - 1)}
            rows = [row if row[colour] in largest else {**row, colour: OTHER} for row in rows]
        encoding["color"] = _coloured(colour, list(dict.fromkeys(row[colour] for row in rows)))
        if is_upright:
            encoding["xOffset"] = {"field": colour, "sort": None}
    sizes: Spec = {"width": WIDTH, "height": 200} if is_upright else {"width": NARROW, "height": {"step": 30}}
    return spec(rows, **sizes, mark="bar", encoding=encoding)


def _coloured(field: str, names: Sequence[str]) -> Spec:
    free = cycle(PALETTE)
    colours = [COLOURS.get(name) or next(free) for name in names]
    return {"field": field, "type": "nominal", "scale": {"domain": list(names), "range": colours}, "title": None}


def lines(rows: Sequence[Mapping[str, Any]], x: str, y: str, colour: str) -> Spec:
    """A line with points for each colour, over a logarithmic axis."""
    encoding = {
        "x": {"field": x, "type": "quantitative", "scale": {"type": "log", "nice": False}, "axis": {"format": "~s"}},
        "y": {"field": y, "type": "quantitative", "scale": {"zero": False}},
        "color": _coloured(colour, list(dict.fromkeys(row[colour] for row in rows))),
    }
    return spec(rows, width=WIDTH, height=240, mark={"type": "line", "point": True}, encoding=encoding)


def intervals(
    rows: Sequence[Mapping[str, Any]],
    colours: Mapping[str, str],
    title: str,
    reach: tuple[float, float],
    marks: Sequence[Mapping[str, Any]] = (),
) -> Spec:
    """For each `group`, a point at each `value` with a line from `low` to `high`, coloured by its `series`.

    An interval that leaves the `reach` of the axis ends in an arrow. `marks` are vertical lines at values.
    """
    step = max(Counter(row["group"] for row in rows).values(), default=1)
    x = {"type": "quantitative", "scale": {"domain": list(reach), "nice": False}, "title": title}
    x["axis"] = {"format": "+.3~%" if reach[0] < 0 else ".3~%", "tickCount": 6}
    y = {"field": "group", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 300, "grid": True}}
    both: Spec = {
        "y": y,
        **({"yOffset": {"field": "series", "sort": list(colours)}} if step > 1 else {}),
        "color": {
            "field": "series",
            "type": "nominal",
            "scale": {"domain": [*colours], "range": [*colours.values()]},
            "title": None,
        },
    }
    cut = [{**row, "low": max(row["low"], reach[0]), "high": min(row["high"], reach[1])} for row in rows]
    arrows = [
        {**row, "end": end, "to": sign}
        for row in rows
        for end, sign, is_cut in (
            (reach[0], "left", row["low"] < reach[0]),
            (reach[1], "right", row["high"] > reach[1]),
        )
        if is_cut
    ]
    layers: list[Spec] = [
        {
            "data": {"values": list(marks)},
            "mark": {"type": "rule", "strokeDash": [4, 3]},
            "encoding": {"x": {**x, "field": "value"}, "color": both["color"]},
        },
        {
            "data": {"values": cut},
            "mark": {"type": "rule", "strokeWidth": 2.5},
            "encoding": {**both, "x": {**x, "field": "low"}, "x2": {"field": "high"}},
        },
        {
            "data": {"values": [row for row in rows if reach[0] <= row["value"] <= reach[1]]},
            "mark": {"type": "point", "size": 60, "filled": True, "opacity": 1},
            "encoding": {**both, "x": {**x, "field": "value"}},
        },
        *(
            {
                "data": {"values": [row for row in arrows if row["to"] == to]},
                "mark": {"type": "point", "shape": f"triangle-{to}", "size": 60, "filled": True, "opacity": 1},
                "encoding": {**both, "x": {**x, "field": "end"}},
            }
            for to in ("left", "right")
        ),
    ]
    room = {"left": 24, "top": 5, "right": 30, "bottom": 5}  # fonts are wider than the library believes
    return spec([], padding=room, width=WIDTH - 180, height={"step": 22 if step == 1 else 13}, layer=layers)


def histograms(found: Sequence[Histogram], other: Mapping[str, Histogram]) -> Spec:
    """Small charts in Vega, each its own group: shares of kept and of removed documents, and lines at the thresholds.

    `other` has histograms of another version with the same edges, by value; they are drawn as lines. The shapes are
    computed here: a report has dozens of these charts, and Vega-Lite needs half a second to plan them.
    """
    rows = [row for at, one in enumerate(found) for row in _cell(at, one, other.get(one.measure.value))]
    shape = {name: {"field": name} for name in ("path", "fill", "stroke")}
    middle = {"align": {"value": "center"}, "baseline": {"value": "middle"}, "fill": {"value": LABEL}}
    label = {"x": {"field": "x"}, "y": {"value": CELL[1] + 10}, "text": {"field": "label"}, **middle}
    marks = {
        "shapes": ("path", {**shape, "fillOpacity": {"value": 0.55}, "strokeWidth": {"value": 1.5}}),
        "labels": ("text", label),
    }
    cell = {
        "type": "group",
        "name": "cell",
        "from": {"facet": {"name": "rows", "data": "all", "groupby": "at"}},
        "data": [
            {"name": name, "source": "rows", "transform": [{"type": "filter", "expr": f"datum.kind === '{name}'"}]}
            for name in marks
        ],
        "marks": [
            {"type": mark, "from": {"data": name}, "encode": {"enter": encoding}}
            for name, (mark, encoding) in marks.items()
        ],
    }
    return {"$schema": VEGA, "config": CONFIG, "data": [{"name": "all", "values": rows}], "marks": [cell]}


def _cell(at: int, found: Histogram, other: Histogram | None) -> Iterator[Spec]:
    width, height = CELL
    places = np.log1p(found.edges) if found.is_log else found.edges
    low, wide = places[0], places[-1] - places[0]

    def across(values: Any) -> list[float]:
        numbers = np.asarray(values, float)
        return [round(float(x), 1) for x in ((np.log1p(numbers) if found.is_log else numbers) - low) / wide * width]

    both = [(True, found), *([] if other is None else [(False, other)])]
    shares = {(is_area, side): one / max(1, one.sum()) for is_area, of in both for side, one in of.counts.items()}
    peak = max(share.max() for share in shares.values()) or 1.0
    edges = across(found.edges)
    for (is_area, side), share in shares.items():
        heights = [round(height - float(one) / peak * height, 1) for one in share]
        steps = " ".join(f"V{y} H{x}" for x, y in zip(edges[1:], heights, strict=True))
        if is_area:
            path = {"path": f"M{edges[0]},{height} {steps} V{height} Z", "fill": COLOURS[side], "stroke": None}
        else:
            path = {"path": f"M{edges[0]},{heights[0]} {steps}", "fill": None, "stroke": COLOURS[side]}
        yield {"at": at, "kind": "shapes", **path}
    for x in across(list(found.measure.thresholds)):
        yield {"at": at, "kind": "shapes", "path": f"M{x},0 V{height}", "fill": None, "stroke": LABEL}
    ticks = found.edges[[0, len(found.edges) // 2, -1]]
    for x, value in zip(across(ticks), ticks, strict=True):
        yield {"at": at, "kind": "labels", "x": x, "label": short_number(value)}


def short_number(value: float) -> str:
    """`0.25`, `1,024`, `56k`, `1.2M`."""
    for unit, one in (("M", 1e6), ("k", 1e4)):
        if abs(value) >= one:
            return f"{value / (1e6 if unit == 'M' else 1e3):.3g}{unit}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def flow(steps: Sequence[tuple[str, int]], read: int) -> Spec:
    """A flow diagram in Vega: the documents that are left run along the top, and each step lets some of them fall.

    `steps`: each with the documents that it removed.
    """
    height, drop, slot = 150.0, 70.0, 74.0
    scale = height / max(1, read)
    paths, labels = [], []
    left = read
    for number, (name, removed) in enumerate(steps):
        x, after = number * slot + 90, left - removed
        paths.append({"path": f"M{x - slot},0 H{x} V{left * scale:.1f} H{x - slot} Z", "kind": KEPT})
        bottom, top = left * scale, after * scale
        thick = max(removed / read * slot * 0.8, 0.6)
        end = x + slot * 0.45 + thick / 2
        floor = height + drop
        paths.append(
            {
                "path": f"M{x},{top:.1f} C{end},{top:.1f} {end},{top:.1f} {end},{floor} h{-thick:.1f} "
                f"C{end - thick:.1f},{bottom:.1f} {end - thick:.1f},{bottom:.1f} {x},{bottom:.1f} Z",
                "kind": REMOVED,
            }
        )
        labels.append({"x": x + slot * 0.45, "y": floor + 12, "text": name, "count": f"−{removed:,}"})
        left = after
    x = len(steps) * slot + 90
    paths.append({"path": f"M{x - slot},0 H{x + 20} V{left * scale:.1f} H{x - slot} Z", "kind": KEPT})
    ends = [{"x": 8, "y": -8, "text": f"{read:,} read"}, {"x": x - 30, "y": -8, "text": f"{left:,} kept"}]
    text = {"fill": {"value": LABEL}, "x": {"field": "x"}, "y": {"field": "y"}, "text": {"field": "text"}}
    colour = {"scale": "kind", "field": "kind"}
    turned = {"angle": {"value": 40}, "fontSize": {"value": 11}}
    return {
        "$schema": VEGA,
        "background": None,
        "width": x + 40,
        "height": height + drop + 110,
        "padding": 12,
        "config": {"style": {"guide-label": {"font": "system-ui"}}},
        "data": [
            {"name": "paths", "values": paths},
            {"name": "labels", "values": [{**one, "text": f"{one['text']} {one['count']}"} for one in labels]},
            {"name": "ends", "values": ends},
        ],
        "scales": [
            {"name": "kind", "type": "ordinal", "domain": [KEPT, REMOVED], "range": [COLOURS[KEPT], COLOURS[REMOVED]]}
        ],
        "marks": [
            {
                "type": "path",
                "from": {"data": "paths"},
                "encode": {"enter": {"path": {"field": "path"}, "fill": colour, "fillOpacity": {"value": 0.75}}},
            },
            {"type": "text", "from": {"data": "labels"}, "encode": {"enter": {**text, **turned}}},
            {
                "type": "text",
                "from": {"data": "ends"},
                "encode": {"enter": {**text, "fontSize": {"value": 13}, "fontWeight": {"value": "bold"}}},
            },
        ],
    }


def quartile_boxes(rows: Sequence[Mapping[str, Any]]) -> Spec:
    """Per group: a line from the 5th to the 95th percentile, a bar between the quartiles and a tick at the median."""
    axis = {"labelAlign": "left", "labelBaseline": "bottom", "labelOffset": -6, "labelPadding": -2, "domain": False}
    y: Spec = {"field": "group", "type": "nominal", "title": None, "sort": [row["group"] for row in rows]}
    y["axis"] = {**axis, "labelLimit": NARROW, "ticks": False}

    def x(name: str) -> Spec:
        return {"field": name, "type": "quantitative", "title": None, "scale": {"zero": False}}

    layers = [
        {"mark": {"type": "rule", "color": LABEL}, "encoding": {"y": y, "x": x("p5"), "x2": {"field": "p95"}}},
        {
            "mark": {"type": "bar", "size": 9, "color": PALETTE[0]},
            "encoding": {"y": y, "x": x("p25"), "x2": {"field": "p75"}},
        },
        {"mark": {"type": "tick", "color": PALETTE[1], "thickness": 3}, "encoding": {"y": y, "x": x("p50")}},
    ]
    return spec(rows, width=NARROW, height={"step": 32}, layer=layers)

"""Vega-Lite specifications. They are rendered to SVG before the page is written, so that the page runs no script."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gristmill.query.documents.histograms import KEPT, REMOVED, Histogram

Spec = dict[str, Any]

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#999999")
"""Okabe and Ito's colours, which people with any kind of colour blindness can tell apart."""
COLOURS = {KEPT: PALETTE[0], REMOVED: PALETTE[1]}
WIDTH = 640
LABEL = "#777"
"""Text on a white and on a black page."""
CONFIG: Spec = {
    "background": None,
    "font": "sans-serif",
    "padding": {"left": 24, "top": 5, "right": 12, "bottom": 5},
    "view": {"stroke": None},
    "axis": {
        "labelColor": LABEL,
        "titleColor": LABEL,
        "gridColor": "#8883",
        "domainColor": "#8888",
        "tickColor": "#8888",
    },
    "legend": {"labelColor": LABEL, "titleColor": LABEL, "orient": "top"},
    "title": {"color": LABEL, "anchor": "start", "fontSize": 12, "fontWeight": "bold"},
    "text": {"color": LABEL},
    "range": {"category": list(PALETTE)},
}


def spec(data: Sequence[Mapping[str, Any]], **rest: Any) -> Spec:
    schema = "https://vega.github.io/schema/vega-lite/v5.json"
    return {"$schema": schema, "config": CONFIG, "data": {"values": list(data)}, **rest}


def bars(rows: Sequence[Mapping[str, Any]], label: str, value: str, colour: str | None = None) -> Spec:
    """Horizontal bars in the order of the rows, stacked by colour."""
    order = list(dict.fromkeys(row[label] for row in rows))
    encoding: Spec = {
        "y": {"field": label, "type": "nominal", "sort": order, "title": None, "axis": {"labelLimit": 260}},
        "x": {"field": value, "type": "quantitative", "title": value, "axis": {"format": "~s"}},
    }
    if colour is not None:
        colours = list(dict.fromkeys(row[colour] for row in rows))
        scale = {"domain": colours, "range": [COLOURS.get(one, PALETTE[n % 8]) for n, one in enumerate(colours)]}
        encoding["color"] = {"field": colour, "type": "nominal", "scale": scale, "title": None}
    return spec(rows, width=WIDTH - 180, height={"step": 18}, mark="bar", encoding=encoding)


def histograms(found: Sequence[Histogram], other: Mapping[str, Histogram]) -> Spec:
    """Small charts, two in a row: shares of the kept and of the removed documents, and lines at the thresholds.

    `other` has the same measures of another version, drawn as a dashed line for the kept documents.
    """
    charts = [_histogram(one, other.get(one.measure.value)) for one in found]
    return spec([], concat=charts, columns=2, resolve={"legend": {"color": "shared"}})


def _histogram(found: Histogram, other: Histogram | None) -> Spec:
    measure = found.measure
    rows = []
    for side, counts in found.counts.items():
        whole = max(1, int(counts.sum()))
        rows += [
            {"from": float(low), "to": float(high), "share": int(count) / whole, "documents": side}
            for low, high, count in zip(found.edges[:-1], found.edges[1:], counts, strict=True)
            if count
        ]
    x: Spec = {"field": "from", "type": "quantitative", "title": None, "axis": {"tickCount": 5}}
    x["axis"]["format"] = "~s" if found.edges[-1] > 10 else ".2~g"
    x["scale"] = {"type": "log" if measure.is_log else "linear", "zero": False, "nice": False}
    y = {
        "field": "share",
        "type": "quantitative",
        "stack": None,
        "title": None,
        "axis": {"format": "%", "tickCount": 3},
    }
    scale = {"domain": [KEPT, REMOVED], "range": [COLOURS[KEPT], COLOURS[REMOVED]]}
    layers: list[Spec] = [
        {
            "data": {"values": rows},
            "mark": {"type": "rect", "opacity": 0.55},
            "encoding": {
                "x": x,
                "x2": {"field": "to"},
                "y": y,
                "y2": {"datum": 0},
                "color": {"field": "documents", "type": "nominal", "scale": scale, "title": None},
            },
        }
    ]
    if other is not None:
        counts = other.counts[KEPT]
        middles = (other.edges[:-1] + other.edges[1:]) / 2
        line = [
            {"from": float(at), "share": int(count) / max(1, int(counts.sum()))}
            for at, count in zip(middles, counts, strict=True)
        ]
        dashed = {"type": "line", "strokeDash": [4, 3], "strokeWidth": 1.5, "color": LABEL, "interpolate": "step"}
        layers.append({"data": {"values": line}, "mark": dashed, "encoding": {"x": x, "y": y}})
    limits = [{"from": limit, "name": name} for limit, name in measure.thresholds.items()]
    if limits:
        rule = {"type": "rule", "color": LABEL, "strokeWidth": 1.5}
        layers.append({"data": {"values": limits}, "mark": rule, "encoding": {"x": x}})
    return {"title": measure.title[:60], "width": WIDTH // 2 - 60, "height": 90, "layer": layers}


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
        "$schema": "https://vega.github.io/schema/vega/v5.json",
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
    y = {"field": "group", "type": "nominal", "title": None, "sort": [row["group"] for row in rows]}

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
    return spec(rows, width=WIDTH - 180, height={"step": 20}, layer=layers)


def quantiles(values: np.ndarray[Any, Any]) -> dict[str, float]:
    return {f"p{share}": float(np.quantile(values, share / 100)) for share in (5, 25, 50, 75, 95)}

"""The chart specifications of all pages. `page.py` renders them to SVG, so that a page runs no script.

Every chart is Vega-Lite, except the flow diagram and the histograms, which are Vega.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, cycle
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.counted import number
from gristmill.query.documents.histograms import KEPT, REMOVED, Histogram

Spec = dict[str, Any]

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#999999")
"""Okabe and Ito's colours, which people with any kind of colour blindness can tell apart."""
OTHER = "all others"
COLOURS = {KEPT: PALETTE[0], REMOVED: PALETTE[1], OTHER: PALETTE[-1]}
WIDTH, NARROW = 640, 330
CELL = (240, 80)
"""Width and height of a small histogram."""
MOST_LETTERS = 50
"""Letters of a name across a chart of width NARROW."""
VEGA = "https://vega.github.io/schema/vega/v5.json"
_LOOKS = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
CONFIG: Spec = {**_LOOKS, "bar": {"color": PALETTE[0]}}
"""How all charts look."""
LABEL, LETTERS, FONT = _LOOKS["axis"]["labelColor"], _LOOKS["axis"]["labelFontSize"], _LOOKS["font"]
"""The colour of words where no style sheet gives them that of the page, their size in pixels (a chart is never shrunk),
and their font.
"""


def spec(data: Sequence[Mapping[str, Any]], **rest: object) -> Spec:
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
        places = _lines(label, order)
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
    if is_upright:
        return spec(rows, width=WIDTH, height=200, mark="bar", encoding=encoding)
    layers = [{"mark": "bar", "encoding": encoding}, _names(label, order)]
    return spec(rows, width=NARROW, height={"step": 34}, layer=layers)


def _lines(label: str, order: Sequence[str]) -> Spec:
    """Horizontal lines for bars, each with space above it for its name."""
    scale = {"domain": order, "paddingInner": 0.55, "paddingOuter": 0.4}
    return {"field": label, "type": "nominal", "sort": order, "title": None, "axis": None, "scale": scale}


def _names(label: str, order: Sequence[str]) -> Spec:
    """The names above the bars. They are no axis: Vega measures a label of an axis, or one with a limit, for 7 ms."""
    letters = {"align": "left", "baseline": "bottom", "dx": 2, "dy": -2, "fontSize": LETTERS}
    return {
        "data": {"values": [{label: one, "shown": _cut(one, MOST_LETTERS)} for one in order]},
        "mark": {"type": "text", **letters},
        "encoding": {"x": {"value": 0}, "y": {**_lines(label, order), "bandPosition": 0}, "text": {"field": "shown"}},
    }


def _cut(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


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


def histograms(found: Sequence[Histogram], other: Mapping[str, Histogram]) -> Spec:
    """Small charts in Vega, each its own group: shares of kept and of removed documents, and lines at the thresholds.

    `other` has histograms of another version with the same edges, by value; they are drawn as lines. The shapes are
    computed here: a report has dozens of these charts, and Vega-Lite needs half a second to plan them. The page has
    the words around them, which Vega is slow to draw.
    """
    rows = [row for at, one in enumerate(found) for row in _cell(at, one, other.get(one.measure.value))]
    shape = {name: {"field": name} for name in ("path", "fill", "stroke")}
    encoding = {**shape, "fillOpacity": {"value": 0.55}, "strokeWidth": {"value": 1.5}}
    cell = {
        "type": "group",
        "name": "cell",
        "from": {"facet": {"name": "rows", "data": "all", "groupby": "at"}},
        "marks": [{"type": "path", "from": {"data": "rows"}, "encode": {"enter": encoding}}],
    }
    return {"$schema": VEGA, "config": CONFIG, "data": [{"name": "all", "values": rows}], "marks": [cell]}


def _cell(at: int, found: Histogram, other: Histogram | None) -> Iterator[Spec]:
    width, height = CELL
    places = np.log1p(found.edges) if found.is_log else found.edges
    low, wide = places[0], places[-1] - places[0]

    def across(values: object) -> list[float]:
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
        yield {"at": at, **path}
    for x in across(list(found.measure.thresholds)):
        yield {"at": at, "path": f"M{x},0 V{height}", "fill": None, "stroke": LABEL}


def short_number(value: float) -> str:
    """`0.25`, `1,024`, `56k`, `1.2M`."""
    for unit, one in (("M", 1e6), ("k", 1e4)):
        if abs(value) >= one:
            return f"{value / (1e6 if unit == 'M' else 1e3):.3g}{unit}"
    return number(value, 3)


def flow(steps: Sequence[tuple[str, int]], read: int) -> Spec:
    """A flow diagram in Vega: documents run down on the left, and each step lets some of them leave to the right.

    `steps`: each with the documents that it removed.
    """
    widest, slot, end, lead = 130.0, 26.0, 165.0, 12.0
    scale = widest / max(1, read)
    paths = [{"path": f"M0,0 H{read * scale:.1f} V{lead} H0 Z", "kind": KEPT}]
    labels = [{"x": 0.0, "y": -8.0, "text": f"{read:,} read"}]
    left = read
    for top, (name, removed) in zip(count(lead, slot), steps, strict=False):
        outer, inner, middle = left * scale, (left - removed) * scale, top + slot / 2
        half = max(min(removed * scale, slot * 0.8), 0.8) / 2
        paths.append({"path": f"M0,{top} H{inner:.1f} V{top + slot} H0 Z", "kind": KEPT})
        up, down = f"{middle - half:.1f}", f"{middle + half:.1f}"
        there = f"M{inner:.1f},{top} H{outer:.1f} C{outer:.1f},{up} {outer:.1f},{up} {end},{up}"
        back = f"V{down} C{inner:.1f},{down} {inner:.1f},{down} {inner:.1f},{top} Z"
        paths.append({"path": f"{there} {back}", "kind": REMOVED})
        labels.append({"x": end + 6, "y": middle + 4, "text": f"−{removed:,} {_cut(name, MOST_LETTERS // 2)}"})
        left -= removed
    bottom = lead + len(steps) * slot
    paths.append({"path": f"M0,{bottom} H{left * scale:.1f} V{bottom + lead} H0 Z", "kind": KEPT})
    labels.append({"x": 0.0, "y": bottom + lead + 16, "text": f"{left:,} kept"})
    places = {"x": {"field": "x"}, "y": {"field": "y"}, "text": {"field": "text"}, "fill": {"value": LABEL}}
    letters = {"fontSize": {"value": LETTERS}, "font": {"value": FONT}}
    return {
        "$schema": VEGA,
        "background": None,
        "width": NARROW,
        "height": bottom + lead + 20,
        "padding": {"left": 5, "right": 5, "top": 20, "bottom": 5},
        "data": [{"name": "paths", "values": paths}, {"name": "labels", "values": labels}],
        "scales": [
            {"name": "kind", "type": "ordinal", "domain": [KEPT, REMOVED], "range": [COLOURS[KEPT], COLOURS[REMOVED]]}
        ],
        "marks": [
            {
                "type": "path",
                "from": {"data": "paths"},
                "encode": {"enter": {"path": {"field": "path"}, "fill": {"scale": "kind", "field": "kind"}}},
            },
            {"type": "text", "from": {"data": "labels"}, "encode": {"enter": {**places, **letters}}},
        ],
    }


def quartile_boxes(rows: Sequence[Mapping[str, Any]]) -> Spec:
    """Per group: a line from the 5th to the 95th percentile, a bar between the quartiles and a tick at the median."""
    order = [row["group"] for row in rows]
    y = _lines("group", order)

    def x(name: str) -> Spec:
        return {"field": name, "type": "quantitative", "title": None, "scale": {"zero": False}}

    layers = [
        {"mark": {"type": "rule", "color": LABEL}, "encoding": {"y": y, "x": x("p5"), "x2": {"field": "p95"}}},
        {
            "mark": {"type": "bar", "size": 9, "color": PALETTE[0]},
            "encoding": {"y": y, "x": x("p25"), "x2": {"field": "p75"}},
        },
        {"mark": {"type": "tick", "color": PALETTE[1], "thickness": 3}, "encoding": {"y": y, "x": x("p50")}},
        _names("group", order),
    ]
    return spec(rows, width=NARROW, height={"step": 34}, layer=layers)

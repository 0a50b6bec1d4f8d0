"""Plots as inline SVG: grouped bars, and lines over a logarithmic axis. Text and axes have the colour of the page."""

import math
from collections.abc import Mapping, Sequence

from gristmill.report.markup import escaped

COLOURS = ("#4269d0", "#e8833a", "#3ca951", "#d0457b", "#8a63c9", "#1a9aa8", "#9c6b4e", "#7f8794")
"""One per series, repeated after the last."""

WIDTH, HEIGHT = 860, 300
_LEFT, _RIGHT, TOP, BOTTOM = 52, 12, 12, 30
_LEGEND = 22


def bars(groups: Mapping[str, Mapping[str, float]], unit: str) -> str:
    """A group of bars for each key, with one bar for each series (the keys of the first group)."""
    series = list(next(iter(groups.values()))) if groups else []
    top = ceiling(max((value for values in groups.values() for value in values.values()), default=1.0))
    parts = _frame(top, unit)
    step = (WIDTH - _LEFT - _RIGHT) / max(1, len(groups))
    wide = step * 0.8 / max(1, len(series))
    for place, (name, values) in enumerate(groups.items()):
        begin = _LEFT + place * step + step * 0.1
        for number, one in enumerate(series):
            value = values[one]
            at, high = begin + number * wide, _height(value, top)
            parts.append(
                f'<rect x="{at:.1f}" y="{high:.1f}" width="{max(1.0, wide - 1):.1f}" '
                f'height="{HEIGHT - BOTTOM - high:.1f}" fill="{COLOURS[number % len(COLOURS)]}">'
                f"<title>{escaped(name)}, {escaped(one)}: {value:,.3g}</title></rect>"
            )
            if wide > 24:
                parts.append(text(at + wide / 2, high - 3, f"{value:.2f}", 10))
        parts.append(text(begin + step * 0.4, HEIGHT - BOTTOM + 15, name))
    return image(parts, series if len(series) > 1 else [])


def lines(series: Mapping[str, Sequence[tuple[float, float]]], unit: str, x_unit: str) -> str:
    """A line for each series; x is logarithmic, y starts just below the lowest point."""
    points = [point for line in series.values() for point in line]
    low_x, high_x = min(x for x, _ in points), max(x for x, _ in points)
    low_y, high_y = min(y for _, y in points), max(y for _, y in points)
    bottom, top = math.floor(low_y * 2) / 2, math.ceil(high_y * 2 + 0.01) / 2
    parts = _frame(top, unit, bottom)

    def across(x: float) -> float:
        share = 0.5 if high_x == low_x else math.log(x / low_x) / math.log(high_x / low_x)
        return _LEFT + 40 + share * (WIDTH - _LEFT - _RIGHT - 80)

    for x in sorted({x for x, _ in points}):
        parts.append(text(across(x), HEIGHT - BOTTOM + 15, f"{x:,.0f}"))
    parts.append(text(WIDTH - _RIGHT, HEIGHT - 4, x_unit, anchor="end"))
    for number, (name, line) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        placed = [(across(x), _height(y, top, bottom)) for x, y in line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for (x, y), (_, value) in zip(placed, line, strict=True):
            title = f"<title>{escaped(name)}: {value:.3f}</title>"
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}">{title}</circle>')
    return image(parts, list(series))


def _frame(top: float, unit: str, bottom: float = 0.0) -> list[str]:
    """Horizontal grid lines with values, and the unit."""
    parts = []
    for fifth in range(6):
        value = bottom + (top - bottom) * fifth / 5
        y = _height(value, top, bottom)
        parts.append(
            f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="currentColor" opacity="0.15"/>'
        )
        parts.append(text(_LEFT - 6, y + 4, f"{value:,.4g}", anchor="end"))
    middle = (HEIGHT - BOTTOM + TOP) / 2
    turned = f'transform="rotate(-90 11 {middle:.0f})"'
    parts.append(f'<text x="11" y="{middle:.0f}" text-anchor="middle" font-size="11" {turned}>{escaped(unit)}</text>')
    return parts


def _height(value: float, top: float, bottom: float = 0.0) -> float:
    return HEIGHT - BOTTOM - (value - bottom) / max(1e-9, top - bottom) * (HEIGHT - BOTTOM - TOP)


def ceiling(value: float) -> float:
    """The next round number with a small margin."""
    if value <= 0:
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 20) if step * power >= value * 1.05)


def text(x: float, y: float, words: str, size: int = 11, anchor: str = "middle") -> str:
    """Text at a point."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escaped(words)}</text>'


def image(parts: Sequence[str], legend: Sequence[str], height: int = HEIGHT) -> str:
    """A plot with its legend below."""
    listed = []
    x = float(_LEFT)
    row = 0
    for number, name in enumerate(legend):
        wide = 26 + 6.6 * len(name)
        if x + wide > WIDTH and x > _LEFT:
            x, row = float(_LEFT), row + 1
        y = height + 12 + row * _LEGEND
        colour = COLOURS[number % len(COLOURS)]
        listed.append(f'<rect x="{x:.1f}" y="{y - 9}" width="11" height="11" fill="{colour}"/>')
        listed.append(text(x + 16, y + 1, name, anchor="start"))
        x += wide
    high = height + ((row + 1) * _LEGEND if legend else 0)
    return (
        f'<svg viewBox="0 0 {WIDTH} {high}" role="img" fill="currentColor" font-family="system-ui, sans-serif">'
        f"{''.join(parts)}{''.join(listed)}</svg>"
    )

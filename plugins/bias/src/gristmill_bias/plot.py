"""Shares with their intervals as inline SVG."""

from collections.abc import Mapping, Sequence

from gristmill.report.markup import escaped
from gristmill.report.svg import BOTTOM, COLOURS, TOP, WIDTH, ceiling, image, text


def intervals(
    rows: Mapping[str, Mapping[str, tuple[float, float, float]]],
    marks: Mapping[str, tuple[float, int]],
    series: Sequence[str],
) -> str:
    """The plot: one line per key, with a point and an interval (value, low, high) for each of its series; `marks` are
    dashed vertical lines, each with a value and the number of the series whose colour it has.
    """
    left, line = 250, 13 * len(series) + 10
    top = min(
        1.0,
        ceiling(
            max([value for value, _ in marks.values()] + [one[2] for row in rows.values() for one in row.values()])
        ),
    )
    high = TOP + line * len(rows)
    parts = []

    def across(value: float) -> float:
        return left + value / top * (WIDTH - left - 30)

    for fifth in range(6):
        x = across(top * fifth / 5)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{high}" stroke="currentColor" opacity="0.15"/>')
        parts.append(text(x, high + 15, f"{top * fifth / 5:.3g}"))
    for name, (value, number) in marks.items():
        x, colour = across(value), COLOURS[number % len(COLOURS)]
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{high}" stroke="{colour}" stroke-dasharray="4 3">'
            f"<title>{escaped(name)}: {value:.3g}</title></line>"
        )
    for index, (name, values) in enumerate(rows.items()):
        y = TOP + line * index
        shown = name if len(name) <= 36 else f"{name[:35]}\u2026"
        parts.append(text(left - 10, y + line / 2 + 4, shown, anchor="end"))
        for number, one in enumerate(series):
            if one not in values:
                continue
            value, low, up = values[one]
            colour, at = COLOURS[number % len(COLOURS)], y + 11 + 13 * number
            title = f"<title>{escaped(name)}, {escaped(one)}: {value:.3g} ({low:.3g} to {up:.3g})</title>"
            parts.append(
                f'<g>{title}<line x1="{across(low):.1f}" x2="{across(up):.1f}" y1="{at}" y2="{at}" stroke="{colour}" '
                f'stroke-width="2.5" opacity="0.55"/>'
                f'<circle cx="{across(value):.1f}" cy="{at}" r="4" fill="{colour}"/></g>'
            )
    return image(parts, series, high + BOTTOM)

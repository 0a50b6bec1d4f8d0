"""A picture of differences with their intervals, one line each: an SVG file that needs nothing else.

Colours are those of Okabe and Ito, which people with any colour vision can tell apart; every number is also text.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gristmill.report.markup import escaped
from gristmill.report.svg import WIDTH, ceiling, text

COLOURS = {"better": "#0072b2", "worse": "#d55e00", "no evidence": "#6b6b6b"}
_RIGHT, _TOP, _ROW = 560, 78, 26
_LONGEST = 48
"""Characters of a name."""
_LEGEND = "A filled dot is a verdict, a hollow one no evidence. Verdicts are corrected for their number."
_TICKS = 4
"""On each side of zero, at most."""


class IntervalLine(NamedTuple):
    """A difference with its interval, as shares: below 0 is better."""

    name: str
    difference: float
    low: float
    high: float
    verdict: str
    is_total: bool = False


def picture(title: str, subtitle: str, lines: Sequence[IntervalLine]) -> str:
    """The lines from top to bottom on one axis. An interval that is far wider than the others ends in an arrow."""
    total = [line for line in lines if line.is_total] or lines
    reach = ceiling(max([abs(line.difference) for line in lines] + [abs(e) for one in total for e in one[2:4]]))
    bottom = _TOP + _ROW * len(lines)
    height = bottom + 64
    left = 40 + 7 * min(_LONGEST, max(len(line.name) for line in lines))
    middle, half = (left + _RIGHT) / 2, (_RIGHT - left) / 2

    def across(share: float) -> float:
        return middle + half * max(-1.0, min(1.0, share / reach))

    parts = [text(16, 26, title, 15, "start"), text(16, 46, subtitle, 11, "start")]
    parts += [text(left, _TOP - 10, "\u2190 better", 11, "start"), text(_RIGHT, _TOP - 10, "worse \u2192", 11, "end")]
    for number in range(-_TICKS, _TICKS + 1):
        share, shade = reach * number / _TICKS, "#333333" if number == 0 else "#dddddd"
        x = across(share)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom}" stroke="{shade}"/>')
        if number % 2 == 0:
            parts.append(text(x, bottom + 16, f"{100 * share:+.3g}%" if number else "0"))
    for place, line in enumerate(lines):
        parts += _line(line, _TOP + _ROW * (place + 0.5), across, reach)
        if line.is_total and place:
            y = _TOP + _ROW * place
            parts.append(f'<line x1="16" x2="{WIDTH - 16}" y1="{y}" y2="{y}" stroke="#333333"/>')
    parts += [text(middle, bottom + 34, "difference of bits per byte, with 95% interval")]
    parts += [text(16, height - 8, _LEGEND, 11, "start")]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" font-family="system-ui, sans-serif" fill="#1a1a1a"><title>{escaped(title)}</title>'
        f'<rect width="100%" height="100%" fill="#ffffff"/>{"".join(parts)}</svg>\n'
    )


def _line(line: IntervalLine, y: float, across: Callable[[float], float], reach: float) -> list[str]:
    colour = COLOURS[line.verdict]
    low, high = across(line.low), across(line.high)
    name = line.name if len(line.name) <= _LONGEST else f"{line.name[: _LONGEST - 1]}\u2026"
    label = text(16, y + 4, name, 12, "start")
    parts = [label.replace("<text", '<text font-weight="bold"') if line.is_total else label]
    parts.append(f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2.5"/>')
    for x, share, side in ((low, line.low, -1), (high, line.high, 1)):
        if abs(share) > reach:  # an arrow: it goes on
            points = f"{x:.1f},{y - 5} {x + 7 * side:.1f},{y} {x:.1f},{y + 5}"
            parts.append(f'<polygon points="{points}" fill="{colour}"/>')
    fill = "#ffffff" if line.verdict == "no evidence" else colour
    centre = f'cx="{across(line.difference):.1f}" cy="{y}" r="5"'
    parts.append(f'<circle {centre} fill="{fill}" stroke="{colour}" stroke-width="2"/>')
    numbers = f"{100 * line.difference:+.2f}% ({100 * line.low:+.2f} to {100 * line.high:+.2f})"
    parts.append(text(_RIGHT + 22, y + 4, numbers, 11, "start"))
    verdict = text(WIDTH - 16, y + 4, line.verdict, 11, "end")
    return [*parts, verdict.replace("<text", f'<text fill="{colour}" font-weight="bold"')]

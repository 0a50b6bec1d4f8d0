"""A picture of differences with their intervals, one line each: an SVG file that needs nothing else."""

from collections.abc import Sequence
from typing import NamedTuple

from gristmill.report import charts
from gristmill.report.page import draw

NEEDED_BY = "The picture of an ablation"
COLOURS = {"better": charts.PALETTE[0], "worse": charts.PALETTE[1], "no evidence": "#6b6b6b"}
_AXIS = "\u2190 better \u00b7 difference of bits per byte, with 95% interval \u00b7 worse \u2192"
_CORRECTED = "Verdicts are corrected for their number."


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
    reach = 1.05 * max([abs(line.difference) for line in lines] + [abs(e) for one in total for e in one[2:4]])
    rows = [
        {
            "group": line.name,
            "value": line.difference,
            "low": line.low,
            "high": line.high,
            "series": line.verdict,
            "numbers": f"{100 * line.difference:+.2f}% ({100 * line.low:+.2f} to {100 * line.high:+.2f})",
        }
        for line in lines
    ]
    chart = charts.intervals(
        rows, COLOURS, _AXIS, (-(reach or 1.0), reach or 1.0), [{"value": 0.0, "series": "no evidence"}]
    )
    right = chart["width"] + 16
    for field, at in (("numbers", right), ("series", right + 170)):
        words = {"x": {"value": at}, "y": {"field": "group", "sort": None}, "text": {"field": field}}
        text = {"type": "text", "align": "left", "fontSize": 11, "color": "#1a1a1a"}
        chart["layer"].append({"data": {"values": rows}, "mark": text, "encoding": words})
    chart["title"] = {"text": title, "subtitle": [subtitle, _CORRECTED]}
    return draw({**chart, "config": {**charts.CONFIG, "background": "#ffffff"}})

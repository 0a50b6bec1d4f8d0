"""The picture of an ablation: a file of its own, with every number as text."""

import re
from xml.etree import ElementTree

import pytest

from gristmill.report.intervals import COLOURS, IntervalLine, picture

LINES = [
    IntervalLine("arc & <b>", -0.012, -0.03, 0.006, "no evidence"),
    IntervalLine("manuals", -0.021, -0.031, -0.011, "better"),
    IntervalLine("noisy", 0.04, -0.11, 0.2, "no evidence"),
    IntervalLine("overall", -0.013, -0.02, -0.006, "worse", True),
]


@pytest.fixture(scope="module")
def root():
    return ElementTree.fromstring(picture("Is B better?", "3 pairs", LINES))


def found(root, tag):
    return root.findall(f".//{{http://www.w3.org/2000/svg}}{tag}")


def test_every_line_has_its_numbers_and_its_verdict_as_text(root):
    """Names are never markup."""
    texts = [each.text for each in found(root, "text")]
    for line in LINES:
        assert line.name in texts
        assert f"{100 * line.difference:+.2f}% ({100 * line.low:+.2f} to {100 * line.high:+.2f})" in texts
    assert [text for text in texts if text in COLOURS][:4] == [line.verdict for line in LINES]


def test_an_interval_is_where_its_numbers_say(root):
    """On one axis for all lines; one that is far wider ends in arrows at the edges and hides no other."""
    coloured = [each for each in found(root, "line") if each.get("stroke") in COLOURS.values()]
    bars = [each for each in coloured if each.get("stroke-width") == "2.5"]
    ends = []
    for bar in bars:
        low = float(re.match(r"translate\((-?[\d.]+),", bar.get("transform"))[1])
        ends.append((low, low + float(bar.get("x2"))))
    (low, high), line = ends[0], LINES[0]
    scale = (high - low) / (line.high - line.low)
    zero = low - scale * line.low
    for line, (low, high) in zip(LINES, ends, strict=True):
        if line.name != "noisy":
            assert abs(low - zero - scale * line.low) < 0.6
            assert abs(high - zero - scale * line.high) < 0.6
        else:
            assert (low, high) == (0, 2 * zero)
    paths = [each.get("d") for each in found(root, "path") if each.get("fill") == COLOURS["no evidence"]]
    assert len([path for path in paths if "A" not in path]) == 2  # triangles; dots are arcs


def test_a_dot_has_the_colour_of_its_verdict(root):
    dots = [each.get("fill") for each in found(root, "path") if "A" in (each.get("d") or "")]
    assert [one for one in dots if one in COLOURS.values()][:4] == [COLOURS[line.verdict] for line in LINES]

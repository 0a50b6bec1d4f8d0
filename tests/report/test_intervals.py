"""The picture of an ablation: a file of its own, with every number as text."""

from xml.etree import ElementTree

from gristmill.report.intervals import COLOURS, IntervalLine, picture

LINES = [
    IntervalLine("arc & <b>", -0.012, -0.03, 0.006, "no evidence"),
    IntervalLine("manuals", -0.021, -0.031, -0.011, "better"),
    IntervalLine("noisy", 0.04, -0.11, 0.2, "no evidence"),
    IntervalLine("overall", -0.013, -0.02, -0.006, "worse", True),
]


def drawn(lines):
    return ElementTree.fromstring(picture("Is B better?", "3 pairs", lines))


def found(root, tag):
    return root.findall(f".//{{http://www.w3.org/2000/svg}}{tag}")


def test_every_line_has_its_numbers_and_its_verdict_as_text():
    """Names are never markup."""
    texts = [each.text for each in found(drawn(LINES), "text")]
    for line in LINES:
        assert line.name in texts
        assert f"{100 * line.difference:+.2f}% ({100 * line.low:+.2f} to {100 * line.high:+.2f})" in texts
    assert [text for text in texts if text in COLOURS] == [line.verdict for line in LINES]


def test_an_interval_is_where_its_numbers_say():
    """On one axis for all lines; one that is far wider ends in arrows at the edges and hides no other."""
    root = drawn(LINES)
    zero = next(float(each.get("x1")) for each in found(root, "line") if each.get("stroke") == "#333333")
    bars = [each for each in found(root, "line") if each.get("stroke") in COLOURS.values()]
    ends = [(float(bar.get("x1")) - zero, float(bar.get("x2")) - zero) for bar in bars]
    scale = ends[0][1] / LINES[0].high
    for line, (low, high) in zip(LINES, ends, strict=True):
        if line.name != "noisy":
            assert abs(low - scale * line.low) < 0.2
            assert abs(high - scale * line.high) < 0.2
    assert len(found(root, "polygon")) == 2
    assert all(0 <= zero + end <= 860 for pair in ends for end in pair)


def test_only_a_verdict_fills_its_dot():
    fills = [each.get("fill") for each in found(drawn(LINES), "circle")]
    assert fills == ["#ffffff", COLOURS["better"], "#ffffff", COLOURS["worse"]]

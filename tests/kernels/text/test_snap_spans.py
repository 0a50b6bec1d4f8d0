"""Spans shrink to whole characters or lines, never grow."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.text.snap_spans import snap_spans
from lent_arrays import lent

TEXTS = st.lists(st.text("aé漢🙂\n", max_size=12), max_size=5)


@given(TEXTS, st.booleans(), st.data())
def test_what_is_left_of_a_span_is_its_whole_characters_or_lines(texts, lines, data):
    """Of the pieces that Python splits a text into, exactly those that are wholly in a span."""
    encoded = [text.encode() for text in texts]
    spans = []
    for text in encoded:
        points = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)))
        spans.append(points[: len(points) // 2 * 2])
    offsets = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    firsts = np.cumsum([0, *map(len, spans)])
    bounds = np.array([bound for bounds in spans for bound in bounds], np.int64)
    bounds.flags.writeable = False
    buffer = np.frombuffer(b"".join(encoded) or b"\0", np.uint8).copy()
    lent(buffer, offsets)
    new_firsts, new_bounds = snap_spans(buffer, offsets, firsts, bounds, lines)
    for row, text in enumerate(texts):
        pieces = text.split("\n") if lines else list(text)
        if lines:
            pieces = [piece + "\n" for piece in pieces[:-1]] + pieces[-1:]
        ends = np.cumsum([0, *(len(piece.encode()) for piece in pieces)]).tolist()
        wanted: list[int] = []
        for start, stop in zip(spans[row][::2], spans[row][1::2], strict=True):
            inside = [edge for edge in ends if start <= edge <= stop]
            if inside and inside[0] < inside[-1]:
                wanted += [inside[0], inside[-1]]
        assert new_bounds[new_firsts[row] : new_firsts[row + 1]].tolist() == wanted

"""Cutting bytes out of texts: exact against slices of Python bytes."""

import unicodedata
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from gristmill.kernels.memory import view
from gristmill.kernels.text.cut_spans import blank_width, first_bad_row, is_blank, without_spans
from lent_arrays import lent


@njit
def width_of(data):
    return blank_width(view(data), 0, len(data))


@njit
def whole_is_blank(data):
    return is_blank(view(data), 0, len(data))


def arrays(texts, spans):
    ends = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    data, offsets = lent(np.frombuffer(b"".join(texts) or b"\0", np.uint8).copy(), ends)
    firsts = np.cumsum([0, *map(len, spans)]).astype(np.int64)
    bounds = np.array([bound for one in spans for bound in one], np.int64)
    bounds.flags.writeable = False
    return data, offsets, firsts, bounds


def remainder(text, spans):
    places = [0, *spans, len(text)]
    return b"".join(text[start:stop] for start, stop in zip(places[::2], places[1::2], strict=True))


@st.composite
def cuts(draw):
    """A text and spans between its characters."""
    text = draw(st.text(alphabet="ab \n\u00e4\u2003\u4e16\U0001f600", max_size=30))
    ends = [len(text[:count].encode()) for count in range(len(text) + 1)]
    chosen = sorted(draw(st.sets(st.sampled_from(ends), max_size=8)))
    return text.encode(), chosen[: len(chosen) // 2 * 2]


@settings(deadline=None)
@given(st.lists(cuts(), max_size=6))
def test_what_is_left_is_what_slices_leave(rows):
    """Bytes, offsets and blankness of every text are those of the slices between its spans."""
    texts, spans = [text for text, _ in rows], [one for _, one in rows]
    given_arrays = arrays(texts, spans)
    assert first_bad_row(*given_arrays) == -1
    left, ends, blank = without_spans(*given_arrays)
    found = [left[start:stop].tobytes() for start, stop in pairwise(ends)]
    assert found == [remainder(text, one) for text, one in rows]
    assert blank.tolist() == [not text.decode().strip() for text in found]


@pytest.mark.parametrize("spans", [[0], [2, 2], [3, 1], [0, 3, 2, 4], [0, 9], [-1, 2], [0, 5], [5, 6]])
def test_spans_that_do_not_cut_a_text_are_found(spans):
    """An odd bound, an empty, backward, overlapping or outlying span, or half a character names its row."""
    texts = [b"fine", "abcd\u00e4x".encode(), b"fine"]
    assert first_bad_row(*arrays(texts, [[0, 1, 1, 4], spans, []])) == 1


def test_blank_characters_are_white_space_controls_and_signs_of_no_width():
    """Every code point but a few format signs of single scripts is judged as Unicode's categories would."""
    beyond = {0x1C, 0x1D, 0x1E, 0x1F} | set(range(0x80, 0xA0))
    for point in range(0x30000):
        if 0xD800 <= point < 0xE000:
            continue
        found = width_of(np.frombuffer(chr(point).encode(), np.uint8))
        assert found in (0, len(chr(point).encode()))
        if chr(point).isspace() or point in beyond:
            assert found, hex(point)
        elif found:
            assert unicodedata.category(chr(point)) in ("Cc", "Cf", "Zs", "Cn"), hex(point)


def test_a_stretch_is_blank_until_something_shows():
    """One visible character anywhere is enough, and half a character is one."""
    assert whole_is_blank(np.frombuffer(" \n\t\u3000\ufeff\u00a0".encode(), np.uint8))
    assert not whole_is_blank(np.frombuffer(" \u3000.\n".encode(), np.uint8))
    assert not whole_is_blank(np.frombuffer(b" \xe3\x80", np.uint8))

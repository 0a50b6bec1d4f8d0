"""Repeated spans are those that a set of all windows finds, on texts made to be repeated, and in one pass."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.kernels.dedup.repeated_spans import repeated_spans

LETTERS = random.Random(1)


def spans_of(texts: list[bytes], order: list[int], size: int, within: bool = False, width: int | None = None):
    """Spans as (text, start, stop), start and stop in the text; and the bytes of the table."""
    offsets = np.cumsum([0, *map(len, texts)])
    data = np.frombuffer(b"".join(texts) or b"\0", np.uint8)
    found, used = repeated_spans(data, offsets, np.array(order, np.int64), size, within, width)
    return [(int(row), int(start - offsets[row]), int(stop - offsets[row])) for row, start, stop in found], used


def oracle(texts: list[bytes], order: list[int], size: int, within: bool = False) -> list[tuple[int, int, int]]:
    """Bytes in a window of `size` that an earlier text has, or the same text before it, by a set of all windows."""
    known: set[bytes] = set()
    spans = []
    for row in order:
        text, first = texts[row], {}
        windows = [text[at : at + size] for at in range(len(text) - size + 1)]
        marked = [False] * (len(text) + 1)
        for at, window in enumerate(windows):
            if window in known or (within and first.setdefault(window, at) + size <= at):
                marked[at : at + size] = [True] * size
        known.update(windows)
        edges = [at for at in range(len(text) + 1) if marked[at] != (at > 0 and marked[at - 1])]
        spans += [(row, *pair) for pair in zip(edges[::2], edges[1::2], strict=True)]
    return spans


def letters(count: int) -> bytes:
    return bytes(LETTERS.choices(b"abcdefghijklmnop", k=count))


@st.composite
def repetitive_texts(draw: st.DrawFn) -> list[bytes]:
    """Texts put together from few pieces over few letters, so that nearly everything is repeated nearly everywhere."""
    few = draw(st.sampled_from(["a", "ab", "abc", "abcdefghijkl"]))
    piece = st.text(few, max_size=draw(st.sampled_from([2, 9, 30]))).map(str.encode)
    pieces = st.sampled_from(draw(st.lists(piece, min_size=1, max_size=5)))
    return [b"".join(parts) for parts in draw(st.lists(st.lists(st.one_of(pieces, piece), max_size=8), max_size=8))]


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(repetitive_texts(), st.integers(1, 20), st.booleans(), st.randoms(use_true_random=False))
def test_spans_are_those_of_a_set_of_all_windows(texts, size, within, draw):
    """For any texts, order, window and number of anchors to choose from, not a byte more or less."""
    order = draw.sample(range(len(texts)), draw.randint(0, len(texts)))
    width = draw.choice([None, draw.randint(1, size)])
    assert spans_of(texts, order, size, within, width)[0] == oracle(texts, order, size, within)


@pytest.mark.parametrize("size", [50, 500])
@pytest.mark.parametrize("within", [False, True])
def test_long_windows_are_exact_on_texts_that_share_stretches(size, within):
    """Stretches just under, at and over the limit, whole texts, borders of texts, many letters and few."""
    draw = random.Random(size)
    shared = [letters(size + more) for more in (-size // 2, -1, 0, 1, 40)] + [b"-" * (size + 9), b"=+" * size]
    texts = []
    for _ in range(40):
        parts = [draw.choice(shared) if draw.random() < 0.6 else letters(draw.randint(1, 80)) for _ in range(6)]
        texts.append(b"".join(parts))
    order = draw.sample(range(len(texts)), len(texts))
    found, _ = spans_of(texts, order, size, within)
    assert found == oracle(texts, order, size, within)
    assert len(found) > 20


@pytest.mark.parametrize("unit", [b" ", b"ab", letters(600) + b"\n"])
def test_a_text_of_one_repeated_unit_is_known_from_its_first_copy_on(unit):
    """Megabytes of blanks or of one line: the second text goes whole, and within a text all but one window or unit."""
    text = unit * (2_000_000 // len(unit))
    assert spans_of([text, text], [0, 1], 500)[0] == [(1, 0, len(text))]
    first = -(-500 // len(unit)) * len(unit)
    assert spans_of([text], [0], 500, within=True)[0] == [(0, first, len(text))]


def test_one_boilerplate_in_all_texts_is_kept_once():
    """Twenty thousand texts with the same 600 bytes: each but the first loses them, and the table stays small."""
    shared = letters(600)
    texts = [b"%08d" % number + shared + b"%08d" % -number for number in range(20_000)]
    order = list(range(20_000))[::-1]
    found, used = spans_of(texts, order, 500)
    assert [row for row, _, _ in found] == order[1:]
    # A digit beside the 600 bytes may be that of another text; what the oracle would say is 600 bytes and some digits.
    assert all(start <= 8 and stop >= 608 for _, start, stop in found)
    assert used < 2 * sum(map(len, texts))


def test_a_stretch_under_the_limit_in_all_texts_costs_no_more_than_others():
    """Twenty thousand contexts of one anchor are a tree, not a list: nothing is cut, and a copy of each is found."""
    shared = letters(450)
    texts = [letters(60) + shared + letters(60) for _ in range(20_000)]
    found, used = spans_of(texts + texts, list(range(40_000)), 500)
    assert found == [(row, 0, 570) for row in range(20_000, 40_000)]
    assert used < sum(map(len, texts + texts))


def test_the_table_grows_without_losing_an_entry():
    """Two letters make more contexts than a table for prose can hold, and the result stays exact."""
    draw = random.Random(3)
    texts = [bytes(draw.choices(b"ab", k=2_000)) for _ in range(30)]
    found, used = spans_of(texts, list(range(30)), 18)
    assert used > 1.5 * 16 * 1.5 * 2 / 10 * 60_000, "the table did not have to grow"
    assert found == oracle(texts, list(range(30)), 18)


def test_prose_takes_a_fifth_of_a_byte_a_byte():
    """Memory is what bounds a block, so it is promised: 100 / min_bytes for a byte of text that is not repeated."""
    text = random.Random(2).randbytes(2_000_000).hex().encode()
    assert spans_of([text], [0], 500)[1] < 0.2 * len(text)

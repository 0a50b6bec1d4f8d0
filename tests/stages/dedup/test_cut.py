"""Cutting spans out of a column of texts."""

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.stages.shared.cut import FIELDS, SPAN_TYPE, cut, spans_of


def column(texts):
    return pa.array(texts, pa.string())


def spans(*lists):
    return pa.array(lists, SPAN_TYPE)


def pieces(text, bounds):
    """The spans that stay and those that are cut, in turn."""
    data, places = text.encode(), [0, *bounds, len(text.encode())]
    return [data[start:stop].decode() for start, stop in pairwise(places)]


@st.composite
def stretches(draw):
    """A text and any spans of it, in any order, possibly overlapping."""
    text = draw(st.text(alphabet="ab \n\u00e4\u4e16\U0001f600", min_size=1, max_size=20))
    place = st.integers(0, len(text))
    found = draw(st.lists(st.tuples(place, place).filter(lambda pair: pair[0] != pair[1]), max_size=5))
    return text, [tuple(sorted(pair)) for pair in found]


@settings(deadline=None)
@given(st.lists(stretches(), max_size=5), st.randoms())
def test_a_cut_can_be_undone(rows, random):
    """The rest and the cut spans together are the original text; order and overlap of spans do not matter."""
    flat = [
        (row, len(text[:start].encode()), len(text[:stop].encode()))
        for row, (text, found) in enumerate(rows)
        for start, stop in found
    ]
    random.shuffle(flat)
    wanted = spans_of(*([one[place] for one in flat] for place in range(3)), len(rows))
    columns = cut(column([text for text, _ in rows]), wanted, "nothing_left")
    for row, (text, found) in enumerate(rows):
        bounds = columns["cut_spans"][row].as_py()
        parts = pieces(text, bounds)
        assert columns["text"][row].as_py() == "".join(parts[::2])
        gone = {place for start, stop in found for place in range(start, stop)}
        assert "".join(parts[1::2]) == "".join(text[place] for place in sorted(gone))
        assert bounds == sorted(set(bounds)), "spans that touch are one"
        assert columns["cut_bytes"][row].as_py() == len("".join(parts[1::2]).encode())


def test_a_text_with_nothing_left_gets_the_verdict():
    """Only if something was cut and nothing visible is left; a text that was already empty is not judged here."""
    columns = cut(column(["menu\n \u200b\n", "", " \n", "menu\nx", None]), spans([0, 4], [], [], [0, 4], None), "gone")
    assert columns["drop"].to_pylist() == ["gone", None, None, None, None]
    assert columns["detail"].to_pylist() == ["4 bytes cut", None, None, None, None]
    assert columns["text"].to_pylist() == ["\n \u200b\n", "", " \n", "\nx", None]
    assert columns["cut_spans"].to_pylist() == [[0, 4], [], [], [0, 4], None]
    assert columns["cut_bytes"].to_pylist() == [4, 0, 0, 4, None]


def test_columns_are_those_declared_for_any_slice():
    """Names and types are those of FIELDS, and a slice of the columns gives a slice of the result."""
    texts = column(["one two", None, "drei\u00e4", "", "four"])
    wanted = spans([0, 3], None, [4, 6], None, [])
    whole = pa.RecordBatch.from_pydict(cut(texts, wanted, "gone"), schema=pa.schema(FIELDS))
    whole.validate(full=True)
    for start in range(5):
        for stop in range(start, 6):
            part = slice(start, stop)
            found = pa.RecordBatch.from_pydict(cut(texts[part], wanted[part], "gone"), schema=pa.schema(FIELDS))
            assert found.to_pylist() == whole.to_pylist()[part]


@pytest.mark.parametrize("bad", [[1, 5], [0, 2, 1, 3], [3, 2], [0, 9], [1]])
def test_spans_that_would_break_a_text_are_refused(bad):
    """A span that splits a character or is out of order is a bug of the stage, and the error names the row."""
    with pytest.raises(ValueError, match="of row 1 cannot cut its 6 bytes"):
        cut(column(["abc", "abcd\u00e4"]), spans([0, 3], bad), "gone")


def test_lists_and_texts_must_be_aligned():
    """Columns of different lengths are refused."""
    with pytest.raises(ValueError, match="2 lists of spans for 1 texts"):
        cut(column(["abc"]), spans([0, 3], []), "gone")

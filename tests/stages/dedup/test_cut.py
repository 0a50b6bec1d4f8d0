"""Cutting spans out of a column of texts."""

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.stages.shared.cut import FIELDS, SPANS, cut, spans_of


def column(texts):
    return pa.array(texts, pa.string())


def spans(*lists):
    return pa.array(lists, SPANS)


def pieces(text, bounds):
    """The stretches that stay and those that go, in turn."""
    data, places = text.encode(), [0, *bounds, len(text.encode())]
    return [data[start:stop].decode() for start, stop in pairwise(places)]


@st.composite
def stretches(draw):
    """A text and any stretches of it, in any order, which may overlap."""
    text = draw(st.text(alphabet="ab \n\u00e4\u4e16\U0001f600", min_size=1, max_size=20))
    place = st.integers(0, len(text))
    found = draw(st.lists(st.tuples(place, place).filter(lambda pair: pair[0] != pair[1]), max_size=5))
    return text, [tuple(sorted(pair)) for pair in found]


@settings(deadline=None)
@given(st.lists(stretches(), max_size=5), st.randoms())
def test_a_cut_can_be_undone(rows, random):
    """What is left and what the spans say went, put together, are the text before; order and overlap do not matter."""
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


def test_a_text_of_which_nothing_is_left_gets_the_verdict():
    """Only where something was cut and nothing shows: a text that was empty before is not this stage's to judge."""
    columns = cut(column(["menu\n \u200b\n", "", " \n", "menu\nx", None]), spans([0, 4], [], [], [0, 4], None), "gone")
    assert columns["drop"].to_pylist() == ["gone", None, None, None, None]
    assert columns["detail"].to_pylist() == ["4 bytes cut", None, None, None, None]
    assert columns["text"].to_pylist() == ["\n \u200b\n", "", " \n", "\nx", None]
    assert columns["cut_spans"].to_pylist() == [[0, 4], [], [], [0, 4], None]
    assert columns["cut_bytes"].to_pylist() == [4, 0, 0, 4, None]


def test_columns_are_those_promised_for_any_slice():
    """Names and types are those of FIELDS, and a slice of the columns gives the slice of the answer."""
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
    """A span inside a character, or out of order, is a bug of the stage and names the row."""
    with pytest.raises(ValueError, match="of row 1 cannot cut its 6 bytes"):
        cut(column(["abc", "abcd\u00e4"]), spans([0, 3], bad), "gone")


def test_as_many_lists_as_texts():
    """Columns that are not aligned are refused."""
    with pytest.raises(ValueError, match="2 lists of spans for 1 texts"):
        cut(column(["abc"]), spans([0, 3], []), "gone")

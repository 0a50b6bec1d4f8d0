"""Exact copies that dedup leaves are counted exactly, for any split of the records."""

import random
from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from exchanged import run_exchange
from gristmill.stages.dedup import copies_left
from gristmill.stages.dedup.copies_left import Config

documents = st.lists(
    st.tuples(
        st.none() | st.sampled_from(["x y", " x  y\n", "z", ""]),
        st.sampled_from("abcd"),
    ),
    max_size=16,
)


def table(rows, draw):
    ids = pa.array([draw.randbytes(16) for _ in rows], pa.binary(16))
    return pa.table({"text": pa.array([text for text, _ in rows], pa.string()), "doc_id": ids})


@given(rows=documents, bits=st.integers(0, 2), limit=st.none() | st.sampled_from([40, 200]), seed=st.integers(0, 9))
def test_copies_are_those_of_an_oracle_for_any_split(rows, bits, limit, seed):
    """All but one of equal texts are copies; texts differ by more than white space."""
    draw = random.Random(seed)
    parts = [table(some, draw) for part in "abcd" if (some := [row for row in rows if row[1] == part])]
    layers, counts = run_exchange(copies_left, Config(), parts, bits=bits, limit=limit)
    texts = Counter(" ".join(text.split()) for text, _ in rows if text is not None)
    expected = sum(count - 1 for count in texts.values())
    assert counts.get("copies", 0) == expected
    assert sum(layer["is_copy"].to_pylist().count(True) for layer in layers) == expected


def test_the_warning_has_the_count_the_reasons_and_the_fix():
    """There is no warning without a copy."""
    config = Config(why=("a compares by snapshot", "b changes texts"), fix="Do that")
    (warned,) = copies_left.warnings({"copies": 1500}, config)
    assert warned == (
        "1,500 documents are exact copies of others in the corpus, because a compares by snapshot and b changes texts. "
        "Do that"
    )
    assert copies_left.warnings({"copies": 0}, config) == ()

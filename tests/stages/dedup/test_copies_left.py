"""Exact copies that dedup leaves because it did not compare them: counted exactly, however records are cut."""

import random
from collections import defaultdict

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchanged import run_exchange
from gristmill.stages.dedup import copies_left
from gristmill.stages.dedup.copies_left import Config

GROUPS = {
    "a": ("web/near_dedup", "snapshot"),
    "b": ("web/near_dedup", "snapshot"),
    "c": ("text/exact_dedup", "global"),
    "d": ("text/simhash_dedup", "source_and_snapshot"),
}
documents = st.lists(
    st.tuples(
        st.none() | st.sampled_from(["x y", " x  y\n", "z", ""]),
        st.sampled_from([*GROUPS]),
        st.none() | st.sampled_from(["1", "2"]),
    ),
    max_size=16,
)


def table(rows, seed=0):
    draw = random.Random(seed)
    columns = dict(zip(("text", "source", "snapshot"), zip(*rows, strict=True), strict=True))
    made = {name: pa.array(values, pa.string()) for name, values in columns.items()}
    return pa.table({**made, "doc_id": pa.array([draw.randbytes(16) for _ in rows], pa.binary(16))})


@given(rows=documents, bits=st.integers(0, 2), limit=st.none() | st.sampled_from([40, 200]), seed=st.integers(0, 9))
def test_copies_are_those_of_an_oracle_for_any_cut(rows, bits, limit, seed):
    """Each text counts once for each group that holds it, less one; texts differ by more than white space."""
    marks = {
        "a": lambda snapshot: ("web", snapshot),
        "b": lambda snapshot: ("web", snapshot),
        "c": lambda _: ("text",),
        "d": lambda snapshot: ("d", snapshot),
    }
    groups = defaultdict(set)
    for text, source, snapshot in rows:
        if text is not None:
            groups[" ".join(text.split())].add(marks[source](snapshot))
    parts = [
        table([row for row in rows if row[1] == source], seed) for source in GROUPS if source in {r[1] for r in rows}
    ]
    layers, counts = run_exchange(copies_left, Config(groups=GROUPS), parts, bits=bits, limit=limit)
    expected = sum(len(held) - 1 for held in groups.values())
    assert counts.get("copies", 0) == expected
    assert sum(layer["is_copy"].to_pylist().count(True) for layer in layers) == expected


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (
            {"a": ("all/near_dedup", "snapshot")},
            ("within each snapshot", "`scope: global` for all/near"),
        ),
        (GROUPS, ("web/near_dedup and text/exact_dedup and text/simhash_dedup each", "one `exact_dedup` under `all`")),
    ],
)
def test_the_warning_has_the_count_the_scope_and_the_fix(groups, words):
    """One sentence of each; nothing where there is no copy."""
    (told,) = copies_left.warnings({"copies": 1500}, Config(groups=groups))
    assert told.startswith("1,500 documents are exact copies of others in the corpus")
    assert all(word in told for word in words)
    assert copies_left.warnings({"copies": 0}, Config(groups=groups)) == ()

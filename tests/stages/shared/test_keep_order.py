"""The keep order: bytes that sort like the documents."""

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gristmill.errors import UserError
from gristmill.stages.shared.keep_order import RANK_BYTES, KeepOrder, may_read, ranks, reads, unseen_sources

MOST = 2**63 - 1
FIELDS = ("source", "repository", "score", "length", "date")

documents = st.lists(
    st.tuples(
        st.binary(min_size=16, max_size=16),
        st.sampled_from(["a", "b", "c", "ü"]),
        st.none() | st.floats(width=64) | st.sampled_from([0.0, -0.0, math.inf, -math.inf, 5e-324, -5e-324]),
        st.none() | st.integers(0, 2**32 - 2) | st.integers(0, 3),
        st.none() | st.integers(-MOST, MOST - 1) | st.integers(-2, 2),
    ),
    unique_by=lambda document: document[0],
    max_size=12,
)
orders = st.builds(
    lambda by, named, scored, length, date: KeepOrder(
        by=tuple(by),
        sources=tuple(named) if "source" in by else (),
        score="quality.score" if scored and "score" in by else None,
        length=length,
        date=date,
    ),
    st.lists(st.sampled_from(FIELDS), unique=True),
    st.lists(st.sampled_from(["c", "a", "ü", "nowhere"]), unique=True),
    st.booleans(),
    st.sampled_from(["longest", "shortest"]),
    st.sampled_from(["oldest", "newest"]),
)


def batch_of(rows, order):
    columns = {
        "doc_id": pa.array([row[0] for row in rows], pa.binary(16)),
        "source": pa.array([row[1] for row in rows], pa.string()),
        "quality.score": pa.array([row[2] for row in rows], pa.float64()),
        "text_bytes": pa.array([row[3] for row in rows], pa.int64()),
        "timestamp": pa.array([row[4] for row in rows], pa.timestamp("us", "UTC")),
    }
    return pa.record_batch({name: columns[name] for name in reads(order)})


def plainly(row, order):
    """The same order as a Python tuple: the oracle."""
    doc_id, source, score, size, moment = row
    keys = {
        "source": (order.sources.index(source) if source in order.sources else len(order.sources),),
        "score": (1, 0) if score is None or math.isnan(score) or order.score is None else (0, -score),
        "length": (1, 0) if not size else (0, -size if order.length == "longest" else size),
        "repository": (),
        "date": (1, 0) if moment is None else (0, moment if order.date == "oldest" else -moment),
    }
    if order.score is None:
        keys["score"] = ()
    return (*(keys[field] for field in order.by), doc_id)


@given(documents, orders)
def test_ranks_sort_as_the_documents_do(rows, order):
    """For every order, all kinds of scores, lengths and moments, bytes compare like the tuples of fields."""
    found = ranks(batch_of(rows, order), order).to_pylist()
    assert all(len(rank) == RANK_BYTES and rank.endswith(row[0]) for rank, row in zip(found, rows, strict=True))
    by_rank = [row for _, row in sorted(zip(found, rows, strict=True), key=lambda pair: pair[0])]
    assert [row[0] for row in by_rank] == [row[0] for row in sorted(rows, key=lambda row: plainly(row, order))]


@given(documents, orders, st.integers(0, 12))
def test_a_rank_depends_on_its_row_alone(rows, order, at):
    """A slice of a batch has the slice of its ranks, so the split of a part into batches does not matter."""
    batch = batch_of(rows, order)
    assert ranks(batch.slice(at), order).to_pylist() == ranks(batch, order).to_pylist()[at:]


def test_scores_may_have_any_type_of_number():
    """A score of small floats, integers or truth values orders by its value."""
    order = KeepOrder(by=("score",), score="s")
    for column in (
        pa.array([0.5, None, 1.5], pa.float32()),
        pa.array([1, None, 2], pa.int8()),
        pa.array([False, None, True]),
    ):
        batch = pa.record_batch({"doc_id": pa.array([bytes(16)] * 3, pa.binary(16)), "s": column})
        one, two, three = ranks(batch, order).to_pylist()
        assert three < one < two


def test_any_timestamp_comes_before_a_missing_one():
    """The largest and the smallest number of microseconds still come before a document without a timestamp."""
    rows = [(bytes([9]) * 16, "a", None, 1, moment) for moment in (MOST, -MOST - 1)] + [(bytes(16), "a", None, 1, None)]
    for date in ("oldest", "newest"):
        order = KeepOrder(by=("date",), date=date)
        found = ranks(batch_of(rows, order), order).to_pylist()
        assert max(found) == found[2]


def test_documents_of_one_repository_are_next_to_each_other():
    """Whatever else differs; documents without one come last, with or without the column."""
    order = KeepOrder()
    names = ["b", None, "a", "b", "ü", "a", None]
    rows = [(bytes([at]) * 16, "a", None, 99 - at, at) for at in range(len(names))]
    plain = batch_of(rows, order)
    batch = plain.append_column("repository", pa.array(names))
    found = ranks(batch, order).to_pylist()
    by_rank = [name for _, name in sorted(zip(found, names, strict=True), key=lambda pair: pair[0])]
    assert by_rank[5:] == [None, None]
    assert len([name for at, name in enumerate(by_rank) if at == 0 or by_rank[at - 1] != name]) == 4
    assert ranks(plain, order).to_pylist()[1] == found[1]
    assert (may_read(order), may_read(KeepOrder(by=()))) == (("repository",), ())


def test_only_columns_that_are_compared_are_read():
    """Reading the text for its length, or a source that orders nothing, would be wasted work."""
    assert reads(KeepOrder(by=())) == ("doc_id",)
    assert reads(KeepOrder()) == ("doc_id", "timestamp", "text_bytes")
    every = KeepOrder(sources=("a",), score="quality.score")
    assert reads(every) == ("doc_id", "source", "timestamp", "text_bytes", "quality.score")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"by": ("date", "length", "date")}, "'date' appears twice"),
        ({"sources": ("a", "b", "a")}, "'a' appears twice"),
        ({"by": ("date",), "sources": ("a",)}, "Add source to by"),
        ({"by": ("date",), "score": "quality.score"}, "Add score to by"),
    ],
)
def test_an_order_that_contradicts_itself_is_refused(fields, said):
    """A repeated name, and a setting without effect, are rejected before any work."""
    with pytest.raises(ValidationError, match=said):
        KeepOrder(**fields)


def test_a_run_warns_about_sources_without_documents():
    """A source in `sources` without documents has no effect."""
    metrics = {"sources": {"wiki": {"rows_sent": 3}, "crawl": {"rows_sent": 9}}}
    assert unseen_sources(metrics, KeepOrder(sources=("wiki", "crawl"))) == ()
    (messages,) = unseen_sources(metrics, KeepOrder(sources=("wkii", "crawl")))
    assert "wkii" in messages
    assert "crawl, wiki" in messages


def test_a_score_that_is_not_a_number_is_refused():
    """A column of texts cannot be a score."""
    batch = pa.record_batch({"doc_id": pa.array([b"0" * 16], pa.binary(16)), "extract.title": pa.array(["Bar"])})
    with pytest.raises(UserError, match=r"extract\.title, a column of type string, but a score must be a number"):
        ranks(batch, KeepOrder(by=("score",), score="extract.title"))

"""What a stage returns is exactly what it declares; anything else is reported and stops the run."""

import numpy as np
import pyarrow as pa
import pytest

from gristmill.engine.work import borders
from gristmill.errors import BrokenPromise
from gristmill.schema import Record
from gristmill.stages.contract import Piece

PROMISED = pa.schema([("text", pa.string()), ("n", pa.int32())])
RECORD_SCHEMA = pa.schema([("n", pa.int32())])
GOOD = {"text": pa.array(["a", "b"]), "n": pa.array([1, 2], pa.int32())}
KEYS = {"key": pa.array([1, 2], pa.uint64()), "row": pa.array([0, 1], pa.int32()), "n": pa.array([1, 2], pa.int32())}
ANSWER = {"part": pa.array([1, 2], pa.uint64()), "row": pa.array([0, 1], pa.int64()), **GOOD}


def batch(**columns):
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def table(**columns):
    return pa.Table.from_batches([batch(**columns)])


def broken_text():
    """A column of type text that is not UTF-8."""
    return pa.array([b"\xff", b"x"]).view(pa.string())


CASES = {
    "large text": (GOOD | {"text": pa.array(["a", "b"], pa.large_string())}, "text as large_string, but its schema"),
    "dictionary": (GOOD | {"text": GOOD["text"].dictionary_encode()}, "text as dictionary<values=string"),
    "wider numbers": (GOOD | {"n": pa.array([1, 2])}, "n as int64, but its schema declares int32. Convert"),
    "all null": (GOOD | {"text": pa.nulls(2)}, "text as null"),
    "missing": ({"text": GOOD["text"]}, "did not write the column n, which its schema declares as int32"),
    "one too many": (GOOD | {"m": GOOD["n"]}, "wrote the column m (int32), which its schema does not declare: text, n"),
    "too few rows": ({name: column[:1] for name, column in GOOD.items()}, "returned 1 row for 2"),
    "not what it says": (GOOD | {"text": broken_text()}, "wrote columns with invalid data"),
}


@pytest.mark.parametrize("case", CASES)
def test_apply_returns_what_schema_declares(case):
    """Names, types, rows; the message names the stage, the column, both types and the fix."""
    columns, telling = CASES[case]
    with pytest.raises(BrokenPromise) as raised:
        borders.check_answers(batch(**columns), 2, "mine.step", PROMISED)
    assert str(raised.value).startswith("mine.step.apply ")
    assert telling in str(raised.value)


@pytest.mark.parametrize("given", [None, table(**GOOD), {"text": ["a"]}, 3])
def test_apply_returns_a_batch(given):
    """Anything else is refused."""
    with pytest.raises(BrokenPromise, match=r"instead of a pyarrow\.RecordBatch with the columns text, n"):
        borders.check_answers(given, 2, "mine.step", PROMISED)


def test_the_order_of_columns_is_free():
    """A column is known by its name."""
    turned = batch(n=GOOD["n"], text=GOOD["text"])
    assert borders.check_answers(turned, 2, "mine.step", PROMISED).schema == PROMISED


@pytest.mark.parametrize(
    ("change", "telling"),
    [
        ({"key": pa.array([1, 2])}, "key as int64, but its record_schema (with key and row) declares uint64"),
        ({"key": pa.array([1, None], pa.uint64())}, "key with nulls"),
        ({"row": pa.array(["0", "1"])}, "row as string"),
        ({"row": pa.array([0, 2])}, "wrote 2 in the column row, but the rows of a batch are 0 to 1"),
        ({"row": pa.array([0, -1])}, "wrote -1"),
        ({"n": pa.array([1, 2])}, "n as int64"),
    ],
)
def test_records_of_an_exchange_are_checked(change, telling):
    """RECORD_SCHEMA, a key, and the row that it is about."""
    assert borders.check_emitted(batch(**KEYS), 2, "mine.step", RECORD_SCHEMA).num_rows == 2
    with pytest.raises(BrokenPromise) as raised:
        borders.check_emitted(batch(**KEYS | change), 2, "mine.step", RECORD_SCHEMA)
    assert telling in str(raised.value)


@pytest.mark.parametrize(
    ("change", "telling"),
    [
        ({"part": pa.array([1, 2])}, "part as int64"),
        ({"row": pa.array([0, None], pa.int64())}, "row with nulls"),
        ({"text": pa.array(["a", "b"], pa.large_string())}, "text as large_string, but its schema (with part and row)"),
    ],
)
def test_answers_of_an_exchange_are_checked(change, telling):
    """SCHEMA, and the part and row that it is for; counts are optional."""
    answers, counts = borders.check_round((table(**ANSWER), {"seen": np.int64(3)}), "mine.step", "reduce", PROMISED)
    assert (answers.num_rows, counts) == (2, {"seen": 3})
    with pytest.raises(BrokenPromise) as raised:
        borders.check_round(table(**ANSWER | change), "mine.step", "reduce", PROMISED)
    assert telling in str(raised.value)


def test_a_round_before_the_last_gives_a_new_key():
    """Its other columns are free."""
    borders.check_round(table(**KEYS), "mine.step", "first", None)
    with pytest.raises(BrokenPromise, match=r"mine.step.first .* a new `key`"):
        borders.check_round(table(**GOOD), "mine.step", "first", None)
    with pytest.raises(BrokenPromise, match="key as int64"):
        borders.check_round(table(**KEYS | {"key": pa.array([1, 2])}), "mine.step", "first", None)


def test_every_row_is_answered_once_and_exists():
    """Otherwise an answer would be lost, or go to another row."""
    borders.check_places(np.array([0, 1]), 2, "mine.step")
    with pytest.raises(BrokenPromise, match="two answers for a row"):
        borders.check_places(np.array([1, 1]), 2, "mine.step")
    with pytest.raises(BrokenPromise, match="wrote 2 in the column row"):
        borders.check_places(np.array([1, 2]), 2, "mine.step")


def test_records_and_files_of_a_sink_are_checked(tmp_path):
    """Records for existing entries, files with the declared names, plain counts and facts."""
    sent = batch(key=KEYS["key"], n=KEYS["n"])
    assert borders.check_sent(sent, 3, "mine.sink", RECORD_SCHEMA).num_rows == 2
    with pytest.raises(BrokenPromise, match="wrote 2 in the column key, but the layout of this source has 2 entries"):
        borders.check_sent(sent, 2, "mine.sink", RECORD_SCHEMA)
    with pytest.raises(BrokenPromise, match=r"mine.sink.build did not write a.bin"):
        borders.check_files(tmp_path, ("a.bin",), "mine.sink", "build")
    for wrong in (None, {"a": [1]}, {"a": {}}):
        with pytest.raises(BrokenPromise, match=r"Return \{source:"):
            borders.check_layout(wrong, "mine.sink")
    with pytest.raises(BrokenPromise, match="not JSON"):
        borders.check_facts({"a": {1, 2}}, "mine.sink")
    for counts in ([1], {"a": "1"}, {"a": {"b": None}}, {"a": float("nan")}):
        with pytest.raises(BrokenPromise, match="count"):
            borders.check_counts(counts, "mine.sink", "build")


@pytest.mark.parametrize(
    ("records", "telling"),
    [
        ([{"text": "a"}], "yielded a builtins.dict"),
        ([Record(0, text=b"a")], "text as bytes, but a Record has str. Decode it"),
        ([Record("0")], "position as str, but a Record has int"),
        ([Record(0, text="\ud800")], "half a character"),
        ([Record(1), Record(1)], "the position 1 after 1, but positions must rise"),
        ([Record(9)], "be below the piece's stop, 9"),
        (None, "returned nothing (None). Yield a Record"),
        ([Record(0, doc_id=b"short")], "a doc_id of 5 bytes. Return 16, or none"),
        ([Record(0, more=(1, 2))], "more with 2 values, but its columns are 1"),
    ],
)
def test_records_of_a_reader_are_checked(records, telling):
    """Records with fields of the right types, in order."""
    with pytest.raises(BrokenPromise) as raised:
        list(borders.check_records(records, "mine.reader", Piece("a", "a", 0, 9), 1))
    assert telling in str(raised.value)


@pytest.mark.parametrize(
    ("counts", "text_shown"),
    [
        ({"a": 0.5}, "Count in whole numbers"),
        ({"a": {"b": 1e9}}, "Count in whole numbers"),
        ({"a": 10**400}, "64 bits"),
        ({"\ud800": 1}, "invalid name"),
    ],
)
def test_a_tally_adds_up_to_the_same_in_any_order(counts, text_shown):
    """Sums of fractions would depend on which task ends first, and so would every answer."""
    with pytest.raises(BrokenPromise, match=text_shown):
        borders.check_tally(counts, "own")
    assert borders.check_tally({"a": {"b": np.int32(2)}, "c": True}, "own") == {"a": {"b": 2}, "c": 1}


def test_counts_without_end_are_refused():
    deep = {}
    for _ in range(400):
        deep = {"a": deep}
    with pytest.raises(BrokenPromise, match="deep"):
        borders.check_tally(deep, "own")


@pytest.mark.parametrize("value", [float("nan"), [1, float("inf")], {"b": -float("inf")}])
def test_totals_that_json_cannot_represent_are_refused(value):
    """They would be null in the keys of tasks and for reducers."""
    with pytest.raises(BrokenPromise, match="NaN or infinity"):
        borders.check_totals({"a": value}, "own")
    assert borders.check_totals({"a": [1, 2.5, None]}, "own") == {"a": [1, 2.5, None]}

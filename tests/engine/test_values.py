"""Values that a stage writes are within the ranges that it declares; anything else stops the run and is named."""

import math

import pyarrow as pa
import pytest

from gristmill.engine.work.values import check_values
from gristmill.errors import BrokenPromise
from gristmill.stages.contract import Map, StageConfig
from gristmill.stages.dedup import near_dedup

TEXT = pa.array(["abcd", "ef", None])
SPANS = pa.list_(pa.int64())
STAGE = Map(
    version=1,
    config=StageConfig,
    reads=("text",),
    schema=pa.schema([("score", pa.float32()), ("shares", pa.list_(pa.float32())), ("cuts", SPANS)]),
    ranges={"score": (0, 1), "shares": (0, 1)},
    spans=("cuts",),
    apply=lambda batch, config: batch,
)
GOOD = {"score": [0.0, 1.0, None], "shares": [[0, 1], None, []], "cuts": [[0, 1, 1, 4], [], None]}
WRONG = {
    "too large": ({"score": [0.5, 7.0, None]}, "wrote 7.0 in the column score of row 1, but its ranges declare 0 to 1"),
    "not a number": ({"score": [math.nan, 0.5, 0.5]}, "wrote nan in the column score of row 0"),
    "after a null": ({"score": [None, None, -1.0]}, "wrote -1.0 in the column score of row 2"),
    "in a list": ({"shares": [[0.5], None, [0.5, 2.0]]}, "wrote 2.0 in the column shares of row 2"),
    "beyond the text": (
        {"cuts": [[], [1, 3], None]},
        "the spans [1, 3] in the column cuts of row 1, but its text has 2",
    ),
    "before the text": ({"cuts": [[-1, 3], [], None]}, "the spans [-1, 3]"),
    "without a text": ({"cuts": [[], [], [0, 1]]}, "the spans [0, 1] in the column cuts of row 2, but its text has 0"),
    "turned round": ({"cuts": [[3, 1], [], None]}, "the spans [3, 1]"),
    "half a span": ({"cuts": [[0, 1, 2], [], None]}, "the spans [0, 1, 2]"),
}


def check(**columns):
    arrays = [pa.array(columns[item.name], item.type) for item in STAGE.schema]
    answers = pa.RecordBatch.from_arrays(arrays, schema=STAGE.schema)
    check_values(answers, STAGE, StageConfig(), "mine.step", TEXT, lambda row: f"row {row}")


@pytest.mark.parametrize("case", WRONG)
def test_a_value_outside_of_its_range_is_refused(case):
    """The message names the stage, the column, the row, the value and the bound; nulls and empty lists pass."""
    check(**GOOD)
    columns, telling = WRONG[case]
    with pytest.raises(BrokenPromise) as raised:
        check(**GOOD | columns)
    assert str(raised.value).startswith("mine.step.apply wrote ")
    assert telling in str(raised.value)


def test_a_range_needs_its_column():
    """A misspelt column would never be checked."""
    with pytest.raises(BrokenPromise, match="the range or the spans of score, which its schema does not have"):
        check_values(pa.record_batch({"scroe": [1.0]}), STAGE, StageConfig(), "mine.step", None, str)


def test_near_duplicates_are_checked_as_well():
    """An exchange declares ranges like a map; the row is that of its answers."""
    answers = pa.table({"similarity": pa.array([[0.9], [1.5]], pa.list_(pa.float32())), "cluster_size": [2, 2]})
    with pytest.raises(BrokenPromise, match=r"near_dedup.reduce wrote 1.5 in the column similarity of number 1, but"):
        check_values(answers, near_dedup.STAGE, near_dedup.Config(), "near_dedup", None, lambda row: f"number {row}")

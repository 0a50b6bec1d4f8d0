"""The stage that cuts lines."""

from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from gristmill.stages.select.lines import Config, apply, metrics, warnings

PAGE = "Home | About\n\nThe mill stands by the river.\nIt has two stones.\n\nWe use cookies on this page.\nTop\n"


OFF = {"terminal_punctuation": False, "min_words": None, "javascript": False, "policy": False}


def batch(*texts: str | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], names=["text"])


def test_lines_are_cut_and_paragraphs_stay() -> None:
    """The text is what C4 keeps of it, and the counts have the lines cut by each rule."""
    answer = apply(batch(PAGE), Config()).to_pylist()[0]
    assert answer["text"] == "The mill stands by the river.\nIt has two stones."
    assert (answer["cut_no_end"], answer["cut_policy"], answer["lines_cut"]) == (2, 1, 3)
    assert answer["bytes_cut"] == len(PAGE) - len(answer["text"])
    assert answer["drop"] is None


def test_a_text_without_a_cut_is_unchanged() -> None:
    """Not one byte differs if no line is cut, including blank lines and white space."""
    text = "\n  The mill stands here. \n\n\n It has two stones.\r\n\n"
    answer = apply(batch(text), Config()).to_pylist()[0]
    assert (answer["text"], answer["lines_cut"], answer["bytes_cut"]) == (text, 0, 0)


def test_nothing_left_is_a_verdict_and_no_text_is_not() -> None:
    """A document that loses every line is dropped with a reason; a row without text has nulls and no verdict."""
    answers = apply(batch("nav\nTop", "", None), Config()).to_pylist()
    assert [row["drop"] for row in answers] == ["no_lines_left", "no_lines_left", None]
    assert [row["text"] for row in answers] == ["", "", None]
    assert answers[2]["lines_cut"] is None


def test_slices_give_the_same_rows() -> None:
    """A slice of a batch, also one that starts within its buffers, gives the rows of the whole."""
    whole = batch("x", PAGE, None, "One more line that ends.", PAGE[::-1])
    rows = apply(whole, Config()).to_pylist()
    for start in range(5):
        for stop in range(start, 6):
            assert apply(whole.slice(start, stop - start), Config()).to_pylist() == rows[start:stop]


def test_cutting_twice_cuts_nothing_more() -> None:
    """The rest passes every rule."""
    once = apply(batch(PAGE, PAGE * 3), Config())
    twice = apply(pa.RecordBatch.from_arrays([once["text"]], names=["text"]), Config())
    assert twice["text"].equals(once["text"])


def test_rules_that_cut_nothing_are_a_warning() -> None:
    """Law 7, for the rules that are on."""
    config = Config(javascript=False)
    found = metrics(batch(PAGE), apply(batch(PAGE), config), config)
    assert found["documents_cut"] == 1
    assert warnings(found, config) == ("rules long_word, few_words cut no line",)
    nothing = metrics(batch(), apply(batch(), config), config)
    assert warnings(nothing, config) == ()


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"min_words": 0}, "greater than or equal to 1"),
        ({**OFF, "max_word_chars": None}, "every rule is off"),
    ],
)
def test_a_config_that_cuts_nothing_is_refused(written: dict[str, Any], message: str) -> None:
    """A config that silently has no effect is an error before any work."""
    with pytest.raises(ValidationError, match=message):
        Config.model_validate(written)

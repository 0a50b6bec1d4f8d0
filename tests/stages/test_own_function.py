"""A one-line function as a step: its arguments, its results, and what is rejected."""

import sys

import numpy as np
import pyarrow as pa
import pytest

from gristmill.errors import BrokenPromise
from gristmill.stages.own_function import faults_of_function, function_stage


def stage_of(function):
    """The function as a stage, as an import would make it."""
    assert faults_of_function(function) == []
    return function_stage("steps:own", function)


def verdicts(function, *texts, **settings):
    stage = stage_of(function)
    batch = pa.RecordBatch.from_arrays([pa.array(texts, pa.string())] * len(stage.reads), names=list(stage.reads))
    return stage.apply(batch, stage.config(**settings)).column("drop").to_pylist()


def long_enough(text, min_chars=3):
    return len(text) >= min_chars


def fault(text: str) -> str | None:
    return None if text else "empty"


def test_true_keeps_and_false_drops_with_the_functions_name():
    """The reason names the fault."""
    assert verdicts(long_enough, "abc", "ab") == [None, "not_long_enough"]
    assert verdicts(lambda text: np.bool_(text == "a"), "a") == [None]


def test_text_is_the_reason_and_none_keeps():
    """One function may give several reasons."""
    assert verdicts(fault, "", "x") == ["empty", None]


def test_arguments_with_a_default_are_settings_and_the_others_columns():
    """With the same names and types; an argument without a default must be given."""
    assert verdicts(long_enough, "abc", min_chars=4) == ["not_long_enough"]

    def both(url, text, /, most: int = 3, *, least: int):
        return True

    stage = stage_of(both)
    assert stage.reads == ("url", "text")
    assert stage.config(least=1).model_dump() == {"most": 3, "least": 1}
    with pytest.raises(ValueError, match="least"):
        stage.config()
    with pytest.raises(ValueError, match="most"):
        stage.config(least=1, most="many")


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (3, "it is of type int"),
        (str, "it is of type type"),
        (lambda: True, "it takes no column"),
        (lambda most=3: True, "it takes no column"),
        (lambda *texts: True, "*texts cannot be a column"),
        (lambda text, **more: True, "*more cannot be a column"),
        (lambda text, most=3, /: True, "cannot be passed by name"),
    ],
)
def test_an_invalid_filter_is_refused_before_any_work(function, expected):
    """The message names the faulty argument."""
    assert expected in faults_of_function(function)[0]


def test_a_setting_of_a_type_that_cannot_be_checked_is_refused():
    """pydantic could not check a recipe's value."""

    def own(text, stream: sys.stdout = sys.stdout):
        return True

    assert "settings are not valid" in faults_of_function(own)[0]


def says_bool(text) -> bool:
    return None


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda text: 1, "returned 1 (int)"),
        (lambda text: "not one word", "a reason is one word"),
        (lambda text: "", "a reason is one word"),
        (lambda text: [True], "returned [True] (list)"),
        (says_bool, "returned nothing (None), but a filter returns True or False, as it declares"),
    ],
)
def test_an_invalid_result_is_reported_with_the_call(function, expected):
    """The message has the result and the arguments."""
    with pytest.raises(BrokenPromise) as raised:
        verdicts(function, "some text")
    assert expected in str(raised.value)
    assert "text='some text'" in str(raised.value)


def test_a_run_warns_about_a_filter_that_keeps_everything():
    """Nothing is silently ignored."""
    stage = stage_of(long_enough)
    assert stage.warnings({"asked": 5, "dropped": {"not_long_enough": 1}}, stage.config()) == []
    assert "kept all 5" in stage.warnings({"asked": 5, "dropped": {}}, stage.config())[0]

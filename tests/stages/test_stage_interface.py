"""What an exchange says of itself is checked when a recipe is loaded, not when a corpus is large enough to need it."""

from types import ModuleType

import pyarrow as pa
import pytest

from gristmill.stages import STEPS
from gristmill.stages.contract import StageConfig
from gristmill.stages.quality import quality_ranks
from gristmill.stages.stage_interface import faults_of_step


def exchange(**more):
    module = ModuleType("own")
    said = {
        "VERSION": 1,
        "Config": StageConfig,
        "READS": ("text",),
        "SCHEMA": pa.schema([("n", pa.int64())]),
        "RECORD_SCHEMA": pa.schema([("host", pa.string())]),
        "emit": lambda batch, config: None,
        "reduce": lambda records, config: None,
        "short": lambda records, config: None,
    }
    vars(module).update({**said, **more})
    return module


def test_a_whole_exchange_has_no_fault():
    assert faults_of_step(exchange()) == []
    whole = exchange(SUMMARIES={"reduce": "short"}, ROUNDS=("short", "reduce"))
    whole.reduce = lambda records, config, others=None: None
    assert faults_of_step(whole) == []


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({"RECORD_SCHEMA": [("host", "string")]}, "RECORD_SCHEMA is of type list"),
        ({"RECORD_SCHEMA": pa.schema([("part", pa.uint64())])}, "RECORD_SCHEMA has part"),
        ({"RECORD_SCHEMA": pa.schema([("n", pa.int64()), ("n", pa.int64())])}, "a column twice"),
        ({"tally": lambda *_: {}}, "it has tally and no totals"),
        ({"totals": lambda *_: {}}, "it has totals and no tally"),
        ({"ROUNDS": 2}, "ROUNDS is not a tuple"),
        ({"ROUNDS": "reduce"}, "ROUNDS is not a tuple"),
        ({"ROUNDS": ()}, "ROUNDS is not a tuple"),
        ({"ROUNDS": ("first", "reduce")}, "ROUNDS name first"),
        ({"SUMMARIES": ("short",)}, "SUMMARIES is not a dict"),
        ({"SUMMARIES": {"reduec": "short"}}, "name the round reduec"),
        ({"SUMMARIES": {"reduce": "nope"}}, "name the function nope"),
        ({"SUMMARIES": {"reduce": 5}}, "name the function 5"),
    ],
)
def test_a_slip_is_told(said, fault):
    assert any(fault in told for told in faults_of_step(exchange(**said)))


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({"reduce": lambda records: None}, "its reduce is called with 2 arguments, and takes others"),
        ({"emit": lambda batch, config, layout: None}, "its emit is called with 2 arguments"),
        ({"USES": ("x",)}, "its emit is called with 2 arguments and models="),
        ({"tally": lambda *_: {}, "totals": lambda *_: {}}, "its reduce is called with 2 arguments and totals="),
        ({"SUMMARIES": {"reduce": "short"}}, "its reduce is called with 2 arguments and others="),
        ({"SUMMARIES": {"reduce": "one"}, "one": lambda records: None}, "its one is called with 2 arguments"),
    ],
)
def test_a_function_that_takes_other_arguments_is_told(said, fault):
    """Before any work, not by a traceback of the engine's in the middle of it."""
    assert any(fault in told for told in faults_of_step(exchange(**said)))


@pytest.mark.parametrize(
    ("wrong", "right"), [("ONYL_KEPT", "ONLY_KEPT"), ("MAY_READS", "MAY_READ"), ("JUGDES", "JUDGES")]
)
def test_a_misspelt_declaration_is_refused(wrong, right):
    """The engine would never look at it, and the step would silently do something else."""
    (fault,) = faults_of_step(exchange(**{wrong: True}))
    assert wrong in fault
    assert f"Did you mean {right}?" in fault
    assert faults_of_step(exchange(**{f"_{wrong}": True, "MODEL_NAME": "x"})) == []


def test_our_own_have_none():
    import importlib

    for name in STEPS.values():
        module = importlib.import_module(name)
        others = (quality_ranks.__name__,) if hasattr(module, "prerequisites") else ()
        for part in (*getattr(module, "PREREQUISITES", ()), *others, name):
            assert faults_of_step(importlib.import_module(part)) == [], part

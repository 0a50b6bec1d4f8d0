"""What a module declares is checked when a recipe is loaded, not when a corpus is large enough to need it."""

import importlib
import pkgutil
import sys
from dataclasses import fields, replace
from types import ModuleType

import pyarrow as pa
import pytest
from pydantic import ValidationError

from gristmill import stages
from gristmill.stages import own_code
from gristmill.stages.contract import KINDS, Exchange, Map, Resources, StageConfig
from gristmill.stages.declarations import NotAStage, declared_by, left_out, stage_of
from gristmill.stages.faults import faults_of

SCHEMA = pa.schema([("n", pa.int64())])
WHOLE = Exchange(
    config=StageConfig,
    reads=("text",),
    schema=SCHEMA,
    record_schema=pa.schema([("host", pa.string())]),
    emit=lambda batch, config: None,
    reduce=lambda records, config: None,
)


def module_of(**names):
    module = ModuleType("own")
    vars(module).update(names)
    return module


def test_a_module_without_a_stage_says_how_to_declare_one():
    """With the kind of the function that it defines."""
    with pytest.raises(NotAStage, match=r"End it with STAGE = Fit\(\.\.\., fit=fit\)"):
        declared_by(module_of(fit=lambda batches, config, path: {}))
    with pytest.raises(NotAStage, match="End it with STAGE = Reader, Map, Exchange, Fit, Asset or Sink"):
        declared_by(module_of())
    with pytest.raises(NotAStage, match="its STAGE is of type int, not Reader, Map"):
        declared_by(module_of(STAGE=5))


@pytest.mark.parametrize("kind", KINDS)
def test_a_misspelt_field_names_the_nearest(kind):
    """For every field of every kind; if no name is near, all are listed, and a missing field is named, too."""
    for one in fields(kind):
        wrong = one.name[:-2] + one.name[-1]
        with pytest.raises(TypeError, match=rf"^{kind.__name__} has no field {wrong}\. Did you mean {one.name}\?$"):
            kind(**{wrong: None})
    with pytest.raises(TypeError, match=rf"^{kind.__name__} has no field zzz\. Fields: version, config, libraries, "):
        kind(zzz=None)
    with pytest.raises(TypeError, match=rf"^{kind.__name__} needs config and "):
        kind(version=1)


def test_a_misspelt_resource_names_the_right_one():
    """As for a field of a stage; a value that does not fit is one short line."""
    with pytest.raises(TypeError, match=r"^Resources has no field memroy\. Did you mean memory\?$"):
        Resources(memroy="2GB")
    with pytest.raises(ValidationError) as raised:
        Resources(memory="2G", cores=0)
    message = own_code.what(raised.value)
    assert message.startswith("ValidationError: Resources: memory: '2G' is not a size; ")
    assert message.endswith(" Did you mean 2GB?; cores: Input should be greater than or equal to 1")


def test_a_function_that_the_stage_does_not_use_is_refused(monkeypatch):
    """The engine would silently ignore it; an imported module or function of the same name is none of its business."""

    def metrics(batch, answers, config):
        return {}

    metrics.__module__ = "own"
    stage = Map(config=StageConfig, reads=("text",), schema=SCHEMA, apply=lambda batch, config: batch)
    monkeypatch.setitem(sys.modules, "own", module_of(STAGE=stage, metrics=metrics, warnings=importlib, kept=len))
    (message,) = left_out("own")
    assert message.startswith("it defines metrics, but its STAGE does not use it. Add metrics=metrics to STAGE.")
    monkeypatch.setitem(sys.modules, "own", module_of(STAGE=replace(stage, metrics=metrics), metrics=metrics))
    assert left_out("own") == []


def test_a_whole_exchange_has_no_fault():
    assert faults_of(WHOLE) == []
    rounds = {"first": lambda records, config: None}
    whole = replace(WHOLE, rounds=rounds, summaries={"reduce": lambda records, config: None})
    assert faults_of(replace(whole, reduce=lambda records, config, others=None: None)) == []


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"version": "1"}, "version is not a whole number"),
        ({"config": dict}, "config is not a StageConfig"),
        ({"reads": "text"}, "reads is text, not a tuple"),
        ({"record_schema": [("host", "string")]}, "record_schema is of type list"),
        ({"record_schema": pa.schema([("part", pa.uint64())])}, "record_schema has part"),
        ({"record_schema": pa.schema([("n", pa.int64()), ("n", pa.int64())])}, "two columns with the same name"),
        ({"summaries": {"reduec": lambda *_: {}}}, "summaries name the round reduec"),
        ({"summaries": {"reduce": 5}}, "summary of reduce is of type int"),
        ({"emit": "emit"}, "emit is of type str, not a function"),
        ({"reduce": lambda records: None}, "its reduce does not accept the 2 arguments that the engine passes"),
        ({"emit": lambda batch, config, layout: None}, "its emit does not accept the 2 arguments"),
        ({"uses": ("x",)}, "its emit does not accept the 2 arguments and models="),
        ({"tally": lambda *_: {}, "totals": lambda *_: {}}, "its reduce does not accept the 2 arguments and totals="),
        ({"summaries": {"reduce": lambda *_: {}}}, "its reduce does not accept the 2 arguments and others="),
        ({"warnings": lambda found: ()}, "its warnings does not accept the 2 arguments"),
    ],
)
def test_a_wrong_value_is_refused(changed, fault):
    """Before any work, not by a traceback of the engine in the middle of it."""
    assert any(fault in message for message in faults_of(replace(WHOLE, **changed)))


def test_built_in_stages_declare_all_that_they_have():
    """All of them, whether a recipe names them or not; each has a version, because its code is not in its key."""
    paths = [one.name for one in pkgutil.walk_packages(stages.__path__, "gristmill.stages.") if not one.ispkg]
    declared = [path for path in paths if "STAGE" in vars(importlib.import_module(path))]
    assert {*stages.READERS.values(), *stages.STEPS.values()} <= set(declared)
    for path in declared:
        assert [*left_out(path), *faults_of(stage_of(path))] == [], path
        assert stage_of(path).version is not None

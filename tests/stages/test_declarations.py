"""What a module declares is checked when a recipe is loaded, not when a corpus is large enough to need it."""

import importlib
import pkgutil
import sys
from dataclasses import fields
from types import ModuleType

import pyarrow as pa
import pytest
from pydantic import ValidationError

from gristmill import stages
from gristmill.stages import own_code
from gristmill.stages.contract import KINDS, Asset, Exchange, Fit, Map, Reader, Resources, Sink, StageConfig
from gristmill.stages.declarations import NotAStage, declared_by, left_out, stage_of
from gristmill.stages.faults import faults_of

SCHEMA = pa.schema([("n", pa.int64())])
NAMES = {
    Reader: {"read": lambda piece, config: iter(()), "SPLITTABLE": lambda name: True},
    Map: {"READS": ("text",), "SCHEMA": SCHEMA, "apply": lambda batch, config: batch},
    Exchange: {
        "READS": ("text",),
        "SCHEMA": SCHEMA,
        "RECORD_SCHEMA": pa.schema([("host", pa.string())]),
        "emit": lambda batch, config: None,
        "reduce": lambda records, config: None,
        "short": lambda records, config: None,
    },
    Fit: {"READS": ("text",), "fit": lambda batches, config, path: {}},
    Asset: {"make": lambda config, path: {}},
    Sink: {
        "READS": ("text",),
        "COUNTS": "corpus",
        "RECORD_SCHEMA": SCHEMA,
        "layout": lambda counts, config: {},
        "emit": lambda batch, config, layout: batch,
        "build": lambda records, config, entry, folder: {},
        "files": lambda config: (),
        "facts": lambda config: {},
    },
}


def module_of(kind, **more):
    """A module of the user with the names of a kind; None removes one."""
    module = ModuleType("own")
    said = {"VERSION": 1, "Config": StageConfig, **NAMES[kind], **more}
    vars(module).update({name: value for name, value in said.items() if value is not None})
    for value in vars(module).values():
        if callable(value) and not isinstance(value, type):
            value.__module__ = "own"
    return module


def faults(module):
    try:
        return faults_of(declared_by(module))
    except NotAStage as error:
        return error.faults


@pytest.mark.parametrize("kind", KINDS)
def test_names_of_a_module_make_the_stage_that_it_could_declare_itself(kind):
    """The same class, with the module's values in the fields of the same names."""
    module = module_of(kind, RESOURCES=Resources(cores=2))
    stage = declared_by(module)
    assert type(stage) is kind
    assert (stage.version, stage.config, stage.resources) == (1, StageConfig, Resources(cores=2))
    assert {vars(stage)[name.lower()] for name in NAMES[kind] if name != "short"} == {
        value for name, value in NAMES[kind].items() if name != "short"
    }
    assert faults(module) == []
    assert declared_by(module) is stage


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


@pytest.mark.parametrize("kind", KINDS)
def test_a_misspelt_verb_names_the_nearest(kind):
    """`aply`: nothing else determines the kind of the stage."""
    wrong = "aply" if kind is Map else kind.verb + kind.verb[-1]
    names = {name: None for name in NAMES[kind] if name != kind.verb and not name.isupper()}
    found = faults(module_of(kind, **{**names, kind.verb: None, wrong: NAMES[kind][kind.verb]}))
    assert any(f"it defines {wrong}, " in one and f"Did you mean {kind.verb}?" in one for one in found)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("ONLY_KEEP", "ONLY_KEPT"), ("ONYL_KEPT", "ONLY_KEPT"), ("MAY_READS", "MAY_READ"), ("JUGDES", "JUDGES")],
)
def test_a_misspelt_constant_is_refused(wrong, right):
    """The engine would ignore it, and the step would silently do something else."""
    (fault,) = faults(module_of(Exchange, **{wrong: True}))
    assert wrong in fault
    assert f"Did you mean {right}?" in fault
    assert faults(module_of(Exchange, **{f"_{wrong}": True, "MODEL_NAME": "x"})) == []


@pytest.mark.parametrize(
    ("kind", "said", "fault"),
    [
        (Map, {"ROUNDS": ("first", "reduce")}, "it defines ROUNDS, which is a field of Exchange, not of Map"),
        (
            Reader,
            {"ONLY_KEPT": True},
            "it defines ONLY_KEPT, which is a field of Map, Exchange, Fit or Sink, not of Reader",
        ),
        (Asset, {"READS": ("text",)}, "it defines READS, which is a field of"),
        (Fit, {"setup": lambda config: None}, "it defines setup, which is a field of Map or Exchange, not of Fit"),
        (Exchange, {"metrics": lambda batch, answers, config: {}}, "it defines metrics, which is a field of Map,"),
        (Map, {"uses": ("sites",)}, "it defines uses, which is not a function. Rename it to USES"),
        (Map, {"STAGE": 5}, "its STAGE is of type int, not Reader, Map"),
    ],
)
def test_names_that_the_engine_would_ignore_are_refused(kind, said, fault):
    """Declarations of another kind of stage, and constants in lower case."""
    assert fault in "; ".join(faults(module_of(kind, **said)))


@pytest.mark.parametrize(
    "said",
    [
        {"read": lambda path: path},
        {"files": lambda: ()},
        {"resources": importlib},
        {"FILES": 3},
        {"MODEL": "x"},
        {"fits": lambda text: True},
    ],
)
def test_names_that_only_resemble_declarations_are_allowed(said):
    """Functions that take no config, imported modules, constants with the name of a function."""
    assert faults(module_of(Map, **said)) == []


def test_declarations_next_to_stage_are_refused(monkeypatch):
    """STAGE would silently ignore it."""
    module = module_of(Map, ONLY_KEPT=True, metrics=lambda batch, answers, config: {})
    module.STAGE = Map(version=1, config=StageConfig, reads=("text",), schema=SCHEMA, apply=module.apply)
    monkeypatch.setitem(sys.modules, "own", module)
    message = left_out("own")
    assert any(
        "it defines ONLY_KEPT, but its STAGE" in one and "Add only_kept=ONLY_KEPT to STAGE" in one for one in message
    )
    assert any("it defines metrics, but its STAGE" in one for one in message)
    assert len(message) == 2


def test_a_whole_exchange_has_no_fault():
    assert faults(module_of(Exchange)) == []
    whole = module_of(Exchange, SUMMARIES={"reduce": "short"}, ROUNDS=("short", "reduce"))
    whole.reduce = lambda records, config, others=None: None
    assert faults(whole) == []
    assert list(declared_by(whole).all_rounds) == ["short", "reduce"]
    assert declared_by(whole).summaries == {"reduce": whole.short}


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({"VERSION": "1"}, "VERSION is not a whole number"),
        ({"READS": "text"}, "READS is text, not a tuple"),
        ({"ONLY_KEPT": "no"}, "ONLY_KEPT is 'no', not True or False"),
        ({"RECORD_SCHEMA": [("host", "string")]}, "RECORD_SCHEMA is of type list"),
        ({"RECORD_SCHEMA": pa.schema([("part", pa.uint64())])}, "RECORD_SCHEMA has part"),
        ({"RECORD_SCHEMA": pa.schema([("n", pa.int64()), ("n", pa.int64())])}, "two columns with the same name"),
        ({"tally": lambda *_: {}}, "it has tally but no totals"),
        ({"totals": lambda *_: {}}, "it has totals but no tally"),
        ({"ROUNDS": 2}, "ROUNDS is not a tuple"),
        ({"ROUNDS": "reduce"}, "ROUNDS is not a tuple"),
        ({"ROUNDS": ()}, "ROUNDS is not a tuple"),
        ({"ROUNDS": ("first", "reduce")}, "ROUNDS name first"),
        ({"ROUNDS": ("reduce", "short")}, "the last of its ROUNDS is not reduce"),
        ({"SUMMARIES": ("short",)}, "SUMMARIES is not a dict"),
        ({"SUMMARIES": {"reduec": "short"}}, "name the round reduec"),
        ({"SUMMARIES": {"reduce": "nope"}}, "name the function nope"),
        ({"SUMMARIES": {"reduce": 5}}, "name the function 5"),
    ],
)
def test_a_wrong_value_is_refused(said, fault):
    assert any(fault in message for message in faults(module_of(Exchange, **said)))


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({"reduce": lambda records: None}, "its reduce does not accept the 2 arguments that the engine passes"),
        ({"emit": lambda batch, config, layout: None}, "its emit does not accept the 2 arguments"),
        ({"USES": ("x",)}, "its emit does not accept the 2 arguments and models="),
        ({"tally": lambda *_: {}, "totals": lambda *_: {}}, "its reduce does not accept the 2 arguments and totals="),
        ({"SUMMARIES": {"reduce": "short"}}, "its reduce does not accept the 2 arguments and others="),
        (
            {"SUMMARIES": {"reduce": "one"}, "one": lambda records: None},
            "its summary of reduce does not accept the 2 arg",
        ),
        ({"warnings": lambda found: ()}, "its warnings does not accept the 2 arguments"),
    ],
)
def test_a_function_that_takes_other_arguments_is_refused(said, fault):
    """Before any work, not by a traceback of the engine in the middle of it."""
    assert any(fault in message for message in faults(module_of(Exchange, **said)))


def test_built_in_stages_declare_all_that_they_have():
    """All of them, whether a recipe names them or not."""
    paths = [one.name for one in pkgutil.walk_packages(stages.__path__, "gristmill.stages.") if not one.ispkg]
    declared = [path for path in paths if "STAGE" in vars(importlib.import_module(path))]
    assert {*stages.READERS.values(), *stages.STEPS.values()} <= set(declared)
    for path in declared:
        assert [*left_out(path), *faults_of(stage_of(path))] == [], path

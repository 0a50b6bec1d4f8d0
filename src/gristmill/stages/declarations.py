"""Finds the stage that a module declares.

A module declares `STAGE = Map(...)`. A module next to a recipe may instead declare the fields of its stage as module
names: a constant in capitals (`READS`), a function in lower case (`apply`), the config as the class `Config`. Its verb
(`apply`, `reduce`, ...) decides the kind. Only this file reads these names.
"""

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from difflib import get_close_matches
from functools import cache
from types import ModuleType, NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, overload
from weakref import WeakKeyDictionary

from gristmill.stages.contract import KINDS, AnyStage, Exchange, Reader, Stage

Kind = type[AnyStage]
S = TypeVar("S", bound=AnyStage)
_VERB_FAULT = "it has no verb: read, apply, emit and reduce, fit, make, or build"
_from_names: WeakKeyDictionary[ModuleType, AnyStage] = WeakKeyDictionary()


class NotAStage(Exception):
    """A module is not a stage; `faults` says why."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


@overload
def stage_of(path: str) -> AnyStage: ...
@overload
def stage_of(path: str, kind: type[S]) -> S: ...
def stage_of(path: str, kind: Kind = Stage) -> AnyStage:
    """The stage that a module declares, which must be of this kind. Raises NotAStage."""
    found = declared_by(importlib.import_module(path))
    if not isinstance(found, kind):
        raise NotAStage([f"it is a {type(found).__name__}, not a {kind.__name__}"])
    return found


def about(path: str) -> str:
    """The docstring of a stage's module."""
    return inspect.cleandoc(importlib.import_module(path).__doc__ or "")


def declared_by(module: ModuleType) -> AnyStage:
    """The stage that a module declares. Raises NotAStage."""
    declared = vars(module).get("STAGE")
    if isinstance(declared, KINDS):
        return declared
    if declared is not None:
        raise NotAStage([f"its STAGE is of type {type(declared).__name__}, not {_one_of(KINDS)}"])
    if module not in _from_names:
        _from_names[module] = _from(module)
    return _from_names[module]


def left_out(path: str) -> list[str]:
    """Messages about declarations of a module that its STAGE does not use, so the engine would ignore them."""
    module = importlib.import_module(path)
    if "STAGE" not in vars(module):
        return []
    stage = declared_by(module)
    return [
        f"it defines {name}, but its STAGE does not use it. Add {one.name}={name} to STAGE. "
        f"If it is not for the engine, rename it to _{name}"
        for name, one in _names(type(stage)).items()
        if _declares(module, name, one) and _is_defined_in(module, name)
        if one.default is not MISSING and vars(stage)[one.name] == one.default
    ]


def _from(module: ModuleType) -> AnyStage:
    kind, faults = _kind_of(module)
    names = _names(kind or Stage)
    given = {one.name: vars(module)[name] for name, one in names.items() if _declares(module, name, one)}
    missing = [one for one in fields(kind or Stage) if one.name not in given and _is_needed(one)]
    faults = [f"it has no {_spelling(one)}" for one in missing] + faults
    faults += _misspelt(module, [*map(_spelling, missing), *([] if kind else [one.verb for one in KINDS])])
    faults += _unused(module, kind) if kind else []
    if kind is Exchange:
        given, of_rounds = _with_rounds(module, given)
        faults += of_rounds
    if faults or kind is None:
        raise NotAStage(faults)
    return kind(**given)


def _kind_of(module: ModuleType) -> tuple[Kind | None, list[str]]:
    kinds = [kind for kind in KINDS if callable(vars(module).get(kind.verb))]
    if len(kinds) > 1 and not {"splittable", "SPLITTABLE"} & vars(module).keys():
        kinds = [kind for kind in kinds if kind is not Reader]  # its `read` is then an ordinary function
    if not kinds and callable(vars(module).get("emit")):
        return Exchange, []
    if len(kinds) > 1:
        return None, [f"it has the verbs of {' and '.join(kind.kind for kind in kinds)}, but a stage has one kind"]
    return (kinds[0], []) if kinds else (None, [_VERB_FAULT])


def _names(kind: Kind) -> dict[str, "Field[Any]"]:
    """The names that a module may use for each field. A function takes precedence over a constant."""
    named = [one for one in fields(kind) if one.name != "config"]
    capitals = {one.name.upper(): one for one in named}
    return {**capitals, **{one.name: one for one in named}, "Config": _field(kind, "config")}


def _field(kind: Kind, name: str) -> "Field[Any]":
    return next(one for one in fields(kind) if one.name == name)


def _declares(module: ModuleType, name: str, one: "Field[Any]") -> bool:
    """Whether a name of a module is a declaration. For example, `from importlib import resources` is not."""
    if name not in vars(module):
        return False
    return callable(vars(module)[name]) or (name.isupper() and _may_be_constant(one))


def _is_needed(one: "Field[Any]") -> bool:
    return one.default is MISSING and one.default_factory is MISSING


def _spelling(one: "Field[Any]") -> str:
    """The name by which a module declares a field."""
    if one.name == "config":
        return "Config"
    return one.name.upper() if _may_be_constant(one) else one.name


@cache
def _may_be_constant(one: "Field[Any]") -> bool:
    return not all(map(_is_function, _types(one)))


def _may_be_function(one: "Field[Any]") -> bool:
    return any(map(_is_function, _types(one)))


def _types(one: "Field[Any]") -> list[Any]:
    """The types that a field accepts, apart from None."""
    types = get_args(one.type) if get_origin(one.type) in (Union, UnionType) else (one.type,)
    return [get_origin(kind) or kind for kind in types if kind is not NoneType]


def _is_function(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Callable)  # type: ignore[arg-type]


def _admits(one: "Field[Any]", name: str) -> bool:
    """Whether a field may be spelled this way: a constant in capitals, a function in lower case."""
    return name == "Config" or (_may_be_constant(one) if name.isupper() else _may_be_function(one))


def _is_defined_in(module: ModuleType, name: str) -> bool:
    """Whether a module defines a name itself: a constant, or a function that it did not import."""
    value = vars(module)[name]
    if inspect.isfunction(value):
        return value.__module__ == module.__name__
    return not callable(value) and not inspect.ismodule(value)


def _own_names(module: ModuleType) -> Iterator[str]:
    """Public constants and functions of a module."""
    for name, value in vars(module).items():
        if not name.startswith("_") and _is_defined_in(module, name) and (name.isupper() or inspect.isfunction(value)):
            yield name


def _misspelt(module: ModuleType, missing: list[str]) -> list[str]:
    """Messages about names that resemble a declaration; the engine would ignore them."""
    known = {name: one for kind in KINDS for name, one in _names(kind).items()}
    free = {name for name, one in known.items() if name not in vars(module) and _admits(one, name)}
    faults = []
    for name in _own_names(module):
        if name not in known:
            is_constant = not callable(vars(module)[name])
            # Ordinary functions often resemble ours (ready, fits), so they need a closer match.
            near = get_close_matches(name, free, 1, 0.8 if is_constant else 0.9)
            near = get_close_matches(name if is_constant else name.lower(), missing, 1, 0.7) or near
            if near:
                faults.append(
                    f"it defines {name}, which the engine does not know. Did you mean {near[0]}? "
                    f"If it is not for the engine, rename it to _{name}"
                )
    return faults


def _unused(module: ModuleType, kind: Kind) -> list[str]:
    """Messages about declarations of other kinds and about constants in lower case; the engine would ignore them."""
    faults = []
    valid = _names(kind)
    for name in _own_names(module):
        others = [other for other in KINDS if name in _names(other)]
        if name not in valid and others and _is_for_engine(module, name, _names(others[0])[name]):
            faults.append(
                f"it defines {name}, which is a field of {_one_of(others)}, not of {kind.__name__}. "
                f"If it is not for the engine, rename it to _{name}"
            )
    for name, one in valid.items():
        is_lost = name.islower() and name in vars(module) and not callable(vars(module)[name])
        if is_lost and _may_be_constant(one) and _is_defined_in(module, name):
            faults.append(f"it defines {name}, which is not a function. Rename it to {name.upper()}")
    return faults


def _is_for_engine(module: ModuleType, name: str, one: "Field[Any]") -> bool:
    value = vars(module)[name]
    if inspect.isfunction(value):
        return "config" in inspect.signature(value).parameters
    return name.isupper() and _may_be_constant(one)


def _with_rounds(module: ModuleType, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Replaces the names of rounds and summaries by their functions."""
    rounds, summaries = given.get("rounds", ("reduce",)), given.get("summaries", {})
    if not isinstance(rounds, tuple | list) or not rounds or not all(isinstance(name, str) for name in rounds):
        return dict(given), ["its ROUNDS is not a tuple of names of functions"]
    if not isinstance(summaries, Mapping):
        return dict(given), ["its SUMMARIES is not a dict from a round to the name of a function"]
    faults = [
        f"its ROUNDS name {name}, which it does not define" for name in rounds if not callable(vars(module).get(name))
    ]
    if rounds[-1] != "reduce":
        faults.append("the last of its ROUNDS is not reduce")
    for name, function in summaries.items():
        if name not in rounds:
            faults.append(f"its SUMMARIES name the round {name}, but its rounds are {', '.join(rounds)}")
        if not isinstance(function, str) or not callable(vars(module).get(function)):
            faults.append(f"its SUMMARIES name the function {function}, which it does not define")
    if faults:
        return dict(given), faults
    functions = {
        "rounds": {name: vars(module)[name] for name in rounds[:-1]},
        "summaries": {name: vars(module)[function] for name, function in summaries.items()},
    }
    return {**given, **functions}, []


def _one_of(kinds: tuple[Kind, ...] | list[Kind]) -> str:
    *most, last = (kind.__name__ for kind in kinds)
    return f"{', '.join(most)} or {last}" if most else last

"""Finds the stage that a module declares, `STAGE = Map(...)`. Only this file reads that name."""

import importlib
import inspect
from dataclasses import MISSING, fields
from types import ModuleType
from typing import TypeVar, overload

from gristmill.stages.contract import KINDS, AnyStage, Stage

S = TypeVar("S", bound=AnyStage)


class NotAStage(Exception):
    """A module is not a stage; `faults` says why."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


@overload
def stage_of(path: str) -> AnyStage: ...
@overload
def stage_of(path: str, kind: type[S]) -> S: ...
def stage_of(path: str, kind: type[AnyStage] = Stage) -> AnyStage:
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
    *most, last = (kind.__name__ for kind in KINDS)
    kinds = f"{', '.join(most)} or {last}"
    if "STAGE" not in vars(module):
        kind = next((kind for kind in KINDS if callable(vars(module).get(kind.verb))), None)
        example = f"STAGE = {kind.__name__}(..., {kind.verb}={kind.verb})" if kind else f"STAGE = {kinds}"
        raise NotAStage([f"it declares no stage. End it with {example}"])
    if isinstance(declared := vars(module)["STAGE"], KINDS):
        return declared
    raise NotAStage([f"its STAGE is of type {type(declared).__name__}, not {kinds}"])


def left_out(path: str) -> list[str]:
    """Messages about functions of a module that have the name of a field that its STAGE does not use."""
    module = importlib.import_module(path)
    stage = declared_by(module)
    return [
        f"it defines {one.name}, but its STAGE does not use it. Add {one.name}={one.name} to STAGE. "
        f"If it is not for the engine, rename it to _{one.name}"
        for one in fields(stage)
        if inspect.isfunction(function := vars(module).get(one.name)) and function.__module__ == path
        if one.default is not MISSING and vars(stage)[one.name] == one.default
    ]

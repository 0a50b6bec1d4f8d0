"""Checks the values of a user's own stage, which no type checker has seen."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, get_args, get_origin

import pyarrow as pa

from gristmill.counted import counted
from gristmill.stages.contract import (
    AnyStage,
    Asset,
    Exchange,
    Fit,
    LayerStage,
    Map,
    Reader,
    Sink,
    StageConfig,
    StepStage,
)

_OF_RECORDS = ("key", "part", "row")
Call = tuple[str, Callable[..., Any] | None, int, tuple[str, ...]]
"""The name of a function, the function, its number of positional arguments, and its keyword arguments."""


def faults_of(stage: AnyStage) -> list[str]:
    """Messages about a stage that cannot run, before any work: some faults would only show in a large corpus."""
    faults = []
    if not isinstance(stage.version, int | None) or isinstance(stage.version, bool):
        faults.append("its version is not a whole number")
    if not (isinstance(stage.config, type) and issubclass(stage.config, StageConfig)):
        faults.append("its config is not a StageConfig (gristmill.stages.contract)")
    for one in fields(stage):
        takes_tuple = any(get_origin(kind) is tuple for kind in (one.type, *get_args(one.type)))
        if takes_tuple and isinstance(vars(stage)[one.name], str):
            faults.append(f"its {one.name} is text, not a tuple of names")
    if isinstance(stage, Exchange | Sink):
        faults += _faults_of_records(stage)
    if isinstance(stage, Exchange):
        unknown = [name for name in stage.summaries if name not in stage.all_rounds]
        faults += [f"its summaries name the round {one}, not one of {', '.join(stage.all_rounds)}" for one in unknown]
    return faults or [fault for call in _calls(stage) for fault in _faults_of_call(*call)]


def _faults_of_records(stage: Exchange[Any] | Sink[Any]) -> Iterator[str]:
    schema = stage.record_schema
    if not isinstance(schema, pa.Schema):
        yield f"its record_schema is of type {type(schema).__name__}, not a pyarrow.Schema"
        return
    for name in _OF_RECORDS if isinstance(stage, Exchange) else ():
        if name in schema.names:
            yield f"its record_schema has {name}, which the engine adds to every record"
    if len(set(schema.names)) < len(schema.names):
        yield "its record_schema has two columns with the same name"


def _calls(stage: AnyStage) -> Iterator[Call]:
    """The functions of a stage and how the engine calls them (calls.py)."""
    models = ("models",) if isinstance(stage, StepStage) and stage.uses else ()
    loaded = (*models, "loaded") if isinstance(stage, LayerStage) and stage.setup else models
    if isinstance(stage, LayerStage):
        yield "setup", stage.setup, 1, models
    match stage:
        case Reader():
            yield "read", stage.read, 2, ("companions",) if stage.companions else ()
        case Map():
            yield "apply", stage.apply, 2, (*loaded, "answers") if stage.answers else loaded
            yield "answers", stage.answers, 1, ()
            yield "kept", stage.kept, 1, ()
            yield "requests", stage.requests, 2, ()
            yield "metrics", stage.metrics, 3, ()
        case Exchange():
            totals = ("totals",) if stage.tally else ()
            yield "emit", stage.emit, 2, loaded
            yield "tally", stage.tally, 3, ()
            yield "totals", stage.totals, 2, ()
            for name, function in stage.all_rounds.items():
                yield name, function, 2, (*totals, "others") if name in stage.summaries else totals
            for name, summary in stage.summaries.items():
                yield f"summary of {name}", summary, 2, totals
        case Fit():
            yield "fit", stage.fit, 3, models
        case Asset():
            yield "make", stage.make, 2, models
        case Sink():
            yield "layout", stage.layout, 2, ()
            yield "emit", stage.emit, 3, ()
            yield "build", stage.build, 4, models
            yield "files", stage.files, 1, ()
            yield "facts", stage.facts, 1, models
    yield "resources", stage.resources if callable(stage.resources) else None, 2, ()
    yield "check", stage.check, 1, ()
    yield "warnings", stage.warnings, 2, ()


def _faults_of_call(name: str, function: Callable[..., Any] | None, given: int, named: tuple[str, ...]) -> list[str]:
    if function is None:
        return []
    if not callable(function):
        return [f"its {name} is of type {type(function).__name__}, not a function"]
    try:
        inspect.signature(function).bind(*[None] * given, **dict.fromkeys(named))
    except TypeError as error:
        arguments = f"{counted(given, 'argument')}{''.join(f' and {one}=' for one in named)}"
        return [f"its {name} does not accept the {arguments} that the engine passes ({error})"]
    except ValueError:  # the signature is unknown
        pass
    return []

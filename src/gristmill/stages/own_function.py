"""A function as a step: the shortest filter that a recipe can have.

    def long_enough(text, min_chars=200):
        return len(text) >= min_chars

Arguments without a default are columns of the documents or of an earlier step; a document without a value has None
there. Arguments with a default are settings. True keeps the document, False drops it with the reason `not_long_enough`.
A function may also return the reason itself, a word that names the fault, or None to keep the document. It is called
once for each document that no earlier step dropped.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_type_hints

import numpy as np
import pyarrow as pa
from pydantic import create_model

from gristmill.counted import counted
from gristmill.errors import BrokenPromise
from gristmill.stages.contract import Map, StageConfig
from gristmill.warned import idle

Function = Callable[..., Any]

SCHEMA = pa.schema([("drop", pa.string())])
_REASON = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_MOST_SHOWN = 60


def faults_of_function(function: object) -> list[str]:
    """Messages about why an object cannot be a step."""
    if not inspect.isfunction(function):
        return [f"it is of type {type(function).__name__}, but a step is a module or a function"]
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        return ["it is a generator or a coroutine, but a filter returns True or False"]
    faults = []
    for name, argument in inspect.signature(function).parameters.items():
        if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            faults.append(f"its argument *{name} cannot be a column or a setting")
        elif argument.kind is argument.POSITIONAL_ONLY and argument.default is not argument.empty:
            faults.append(f"its setting {name} cannot be passed by name (it is before a /)")
    if not faults and not _columns(function):
        faults.append("it takes no column. Add an argument without a default, such as text")
    if not faults:
        try:
            _config_of(function, __name__)
        except Exception as error:  # pydantic raises several exceptions for a type that it cannot check
            first = str(error).partition("\n")[0]
            faults.append(f"its settings are not valid for a step ({type(error).__name__}: {first})")
    return faults


def function_stage(module: str, function: Function) -> Map[StageConfig]:
    """Turns a function into a stage; `module` is the name of the module that will hold its config."""
    columns, returns = _columns(function), _returns(function)

    def apply(batch: pa.RecordBatch, config: StageConfig) -> pa.RecordBatch:
        settings = dict(config)
        rows = zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
        reasons = [_reason(function, dict(zip(columns, row, strict=True)), settings, returns) for row in rows]
        return pa.RecordBatch.from_arrays([pa.array(reasons, pa.string())], schema=SCHEMA)

    def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: StageConfig) -> dict[str, int]:
        return {"asked": batch.num_rows}

    def warnings(found: Mapping[str, Any], config: StageConfig) -> Sequence[str]:
        documents = counted(found.get("asked", 0), "document")
        text = f"it kept all {documents} that it was called for. Check that it does what you expect"
        return idle(found.get("asked"), found.get("dropped"), text)

    return Map(
        config=_config_of(function, module),
        reads=columns,
        schema=SCHEMA,
        only_kept=True,
        apply=apply,
        metrics=metrics,
        warnings=warnings,
    )


def _columns(function: Function) -> tuple[str, ...]:
    arguments = inspect.signature(function).parameters.values()
    return tuple(
        argument.name
        for argument in arguments
        if argument.default is argument.empty and argument.kind is not argument.KEYWORD_ONLY
    )


def _config_of(function: Function, module: str) -> type[StageConfig]:
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for name, argument in inspect.signature(function).parameters.items():
        if name in _columns(function):
            continue
        default = ... if argument.default is argument.empty else argument.default
        unannotated = Any if default is None or default is ... else type(default)
        fields[name] = (hints.get(name, unannotated), default)
    model: type[StageConfig] = create_model("Config", __base__=StageConfig, __module__=module, **fields)
    return model


def _returns(function: Function) -> Any:
    """The annotated return type: bool, or anything that a filter may return."""
    return get_type_hints(function).get("return")


def _reason(function: Function, row: Mapping[str, Any], settings: Mapping[str, Any], returns: object) -> str | None:
    try:
        answer = function(*row.values(), **settings)
    except Exception as error:
        error.add_note(f"It was called with {_shown(row)}.")
        raise
    if isinstance(answer, bool | np.bool_):
        return None if answer else f"not_{function.__name__}"
    if answer is None and returns is not bool:
        return None
    if isinstance(answer, str) and returns is not bool and _REASON.fullmatch(answer):
        return answer
    name = f"{function.__module__}.{function.__name__}"
    if isinstance(answer, str) and returns is not bool:
        raise BrokenPromise(
            f"{name} returned {answer[:_MOST_SHOWN]!r}, but a reason is one word of up to 64 letters, digits and _, "
            f"such as too_short. It was called with {_shown(row)}. Return such a word, True, False or None."
        )
    returned = "nothing (None)" if answer is None else f"{answer!r:.{_MOST_SHOWN}} ({type(answer).__name__})"
    wanted = "True or False, as it declares (-> bool)" if returns is bool else "True, False, a reason or None"
    raise BrokenPromise(
        f"{name} returned {returned}, but a filter returns {wanted}: True to keep a document, False to drop it. It was "
        f"called with {_shown(row)}. Fix what it returns, for example with bool(...)."
    )


def _shown(row: Mapping[str, Any]) -> str:
    """The arguments of a call, shortened."""
    shown = []
    for name, value in row.items():
        long = isinstance(value, str | bytes) and len(value) > _MOST_SHOWN
        text = f"{value[:_MOST_SHOWN]!r}..." if long else repr(value)
        shown.append(f"{name}={text[: 5 * _MOST_SHOWN]}")
    return ", ".join(shown)

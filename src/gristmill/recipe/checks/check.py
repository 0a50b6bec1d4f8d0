"""Checks a mapping of the recipe against the model of its fields, and reports every mistake with its line."""

import ast
import inspect
import itertools
import math
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gristmill.recipe.checks.mistakes import Path, dotted, ours, show, suggest
from gristmill.recipe.checks.plain_words import describe
from gristmill.recipe.draft import Draft

Model = TypeVar("Model", bound=BaseModel)


def check(
    draft: Draft,
    model: type[Model],
    values: Mapping[str, Any],
    at: Path,
    *,
    also_allowed: Iterable[str] = (),
    elsewhere: Mapping[str, str] | None = None,
) -> Model | None:
    """Validate `values`, found at `at`, as a `model`; returns None if there was a mistake.

    `also_allowed` are fields of the same mapping that belong to another model. `elsewhere` says where a field belongs
    that users tend to write here.
    """
    before = len(draft.mistakes)
    checked = None
    try:
        checked = model.model_validate(dict(values))
    except ValidationError as error:
        by_path: dict[Path, list[ErrorDetails]] = {}
        for found in error.errors(include_url=False):
            by_path.setdefault(_path_in(values, found), []).append(found)
        above = {path[:length] for path in by_path for length in range(1, len(path))}
        for path, several in by_path.items():
            # A second error below a value that has one: the user nearly wrote one type of a union.
            if path in above:
                continue
            if at + path in draft.tree.broken:
                continue
            first = several[0]
            if first["type"] == "extra_forbidden":
                _add_unknown(draft, model, path, at, also_allowed, elsewhere or {})
            elif first["type"] == "missing":
                _add_missing(draft, model, path, at)
            else:
                text = describe(dotted(at + path), several, _value_at(values, path))
                draft.add(at + path, text)
    else:
        for path, words in _surprises(dict(values), checked, ()):
            draft.add(at + path, f"{dotted(at + path)} {words}")
    return checked if len(draft.mistakes) == before else None


def _path_in(values: object, error: ErrorDetails) -> Path:
    """The part of pydantic's location that is in the file: the names of a union's types are not."""
    path: Path = ()
    location = error["loc"]
    for at, part in enumerate(location):
        if isinstance(values, Mapping) and str(part) in values:
            path, values = (*path, str(part)), values[str(part)]
        elif isinstance(values, list | tuple) and isinstance(part, int) and part < len(values):
            path, values = (*path, part), values[part]
        elif error["type"] == "missing" and at + 1 == len(location):
            path = (*path, str(part))
    return path


def _value_at(values: Any, path: Path) -> Any:
    for part in path:
        values = values[part]
    return values


def _models_in(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]


def _fields_at(model: type[BaseModel], path: Path) -> list[str]:
    """The fields of the mapping that holds the last name of `path`."""
    return [name for one in _models_at(model, path) for name in one.model_fields]


def _models_at(model: type[BaseModel], path: Path) -> list[type[BaseModel]]:
    """The models that may hold the last name of `path`."""
    models = [model]
    for name in path[:-1]:
        inner = [
            m
            for outer in models
            if name in outer.model_fields
            for m in _models_in(outer.model_fields[str(name)].annotation)
        ]
        models = inner or models
    return models


def _add_unknown(
    draft: Draft,
    model: type[BaseModel],
    path: Path,
    at: Path,
    also_allowed: Iterable[str],
    elsewhere: Mapping[str, str],
) -> None:
    name = str(path[-1])
    fields = [*(also_allowed if len(path) == 1 else ()), *_fields_at(model, path)]
    fix = elsewhere.get(name) if len(path) == 1 else None
    fix = fix or ours("fields", name, fields)
    where = dotted(at + path)
    draft.add_at_key(at + path, f"{where} is not a field. {fix or suggest(name, fields, 'Fields')}")


def meanings(model: type[BaseModel]) -> dict[str, str]:
    """The docstrings below the fields of a model, read from its source. Pages and messages show what a field means;
    a process that runs a step never reads sources (pydantic's `use_attribute_docstrings` would, for every model).
    """
    found = {}
    for one in reversed(model.__mro__):
        if not issubclass(one, BaseModel) or one.__module__.startswith("pydantic"):
            continue
        try:
            (body,) = ast.parse(textwrap.dedent(inspect.getsource(one))).body
        except (OSError, TypeError, SyntaxError, ValueError):  # the class has no source file
            continue
        assert isinstance(body, ast.ClassDef)
        for field, below in itertools.pairwise(body.body):
            if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
                continue
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                found[field.target.id] = inspect.cleandoc(str(below.value.value))
    return found


def _add_missing(draft: Draft, model: type[BaseModel], path: Path, at: Path) -> None:
    meant = next((found for one in _models_at(model, path) if (found := meanings(one).get(str(path[-1])))), "")
    meaning = " ".join(meant.split()).rstrip(".")
    explained = f" ({meaning})" if meaning else ""
    draft.add_at_key(at + path, f"{dotted(at + path)} is missing{explained} and has no default. Add it.")


def _surprises(raw: object, checked: object, path: Path) -> Iterable[tuple[Path, str]]:
    """Where pydantic is more lenient than a reader of the recipe: true is not 1, and "yes" is not true."""
    if isinstance(raw, dict | list) and checked is raw:
        return  # the field has type Any: another model checks it
    if isinstance(raw, dict):
        for name, value in raw.items():
            if isinstance(checked, BaseModel) and name in type(checked).model_fields:
                yield from _surprises(value, getattr(checked, name), (*path, name))
            elif isinstance(checked, dict) and name in checked:
                yield from _surprises(value, checked[name], (*path, name))
    elif isinstance(raw, list) and isinstance(checked, list | tuple) and len(raw) == len(checked):
        for at, (value, item) in enumerate(zip(raw, checked, strict=True)):
            yield from _surprises(value, item, (*path, at))
    elif isinstance(raw, bool) and isinstance(checked, int | float) and not isinstance(checked, bool):
        yield path, f"must be a number, not {show(raw)}."
    elif isinstance(checked, bool) and not isinstance(raw, bool):
        yield path, f"must be true or false, not {show(raw)}."
    elif isinstance(raw, float) and not math.isfinite(raw):
        yield path, f"must be a number, not {raw}."

"""Finds the config fields that name files, makes their paths absolute, and checks that they exist before any work."""

from collections.abc import Callable, Mapping
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel

from gristmill.recipe.checks.mistakes import Path
from gristmill.stages.config_types import FileMark

Config = TypeVar("Config", bound=BaseModel)
Locate = Callable[[str, Path], str]
"""Turns a file name in the recipe, and its position there, into a location."""


def place_files(model: type[BaseModel], values: Mapping[str, Any], at: Path, place: Locate) -> dict[str, Any]:
    """`values` with every path in a `File` field resolved; values of a wrong type are left for a later check."""
    placed = dict(values)
    for name, field in model.model_fields.items():
        if name in placed:
            placed[name] = _placed(field.annotation, _marked(field.metadata), placed[name], (*at, name), place)
    return placed


def placed_in(config: Config, place: Callable[[str], str]) -> Config:
    """A config with every path in a `File` field resolved and all else unchanged."""

    def at_path(path: str, _: Path) -> str:
        return place(path)

    changes = {
        name: _placed(field.annotation, _marked(field.metadata), getattr(config, name), (), at_path)
        for name, field in type(config).model_fields.items()
    }
    return config.model_copy(update=changes)


def _marked(metadata: Any) -> bool:
    return any(isinstance(mark, FileMark) or mark is FileMark for mark in metadata)


def _placed(hint: object, marked: bool, value: object, at: Path, place: Locate) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _placed(arguments[0], marked or _marked(arguments[1:]), value, at, place)
    if origin in (Union, UnionType):
        if any(get_origin(option) is Literal and value in get_args(option) for option in arguments):
            return value
        options = (_placed(option, marked, value, at, place) for option in arguments)
        return next((changed for changed in options if changed != value), value)
    if isinstance(value, str):
        return place(value, at) if marked and hint is str else value
    if isinstance(value, list | tuple) and arguments:
        hints = arguments if origin is tuple and arguments[-1] is not ... else [arguments[0]] * len(value)
        items = [
            _placed(hints[i] if i < len(hints) else Any, marked, item, (*at, i), place) for i, item in enumerate(value)
        ]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, BaseModel):
        return placed_in(value, lambda path: place(path, at))
    if isinstance(value, dict) and isinstance(hint, type) and issubclass(hint, BaseModel):
        return place_files(hint, value, at, place)
    if isinstance(value, dict) and len(arguments) == 2:
        return {name: _placed(arguments[1], marked, item, (*at, name), place) for name, item in value.items()}
    return value

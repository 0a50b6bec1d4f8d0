"""Every setting that a recipe may have, generated from the configs: name, type, default, meaning.

`gristmill steps` prints them and `docs/steps.md` has the same text, so both always match the code.
"""

import collections.abc
import importlib
import os
import re
import types
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from gristmill.errors import UserError
from gristmill.installed import FORMATS, MODELS, SOURCES, STEPS, installed, missing
from gristmill.recipe.checks.check import meanings
from gristmill.recipe.checks.mistakes import nearest
from gristmill.recipe.fields import DerivedFields, ReadFields, RecipeFields, SourceFields
from gristmill.recipe.sections.cluster import ClusterFields
from gristmill.recipe.sections.mix import MixFields
from gristmill.recipe.sections.quality import BUILT_IN, known_kinds
from gristmill.recipe.sections.shards import ShardsFields
from gristmill.recipe.sections.tokenizer import TrainFields
from gristmill.recipe.sections.watch import WatchFields
from gristmill.recipe.stage_module import Unfit, find_stage, known_formats, known_steps
from gristmill.stages.config_types import FileMark, parse_bytes, parse_count
from gristmill.stages.contract import LayerStage, StageConfig
from gristmill.stages.declarations import NotAStage, about, stage_of
from gristmill.stages.quality.classifier_settings import ClassifierFields
from gristmill.stages.shared.rule import EXCEPTIONS, stated_in

SECTIONS: dict[str, tuple[str, type[BaseModel]]] = {
    "recipe": ("The top of a recipe.", RecipeFields),
    "source": ("One of `sources`.", SourceFields),
    "read": ("Under `read` of a source, together with the settings of its format.", ReadFields),
    "classifier": ("One of `quality: {classifiers: ...}` (quality.md).", ClassifierFields),
    "tokenizer": (
        "Under `tokenizer: {train: ...}`. To use an existing tokenizer, write `tokenizer: {file: PATH}`. `pin: PATH` "
        "next to `train` keeps a trained one (`gristmill tokenizer pin`).",
        TrainFields,
    ),
    "shards": ("Under `shards`.", ShardsFields),
    "mix": ("Under `mix`.", MixFields),
    "cluster": (
        "Under `cluster`, or in a file (the `profile` of a run); only used by the executor slurm.",
        ClusterFields,
    ),
    "watch": ("Under `watch`; `watch: NAME` is short for `watch: {against: NAME}` (watch.md).", WatchFields),
}
_NAMES = {bool: "true or false", int: "whole number", float: "number", str: "text", Any: "anything"}
_NEEDED = "required"
_BYTES, _COUNT = "bytes (64MB, 1GiB)", "count (100k, 2B)"
_UNITS = {"GiB": 2**30, "MiB": 2**20, "GB": 10**9, "MB": 10**6, "KB": 10**3}
_BOUNDS = {"gt": "above", "ge": "from", "lt": "below", "le": "to"}
_NO_BOUND = 10**12
"""Larger limits only prevent overflow, so they are not shown."""


@dataclass(frozen=True)
class Setting:
    """A field of a config; its name or its meaning has the unit."""

    name: str
    """Dotted path below the step."""
    type: str
    default: str
    meaning: str


@dataclass(frozen=True)
class ReferenceEntry:
    """A step, a format or a section of a recipe."""

    name: str
    kind: Literal["step", "format", "section"]
    summary: str
    """One sentence."""
    about: str
    """The whole docstring of its module."""
    settings: tuple[Setting, ...]


def sections() -> Mapping[str, tuple[str, type[BaseModel]]]:
    """The sections of a recipe, then the kinds of models that installed packages add."""
    kinds = {name: kind.fields for name, kind in known_kinds().items() if name not in BUILT_IN}
    return {**SECTIONS, **{name: (f"One of `quality: {{{name}: ...}}`.", fields) for name, fields in kinds.items()}}


def all_entries() -> list[ReferenceEntry]:
    """Steps in the pipeline's order, then formats, then the sections of a recipe."""
    found = [_of_module(name, "step", path) for name, path in known_steps().items()]
    found += [_format(name, path) for name, path in known_formats().items()]
    found += [_section(name, *section) for name, section in sections().items()]
    return [*found, *map(_source_key, installed(SOURCES))]


def entry(name: str) -> ReferenceEntry:
    """The entry with a name; a user's own step is found as a module in the working folder, or by its import path."""
    if name in SECTIONS:
        return _section(name, *SECTIONS[name])
    if name in (steps := known_steps(name)):
        return _of_module(name, "step", steps[name])
    if name in (formats := known_formats(name)):
        return _format(name, formats[name])
    if name in (sources := installed(SOURCES)):
        return _source_key(name)
    if name in (whole := sections()):
        return _section(name, *whole[name])
    known: Mapping[str, str] = {**formats, **steps}
    try:
        return _of_module(name, "step", find_stage("step", name, known, os.getcwd()).module)
    except NotAStage:
        unfit = ""
    except Unfit as error:
        unfit = str(error)
    if "." in name and unfit:
        raise UserError(unfit)
    if message := next(filter(None, (missing(group, name) for group in (FORMATS, STEPS, SOURCES, MODELS))), None):
        raise UserError(message)
    names = [*known, *whole, *sources]
    near = nearest(name, names)
    holders = [one for one in (*known, *whole) if name in _fields_of(one, known, whole)]
    hint = f"Did you mean {near}? " if near else ""
    hint = f"It is a setting of {', '.join(holders)}: gristmill steps {holders[0]}. " if holders else hint
    raise UserError(f"{name} is not a step, format or section of a recipe. {hint}Known: {', '.join(names)}")


def _fields_of(
    name: str, known: Mapping[str, str], whole: Mapping[str, tuple[str, type[BaseModel]]]
) -> Collection[str]:
    if name in whole:
        return whole[name][1].model_fields
    fields: Mapping[str, FieldInfo] = stage_of(known[name]).config.model_fields
    return fields


def _format(name: str, path: str) -> ReferenceEntry:
    try:
        return _of_module(name, "format", path)
    except (ImportError, AttributeError) as error:
        raise UserError(
            f"The format {name} cannot be imported from {path} ({error}). Reinstall the package that adds it, or "
            "uninstall it."
        ) from None


def _of_module(name: str, kind: Literal["step", "format"], module: str) -> ReferenceEntry:
    text = about(module)
    summary = re.split(r"(?<=\.)\s(?=[A-Z])", " ".join(text.split("\n\n")[0].split()), maxsplit=1)[0]
    stage = stage_of(module)
    rules = stage.rule_set if isinstance(stage, LayerStage) else None
    more = () if rules is None else _settings(vars(importlib.import_module(rules))["Config"], f"heuristics.{name}.")
    return ReferenceEntry(name, kind, summary, text, (*_settings(stage.config), *more))


def _source_key(name: str) -> ReferenceEntry:
    """A key that an installed package adds in place of `read`."""
    module = installed(SOURCES)[name].module
    text = f"Under `{name}` of a source, instead of `read`. {about(module)}"
    return ReferenceEntry(
        name, "section", text.split("\n\n")[0], text, (*_settings(DerivedFields), *_settings(stage_of(module).config))
    )


def _section(name: str, about: str, model: type[BaseModel]) -> ReferenceEntry:
    return ReferenceEntry(name, "section", about, about, tuple(_settings(model)))


def _settings(model: type[BaseModel], prefix: str = "", given: BaseModel | None = None) -> Iterator[Setting]:
    """The settings of a model, with the defaults of `given` where a field of another model sets them."""
    built_in, meant = _built_in(model), meanings(model)
    for name, field in model.model_fields.items():
        kind, nested = _named(field.annotation, tuple(field.metadata)), _model_in(field.annotation)
        again = nested is not None and nested.model_fields.keys() <= model.model_fields.keys()
        meaning = " ".join([*(field.description or meant.get(name, "")).split(), *built_in.get(name, ())])
        filled = name == "source_domains" or (name == "seed" and model is not RecipeFields)
        value = (
            field.get_default(call_default_factory=True, validated_data={}) if given is None else getattr(given, name)
        )
        default = "the recipe's" if filled else _default(value, kind)
        yield Setting(f"{prefix}{name}", f"{kind} as above" if again else kind, default, meaning)
        if nested is not None and not again:
            yield from _settings(nested, f"{prefix}{name}.", value if isinstance(value, nested) else None)


def _built_in(model: type[BaseModel]) -> dict[str, list[str]]:
    """Notes on built-in exceptions, for the thresholds that have them and for the fields that add more."""
    # A model with required fields has no built-in exceptions: all of its values come from the recipe.
    is_complete = not any(field.is_required() for field in model.model_fields.values())
    fields = [name for name in EXCEPTIONS if name in model.model_fields and is_complete]
    values: dict[str, dict[str, list[str]]] = {}
    notes = {}
    for field in fields:
        published: Mapping[str, StageConfig] = getattr(model(), field)
        if published:
            notes[field] = ['They override the built-in ones (docs/rules.md, "Published exceptions").']
        for label, one in published.items():
            for threshold, value in stated_in(one).items():
                values.setdefault(threshold, {}).setdefault(_shown(value), []).append(label)
    for threshold, labels in values.items():
        some = "; ".join(f"{value} for {', '.join(names)}" for value, names in labels.items())
        notes[threshold] = [f"Built-in exceptions: {some}."]
    return notes


def _default(value: object, kind: str) -> str:
    if value is PydanticUndefined:
        return _NEEDED
    if kind.startswith(_BYTES) and isinstance(value, int):
        return next((f"{value // unit}{name}" for name, unit in _UNITS.items() if value % unit == 0), str(value))
    return _shown(value)


def _shown(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, BaseModel):
        return "as below"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_shown(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list | tuple | set | frozenset):
        return "[" + ", ".join(map(_shown, value)) + "]"
    return str(value)


def _named(kind: object, marks: tuple[Any, ...] = ()) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _named(inner[0], (*inner[1:], *marks))
    if origin in (Union, types.UnionType):
        options = [_named(option, marks) for option in inner if option is not type(None)]
        return " or ".join(dict.fromkeys(options))
    if origin is Literal:
        return "one of " + ", ".join(map(str, inner))
    if origin in (tuple, list, set, frozenset):
        return f"list of: {_named(inner[0])}" if inner else "list"
    if origin in (dict, Mapping):
        return f"names with: {_named(inner[1])}" if inner else "names with values"
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "settings"
    return _marked(kind, marks)


def _marked(kind: Any, marks: tuple[Any, ...]) -> str:
    """A plain type with its units and bounds."""
    name = _NAMES.get(kind, getattr(kind, "__name__", str(kind)))
    limits: dict[str, list[float]] = {}
    for mark in _flat(marks):
        if isinstance(mark, FileMark):
            name = "file or folder"
        if isinstance(mark, BeforeValidator) and mark.func in (parse_bytes, parse_count):
            name = _BYTES if mark.func is parse_bytes else _COUNT
        for bound in _BOUNDS:
            limit = getattr(mark, bound, None)
            if isinstance(limit, int | float) and abs(limit) < _NO_BOUND:
                limits.setdefault(bound, []).append(limit)
    return " ".join([name, *_bounds(limits)])


def _bounds(limits: Mapping[str, list[float]]) -> Iterator[str]:
    """The narrowest bound on either side."""
    for sharp, soft, narrowest in (("gt", "ge", max), ("lt", "le", min)):
        if found := [*limits.get(sharp, ()), *limits.get(soft, ())]:
            limit = narrowest(found)
            word = _BOUNDS[sharp if limit in limits.get(sharp, ()) else soft]
            yield f"{word} {limit:g}" if limit < 1e6 else f"{word} {limit:,}"


def _flat(marks: tuple[Any, ...]) -> Iterator[Any]:
    for mark in marks:
        if isinstance(mark, FieldInfo):
            yield from _flat(tuple(mark.metadata))
        else:
            yield mark


@dataclass(frozen=True)
class NamesWith:
    """A field whose keys the user chooses, each with a config or (None) a plain value."""

    config: type[BaseModel] | None


def below(field: FieldInfo) -> type[BaseModel] | NamesWith | None:
    """What a field contains: a config, names with configs, or nothing."""
    kinds = [field.annotation]
    for kind in kinds:
        if get_origin(kind) in (dict, Mapping, collections.abc.Mapping):
            return NamesWith(_model_in(get_args(kind)[1]))
        kinds += [inner for inner in get_args(kind) if inner is not type(None)]
    return _model_in(field.annotation)


def _model_in(kind: object) -> type[BaseModel] | None:
    """The config that a field contains, directly, optionally or in a list."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind
    for inner in get_args(kind):
        if (found := _model_in(inner)) is not None:
            return found
    return None

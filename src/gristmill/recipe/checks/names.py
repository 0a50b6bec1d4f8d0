"""Checks that the names in a recipe exist: keeping a language that no model predicts would silently keep nothing."""

import itertools
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from gristmill.errors import UserError
from gristmill.recipe.checks.columns import Route
from gristmill.recipe.checks.mistakes import Path, dotted, nearest, ours, show
from gristmill.recipe.draft import Draft
from gristmill.recipe.model import Source, Step
from gristmill.stages.config_types import NameMark
from gristmill.stages.ingest import languages
from gristmill.stages.ingest.spdx import SPDX_NAMES
from gristmill.stages.measure import language
from gristmill.stages.natural_languages import LID_176, intended_label

_CODE = "code"
"""The format whose reader sets languages and licenses itself; records of other formats may have any."""
_ID = re.compile(r"[\w.+:-]+", re.ASCII)
_JOINS = frozenset(("AND", "OR", "WITH", "(", ")"))
"""The operators of an SPDX expression."""


def check_names(draft: Draft, routes: Mapping[str, Route], sources: Mapping[str, Source]) -> None:
    """Add a mistake for every unknown name, with the nearest known one."""
    every_source = draft.tree.value.get("sources")
    for name, source in sources.items():
        if source.license is not None:
            _license(draft, ("sources", name, "license"), source.license, free=False)
    formats_of: dict[tuple[str, ...], set[str]] = {}
    for name in routes.keys() & sources.keys():
        formats_of.setdefault(tuple(step.id for step in routes[name]), set()).add(sources[name].format)
    for name, route in routes.items():
        formats = formats_of.get(tuple(step.id for step in route), set())
        for position, step in enumerate(route):
            for mark, path, value in _marked(type(step.config), step.config, step.at) if step.at else ():
                if mark.kind == "source":
                    _known(draft, path, value, every_source or (), "source of the recipe")
                elif mark.kind == "license":
                    _license(draft, path, value, free=formats != {_CODE} or name not in sources)
                elif mark.kind == "code language" and formats == {_CODE}:
                    _known(draft, path, value, _code_languages(), "programming language that the reader detects")
                elif mark.kind == "language":
                    _language(draft, path, value, route[:position])


def _marked(kind: object, value: object, at: Path) -> Iterator[tuple[NameMark, Path, str]]:
    """The names in a value of type `kind`, and their positions."""
    if get_origin(kind) is Annotated:
        kind, *marks = get_args(kind)
        for mark in marks:
            if isinstance(mark, NameMark) and isinstance(value, str):
                yield mark, at, value
    origin, inner = get_origin(kind), get_args(kind)
    if isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            yield from _marked(field.annotation, getattr(value, name), (*at, name))
    elif origin in (Union, types.UnionType):
        for one in inner:
            yield from _marked(one, value, at)
    elif origin is dict and isinstance(value, dict):
        for key, item in value.items():
            yield from _marked(inner[0], key, (*at, key))
            yield from _marked(inner[1], item, (*at, key))
    elif origin is tuple and isinstance(value, tuple):
        for item in value:
            yield from _marked(inner[0], item, (*at, item) if isinstance(item, str) else at)


def _add(draft: Draft, path: Path, message: str) -> None:
    """Add a mistake in the key at the end of `path`, or in the list item with this text."""
    held: Any = draft.tree.value
    for part in path[:-1]:
        if isinstance(held, list) and isinstance(part, int):
            held = held[part]
        else:
            held = held.get(part) if isinstance(held, dict) else None
    written = path[-1]
    if isinstance(held, dict):
        written = next((key for key in held if str(key).lower() == str(path[-1]).lower()), written)
    if isinstance(held, list):
        written = next((at for at, item in enumerate(held) if str(item).lower() == str(path[-1]).lower()), written)
    path = (*path[:-1], written)
    draft.mistakes.add(draft.tree.line_of_key(path), f"{dotted(path)} {message}")


def _known(draft: Draft, path: Path, name: str, options: Iterable[str], noun: str) -> None:
    options = list(options)
    if name.lower() in {option.lower() for option in options}:
        return
    near = nearest(name.rpartition(":")[2], options)
    listed = f"{noun.split()[0].capitalize()}s of the recipe: {', '.join(options)}." if len(options) < 30 else ""
    fix = f"Did you mean {near}? {listed}" if near else listed
    _add(draft, path, f"names {show(name)}, which is not a {noun}. {fix}".strip())


def _code_languages() -> set[str]:
    tables = [table for name, table in vars(languages).items() if name.startswith("BY_")]
    return {str(tongue) for table in tables for tongue in table.values()}


def _language(draft: Draft, path: Path, name: str, before: Route) -> None:
    step = next((step for step in reversed(before) if step.name == "language"), None)
    if step is None or step.module != language.__name__:
        return  # a missing step is reported elsewhere; a user's own step has its own labels
    labels, model = _labels(step)
    if labels is None or name.lower() in labels:
        return
    near = intended_label(name, labels) or nearest(name, labels)
    some = [label for label in ("ar", "de", "en", "es", "zh") if label in labels] or sorted(labels)[:5]
    fix = f"Did you mean {near}?" if near else f"It has {len(labels)}, such as {', '.join(some)} (docs/language.md)."
    _add(draft, path, f"names {show(name)}, which is not a label of {model}, so no document would match. {fix}")


def _labels(step: Step) -> tuple[frozenset[str] | None, str]:
    """The labels that a step `language` can predict, in lower case; None if its model cannot be read."""
    from gristmill.stages.shared import fasttext_model  # compiled code, only needed here for a user's own model

    uri = step.config.model if isinstance(step.config, language.Config) else None
    if uri is None:
        return LID_176, "lid.176.ftz, the model of the step language"
    try:
        return frozenset(label.lower() for label in fasttext_model.load(uri).labels), uri
    except (UserError, OSError):
        return None, uri  # the step itself reports what is wrong with it


def _names_of(text: str) -> list[str] | None:
    """The licenses in an SPDX expression, without exceptions (the name after WITH); None if it is not an expression."""
    words = text.replace("(", " ( ").replace(")", " ) ").split()
    for before, word in itertools.pairwise(["(", *words]):
        if word not in _JOINS and (before not in _JOINS or not _ID.fullmatch(word)):
            return None
    return [word for before, word in itertools.pairwise(["(", *words]) if word not in _JOINS and before != "WITH"]


def _license(draft: Draft, path: Path, text: str, free: bool) -> None:
    """With `free`, records may contain any text, so a text that is not an expression may be exactly theirs."""
    known = {name.lower() for name in SPDX_NAMES}
    names = _names_of(text)
    if free and names is None:
        return
    for name in [text.strip()] if names is None else names:
        if not name or name.lower().rstrip("+") in known or "licenseref-" in name.lower():
            continue
        near, meant = nearest(name, SPDX_NAMES), ours("licenses", name, SPDX_NAMES)
        fix = f"{meant} " if meant else f"Did you mean {near}? " if near else ""
        _add(
            draft,
            path,
            f"names {show(name)}, which is not an SPDX license. {fix}For a license that SPDX does not list, write "
            "LicenseRef- and a name.",
        )

"""The `quality` of a recipe: models that a run trains, as steps in the routes of the documents that they learn from.

A model is trained on the documents of its sources as they are just before the first step that uses it; of a source none
of whose steps does, as they are behind the steps of its own, before those of every source. Where several are trained in
one place, they are in the order in which other sources use them.
"""

import heapq
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from pydantic import Field

from gristmill.recipe.checks.check import check
from gristmill.recipe.checks.columns import columns_of
from gristmill.recipe.checks.mistakes import Path, dotted, listed, show, suggest
from gristmill.recipe.config import load_config
from gristmill.recipe.draft import Draft
from gristmill.recipe.fields import EVERY_SOURCE
from gristmill.recipe.model import Recipe, Step
from gristmill.recipe.stage_module import check_config
from gristmill.stages.contract import LayerStage, StageConfig, StepStage
from gristmill.stages.declarations import stage_of
from gristmill.stages.quality import (
    classifier,
    classifier_of_files,
    language_model,
    language_model_of_files,
    sample,
    texts,
)
from gristmill.stages.quality.quality import step_of

AT: Path = ("quality",)
WITHHELD = "withheld"
"""The column that says so (query/takedown/withheld.py)."""
ROUTE = "quality"
"""What stands before the slash in the ids of the steps."""
Routes = dict[str, tuple[Step, ...]]
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


@dataclass(frozen=True)
class ModelKind:
    """How models of one kind are trained."""

    fields: type[StageConfig]
    """What a user writes."""
    config: Callable[..., Any]
    sides: Callable[[Any], Mapping[str, Sequence[str]]]
    """The sources of each side."""
    of_documents: str
    of_files: str
    """The modules that train one on documents, and on files alone."""


_KINDS = {
    "classifiers": ModelKind(
        classifier.ClassifierFields,
        classifier.Config,
        classifier.sides,
        classifier.__name__,
        classifier_of_files.__name__,
    ),
    "language_models": ModelKind(
        language_model.LanguageModelFields,
        language_model.Config,
        language_model.sides,
        language_model.__name__,
        language_model_of_files.__name__,
    ),
}
"""By the field that they stand in."""


class QualityFields(StageConfig):
    """The field `quality`."""

    classifiers: dict[str, Any] = Field(default={})
    """fastText classifiers by name: positives, negatives, labels, and how to train"""
    language_models: dict[str, Any] = Field(default={})
    """n-gram models by name: the sources of the text that they learn, and how to train"""


@dataclass(frozen=True)
class Trained:
    """A model that is to be trained."""

    name: str
    kind: str
    """The field that it stands in."""
    steps: tuple[Step, ...]
    """Those that take its sample, and the one that trains it."""
    sources: frozenset[str]


def load_quality(draft: Draft, raw: Any, routes: Routes) -> Routes:
    """The routes with the steps that train the models. Where there are mistakes in them, only the routes that use none:
    what else is wrong with the others cannot be known.
    """
    models = _load_models(draft, {} if raw is None else raw)
    if models is None or not _are_known(draft, routes, models):
        return {name: route for name, route in routes.items() if not any(map(_used, route))}
    placed = {name: _places(name, route, models) for name, route in routes.items()}
    somewhere = {model for places in placed.values() for model in places}
    for name, places in placed.items():  # one of files alone that no step uses is trained all the same
        places.update({model.name: _own_end(routes[name]) for model in models if model.name not in somewhere})
    models = _in_order_of_use(models, list(placed.values()))
    made = {name: _with_models(route, models, placed[name]) for name, route in routes.items()}
    _refuse_what_is_withheld(draft, made, models)
    return made


def _refuse_what_is_withheld(draft: Draft, routes: Routes, models: Sequence[Trained]) -> None:
    """A step that says of documents that nothing of them may be shown stands before whoever learns their words."""
    told: set[tuple[str, str]] = set()
    for source, route in routes.items():
        for model in models:
            if source not in model.sources:
                continue
            for step in route[route.index(model.steps[-1]) :]:
                if WITHHELD in columns_of(step) and (step.id, model.name) not in told:
                    told.add((step.id, model.name))
                    draft.mistakes.add(
                        step.line,
                        f"{step.stands_for or step.id} withholds documents, and the model {model.name} would learn "
                        "their words before it. Put it above the first step that uses the model, or, for "
                        f"{source}, into the list of its kind.",
                    )


def unused_models(recipe: Recipe) -> str | None:
    """That a model is trained and no step uses it: mostly one whose file has taken its place."""
    used = {name for step in recipe.steps for name in _used(step)}
    trained = [step.id.removeprefix(f"{ROUTE}/") for step in recipe.steps if step.route == ROUTE and step.at]
    idle = [name for name in trained if name not in used]
    if not idle:
        return None
    return f"quality: {listed(idle)} is trained, and no step uses it. Take it out, or use it (docs/quality.md)."


def _load_models(draft: Draft, raw: Any) -> list[Trained] | None:
    before = len(draft.mistakes)
    if not isinstance(raw, dict):  # which is told with the other fields of the recipe
        return None
    fields = check(draft, QualityFields, raw, AT)
    models: list[Trained] = []
    values_of = {} if fields is None else dict(fields)
    for kind in _KINDS if fields is not None else ():
        for name, values in values_of[kind].items():
            at: Path = (*AT, kind, name)
            if not _NAME.fullmatch(name):
                told = f"{dotted(at)}: {show(name)} cannot be the name of a model, because it becomes one of a column."
                draft.add_at_key(at, f"{told} Use up to 40 of a-z 0-9 _ and begin with a letter.")
            elif any(name == other.name for other in models):
                draft.add_at_key(at, f"{dotted(at)} has the name of another model. Rename one.")
            elif not isinstance(values, dict):
                draft.add(at, f"{dotted(at)} must be a mapping that says what the model learns, not {show(values)}.")
            elif (model := _load_model(draft, name, values, at)) is None:
                return None  # its mistake may be one that was told before, such as a variable that is not set
            else:
                models.append(model)
    return models if len(draft.mistakes) == before else None


def _load_model(draft: Draft, name: str, values: Mapping[str, Any], at: Path) -> Trained | None:
    kind = str(at[1])
    trained = _KINDS[kind]
    fields = load_config(draft, trained.fields, values, at)
    if fields is None:
        return None
    config: Any = trained.config(**dict(fields), name=name)
    sides: dict[str, str] = {}
    for side, sources in trained.sides(config).items():
        for source in sources:
            if sides.setdefault(source, side) != side:
                told = f"{dotted(at)} has the source {source} as {sides[source]} and as {side}. Take it out of one."
                draft.add_at_key(at, told)
                return None
    line = draft.tree.line_of_key(at)
    module = trained.of_documents if sides else trained.of_files
    config = config if sides else stage_of(module).config(**dict(config))
    if not check_config(draft, module, name, config, at):
        return None
    fit = Step(f"{ROUTE}/{name}", step_of(name), ROUTE, module, config, line, at)
    if not sides:
        return Trained(name, kind, (fit,), frozenset())
    seed = dict(config).get("seed", draft.seed)
    taken = sample.Config(sample_bytes=config.sample_bytes, sides=sides, seed=seed)
    parts = ("sample", sample, taken), ("text", texts, texts.Config(name=name, sides=sides))
    steps = [
        Step(f"{fit.id}_{part}", f"{fit.name}_{part}", ROUTE, stage.__name__, some, line, stands_for=fit.id)
        for part, stage, some in parts
    ]
    return Trained(name, kind, (*steps, fit), frozenset(sides))


def _are_known(draft: Draft, routes: Routes, models: Sequence[Trained]) -> bool:
    """Whether every model that a step asks for is trained and of its kind, and no step has the name of one that trains;
    mistakes where not.
    """
    before = len(draft.mistakes)
    known = {model.name: model for model in models}
    taken = {step.name: model.name for model in models for step in model.steps}
    for step in {step.id: step for route in routes.values() for step in route}.values():
        if step.name in taken:
            told = f"{step.id} has the name of a step that trains the model {taken[step.name]}. Rename its module."
            draft.mistakes.add(step.line, told)
        stage = stage_of(step.module)
        kind = stage.trained if isinstance(stage, LayerStage) else None
        for name in _used(step):
            if name not in known:
                fix = suggest(name, list(known), "Models") if known else "The recipe has no field quality."
                told = f"{step.id} uses the model {name}, which the recipe does not train. {fix}"
                draft.mistakes.add(step.line, f"{told} For a model that exists, write file in place of trained.")
            elif kind not in (None, known[name].kind):
                told = f"{step.id} uses the model {name} of quality.{known[name].kind}, and those of quality.{kind} are"
                draft.mistakes.add(step.line, f"{told} for it. Name one of them.")
    return len(draft.mistakes) == before


def _used(step: Step) -> list[str]:
    """The names of the trained models that a step uses."""
    stage, prefix = stage_of(step.module), step_of("")
    used = stage.uses_of(step.config) if isinstance(stage, StepStage) and callable(stage.uses) else ()
    return [name.removeprefix(prefix) for name in used if name.startswith(prefix)]


def _own_end(route: Sequence[Step]) -> int:
    """Where the steps of every source begin."""
    return next((at for at, step in enumerate(route) if step.route == EVERY_SOURCE), len(route))


def _places(source: str, route: Sequence[Step], models: Sequence[Trained]) -> dict[str, int]:
    """Before which step of a route each model is trained that one of them uses, or that learns from the source."""
    found: dict[str, int] = {}
    for at, step in enumerate(route):
        for name in _used(step):
            found.setdefault(name, at)
    learned = {model.name: _own_end(route) for model in models if source in model.sources}
    return {**learned, **found}


def _in_order_of_use(models: Sequence[Trained], placed: Sequence[Mapping[str, int]]) -> list[Trained]:
    """Models in an order that no route turns round; as they stand where there is none (`in_order` tells)."""
    before: dict[str, dict[str, None]] = {model.name: {} for model in models}  # a set has no order of its own
    for places in placed:
        for one, other in itertools.permutations(places, 2):
            if places[one] < places[other]:
                before[other][one] = None
    by_name = {model.name: model for model in models}
    try:
        return [by_name[name] for name in TopologicalSorter(before).static_order()]
    except CycleError:
        return list(models)


def _with_models(route: Sequence[Step], models: Sequence[Trained], places: Mapping[str, int]) -> tuple[Step, ...]:
    """A route with the steps of its models."""
    before: dict[int, list[Step]] = {}
    for model in models:
        if model.name in places:
            before.setdefault(places[model.name], []).extend(model.steps)
    return tuple(step for at in range(len(route) + 1) for step in (*before.get(at, ()), *route[at : at + 1]))


def in_order(draft: Draft, steps: Sequence[Step], routes: Routes) -> tuple[Step, ...]:
    """Steps in an order in which every route passes them, else as they stood; a mistake where there is none."""
    place = {step.id: at for at, step in enumerate(steps)}
    behind: dict[str, set[str]] = {step.id: set() for step in steps}
    waits = dict.fromkeys(behind, 0)
    for route in routes.values():
        for one, other in itertools.pairwise(route):
            if other.id not in behind[one.id]:
                behind[one.id].add(other.id)
                waits[other.id] += 1
    ready = [place[name] for name, count in waits.items() if not count]
    heapq.heapify(ready)
    found: list[Step] = []
    while ready:
        step = steps[heapq.heappop(ready)]
        found.append(step)
        for name in behind[step.id]:
            waits[name] -= 1
            if not waits[name]:
                heapq.heappush(ready, place[name])
    if len(found) < len(steps):
        told = "the models of quality cannot be trained one after the other: sources pass the steps that use them in"
        draft.add_at_key(AT, f"{told} different orders. Use them in the same order in every list of steps.")
        return tuple(steps)
    return tuple(found)

"""The `quality` of a recipe: adds the steps that train its models to the routes of the documents they learn from.

A model is trained on the documents of its sources as they are just before the first step that uses it. If no step of a
source's route uses it, it learns the source's documents after the source's own steps, before the steps of every source.
Models that are trained at the same position keep the order in which other sources use them.
"""

import heapq
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from pydantic import create_model

from gristmill.installed import MODELS, installed, load, missing
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
from gristmill.stages.quality import classifier, sample, texts
from gristmill.stages.quality.model_choice import step_of
from gristmill.stages.quality.model_kind import ModelKind

AT: Path = ("quality",)
WITHHELD = "withheld"
"""The column that marks withheld documents (query/takedown/withheld.py)."""
ROUTE = "quality"
"""The part before the slash in the ids of the steps."""
Routes = dict[str, tuple[Step, ...]]
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


BUILT_IN: Mapping[str, ModelKind] = {"classifiers": classifier.MODELS}


def known_kinds(names: Iterable[str] | None = None) -> Mapping[str, ModelKind]:
    """Kinds of models by their field under `quality`: Gristmill's, then those of installed packages, unless all of
    `names` are Gristmill's.
    """
    if names is not None and BUILT_IN.keys() >= set(names):
        return BUILT_IN
    points = installed(MODELS).items()
    added = {name: load(point, f"quality.{name}") for name, point in points if name not in BUILT_IN}
    return {**BUILT_IN, **added}


@dataclass(frozen=True)
class TrainedModel:
    """A model that the run trains."""

    name: str
    kind: str
    """Its field in the recipe."""
    steps: tuple[Step, ...]
    """The steps that sample its documents, and the one that trains it."""
    sources: frozenset[str]


def load_quality(draft: Draft, raw: object, routes: Routes) -> Routes:
    """The routes with the steps that train the models. If `quality` has mistakes, only the routes that use no model:
    the others cannot be checked further.
    """
    models = _load_models(draft, {} if raw is None else raw)
    if models is None or not _are_known(draft, routes, models):
        return {name: route for name, route in routes.items() if not any(map(_used, route))}
    placed = {name: _places(name, route, models) for name, route in routes.items()}
    somewhere = {model for places in placed.values() for model in places}
    for name, places in placed.items():  # a model that is trained on files only and that no step uses is trained, too
        places.update({model.name: _own_end(routes[name]) for model in models if model.name not in somewhere})
    models = _in_order_of_use(models, list(placed.values()))
    result = {name: _with_models(route, models, placed[name]) for name, route in routes.items()}
    _refuse_withheld_later(draft, result, models)
    return result


def _refuse_withheld_later(draft: Draft, routes: Routes, models: Sequence[TrainedModel]) -> None:
    """A step that withholds documents must come before a model learns their words; add a mistake if it does not."""
    reported: set[tuple[str, str]] = set()
    for source, route in routes.items():
        for model in models:
            if source not in model.sources:
                continue
            for step in route[route.index(model.steps[-1]) :]:
                if WITHHELD in columns_of(step) and (step.id, model.name) not in reported:
                    reported.add((step.id, model.name))
                    draft.mistakes.add(
                        step.line,
                        f"{step.implied_by or step.id} withholds documents, but the model {model.name} would learn "
                        "their words before it. Move it above the first step that uses the model, or, for "
                        f"{source}, into the list of its kind.",
                    )


def unused_models(recipe: Recipe) -> str | None:
    """A warning if a model is trained that no step uses, mostly because a step uses a file instead; else None."""
    used = {name for step in recipe.steps for name in _used(step)}
    trained = [step.id.removeprefix(f"{ROUTE}/") for step in recipe.steps if step.route == ROUTE and step.at]
    idle = [name for name in trained if name not in used]
    if not idle:
        return None
    return f"quality: {listed(idle)} is trained, but no step uses it. Remove it, or use it (docs/quality.md)."


def _load_models(draft: Draft, raw: object) -> list[TrainedModel] | None:
    before = len(draft.mistakes)
    if not isinstance(raw, dict):  # reported with the other fields of the recipe
        return None
    kinds = known_kinds(raw)
    if needed := {name: message for name in raw if name not in kinds and (message := missing(MODELS, name))}:
        for name, message in needed.items():
            draft.add_at_key((*AT, name), f"{dotted((*AT, name))}: {message}")
        return None
    definitions: dict[str, Any] = dict.fromkeys(kinds, (dict[str, Any], {}))
    section = create_model("QualityFields", __base__=StageConfig, **definitions)
    fields = check(draft, section, raw, AT)
    models: list[TrainedModel] = []
    for kind, values_by_name in () if fields is None else dict(fields).items():
        for name, values in values_by_name.items():
            path: Path = (*AT, kind, name)
            if not _NAME.fullmatch(name):
                message = f"{dotted(path)}: {show(name)} cannot be the name of a model, because it names a column, too."
                draft.add_at_key(path, f"{message} Use up to 40 of a-z 0-9 _ and begin with a letter.")
            elif any(name == other.name for other in models):
                draft.add_at_key(path, f"{dotted(path)} has the name of another model. Rename one.")
            elif not isinstance(values, dict):
                draft.add(
                    path, f"{dotted(path)} must be a mapping that says what the model learns, not {show(values)}."
                )
            elif (model := _load_model(draft, name, values, path, kinds[kind])) is None:
                return None  # its mistake may be reported already, such as a variable that is not set
            else:
                models.append(model)
    return models if len(draft.mistakes) == before else None


def _load_model(draft: Draft, name: str, values: Mapping[str, Any], path: Path, kind: ModelKind) -> TrainedModel | None:
    fields = load_config(draft, kind.fields, values, path)
    if fields is None:
        return None
    config: Any = stage_of(kind.module).config(**dict(fields), name=name)
    sides: dict[str, str] = {}
    for side, sources in kind.sides(config).items():
        for source in sources:
            if sides.setdefault(source, side) != side:
                message = (
                    f"{dotted(path)} has the source {source} as {sides[source]} and as {side}. Remove it from one."
                )
                draft.add_at_key(path, message)
                return None
    line = draft.tree.line_of_key(path)
    if not check_config(draft, kind.module, name, config, path):
        return None
    fit = Step(f"{ROUTE}/{name}", step_of(name), ROUTE, kind.module, config, line, path)
    if not sides:
        return TrainedModel(name, str(path[1]), (fit,), frozenset())
    seed = dict(config).get("seed", draft.seed)
    taken = sample.Config(sample_bytes=config.sample_bytes, sides=sides, seed=seed)
    parts = ("sample", sample, taken), ("text", texts, texts.Config(name=name, sides=sides))
    steps = [
        Step(f"{fit.id}_{part}", f"{fit.name}_{part}", ROUTE, stage.__name__, stage_config, line, implied_by=fit.id)
        for part, stage, stage_config in parts
    ]
    return TrainedModel(name, str(path[1]), (*steps, fit), frozenset(sides))


def _are_known(draft: Draft, routes: Routes, models: Sequence[TrainedModel]) -> bool:
    """Whether every model that a step uses is trained and of the right kind, and no step has the name of one that
    trains a model; adds mistakes if not.
    """
    before = len(draft.mistakes)
    models_by_name = {model.name: model for model in models}
    taken = {step.name: model.name for model in models for step in model.steps}
    for step in {step.id: step for route in routes.values() for step in route}.values():
        if step.name in taken:
            message = f"{step.id} has the name of a step that trains the model {taken[step.name]}. Rename its module."
            draft.mistakes.add(step.line, message)
        stage = stage_of(step.module)
        kind = stage.trained if isinstance(stage, LayerStage) else None
        for name in _used(step):
            if name not in models_by_name:
                fix = (
                    suggest(name, list(models_by_name), "Models")
                    if models_by_name
                    else "The recipe has no field quality."
                )
                message = f"{step.id} uses the model {name}, which the recipe does not train. {fix}"
                draft.mistakes.add(step.line, f"{message} To use an existing model, write file instead of trained.")
            elif kind not in (None, models_by_name[name].kind):
                message = (
                    f"{step.id} uses the model {name} of quality.{models_by_name[name].kind}, but it needs a model of"
                )
                draft.mistakes.add(step.line, f"{message} quality.{kind}. Name one of them.")
    return len(draft.mistakes) == before


def _used(step: Step) -> list[str]:
    """The names of the trained models that a step uses."""
    stage, prefix = stage_of(step.module), step_of("")
    used = stage.uses_of(step.config) if isinstance(stage, StepStage) and callable(stage.uses) else ()
    return [name.removeprefix(prefix) for name in used if name.startswith(prefix)]


def _own_end(route: Sequence[Step]) -> int:
    """The index of the first step that every source takes."""
    return next((index for index, step in enumerate(route) if step.route == EVERY_SOURCE), len(route))


def _places(source: str, route: Sequence[Step], models: Sequence[TrainedModel]) -> dict[str, int]:
    """The index of the step of a route before which each model is trained that a step uses or that learns from it."""
    places: dict[str, int] = {}
    for index, step in enumerate(route):
        for name in _used(step):
            places.setdefault(name, index)
    learned = {model.name: _own_end(route) for model in models if source in model.sources}
    return {**learned, **places}


def _in_order_of_use(models: Sequence[TrainedModel], placed: Sequence[Mapping[str, int]]) -> list[TrainedModel]:
    """Models in an order that agrees with every route; unchanged if there is none (`in_order` reports it)."""
    before: dict[str, dict[str, None]] = {model.name: {} for model in models}  # a dict, because a set has no order
    for places in placed:
        for earlier, later in itertools.permutations(places, 2):
            if places[earlier] < places[later]:
                before[later][earlier] = None
    by_name = {model.name: model for model in models}
    try:
        return [by_name[name] for name in TopologicalSorter(before).static_order()]
    except CycleError:
        return list(models)


def _with_models(route: Sequence[Step], models: Sequence[TrainedModel], places: Mapping[str, int]) -> tuple[Step, ...]:
    """A route with the steps that train its models."""
    before: dict[int, list[Step]] = {}
    for model in models:
        if model.name in places:
            before.setdefault(places[model.name], []).extend(model.steps)
    return tuple(
        step for index in range(len(route) + 1) for step in (*before.get(index, ()), *route[index : index + 1])
    )


def in_order(draft: Draft, steps: Sequence[Step], routes: Routes) -> tuple[Step, ...]:
    """Steps in an order that agrees with every route, otherwise as in the file; adds a mistake if there is none."""
    position = {step.id: index for index, step in enumerate(steps)}
    followers: dict[str, set[str]] = {step.id: set() for step in steps}
    waits = dict.fromkeys(followers, 0)
    for route in routes.values():
        for earlier, later in itertools.pairwise(route):
            if later.id not in followers[earlier.id]:
                followers[earlier.id].add(later.id)
                waits[later.id] += 1
    ready = [position[name] for name, count in waits.items() if not count]
    heapq.heapify(ready)
    ordered: list[Step] = []
    while ready:
        step = steps[heapq.heappop(ready)]
        ordered.append(step)
        for name in followers[step.id]:
            waits[name] -= 1
            if not waits[name]:
                heapq.heappush(ready, position[name])
    if len(ordered) < len(steps):
        message = "the models of quality cannot be put in one order: sources pass the steps that use them in"
        draft.add_at_key(AT, f"{message} different orders. Use them in the same order in every list of steps.")
        return tuple(steps)
    return tuple(ordered)

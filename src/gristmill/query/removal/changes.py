"""What a user means by STEP.FIELD=VALUE: the steps, and their configs after the change.

A plain name means the step in every route that has it; a full one (`web/heuristics`) that one alone. Where some of the
steps of a name do not use what is to be changed (a set of rules), those that do are meant.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from gristmill.engine.mill import Mill
from gristmill.engine.plan.graph import CORPUS, INDEX, Node, drops
from gristmill.errors import UserError
from gristmill.hints import hint
from gristmill.recipe.checks.columns import INGEST
from gristmill.recipe.checks.mistakes import Mistakes, nearest, show
from gristmill.recipe.checks.plain_words import describe
from gristmill.recipe.sections.mix import MIX
from gristmill.recipe.settings import NamesWith, below
from gristmill.recipe.yaml.lines import parse
from gristmill.stages.contract import LayerStage, StageConfig
from gristmill.stages.declarations import stage_of
from gristmill.stages.natural_languages import LABEL

NEAR_DEDUP = "near_dedup"


@dataclass(frozen=True)
class Change:
    """Another config of one step."""

    node: Node
    config: StageConfig
    fields: Mapping[str, tuple[Any, Any]]
    """Field -> (now, then)."""
    exceptions: tuple[str, ...]
    """What decides in place of a changed field, for some documents."""


def parse_changes(mill: Mill, changes: Sequence[str]) -> list[Change]:
    """The steps that are meant, each with its config after the changes."""
    wanted: dict[str, dict[str, Any]] = {}
    for change in changes:
        step, name, value = split_change(change, "heuristics.gopher_quality.min_words=30")
        wanted.setdefault(step, {})[name] = value_of(change, value)
    written = {step.id for step in mill.recipe.steps if not step.implied_by or step.implied_by == step.name == MIX}
    nodes = [node for node in mill.graph.nodes.values() if node.id in written and _is_askable(node)]
    for step, fields in wanted.items():
        if not any(step in (node.id, node.name) for node in nodes):
            _refuse(mill, step, next(iter(fields)), nodes)
    if len(wanted) != 1:
        raise UserError(f"The changes are to {' and '.join(wanted)}. Ask about one step at a time.")
    step, fields = next(iter(wanted.items()))
    found = [node for node in nodes if step in (node.id, node.name)]
    using = [node for node in found if all(uses(node.config, path) for path in fields)]
    made = [_change(node, fields) for node in using or found]
    silent = next((change.node for change in made if change.node.name != MIX and not drops(change.node)), None)
    if silent is not None:
        raise UserError(
            f"{silent.id} drops no document: what another config of it would do, later steps decide. Nothing was "
            f"evaluated. Change it in {mill.recipe.path} and run; {hint('plan')} shows what that costs. "
            f"{_askable(nodes)}"
        )
    return made


def split_change(change: str, example: str) -> tuple[str, str, str]:
    """The step, the field and the text behind the sign."""
    path, equals, value = change.partition("=")
    step, dot, name = path.partition(".")
    if not equals or not dot:
        raise UserError(f"{change!r} is not a change. Write STEP.FIELD=VALUE: {example}")
    return step, name, value


def value_of(change: str, text: str) -> Any:
    """A value as a recipe could have it."""
    try:
        mistakes = Mistakes("VALUE")
        found = parse(text, {}, mistakes).value
        mistakes.raise_any()
    except UserError:
        raise UserError(f"{change!r}: {show(text)} is not a YAML value that a recipe could have.") from None
    return found


def _is_askable(node: Node) -> bool:
    """Steps that judge each document alone; and those whose answer follows from what the store holds."""
    return node.kind == "map" or node.name in (MIX, NEAR_DEDUP)


def _askable(nodes: Iterable[Node]) -> str:
    names = sorted({MIX if node.name == MIX else node.id for node in nodes if node.name == MIX or drops(node)})
    return f"Steps that can be asked about: {', '.join(names)}" if names else "No step of it can be asked about."


def _refuse(mill: Mill, step: str, path: str, nodes: Sequence[Node]) -> None:
    """A step that is there and cannot be asked is not said to be missing."""
    for node in mill.graph.nodes.values():
        if step in (node.id, node.name) and node.name not in (INGEST, CORPUS, INDEX):
            (told,) = mill.recipe.as_written([node.id])
            raise UserError(
                f"{told} looks at many documents together, and the store holds what it found, not what another config "
                f"would find, so the question cannot be answered before it has run. Change it in {mill.recipe.path} "
                f"and try it on a part: {hint('run_sample', recipe=mill.recipe.path, sample='10%')}. {_askable(nodes)}"
            )
    near = _meant([step, *path.split(".")], nodes)
    meant = f"Did you mean {near}? " if near else ""
    raise UserError(f"{mill.recipe.path} has no step {step} that could be asked about. {meant}{_askable(nodes)}")


def _meant(path: Sequence[str], nodes: Sequence[Node]) -> str | None:
    """The path that a user meant who misspelt a step, or began above it (`text.heuristics`) or below."""
    path = path[1:] if path[0] == "steps" and len(path) > 2 else path
    routes: dict[str, list[str]] = {}
    for node in nodes:
        name, _, step = node.id.partition("/")
        routes.setdefault(name, []).append(step)
    route = nearest(path[0], routes)
    below_route = nearest(path[1], routes[route]) if route else None
    if below_route:
        return ".".join([f"{route}/{below_route}", *path[2:]])
    near = nearest(path[0], sorted({name for node in nodes for name in (node.id, node.name)}))
    if near:
        return ".".join([near, *path[1:]])
    if len(path) > 2 and (inner := _meant(path[1:], nodes)):  # an own step as a recipe has it: module.function
        return inner
    for node in nodes:
        if field := nearest(path[0], type(node.config).model_fields):
            return ".".join([node.name, field, *path[1:]])
    return None


def uses(config: StageConfig, path: str) -> bool:
    """Whether a step's config has the field, and has something where the field lies deeper: a rule set that it uses."""
    first, _, deeper = path.partition(".")
    if first not in type(config).model_fields:
        return False
    return not deeper or getattr(config, first) is not None


def _change(node: Node, fields: Mapping[str, Any]) -> Change:
    values = node.config.model_dump(mode="json")
    before_after = {}
    for path, value in fields.items():
        *outer, last = path.split(".")
        inner: Any = values
        kind: Any = type(node.config)
        for place, name in enumerate(outer):
            kind = _kind_of(node, kind, outer[: place + 1])
            if inner.get(name) is None:
                inner[name] = {}
            inner = inner[name]
        _kind_of(node, kind, [*outer, last])
        before_after[path] = (inner.get(last), value)
        inner[last] = value
    try:
        config = type(node.config).model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(str(part) for part in first["loc"])
        same = [other for other in error.errors() if other["loc"][:-1] == first["loc"][:-1] or other is first]
        told = describe(f"{node.name}.{at}" if at else node.name, same, first["input"])
        raise UserError(f"{told} Nothing was evaluated.") from None
    if node.kind == "map":
        _refuse_other_parts(node, config)
    return Change(node, config, before_after, tuple(_exceptions(node, config, fields)))


def _refuse_other_parts(node: Node, config: StageConfig) -> None:
    """What the stages before a step would make of another config is in no store."""
    now, then = _parts(node, node.config), _parts(node, config)
    if changed := [name for name in then if now.get(name) != then[name]]:
        raise UserError(
            f"With this change {', '.join(changed)}, which runs before {node.id}, would have to run again, so nothing "
            f"was evaluated. Change it in the recipe and run; {hint('plan')} shows what that costs."
        )


def _parts(node: Node, config: StageConfig) -> dict[str, StageConfig]:
    found = {}
    for name, path, cut in stage_of(node.module).before(config):
        found[name] = cut if cut is not None else stage_of(path).config_within(config)
    return found


def _exceptions(node: Node, config: StageConfig, fields: Iterable[str]) -> Iterable[str]:
    stage = stage_of(node.module)
    if not isinstance(stage, LayerStage):
        return
    for path in fields:
        found = stage.exceptions(config, path) if stage.exceptions is not None else {}
        for is_built_in, whose in ((False, "the recipe has another value"), (True, "a built-in exception holds")):
            labels = [label for label, other in found.items() if other.is_built_in == is_built_in]
            if labels:
                yield (
                    f"{node.id}.{path} does not decide for {', '.join(labels)}: there {whose}, which does. "
                    f"Ask about that: {node.id}.{found[labels[0]].path}=VALUE"
                )
    knows_language = any(LABEL in column for view in node.views.values() for column in view.columns)
    held = stage.for_all_languages(config) if knows_language and stage.for_all_languages is not None else ()
    for path in sorted(set(fields).intersection(held)):
        yield f"{path} takes the place of the thresholds that other languages have, unless it is set under by_language."


def _kind_of(node: Node, kind: Any, path: Sequence[str]) -> Any:
    """What lies at the end of a path below `kind`: another config, or names with configs, or a plain value (None)."""
    if isinstance(kind, NamesWith):
        return kind.config
    if kind is None:
        raise UserError(
            f"{node.name}.{'.'.join(path[:-1])} is a value of its own, so {'.'.join(path)} is not a field. "
            f"Write {node.name}.{'.'.join(path[:-1])}=VALUE."
        )
    known = kind.model_fields
    if path[-1] not in known:
        near = nearest(path[-1], known) or _deeper(known, path[-1])
        hint = f" Did you mean {near}?" if near else ""
        raise UserError(f"{node.name}.{'.'.join(path)} is not a field.{hint} Fields: {', '.join(known)}")
    return below(known[path[-1]])


def _deeper(fields: Mapping[str, Any], name: str) -> str | None:
    """Fields of that name one level further down: `gopher_quality.min_words` for `min_words`."""
    found = []
    for outer, field in fields.items():
        kind = below(field)
        if kind is not None and not isinstance(kind, NamesWith) and name in kind.model_fields:
            found.append(f"{outer}.{name}")
    return " or ".join(found) or None

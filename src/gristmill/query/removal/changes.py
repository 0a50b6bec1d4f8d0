"""Parse STEP.FIELD=VALUE to steps and their configs after the change.

A plain name selects the step in every route that has it; a full name (`web/heuristics`) selects one step. If only some
of the selected steps use the changed setting (a set of rules), only these change.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
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
from gristmill.recipe.yaml.entries import changed_step
from gristmill.recipe.yaml.lines import parse
from gristmill.stages.contract import NOT_A_THRESHOLD, LayerStage, StageConfig
from gristmill.stages.declarations import stage_of
from gristmill.stages.natural_languages import LABEL


@dataclass(frozen=True)
class Change:
    """Another config of one step."""

    node: Node
    config: StageConfig
    fields: Mapping[str, tuple[Any, Any]]
    """Field -> (now, then)."""
    exceptions: tuple[str, ...]
    """Settings that override a changed field for some documents."""


def parse_changes(mill: Mill, changes: Sequence[str]) -> list[Change]:
    """The selected steps, each with its config after the changes."""
    wanted: dict[str, dict[str, Any]] = {}
    for change in changes:
        step, name, value = split_change(change, "heuristics.gopher_quality.min_words=30")
        wanted.setdefault(step, {})[name] = value_of(change, value)
    written = {step.id for step in mill.recipe.steps if not step.implied_by}
    nodes = [node for node in mill.graph.nodes.values() if node.id in written and node.kind == "map"]
    for step, fields in wanted.items():
        if not any(step in (node.id, node.name) for node in nodes):
            _refuse(mill, step, next(iter(fields)), nodes)
    if len(wanted) != 1:
        raise UserError(f"The changes affect {' and '.join(wanted)}. Change one step at a time.")
    step, fields = next(iter(wanted.items()))
    found = [node for node in nodes if step in (node.id, node.name)]
    using = [node for node in found if all(uses(node.config, path) for path in fields)]
    parsed = [_change(node, fields) for node in using or found]
    silent = next((change.node for change in parsed if not drops(change.node)), None)
    if silent is not None:
        raise UserError(
            f"{silent.id} drops no documents; the effect of another config depends on later steps. Nothing was "
            f"evaluated. Change it in {mill.recipe.path} and run; {hint('plan')} shows what that costs. "
            f"{_supported(nodes)}"
        )
    return parsed


def number_settings(mill: Mill) -> dict[str, float]:
    """Thresholds that can be evaluated without reading texts: `STEP.FIELD` -> its value in the recipe."""
    written = {step.id for step in mill.recipe.steps if not step.implied_by}
    found: dict[str, float] = {}
    for node in mill.graph.nodes.values():
        if node.id in written and "." not in node.id and node.kind == "map" and drops(node):
            read = {*stage_of(node.module).reads_of(node.config)}
            if read.isdisjoint(("text", "html")):
                numbers = _numbers("", node.config.model_dump(mode="json"))
                found.update({f"{node.id}{path}": value for path, value in numbers if _is_threshold(node, path, value)})
    return found


def _is_threshold(node: Node, path: str, value: float) -> bool:
    """Whether the step compares documents with a number: a seed is none, nor is what a stage before the step uses."""
    field, *deeper = path.removeprefix(".").split(".")
    if NOT_A_THRESHOLD in type(node.config).model_fields[field].metadata:
        return False
    for other in (value + 1, value / 2):  # one of them is valid
        with suppress(ValidationError):
            config = type(node.config).model_validate(_with(node.config, [field, *deeper], other))
            return _parts(node, config) == _parts(node, node.config)
    return False


def _with(config: StageConfig, path: Sequence[str], value: object) -> dict[str, Any]:
    """The values of a config, with another value at a path."""
    values: dict[str, Any] = config.model_dump(mode="json")
    inner = values
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return values


def step_with(mill: Mill, setting: str, value: str) -> tuple[str, str]:
    """The whole step of a setting as the recipe has it, with another value; and its file and line."""
    name, *path = setting.split(".")
    step = next(one for one in mill.recipe.steps if one.id == name)
    return changed_step(mill.recipe.text, step.at, path, value), f"{mill.recipe.path}:{step.line}"


def _numbers(path: str, values: Mapping[str, Any]) -> Iterable[tuple[str, float]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _numbers(f"{path}.{name}", value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{path}.{name}", value


def split_change(change: str, example: str) -> tuple[str, str, str]:
    """The step, the field and the text after the sign."""
    path, equals, value = change.partition("=")
    step, dot, name = path.partition(".")
    if not equals or not dot:
        raise UserError(f"{change!r} is not a change. Write STEP.FIELD=VALUE: {example}")
    return step, name, value


def value_of(change: str, text: str) -> Any:
    """The value that YAML reads from the text."""
    try:
        mistakes = Mistakes("VALUE")
        found = parse(text, {}, mistakes).value
        mistakes.raise_any()
    except UserError:
        raise UserError(f"{change!r}: {show(text)} is not a valid YAML value for a recipe.") from None
    return found


def _supported(nodes: Iterable[Node]) -> str:
    names = sorted({node.id for node in nodes if drops(node)})
    return f"Steps that can be evaluated: {', '.join(names)}" if names else "It has no step that can be evaluated."


def _refuse(mill: Mill, step: str, path: str, nodes: Sequence[Node]) -> None:
    """Raise UserError for a step that cannot be evaluated, or that does not exist."""
    for node in mill.graph.nodes.values():
        if step == node.name == MIX:
            raise UserError(
                f"The mixture is computed again in seconds, without other steps. Change it in {mill.recipe.path} and "
                "run. Nothing was evaluated."
            )
        if step in (node.id, node.name) and node.name not in (INGEST, CORPUS, INDEX):
            (written,) = mill.recipe.as_written([node.id])
            raise UserError(
                f"{written} compares many documents, and the store only has the results for its current config, so "
                f"the effect of another one is unknown until it runs. Change it in {mill.recipe.path} and try it on a "
                f"sample: {hint('run_sample', recipe=mill.recipe.path, sample='10%')}. {_supported(nodes)}"
            )
    near = nearest(step, sorted({name for node in nodes for name in (node.id, node.name)}))
    suggestion = f"Did you mean {near}.{path}? " if near else ""
    raise UserError(f"{mill.recipe.path} has no step {step} that can be evaluated. {suggestion}{_supported(nodes)}")


def uses(config: StageConfig, path: str) -> bool:
    """Whether a step's config has the field and, for a nested field, uses the rule set that contains it."""
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
        message = describe(f"{node.name}.{at}" if at else node.name, same, first["input"])
        raise UserError(f"{message} Nothing was evaluated.") from None
    _refuse_other_parts(node, config)
    return Change(node, config, before_after, tuple(_exceptions(node, config, fields)))


def _refuse_other_parts(node: Node, config: StageConfig) -> None:
    """Raise UserError if a stage before the step would have to run again."""
    now, then = _parts(node, node.config), _parts(node, config)
    if changed := [name for name in then if now.get(name) != then[name]]:
        raise UserError(
            f"This change affects {', '.join(changed)}, which runs before {node.id} and would have to run again. "
            f"Nothing was evaluated. Change it in the recipe and run; {hint('plan')} shows what that costs."
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
        for is_built_in, whose in ((False, "the recipe has another value"), (True, "a built-in exception applies")):
            labels = [label for label, other in found.items() if other.is_built_in == is_built_in]
            if labels:
                yield (
                    f"{node.id}.{path} does not apply to {', '.join(labels)}: {whose}. "
                    f"To change that: {node.id}.{found[labels[0]].path}=VALUE"
                )
    knows_language = any(LABEL in column for view in node.views.values() for column in view.columns)
    held = stage.for_all_languages(config) if knows_language and stage.for_all_languages is not None else ()
    for path in sorted(set(fields).intersection(held)):
        yield f"{path} overrides the thresholds of other languages, except those set under by_language."


def _kind_of(node: Node, kind: Any, path: Sequence[str]) -> Any:
    """The kind of the field at the end of a path: a config, names with configs, or a plain value (None)."""
    if isinstance(kind, NamesWith):
        return kind.config
    if kind is None:
        raise UserError(
            f"{node.name}.{'.'.join(path[:-1])} is a plain value, so {'.'.join(path)} is not a field. "
            f"Write {node.name}.{'.'.join(path[:-1])}=VALUE."
        )
    known = kind.model_fields
    if path[-1] not in known:
        near = nearest(path[-1], known)
        hint = f" Did you mean {near}?" if near else ""
        raise UserError(f"{node.name}.{'.'.join(path)} is not a field.{hint} Fields: {', '.join(known)}")
    return below(known[path[-1]])

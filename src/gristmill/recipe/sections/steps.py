"""The `steps` of a recipe, and the route of each source through them."""

from collections.abc import Mapping, Sequence
from typing import Any

from gristmill import stages
from gristmill.installed import SOURCES, installed
from gristmill.recipe.checks.columns import INGEST
from gristmill.recipe.checks.mistakes import Path, dotted, listed, nearest, show
from gristmill.recipe.config import load_config
from gristmill.recipe.draft import Draft
from gristmill.recipe.fields import EVERY_SOURCE
from gristmill.recipe.model import Source, Step
from gristmill.recipe.sections.mix import MIX
from gristmill.recipe.sections.shards import GROUPS, SHARDS, TOKENS
from gristmill.recipe.stage_module import check_config, import_stage, known_steps
from gristmill.stages.declarations import stage_of

RESERVED = (
    INGEST,
    "corpus",
    "index",
    "copies_left",
    TOKENS,
    GROUPS,
    SHARDS,
    MIX,
    stages.TAKEDOWN,
    stages.TAKEDOWN_MATCH,
    stages.TAKEDOWN_SETS,
    stages.TAKEDOWN_UNSENT,
)
"""Names of stages that users do not write under `steps`."""

USUAL_KINDS = ("web", "text", "code")
"""Common kinds; any other name is allowed, too."""

MOST_COMPARED = 20_000
"""The most kinds times lists for which typos are searched."""

Lists = dict[str, list[Step | None]]
"""The steps under each key of `steps`; None for a step with a mistake."""


def load_steps(draft: Draft, raw: object) -> Lists:
    """The lists of `steps`; a list instead of a mapping applies to every source."""
    if isinstance(raw, list):
        return {EVERY_SOURCE: _load_list(draft, EVERY_SOURCE, raw, ("steps",))}
    lists: Lists = {}
    for key, items in raw.items() if isinstance(raw, dict) else ():
        at: Path = ("steps", key)
        if items is None or isinstance(items, list):
            lists[key] = _load_list(draft, key, items or [], at)
            continue
        lists[key] = [None]
        if at not in draft.tree.broken:
            draft.add(at, f"{dotted(at)} must be a list of steps, not {show(items)}. Begin each step with a dash.")
    return lists


def _load_list(draft: Draft, route: str, items: list[Any], at: Path) -> list[Step | None]:
    used: dict[str, int] = {}
    loaded = [_load_step(draft, route, item, (*at, index), used) for index, item in enumerate(items)]
    return [part for step in loaded for part in ((step,) if step is None else (*_before(draft, step, used), step))]


def _before(draft: Draft, step: Step, used: dict[str, int]) -> Sequence[Step | None]:
    """The stages that must run before a step."""
    parts: list[Step] = []
    for name, path, cut in stage_of(step.module).before(step.config):
        stage = import_stage(draft, "step", path, step.at, {})
        if stage is None:
            return [None]
        free = _free_id(f"{step.route}/{name}", used)
        config = cut if cut is not None else stage_of(path).config_within(step.config)
        if not check_config(draft, path, name, config, step.at):
            return [None]
        parts.append(Step(free, name, step.route, path, config, step.line, code=stage.code, implied_by=step.id))
    return parts


def _load_step(draft: Draft, route: str, item: object, at: Path, used: dict[str, int]) -> Step | None:
    if at in draft.tree.broken:
        return None
    if isinstance(item, dict) and len(item) > 1:
        first, second = list(item)[:2]
        fix = "Begin each step with its own dash."
        if item[first] is None:
            fix = f"If {second} is a field of {first}, indent it further; if it is a step, give it a dash."
        draft.add_at_key((*at, second), f"{dotted(at)} holds two keys, {first} and {second}, in one step. {fix}")
        return None
    if not item or not isinstance(item, dict | str):
        example = "Write a name, or a name with its fields: - extract: {tool: trafilatura}."
        draft.add(at, f"{dotted(at)} must be a step, not {show(item)}. {example}")
        return None
    name, config_at, fields = (item, at, None) if isinstance(item, str) else _only(item, at)
    stage = import_stage(draft, "step", name, config_at, known_steps(name))
    if stage is None or config_at in draft.tree.broken:
        return None
    if fields is not None and not isinstance(fields, dict):
        draft.add(config_at, f"{dotted(config_at)} must be a mapping of fields, not {show(fields)}. Name the field.")
        return None
    short = name.rpartition(".")[2]
    is_key = short not in stages.STEPS and short in installed(SOURCES)
    if short in RESERVED or is_key or known_steps(short).get(short, stage.module) != stage.module:
        fix = f"Rename it, to my_{short} perhaps."
        draft.add_at_key(
            config_at, f"other steps would call {name} {short}, which is the name of a step of Gristmill. {fix}"
        )
        return None
    config = load_config(draft, stage_of(stage.module).config, fields or {}, (*at, name))
    if config is None or not check_config(draft, stage.module, name, config, config_at):
        return None
    line = draft.tree.line_of_key(config_at)
    free = _free_id(f"{route}/{short}", used)
    return Step(free, short, route, stage.module, config, line, (*at, name), stage.code)


def _only(item: Mapping[str, Any], at: Path) -> tuple[str, Path, Any]:
    name, fields = next(iter(item.items()))
    return name, (*at, name), fields


def _free_id(wanted: str, used: dict[str, int]) -> str:
    """`extract`, `extract_2`, and so on; `used` has the last number of each name."""
    free, number = wanted, used.get(wanted, 0)
    while free in used:
        number += 1
        free = f"{wanted}_{number}"
    used[free] = 1
    used[wanted] = max(number, 1)
    return free


def check_keys(draft: Draft, lists: Lists, kinds: Mapping[str, str]) -> set[str]:
    """Check that some source takes each list of `steps`; `kinds` are the kinds of the sources, by name.

    Returns the sources whose kind is a typo: their steps are unknown.
    """
    by_kind: dict[str, list[str]] = {}
    for name, kind in kinds.items():
        by_kind.setdefault(kind, []).append(name)
    meant = _meant(lists, by_kind, kinds)
    for key in lists:
        is_meant = key == EVERY_SOURCE or key in meant.values()
        fault = None if is_meant else _key_fault(key, lists, kinds, by_kind.get(key, []))
        if fault:
            draft.add_at_key(("steps", key), f"steps.{key} {fault}")
    for name, kind in meant.items():
        at: Path = ("sources", name, "kind")
        fix = f"Did you mean {kind}? If not, add steps.{kinds[name]}: []."
        draft.add(at, f"{dotted(at)} is {kinds[name]!r}, for which steps has no list. {fix}")
    return set(meant)


def _meant(lists: Lists, by_kind: Mapping[str, list[str]], kinds: Mapping[str, str]) -> dict[str, str]:
    """Sources whose kind has no list, and the kind that they probably mean: a list with nearly the same name.

    If no source takes that list, one of the two names is wrong: the list's, if the kind is a common one or several
    sources have it.
    """
    found: dict[str, str] = {}
    for kind, names in by_kind.items() if len(by_kind) * len(lists) <= MOST_COMPARED else ():
        several = kind in USUAL_KINDS or len(names) > 1
        keys = [key for key in lists if key in by_kind or key in USUAL_KINDS or not several]
        near = None if kind in lists else nearest(kind, [key for key in keys if key not in (EVERY_SOURCE, *kinds)])
        found |= {name: near for name in names if near and name not in lists}
    return found


def _key_fault(key: str, lists: Lists, kinds: Mapping[str, str], of_kind: list[str]) -> str | None:
    if key in kinds and of_kind:
        return "is the name of both a source and a kind, so it is ambiguous. Rename the source."
    if key in kinds or any(name not in lists for name in of_kind):
        return None
    if of_kind:
        return (
            f"is used by no source: each source of this kind ({listed(of_kind)}) has its own list. "
            "Remove one of the lists."
        )
    near = nearest(key, [EVERY_SOURCE, *kinds.values(), *kinds])
    hint = f"Did you mean {near}? " if near else ""
    return (
        f"is neither a kind, nor a source, nor {EVERY_SOURCE}, so no document would take these steps. {hint}"
        f"Kinds: {listed(dict.fromkeys(kinds.values()))}. Sources: {listed(kinds)}."
    )


def route_of(name: str, kind: str, lists: Lists, sources: Mapping[str, Source]) -> list[Step | None]:
    """A source's own list or that of its kind, the steps that make other sources from its documents, and the list of
    every source.
    """
    own = lists.get(name, lists.get(kind, []))
    makers: list[Step | None] = [source.maker for source in sources.values() if name in source.parents]
    return own + makers + lists.get(EVERY_SOURCE, [])

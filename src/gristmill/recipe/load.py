"""Loads a recipe: YAML in, a checked `Recipe` out, or one UserError that names every mistake with its line.

How a value is resolved, in this order:
1. `${NAME}` is the environment variable NAME, `${NAME:-default}` has a default, `$$` is a dollar; in values, never
   in keys. A variable that is not set and has no default is a mistake. (environment.py)
2. An unquoted scalar is typed after that, as though the value were written in the file; a quoted one is text. Types
   are those of YAML 1.2: `no` and `2024-10-01` are text. (yaml/lines.py)
3. Relative paths (`store`, `paths`, `exclude`, every config field of type `File`) are relative to the folder of
   the recipe's file, never to the working directory; `~` is the home folder; a path with a scheme (`s3://`) stays as
   it is. `store=` comes from a command line and is relative to the working directory. (locations.py)
4. A config field named `seed` that the recipe does not set is the recipe's seed.

The route of a source is the list under its own name in `steps`, or else the list under its kind; then the list
under `all`; then the steps for the fields `tokenizer`, `takedowns`, `shards` and `mix`. Steps that train the models of
`quality` come before the steps that use them. Loading does not check whether a pattern of `paths` matches any file.
"""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any, TypeGuard

from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.places import is_url
from gristmill.recipe.checks.check import check
from gristmill.recipe.checks.columns import columns_of_source
from gristmill.recipe.checks.locations import is_no_folder, locate, locate_store
from gristmill.recipe.checks.mistakes import Mistakes, show
from gristmill.recipe.checks.names import check_names
from gristmill.recipe.checks.unbound import check_routes
from gristmill.recipe.draft import Draft
from gristmill.recipe.fields import ONE_FILE, RecipeFields, parse_share
from gristmill.recipe.model import Recipe, Source, Step
from gristmill.recipe.sections.accept import load_accept
from gristmill.recipe.sections.cluster import load_cluster, load_profile
from gristmill.recipe.sections.mix import load_mix
from gristmill.recipe.sections.quality import in_order, load_quality
from gristmill.recipe.sections.shards import GROUPS, check_groups, load_shards
from gristmill.recipe.sections.sources import check_images, check_markup, check_parents, load_source, source_domain
from gristmill.recipe.sections.steps import Lists, check_keys, load_steps, route_of
from gristmill.recipe.sections.takedowns import load_takedowns, mark_unsent
from gristmill.recipe.sections.tokenizer import NAMES, load_tokenizer
from gristmill.recipe.sections.watch import load_watch
from gristmill.recipe.yaml.lines import parse, read_text

MOST_STEPS = 1000
MOST_WAYS = 20_000
"""Steps summed over all sources: a hundred sources may have two hundred steps each."""


def load(
    path: str | FilePath,
    *,
    store: str | None = None,
    sample: str | None = None,
    profile: str | None = None,
    env: Mapping[str, str] | None = None,
    text: str | None = None,
) -> Recipe:
    """Load the recipe in the file `path`. `store`, `sample` and `profile` (a file that replaces `cluster`) override the
    recipe's own, `env` replaces the environment, and `text` replaces the content of the file, which need not exist.
    """
    shown = str(path)
    mistakes = Mistakes(shown)
    text = read_text(shown, "recipe", "run gristmill init") if text is None else text
    tree = parse(text, os.environ if env is None else env, mistakes)
    raw = tree.value
    if raw is None:
        mistakes.raise_any()
        raise UserError(f"{shown}: the recipe is empty. Run gristmill init to create one to start from.")
    if not isinstance(raw, dict):
        mistakes.add(tree.line_of_value(()), f"a recipe is a mapping with recipe, sources and steps, not {show(raw)}.")
        mistakes.raise_any()
    draft = Draft(tree, mistakes, os.path.dirname(os.path.abspath(shown)), seed=0, domains=_domains(raw))
    fields = check(draft, RecipeFields, raw, ())
    if fields is not None:
        draft = dataclasses.replace(draft, seed=fields.seed)
    _bound(draft, raw)
    sources, lists = _load_sources(draft, raw), load_steps(draft, raw.get("steps"))
    takedowns = load_takedowns(draft, raw.get("takedowns"))
    routes = load_quality(draft, raw.get("quality"), _load_routes(draft, raw.get("sources"), lists, sources))
    routes = {name: mark_unsent(sources.get(name), route, takedowns) for name, route in routes.items()}
    births = check_parents(draft, sources, routes)
    listed = [step for steps in (*lists.values(), *routes.values()) for step in steps if step]
    own = in_order(draft, list({step.id: step for step in listed}.values()), {**routes, **births})
    tokenizer = load_tokenizer(draft, raw.get("tokenizer"), sources, lists)
    share = _sample(fields.sample if fields is not None else None, sample)
    name = name_of_sample(fields.recipe, share) if fields is not None else ""
    shards = load_shards(draft, raw.get("shards"), name, sources, tokenizer)
    mix_fields = raw.get("mix", {} if raw.get("shards") is not None else None)
    named = any(step.name == NAMES for step in tokenizer)
    mix = load_mix(draft, mix_fields, name, sources, share is not None, named)
    mix = mix if shards else ()  # without shards, the mistake is already reported
    # A takedown is after the tokenizer, which does not change.
    routes = {name: (*route, *tokenizer, *takedowns, *shards.get(name, ()), *mix) for name, route in routes.items()}
    sharded = (step for same in zip(*shards.values(), strict=True) for step in same)
    last = {step.id: step for step in (*tokenizer, *takedowns, *sharded, *mix)}
    cluster = load_cluster(draft, raw.get("cluster"))
    watch, accept = load_watch(draft, raw.get("watch")), load_accept(draft, raw.get("accept"))
    check_routes(draft, routes, GROUPS, {name: columns_of_source(source) for name, source in sources.items()})
    check_groups(draft, sources.values(), routes)
    check_names(draft, routes, sources)
    check_markup(draft, sources, routes)
    check_images(draft, sources, routes)
    location = _store(draft, "./store" if fields is None else fields.store, store)
    mistakes.raise_any()
    assert fields is not None
    return Recipe(
        name=name,
        seed=fields.seed,
        store=location,
        strict=fields.strict,
        path=shown,
        text=text,
        sources=sources,
        steps=(*own, *last.values()),
        routes=routes,
        index=bool(shards) if fields.index is None else fields.index,
        sample=share,
        cluster=cluster if profile is None else load_profile(profile),
        accept=accept,
        watch=watch,
        restore=fields.restore,
        file_name=fields.recipe,
    )


def _domains(raw: Mapping[str, Any]) -> dict[str, str]:
    """Domains of the sources that have one; mistakes in a source are reported elsewhere."""
    sources = raw.get("sources")
    named = sources.items() if _is_dict(sources) else ()
    found = {name: source_domain(name, one.get("domain")) for name, one in named if _is_dict(one)}
    return {name: domain for name, domain in found.items() if _is_text(domain)}


def name_of_sample(name: str, share: float | None) -> str:
    """The name that the runs and shards of a sample are stored under, so that nobody mistakes them for the whole."""
    return name if share is None else f"{name}-sample-{share * 100:.12g}pct"


def _bound(draft: Draft, raw: Mapping[str, Any]) -> None:
    """Refuse a recipe that would take too long to check: every source has a route through its steps."""
    written, sources = raw.get("steps"), raw.get("sources")
    lists = list(written.values()) if _is_dict(written) else [written]
    steps = sum(len(items) for items in lists if isinstance(items, list))
    ways = max(steps, 1) * len(sources) if _is_dict(sources) else 0
    if steps > MOST_STEPS or ways > MOST_WAYS:
        draft.add(
            ("steps",),
            f"{counted(steps, 'step')} for {counted(len(sources or ()), 'source')} are too many. The limits are "
            f"{MOST_STEPS:,} steps, and {MOST_WAYS:,} for steps times sources. Give sources of one kind one "
            "entry.",
        )
        draft.mistakes.raise_any()


def _load_sources(draft: Draft, raw: Mapping[str, Any]) -> dict[str, Source]:
    named = raw.get("sources")
    loaded = {name: load_source(draft, name, source) for name, source in named.items()} if _is_dict(named) else {}
    first: dict[str, str] = {}
    for name in loaded:
        if (twin := first.setdefault(str(name).lower(), name)) != name:
            draft.add_at_key(("sources", name), f"sources.{name} differs from {twin} only in case, {ONE_FILE}.")
    return {name: source for name, source in loaded.items() if source}


def _load_routes(
    draft: Draft, sources: object, lists: Lists, loaded: Mapping[str, Source]
) -> dict[str, tuple[Step, ...]]:
    """The route of each source whose kind and steps are known; adds the mistakes in the routes."""
    if not _is_dict(sources):
        return {}
    kinds = {
        name: source["kind"] for name, source in sources.items() if _is_dict(source) and _is_text(source.get("kind"))
    }
    unclear = check_keys(draft, lists, kinds) if len(kinds) == len(sources) else ()
    routes = {name: route_of(name, kind, lists, loaded) for name, kind in kinds.items() if name not in unclear}
    return {name: tuple(step for step in route if step) for name, route in routes.items() if None not in route}


def _store(draft: Draft, written: str, given: str | None) -> str:
    """The location of the store; one from the command line overrides the recipe's."""
    if given is None:
        location = locate(written, draft.folder)
        if draft.check_scheme(("store",), location) and not is_url(location) and is_no_folder(location):
            draft.add(("store",), f"store is the file {location}, but a store is a folder. Name another path.")
        return location
    return locate_store(given, option("store"))


def _sample(written: float | None, given: str | None) -> float | None:
    """The share to sample; one from the command line overrides the recipe's, and 100% turns sampling off."""
    if given is None:
        return written
    if given.strip() == "100%":
        return None
    try:
        return float(parse_share(given))
    except ValueError as error:
        raise UserError(
            f"{option('sample')}: {error}; 100% takes everything, even if the recipe sets a sample."
        ) from None


def _is_dict(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str)

"""The `shards` of a recipe: the steps that encode the corpus, sort it into groups and write token files."""

from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import Annotated

from pydantic import AfterValidator, Field

from gristmill.recipe.checks.columns import columns_of_source
from gristmill.recipe.checks.mistakes import Path, listed
from gristmill.recipe.checks.unbound import check_reads
from gristmill.recipe.config import load_config
from gristmill.recipe.draft import Draft
from gristmill.recipe.fields import COLUMN
from gristmill.recipe.model import Recipe, Source, Step
from gristmill.recipe.stage_module import check_config
from gristmill.stages import GROUPS as GROUPS
from gristmill.stages.shards import shard_groups, shards, tokens
from gristmill.stages.shared.expressions import parse_condition, parse_value
from gristmill.stages.tokenizer import tokenizer_file

AT: Path = ("shards",)
TOKENS, SHARDS = "tokens", "shards"
"""Names of the steps."""


def _rising(levels: tuple[float, ...]) -> tuple[float, ...]:
    if list(levels) != sorted(set(levels)):
        raise ValueError("levels must rise without repeating. Write them from the smallest to the largest")
    return levels


class ShardsFields(shards.ShardOptions):
    """The fields that a user writes under `shards`."""

    weight_levels: Annotated[
        tuple[Annotated[float, Field(ge=0, le=1000)], ...], Field(min_length=1, max_length=16), AfterValidator(_rising)
    ] = (0.25, 0.5, 1, 2, 4, 8)
    """Levels that document weights are rounded to, if a source has a weight; each level is its own group."""


def load_shards(
    draft: Draft, raw: object, name: str, sources: Mapping[str, Source], tokenizer: tuple[Step, ...]
) -> dict[str, tuple[Step, ...]]:
    """The steps of each source; empty if the recipe has no shards, or a mistake in them."""
    if not isinstance(raw, dict):
        return {}
    if not tokenizer:
        if draft.tree.value.get("tokenizer") is None:
            fix = "Add tokenizer: {train: {sample_bytes: {DOMAIN: 1GB}}}, or tokenizer: {file: tokenizer.json}."
            draft.add_at_key(AT, f"shards are made of tokens, but the recipe has no tokenizer. {fix}")
        return {}
    fields = load_config(draft, ShardsFields, raw, AT)
    if not isinstance(fields, ShardsFields):
        return {}
    line = draft.tree.line_of_key(AT)
    foreign = tokenizer[0].module == tokenizer_file.__name__
    encode = tokens.Config(end_of_document=fields.end_of_document, library_may_encode=foreign)
    options = {field: getattr(fields, field) for field in shards.ShardOptions.model_fields}
    write = shards.Config(**options, recipe=name)
    configs = {tokens.__name__: encode, shards.__name__: write}
    if not all(check_config(draft, module, SHARDS, config, AT) for module, config in configs.items()):
        return {}
    first = Step.implied(SHARDS, TOKENS, tokens, encode, line)
    last = Step.implied(SHARDS, SHARDS, shards, write, line)
    steps: dict[str, tuple[Step, ...]] = {}
    for source in sources.values():
        group = shard_groups.Config(
            source=source.name,
            tier=source.tier,
            tiers=tuple(source.tiers.items()),
            domain_column=source.domain_column,
            tier_column=source.tier_column,
            weight=source.weight,
            weight_levels=fields.weight_levels if source.weight is not None else (),
            seed=fields.seed,
        )
        own = Step.implied(SHARDS, GROUPS, shard_groups, group, source.line, source.name)
        steps[source.name] = (first, own, last)
    return steps


def check_groups(draft: Draft, sources: Iterable[Source], routes: Mapping[str, tuple[Step, ...]]) -> None:
    """Add the mistakes in the columns of domains, tiers and weights, also for a recipe without shards: adding shards
    later should not reveal mistakes that were there from the start.
    """
    for source in sources:
        at: Path = ("sources", source.name)
        read = {
            (*at, "tier", name): parse_condition(text).columns
            for name, text in source.tiers.items()
            if text != shard_groups.ELSE
        }
        if source.weight is not None:
            read[*at, "weight"] = parse_value(source.weight).columns
        for field, column in (("domain", source.domain_column), ("tier", source.tier_column)):
            if column is not None:
                read[*at, field, COLUMN] = (column,)
        for place, columns in read.items():
            if source.name in routes:
                route = tuple(takewhile(lambda step: step.name != GROUPS, routes[source.name]))
                check_reads(draft, place, columns, route, columns_of_source(source))


def idle_settings(recipe: Recipe) -> str | None:
    """A warning if sources have tiers or weights that have no effect because the recipe makes no shards; else None."""
    if any(step.name == SHARDS for step in recipe.steps):
        return None
    sources = recipe.sources.values()
    settings = {
        "tier": [source.name for source in sources if source.tier or source.tiers or source.tier_column],
        "weight": [source.name for source in sources if source.weight is not None],
    }
    unused = [f"{setting} (of {listed(names, 5)})" for setting, names in settings.items() if names]
    if not unused:
        return None
    has = "has" if len(unused) == 1 else "have"
    return f"{' and '.join(unused)} {has} no effect as long as the recipe has no shards: section."

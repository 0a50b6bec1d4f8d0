"""Loads the config of a reader or a step."""

from collections.abc import Mapping
from typing import Any

from gristmill.recipe.checks.check import check
from gristmill.recipe.checks.files import place_files
from gristmill.recipe.checks.mistakes import Path, dotted, show
from gristmill.recipe.draft import Draft
from gristmill.stages.contract import StageConfig


def load_config(
    draft: Draft, model: type[StageConfig], values: Mapping[str, Any], at: Path, **known: Any
) -> StageConfig | None:
    """A stage's config: file paths resolved, the recipe's seed filled in, every field checked; None on a mistake."""
    before = len(draft.mistakes)
    placed = place_files(model, values, at, draft.place_file)
    if "seed" in model.model_fields:
        seed = placed.setdefault("seed", draft.seed)
        if isinstance(seed, int) and seed < 0:  # the upper bound is that of every number in a recipe
            draft.add((*at, "seed"), f"{dotted((*at, 'seed'))} must be at least 0, not {show(seed)}.")
    if "source_domains" in model.model_fields:
        if "source_domains" in placed:
            fix = "Remove it, and set domain: in the source."
            draft.add((*at, "source_domains"), f"{dotted((*at, 'source_domains'))} comes from the sources. {fix}")
        placed["source_domains"] = dict(draft.domains)
    config = check(draft, model, placed, at, **known)
    return config if len(draft.mistakes) == before else None

"""A sweep: recipes that differ from one in a few settings, each to be compared with it.

A variant is the text of the recipe with other values in it, under another name. So its run uses everything in the store
that does not depend on them, and can be reproduced as any other run.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from gristmill.engine.mill import Mill
from gristmill.engine.schedule.task_cache import Listener
from gristmill.errors import UserError
from gristmill.query.removal.changes import split_change, uses, value_of
from gristmill.query.versions.published import Published
from gristmill.recipe.checks.mistakes import suggest
from gristmill.recipe.fields import RecipeFields
from gristmill.recipe.load import load
from gristmill.recipe.model import Recipe
from gristmill.recipe.yaml.edit import with_value
from gristmill.store.store import Store
from gristmill_ablate.ablation import Ablation, AblationResult
from gristmill_ablate.proxy.verdict import TaskScore, holm
from gristmill_ablate.setups import Setup
from gristmill_ablate.trainings import Side

MOST_VARIANTS = 64
_LONGEST_NAME = 100
_SECTIONS = [name for name in RecipeFields.model_fields if name not in ("recipe", "store", "strict", "steps")]
"""What can be changed in a recipe other than steps: `mix.max_epochs`, `sources.crawl.weight`."""

Place = tuple[str | int, ...]


@dataclass(frozen=True)
class SweptSetting:
    """A setting of a recipe and one value of it."""

    name: str
    places: tuple[Place, ...]
    """Where it is in the recipe's file."""
    value: Any

    @property
    def shown(self) -> str:
        """The value as a recipe has it."""
        return self.value if isinstance(self.value, str) else json.dumps(self.value)


@dataclass(frozen=True)
class Variant:
    """A recipe with other settings."""

    label: str
    recipe: Recipe


def make_variants(recipe: Recipe, sweeps: Sequence[str]) -> list[Variant]:
    """One for every combination of the values; `sweeps` are STEP.FIELD=VALUE,VALUE."""
    settings = [list(_settings(recipe, sweep)) for sweep in sweeps]
    names = [setting[0].name for setting in settings]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"{twice} is swept twice, so nothing was run. Write all of its values behind one sign.")
    combined = list(product(*settings))
    if len(combined) > MOST_VARIANTS:
        raise UserError(
            f"The sweep has {len(combined):,} variants, and up to {MOST_VARIANTS} can be compared, so nothing was run. "
            "Sweep fewer settings or values at once."
        )
    return [_variant(recipe, chosen) for chosen in combined]


def _settings(recipe: Recipe, sweep: str) -> Iterator[SweptSetting]:
    step, field, text = split_change(sweep, "keep_quality.keep_best=0.2,0.1,0.05")
    named = [candidate for candidate in recipe.steps if candidate.at and step in (candidate.id, candidate.name)]
    used = [candidate for candidate in named if uses(candidate.config, field)]
    below = field.split(".")
    places: list[Place] = [(*candidate.at, *below) for candidate in used or named]
    if not places and step in _SECTIONS:
        places = [(step, *below)]
    if not places:
        names = [*dict.fromkeys(candidate.name for candidate in recipe.steps if candidate.at), *_SECTIONS]
        raise UserError(f"{recipe.path} has no step {step}, so nothing was run. {suggest(step, names, 'Known')}")
    values = value_of(sweep, f"[{text}]")
    if not values:
        raise UserError(f"{sweep!r} has no value, so nothing was run. Write {step}.{field}=VALUE,VALUE.")
    for value in values:
        yield SweptSetting(f"{step}.{field}", tuple(places), value)


def _variant(recipe: Recipe, settings: Sequence[SweptSetting]) -> Variant:
    last = [swept.name.rpartition(".")[2] for swept in settings]
    names = last if 1 < len(settings) == len(set(last)) else [swept.name for swept in settings]
    label = " ".join(f"{name}={swept.shown}" for name, swept in zip(names, settings, strict=True))
    name = f"{recipe.file_name}-{re.sub(r'[^A-Za-z0-9._]+', '-', label)}"[:_LONGEST_NAME]
    text = with_value(recipe.text, ("recipe",), name)
    for path, value in ((path, setting.value) for setting in settings for path in setting.places):
        text = None if text is None else with_value(text, path, value)
    if text is None:
        raise UserError(
            f"{label} cannot be put into {recipe.path}, because it is not written out there (an alias, or a variable), "
            "so nothing was run. Write a recipe with this value, and compare the two."
        )
    return Variant(label, load(recipe.path, store=recipe.store, text=text))


def run_sweep(
    base: Side,
    variants: Sequence[Variant],
    suite: str,
    setup: Setup,
    store: Store,
    seeds: Sequence[int],
    listener: Listener,
    workers: int | None = None,
    on: tuple[str | None, str | None] = (None, None),
) -> dict[str, AblationResult]:
    """Run each variant as far as its shards, and compare it with the base; results by label. `on`: the name of the
    executor and the address of its cluster.
    """
    results = {}
    for variant in variants:
        mill = Mill(variant.recipe, executor=on[0], address=on[1])
        side = Side(variant.label, Published(mill.run(workers, listener)))
        ablation = Ablation(base, side, suite, setup, store, on)
        results[variant.label] = ablation.run(seeds, listener, workers, looks=len(variants))
    return results


def judge(results: Mapping[str, AblationResult]) -> list[TaskScore]:
    """How the variants compare with the recipe, by label; verdicts are corrected for their number (Holm)."""
    return holm([replace(result.overall, name=label) for label, result in results.items() if result.overall], 1)

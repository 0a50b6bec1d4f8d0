"""The index of the items that a suite had when it was pinned; those that came since are in `eval_index_new`.

A document is scanned for each of them by itself, so that a suite that grew is looked for by what it grew by.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from gristmill.counted import counted
from gristmill.errors import CannotBeMet
from gristmill.stages.config_types import MOST_COUNT
from gristmill.stages.contract import AsCount, Asset
from gristmill.stages.decontaminate import eval_suite
from gristmill.stages.decontaminate.matching.index import write_index
from gristmill.stages.decontaminate.matching.units import units_of
from gristmill.stages.decontaminate.suite.suite import Suite

_SHOWN = 5


class Config(eval_suite.Config):
    ngram: Annotated[int, Field(ge=5, le=50)] = 13
    """Words of an n-gram: GPT-3 took 13, as shorter ones are in texts that have nothing to do with an item. A benchmark
    of the suite may say its own."""
    fuzzy: Literal[False] | Annotated[float, Field(ge=0.5, le=1)] = 0.8
    """How much of an item's words a passage has to have, in order, to count as a copy with changes. false: only n-grams
    count, and items to the word. A benchmark may say its own."""
    allow_unprotected: Annotated[int, AsCount, Field(ge=0, le=MOST_COUNT)] = 0
    """Items that may say too little to be told from other texts, and are not looked for. More of them stop the run."""


def make(config: Config, path: Path) -> dict[str, Any]:
    return make_of(config, path, new=False)


def make_of(config: Config, path: Path, new: bool) -> dict[str, Any]:
    """The index of the items of the first generation of a suite, or of the others."""
    suite = eval_suite.read_pinned(config)
    chosen = [item for item, generation in zip(suite.items, suite.generations, strict=True) if (generation > 0) == new]
    _, bare = units_of(chosen, suite.protections, config.ngram)
    if not new:  # this one answers for all generations
        is_all = len(chosen) == len(suite.items)
        refuse(
            suite,
            bare if is_all else units_of(suite.items, suite.protections, config.ngram)[1],
            config.allow_unprotected,
        )
    units = write_index(chosen, suite.protections, config.ngram, float(config.fuzzy), path)
    unprotected: dict[str, dict[str, int]] = {}
    for one in bare:
        unprotected.setdefault(chosen[one].benchmark, {})[chosen[one].id] = 1
    return {"items": len(chosen), "units": units, "unprotected": len(bare), "unprotected_items": unprotected}


def refuse(suite: Suite, bare: Sequence[int], allowed: int) -> None:
    """Stop where more items than the recipe allows cannot be looked for."""
    if len(bare) <= allowed:
        return
    items = [suite.items[one] for one in bare[:_SHOWN]]
    named = [f"{item.benchmark} {item.id} ({item.question[:40]!r})" for item in items]
    more = f" and {len(bare) - _SHOWN} more" if len(bare) > _SHOWN else ""
    raise CannotBeMet(
        f"{counted(len(bare), 'item')} of the eval suite {suite.name} cannot be protected, having too few words to "
        f"be told from other texts: {', '.join(named)}{more}. Take them out of the suite, give them an answer or "
        f"choices, or write allow_unprotected: {len(bare)}."
    )


STAGE = Asset(version=6, config=Config, libraries=("unicode",), make=make)

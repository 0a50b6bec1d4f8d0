"""The search index of the items that a suite had when it was pinned. `eval_index_new` has the items added since.

Documents are scanned for each index separately, so when a suite grows, only the new items are searched for.
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
    """Words of an n-gram. GPT-3 used 13, since shorter ones also occur in unrelated texts. A benchmark of the suite may
    set its own."""
    fuzzy: Literal[False] | Annotated[float, Field(ge=0.5, le=1)] = 0.8
    """The share of an item's words that a passage must have, in order, to count as an edited copy. false: only n-grams
    and verbatim items count. A benchmark may set its own."""
    allow_unprotected: Annotated[int, AsCount, Field(ge=0, le=MOST_COUNT)] | None = None
    """How many items may be too short to distinguish from other texts, and left unprotected. More stop the run. Null:
    one in a thousand."""


def make(config: Config, path: Path) -> dict[str, Any]:
    return make_of(config, path, new=False)


def make_of(config: Config, path: Path, new: bool) -> dict[str, Any]:
    """Write the index of the first generation of a suite, or of the later ones."""
    suite = eval_suite.read_pinned(config)
    chosen = [item for item, generation in zip(suite.items, suite.generations, strict=True) if (generation > 0) == new]
    _, bare = units_of(chosen, suite.protections, config.ngram)
    if not new:  # this index checks all generations
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


def refuse(suite: Suite, bare: Sequence[int], allowed: int | None) -> None:
    """Raise if more items are unprotected than the recipe allows; `suite touched` lists them."""
    if len(bare) <= (len(suite.items) // 1000 if allowed is None else allowed):
        return
    raise CannotBeMet(
        f"{counted(len(bare), 'item')} of the eval suite {suite.name} cannot be protected: too few words to "
        f"distinguish them from other texts: {first_of(suite, bare)}. Remove them from the suite, give them an "
        f"answer or choices, or write allow_unprotected: {len(bare)}."
    )


def first_of(suite: Suite, bare: Sequence[int]) -> str:
    """The first of these items, with their questions."""
    items = [suite.items[one] for one in bare[:_SHOWN]]
    more = f" and {len(bare) - _SHOWN} more" if len(bare) > _SHOWN else ""
    return ", ".join(f"{item.benchmark} {item.id} ({item.question[:40]!r})" for item in items) + more


STAGE = Asset(version=6, config=Config, libraries=("unicode",), make=make)

"""The `watch` of a recipe: the version that a finished run is compared with. No key depends on it."""

from typing import Annotated

from pydantic import Field

from gristmill.recipe.checks.check import check
from gristmill.recipe.checks.locations import locate
from gristmill.recipe.checks.mistakes import Path, show
from gristmill.recipe.draft import Draft
from gristmill.stages.contract import StageConfig

AT: Path = ("watch",)


class WatchFields(StageConfig):
    """The version to compare with, and the least changes that raise an alarm, however many documents show them."""

    against: str = Field(min_length=1)
    """the version to compare with: its name or hash, STORE@NAME, or the recipe's own name for its last whole run"""
    documents: float = Field(default=0.2, gt=0, lt=1)
    """least share of the documents of a source or snapshot that is missing; twice as many documents also raise an
    alarm"""
    survival: float = Field(default=0.03, gt=0, lt=1)
    """least change of a share of documents that is kept (in all, of a source, of a language) or that a step removes"""
    distance: float = Field(default=0.1, gt=0, lt=1)
    """least Kolmogorov-Smirnov distance between the distributions of a signal or a score"""
    shares: float = Field(default=0.05, gt=0, lt=1)
    """least part of the whole that moves between languages, sizes of clusters, or groups of the mixture"""
    tokens_per_byte: float = Field(default=0.05, gt=0, lt=1)
    """least relative change of the tokens for each byte of text"""
    cost: float = Field(default=5.0, gt=1)
    """least factor by which the CPU time of a step for each byte grows; steps of less than 5 s are not compared"""
    most_s_per_mb: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    """budgets: the most CPU seconds that a step may take for each MB that it reads, by its name; steps that take
    less than 5 CPU seconds in all are not judged"""
    ignore: tuple[str, ...] = ()
    """comparisons to leave out: a kind (documents, survival, language, ...), a source, a step or a measure, as an alarm
    names them"""


def load_watch(draft: Draft, raw: object) -> WatchFields | None:
    """The field `watch`; None if it is missing or has a mistake, which is reported."""
    if raw is None or AT in draft.tree.broken:
        return None
    if not isinstance(raw, str | dict):
        draft.add(AT, f"watch must be the name of a version, or a mapping with against, not {show(raw)}.")
        return None
    fields = check(draft, WatchFields, {"against": raw} if isinstance(raw, str) else raw, AT)
    if fields is None or "@" not in fields.against:
        return fields
    store, _, name = fields.against.rpartition("@")
    return fields.model_copy(update={"against": f"{locate(store, draft.folder)}@{name}"})

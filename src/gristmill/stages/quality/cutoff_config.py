"""The settings of quality cutoffs in a recipe."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from gristmill.stages.contract import NOT_A_THRESHOLD, AsCount, StageConfig
from gristmill.stages.quality.groups import GroupedBy
from gristmill.stages.quality.quality_ranks import Score, Weight
from gristmill.stages.shared.rule import ByLanguage, ByName, BySource

Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


class RankMean(StageConfig):
    """Combines several scores of any scale; a document that lacks one of them has no score."""

    rank_mean: Annotated[tuple[Score, ...], Field(min_length=2, max_length=32)]
    """The mean of each score's ranks within the group, so their scales do not matter (Nemotron-CC ranks its classifiers
    before it combines them)."""


class Cutoff(StageConfig):
    """Cutoffs for some documents, which override those of the step."""

    min_score: Annotated[float, Field(allow_inf_nan=False)] | None = None
    """The lowest score that is kept; null: any."""
    keep_best: Share | None = None
    """The share of the group that is kept, the highest scores first, 0 to 1: 0.1 keeps the best tenth; null: all."""

    @property
    def dropped_share(self) -> float | None:
        """The share of the group below the cutoff. Computed in decimals, since 1 - 0.57 is more than 0.43 in binary."""
        return None if self.keep_best is None else float(1 - Decimal(repr(self.keep_best)))

    @property
    def stated(self) -> dict[str, float | None]:
        """The cutoffs that the recipe sets, including null ones."""
        stated = {"min_score": self.min_score} if "min_score" in self.model_fields_set else {}
        if "keep_best" in self.model_fields_set:
            stated["dropped_share"] = self.dropped_share
        return stated


class Config(Cutoff):
    score: Score | RankMean
    """What documents are ranked by: a number over columns of earlier steps, such as `quality.edu`,
    `-perplexity.clean` (the highest is the best) or `max(quality.a, quality.b)`, or the mean of several ranks."""
    per: tuple[GroupedBy, ...] = ()
    """The groups that documents are ranked within: any of language, source, domain (of the source), snapshot. Empty:
    one cutoff for all documents, which removes most where the score is least reliable."""
    by: Weight = "documents"
    """The unit of a share; tokens requires the step count_tokens."""
    floors: dict[GroupedBy, Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]] = Field(default={})
    """The share of every language, domain, ... that is always kept, best first, 0 to 1; at least one document of each.
    """
    by_language: ByLanguage[Cutoff] = Field(default={})
    """Cutoffs for single languages."""
    by_domain: ByName[Cutoff] = Field(default={})
    """Cutoffs for single domains; they override those of languages."""
    by_source: BySource[Cutoff] = Field(default={})
    """Cutoffs for single sources; they override all others."""
    buckets: Annotated[Annotated[int, AsCount, Field(ge=2, le=1000)] | None, NOT_A_THRESHOLD] = None
    """Writes `bucket`: the number of a document's bucket if its group is split into this many equal ones, from 0 on."""
    unscored: Literal["keep", "drop"] = "keep"
    """What happens to a document without a score; drop gives the reason unscored."""
    source_domains: dict[str, str] = Field(default={})
    """Domain of each source; set by the recipe's loader."""
    seed: Annotated[int, NOT_A_THRESHOLD] = 0
    """Another seed puts equal scores in another order."""

    @model_validator(mode="before")
    @classmethod
    def _domains_where_used(cls, values: object) -> Any:
        """Drops the domains if the step does not use them, so that another source's domain does not run it again."""
        if not isinstance(values, Mapping) or "source_domains" not in values:
            return values
        named = [values.get(name) for name in ("per", "floors")]
        used = any(isinstance(grouping, list | tuple | Mapping) and "domain" in grouping for grouping in named)
        return values if used or values.get("by_domain") else {**values, "source_domains": {}}

    @model_validator(mode="after")
    def _once(self) -> "Config":
        if len(set(self.per)) < len(self.per):
            raise ValueError("per has a name twice. Remove one")
        if self.floors and not self.drops:
            raise ValueError(
                "floors keep documents that a cutoff would drop, but there is no cutoff. Set keep_best or min_score"
            )
        return self

    @property
    def exceptions(self) -> dict[str, Mapping[str, Cutoff]]:
        """The overriding cutoffs, by language, domain and source; later ones win."""
        cutoffs: dict[str, Mapping[str, Cutoff]] = {
            "language": self.by_language,
            "domain": self.by_domain,
            "source": self.by_source,
        }
        return {by: named for by, named in cutoffs.items() if named}

    @property
    def cutoffs(self) -> list[Cutoff]:
        return [self, *(cutoff for named in self.exceptions.values() for cutoff in named.values())]

    @property
    def dropped_shares(self) -> list[float]:
        """The dropped share of every cutoff that has one."""
        return sorted({cutoff.dropped_share for cutoff in self.cutoffs if cutoff.dropped_share is not None})

    @property
    def drops(self) -> bool:
        """Whether there is any cutoff; without one the step only writes ranks, for tiers and weights."""
        return bool(self.dropped_shares) or any(cutoff.min_score is not None for cutoff in self.cutoffs)

    @property
    def is_ranked(self) -> bool:
        """Whether the step needs ranks; a plain threshold does not."""
        return bool(self.dropped_shares or self.per or self.buckets) or not self.drops

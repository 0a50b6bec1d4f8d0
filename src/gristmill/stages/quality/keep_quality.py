"""Keeps documents by quality: above a score, or the best share of each group.

    - keep_quality: {score: quality.edu, keep_best: 0.1, per: [language]}          the best tenth of every language
    - keep_quality: {score: quality.edu, min_score: 0.5}                           a threshold, the same for all
    - keep_quality: {score: {rank_mean: [quality.edu, quality.dclm]}, buckets: 20} drops nothing: for tiers and weights

A score is a number over columns of earlier steps. `rank` is the exact share of its group below a document, and `bucket`
the same as an integer. The step reads scores and ranks but no text, so another cutoff scores and ranks nothing again.
docs/cutoffs.md explains how to choose one.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.errors import WrongSetting
from gristmill.stages.contract import Map, OtherSetting, Prerequisite
from gristmill.stages.natural_languages import LABEL
from gristmill.stages.quality import quality_ranks
from gristmill.stages.quality.cutoff_config import Config
from gristmill.stages.quality.cutoff_warnings import explain, warnings
from gristmill.stages.quality.groups import COLUMNS, GroupedBy, columns_of, groups_of, name_of, values_of
from gristmill.stages.quality.quality_ranks import WEIGHTS, scores_of, weights_of
from gristmill.stages.shared.counting import verdicts_by
from gristmill.stages.shared.expressions import parse_value
from gristmill.stages.shared.rule import Exceptions, thresholds
from gristmill.stages.shared.vectors import Vector
from gristmill.stages.shared.verdicts import Failing, describe, first_of

Array = np.ndarray[Any, Any]


LOW, UNSCORED = "low_quality", "unscored"
_RANKS = "quality_ranks"


def _part(number: int) -> str:
    """The layer with the ranks of one of several scores whose mean counts."""
    return f"quality_part_{number}"


def _floor(by: GroupedBy, config: Config) -> str:
    """The layer with the ranks within the language, domain, ... of a floor."""
    return _RANKS if config.is_ranked and config.per == (by,) else f"quality_{by}_ranks"


def _score(config: Config) -> str:
    """The score that documents are ranked by, as one expression."""
    if isinstance(config.score, str):
        return config.score
    layers = [_part(number) for number in range(1, len(config.score.rank_mean) + 1)]
    return f"({' + '.join(f'{layer}.below / {layer}.total' for layer in layers)}) / {len(layers)}"


def prerequisites(config: Config) -> Iterator[Prerequisite]:
    """One ranking for each score of a mean of ranks, one for the score itself, and one for each floor."""

    def ranks(name: str, score: str, per: Sequence[Any]) -> Prerequisite:
        domains = config.source_domains if "domain" in per else {}
        ranking = quality_ranks.Config(
            score=score, per=tuple(per), by=config.by, source_domains=domains, seed=config.seed
        )
        return Prerequisite(name, quality_ranks.__name__, ranking)

    parts = () if isinstance(config.score, str) else config.score.rank_mean
    for number, part in enumerate(parts, 1):
        yield ranks(_part(number), part, config.per)
    if config.is_ranked:
        yield ranks(_RANKS, _score(config), config.per)
    for by in config.floors:
        if _floor(by, config) != _RANKS:
            yield ranks(_floor(by, config), _score(config), (by,))


def reads(config: Config) -> tuple[str, ...]:
    layers = [*([_RANKS] if config.is_ranked else []), *(_floor(by, config) for by in config.floors)]
    weight = WEIGHTS[config.by]
    named = [
        *parse_value(_score(config)).columns,
        *columns_of((*config.per, *config.exceptions)),
        *([weight] if weight and layers else []),
        *(f"{layer}.{column}" for layer in layers for column in ("below", "total")),
        *("source", "text_bytes"),
    ]
    return tuple(dict.fromkeys(named))


def schema(config: Config) -> pa.Schema:
    ranked = [("rank", pa.float64())] if config.is_ranked else []
    bucket = [("bucket", pa.int32())] if config.buckets else []
    return pa.schema([("drop", pa.string()), ("detail", pa.string()), ("score", pa.float64()), *ranked, *bucket])


def check(config: Config) -> None:
    """Checks that the domains exist."""
    domains = sorted(set(config.source_domains.values()))
    for field, is_used in (("per", "domain" in config.per), ("floors", "domain" in config.floors)):
        if is_used and not domains:
            raise WrongSetting(
                field,
                "it groups by domain, but no source has one, so all documents form one group. Add domain: to sources.",
            )
    for name in config.by_domain:
        if name not in domains:
            raise WrongSetting(
                f"by_domain.{name}",
                f"it is not the domain of any source, so it has no effect. Domains: {', '.join(domains) or 'none'}.",
            )


def exceptions(config: Config, path: str) -> dict[str, OtherSetting]:
    """Languages, domains and sources whose own cutoff overrides the one at `path`."""
    return {
        name: OtherSetting(f"by_{by}.{name}.{path}")
        for by, named in config.exceptions.items()
        for name, cutoff in named.items()
        if path in cutoff.model_fields_set
    }


class _Ranks(NamedTuple):
    """The ranks of documents; meaningless for those without a score."""

    rank: Array
    """The share of its group below each document."""
    through: Array
    """The share up to and including it."""
    above: Array
    """The share above it."""
    below: Array
    total: Array


def _ranks(batch: pa.RecordBatch, layer: str, config: Config) -> _Ranks:
    below, total = (
        batch.column(f"{layer}.{name}").fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        for name in ("below", "total")
    )
    own = weights_of(batch, config.by)
    whole = np.maximum(total, 1)
    return _Ranks(below / whole, (below + own) / whole, (total - below - own) / whole, below, whole)


class _Judged(NamedTuple):
    """The verdicts on a batch, before they become columns."""

    score: Array
    scored: Array
    ranks: _Ranks | None
    min_score: Any
    dropped_share: Any
    floors: Mapping[GroupedBy, Array]
    """For each floor, the documents that it keeps."""

    def fails(self) -> tuple[Array, Array]:
        """Documents below the cutoff by score, and by rank, whether or not a floor keeps them."""
        by_score = self.scored & (self.score < self.min_score)
        if self.ranks is None:
            return by_score, np.zeros(len(by_score), np.bool_)
        return by_score, self.scored & (self.ranks.rank < self.dropped_share)

    def spared(self) -> Array:
        return np.asarray(np.any([np.zeros(len(self.score), np.bool_), *self.floors.values()], axis=0))


def _judge(batch: pa.RecordBatch, config: Config) -> _Judged:
    score, scored = scores_of(batch, _score(config))
    exceptions_by_row = []
    for by, named in config.exceptions.items():
        names, own = values_of(batch, by, config.source_domains)
        stated = [named[key].stated if (key := _key(by, name)) in named else {} for name in names]
        exceptions_by_row.append(Exceptions(stated, own))
    floors = {
        by: scored & (_ranks(batch, _floor(by, config), config).above < share) for by, share in config.floors.items()
    }
    return _Judged(
        score,
        scored,
        _ranks(batch, _RANKS, config) if config.is_ranked else None,
        thresholds(config, "min_score", exceptions_by_row),
        thresholds(config, "dropped_share", exceptions_by_row),
        floors,
    )


def _key(by: str, name: str) -> str:
    return name.lower() if by == "language" else name


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    judged = _judge(batch, config)
    value = Vector("number", judged.score, judged.scored)
    by_score, by_rank = (fails & ~judged.spared() for fails in judged.fails())
    failings = [Failing(LOW, by_score, [("score", value)], "<", judged.min_score)]
    if judged.ranks is not None:
        groups, group_index = groups_of(batch, config.per, config.source_domains)
        group = Vector("text", pa.array(list(map(name_of, groups)), pa.string()).take(pa.array(group_index)))
        left = [("group", group), ("score", value), ("rank", Vector("number", judged.ranks.rank))]
        failings.append(Failing(LOW, by_rank, left, "<", judged.dropped_share))
    if config.unscored == "drop":
        failings.append(Failing(UNSCORED, ~judged.scored, [("score", value)], "", None))
    first = first_of(failings, batch.num_rows)
    reasons = pa.array([failing.reason for failing in failings], pa.string())
    columns = {
        "drop": reasons.take(pa.array(first, mask=first < 0)),
        "detail": describe(failings, first),
        "score": pa.array(judged.score, mask=~judged.scored),
    }
    if judged.ranks is not None:
        columns["rank"] = pa.array(judged.ranks.rank, mask=~judged.scored)
    if config.buckets:
        assert judged.ranks is not None
        bucket = judged.ranks.below * config.buckets // judged.ranks.total
        columns["bucket"] = pa.array(bucket.astype(np.int32), mask=~judged.scored)
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=schema(config))


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """Documents and bytes by verdict for each group, language and source; the scores at the cutoffs; what floors kept.

    The score at a cutoff is the score of the best document below it. A group has one such document, so sums are its
    score.
    """
    judged = _judge(batch, config)
    verdict = pc.if_else(pa.array(judged.scored), answers["drop"], UNSCORED)
    groups, group_index = groups_of(batch, config.per, config.source_domains)
    names = list(map(name_of, groups))
    counts: dict[str, Any] = {"groups": _count(names, group_index, verdict, batch)}
    for by in ("language", "source"):
        if COLUMNS[by] in batch.schema.names:
            counts[by] = _count(*values_of(batch, by, {}), verdict, batch)
    by_score, by_rank = judged.fails()
    counts["kept_by_floors"] = {by: int((kept & (by_score | by_rank)).sum()) for by, kept in judged.floors.items()}
    if judged.ranks is not None:
        counts["cutoffs"] = {}
        for share in config.dropped_shares:
            edge = judged.scored & (judged.ranks.rank < share) & (judged.ranks.through >= share)
            for row in np.flatnonzero(edge & np.isfinite(judged.score)).tolist():
                counts["cutoffs"].setdefault(names[group_index[row]], {})[f"{share:g}"] = float(judged.score[row])
    return counts


def _count(names: Sequence[str], group_index: Array, verdict: pa.Array, batch: pa.RecordBatch) -> dict[str, Any]:
    return verdicts_by(pa.array(names, pa.string()).take(pa.array(group_index)), verdict, batch["text_bytes"])


STAGE = Map(
    version=1,
    config=Config,
    reads=reads,
    may_read=(LABEL,),
    only_kept=True,
    prerequisites=prerequisites,
    schema=schema,
    apply=apply,
    metrics=metrics,
    exceptions=exceptions,
    check=check,
    warnings=warnings,
    explain=explain,
)

"""What a plan and the end of a run say about cutoffs."""

from collections.abc import Mapping, Sequence
from typing import Any

from gristmill.counted import counted, percent
from gristmill.hints import hint
from gristmill.stages.quality.cutoff_config import Config
from gristmill.stages.shared.tally import NOTHING

MOST_OF_IT = 0.95
"""The share of a language or a source from which on it is told that one cutoff takes it."""
FEWEST = 20
"""Documents that are needed before a share says anything."""
_TOLD = 5
"""Names in a message."""
KEPT, LOW, UNSCORED = "kept", "low_quality", "unscored"

Verdicts = Mapping[str, Mapping[str, int]]


def warnings(found: Mapping[str, Any], config: Config) -> Sequence[str]:
    """Documents without a score, cutoffs that did nothing, and languages, sources and groups that lose nearly all."""
    groups: Mapping[str, Verdicts] = found.get("groups", {})
    sums = {name: sum(_count(one, name) for one in groups.values()) for name in (KEPT, LOW, UNSCORED)}
    told = []
    if old := [one.keep_percentile for one in config.cutoffs if one.keep_percentile is not None]:
        told.append(
            f"keep_percentile is the old name of keep_best, and counts what is dropped: keep_percentile: {old[0]:g} is "
            f"keep_best: {1 - old[0]:.12g}. Write that; a later release will refuse the old name"
        )
    if sums[UNSCORED]:
        fate = "dropped" if config.unscored == "drop" else "kept"
        of = sum(sums.values())
        told.append(f"{sums[UNSCORED]:,} of {counted(of, 'document')} have no score and are {fate} (unscored)")
    if config.drops and sums[KEPT] + sums[LOW] and not sums[LOW]:
        told.append("it dropped no document for its score")
    if config.drops and not config.per:
        for by in ("language", "source"):
            told += _erased(found.get(by, {}), by)
    empty = [name for name, one in groups.items() if _count(one, LOW) and not _count(one, KEPT)]
    if config.per and empty:
        fewest = max(sum(_count(groups[name], verdict) for verdict in (KEPT, LOW)) for name in empty)
        why = "A share of few documents can be less than one" if config.min_score is None else "No score is high enough"
        told.append(
            f"{counted(len(empty), 'group keeps', 'groups keep')} no document ({_some(empty)}; the largest has "
            f"{fewest:,}). {why}: set floors, which keep one at least, or give them a cutoff of their own"
        )
    for by, named in config.exceptions.items():
        seen = {name.lower() for name in found.get(by, {})}
        absent = [name for name in named if by in found and name.lower() not in seen]
        if absent and seen:
            told.append(f"no document is of {by} {_some(absent)}, for which there is a cutoff")
    return told


def _erased(of: Mapping[str, Verdicts], by: str) -> list[str]:
    """Languages or sources that one cutoff for all takes nearly whole, in one message."""
    lost = {}
    for name, one in of.items():
        low, all_of = _count(one, LOW), _count(one, LOW) + _count(one, KEPT)
        if all_of >= FEWEST and low > MOST_OF_IT * all_of and name != NOTHING:
            lost[name] = low / all_of
    if not lost or len(lost) == len(of):
        return []
    worst = sorted(lost, key=lambda name: (-lost[name], name))
    shown = _some([f"{name} {percent(lost[name], 1)}" for name in worst])
    return [
        f"one cutoff for all takes more than {MOST_OF_IT:.0%} of {counted(len(lost), by)}: {shown}. Read some of what "
        f"goes ({hint('dropped', reason=LOW)}); to judge each by its own, write per: [{by}], or set floors"
    ]


def _count(verdicts: Verdicts, name: str) -> int:
    return verdicts.get(name, {}).get("documents", 0)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_TOLD]) + (f" and {len(names) - _TOLD} more" if len(names) > _TOLD else "")


def _whole(config: Config) -> str:
    return f"each {' and '.join(config.per)}" if config.per else "all documents"


def explain(config: Config) -> Sequence[str]:
    """The cutoffs, for a plan."""
    whole = _whole(config)
    told = []
    if config.dropped_share is not None:
        told.append(f"keeps the best {percent(1 - config.dropped_share, 1)} of {whole}, by {config.by}")
    if config.min_score is not None:
        told.append(f"keeps scores from {config.min_score:g} on")
    for by, named in config.exceptions.items():
        told += [f"{by} {name}: {one.model_dump(exclude_unset=True)}" for name, one in named.items()]
    told += [f"keeps at least the best {percent(share, 1)} of each {by}" for by, share in config.floors.items()]
    return told or [f"drops nothing: ranks within {whole}, by {config.by}"]

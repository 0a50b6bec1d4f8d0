"""Messages about cutoffs, in a plan and at the end of a run."""

from collections.abc import Mapping, Sequence
from typing import Any

from gristmill.counted import counted, percent
from gristmill.hints import hint
from gristmill.stages.quality.cutoff_config import Config
from gristmill.stages.shared.tally import NOTHING
from gristmill.warned import Warnings

MOST_OF_IT = 0.95
"""Warn if one cutoff removes more than this share of a language or a source."""
FEWEST = 20
"""Documents that are needed to judge a share."""
_MOST_NAMES = 5
"""The most names in a message."""
KEPT, LOW, UNSCORED = "kept", "low_quality", "unscored"

Verdicts = Mapping[str, Mapping[str, int]]


def warnings(metrics: Mapping[str, Any], config: Config) -> Sequence[str]:
    """Warns about missing scores, cutoffs without effect, and languages, sources and groups that lose nearly all."""
    groups: Mapping[str, Verdicts] = metrics.get("groups", {})
    sums = {name: sum(_count(verdicts, name) for verdicts in groups.values()) for name in (KEPT, LOW, UNSCORED)}
    messages = Warnings()
    if sums[UNSCORED]:
        fate = "dropped" if config.unscored == "drop" else "kept"
        of = sum(sums.values())
        messages.add(
            "unscored", f"{sums[UNSCORED]:,} of {counted(of, 'document')} have no score and are {fate} (unscored)"
        )
    if config.drops and sums[KEPT] + sums[LOW] and not sums[LOW]:
        messages.add("no_effect", "no document was dropped for its score")
    if config.drops and not config.per:
        for by in ("language", "source"):
            messages += _erased(metrics.get(by, {}), by)
    empty = [name for name, verdicts in groups.items() if _count(verdicts, LOW) and not _count(verdicts, KEPT)]
    if config.per and empty:
        fewest = max(sum(_count(groups[name], verdict) for verdict in (KEPT, LOW)) for name in empty)
        why = "A share of few documents can be less than one" if config.min_score is None else "No score is high enough"
        messages.add(
            "empty_group",
            f"{counted(len(empty), 'group keeps', 'groups keep')} no document ({_some(empty)}; the largest has "
            f"{fewest:,}). {why}: set floors, which keep at least one, or give them their own cutoff",
        )
    for by, named in config.exceptions.items():
        present = {name.lower() for name in metrics.get(by, {})}
        absent = [name for name in named if by in metrics and name.lower() not in present]
        if absent and present:
            messages.add("absent_name", f"there is a cutoff for {by} {_some(absent)}, but no such document")
    return messages


def _erased(of: Mapping[str, Verdicts], by: str) -> list[str]:
    """One message about the languages or sources that a cutoff for all removes nearly completely."""
    lost = {}
    for name, verdicts in of.items():
        low, all_of = _count(verdicts, LOW), _count(verdicts, LOW) + _count(verdicts, KEPT)
        if all_of >= FEWEST and low > MOST_OF_IT * all_of and name != NOTHING:
            lost[name] = low / all_of
    if not lost or len(lost) == len(of):
        return []
    worst = sorted(lost, key=lambda name: (-lost[name], name))
    shown = _some([f"{name} {percent(lost[name], 1)}" for name in worst])
    return [
        f"one cutoff for all removes more than {MOST_OF_IT:.0%} of {counted(len(lost), by)}: {shown}. Read some of "
        f"what is dropped ({hint('dropped', reason=LOW)}); to rank each on its own, write per: [{by}], or set floors"
    ]


def _count(verdicts: Verdicts, name: str) -> int:
    return verdicts.get(name, {}).get("documents", 0)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_NAMES]) + (
        f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    )


def _whole(config: Config) -> str:
    return f"each {' and '.join(config.per)}" if config.per else "all documents"


def explain(config: Config) -> Sequence[str]:
    whole = _whole(config)
    messages = []
    if config.dropped_share is not None:
        messages.append(f"keeps the best {percent(1 - config.dropped_share, 1)} of {whole}, by {config.by}")
    if config.min_score is not None:
        messages.append(f"keeps scores from {config.min_score:g} on")
    for by, named in config.exceptions.items():
        messages += [f"{by} {name}: {cutoff.model_dump(exclude_unset=True)}" for name, cutoff in named.items()]
    messages += [f"keeps at least the best {percent(share, 1)} of each {by}" for by, share in config.floors.items()]
    return messages or [f"drops nothing: ranks within {whole}, by {config.by}"]

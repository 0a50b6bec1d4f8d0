"""The alarm of every dedup stage: a source that loses nearly everything has most often met a fault, not its copies.

One unverified chain of near-duplicates took 859,090 of 859,092 documents from a source; nobody was told.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from gristmill.hints import hint
from gristmill.stages.contract import ReportMark

AlarmShare = Annotated[float, Field(gt=0, le=1), ReportMark()]
"""A config field: the share of its documents, 0 to 1, that a source may lose without a warning. 1: never warn."""

FEWEST_DOCUMENTS = 20
"""A source with fewer is not spoken of: there a large share is no sign."""


def alarms(metrics: Mapping[str, Any], share: float) -> tuple[str, ...]:
    """A line for each source that lost more than `share` of the documents that it sent to the stage.

    `metrics["sources"][source]` is `{"rows_sent": n, "dropped": {reason: n}}`.
    """
    told = []
    for source, counts in sorted((metrics.get("sources") or {}).items()):
        sent, reasons = counts.get("rows_sent", 0), counts.get("dropped", {})
        lost = sum(reasons.values())
        if sent >= FEWEST_DOCUMENTS and lost > share * sent:
            why = ", ".join(f"{reason} {count:,}" for reason, count in sorted(reasons.items()))
            told.append(
                f"source {source} lost {_percent(lost, sent)} of its documents ({lost:,} of {sent:,}: {why}). "
                f"Look at some: {hint('dropped_of', source=source, reason=max(reasons, key=reasons.get))}; "
                "if they are copies, raise alarm_share"
            )
    return tuple(told)


def _percent(lost: int, sent: int) -> str:
    """Rounded down, so that 100% means all."""
    return f"{1000 * lost // sent / 10:g}%"

"""The alarm of every dedup stage: a source that loses nearly all documents has most likely hit a fault.

One unverified chain of near-duplicates removed 859,090 of 859,092 documents of a source without any warning.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from gristmill.hints import hint
from gristmill.stages.contract import ReportMark
from gristmill.warned import Warnings

AlarmShare = Annotated[float, Field(gt=0, le=1), ReportMark()]
"""A config field: the share of its documents, 0 to 1, that a source may lose without a warning. 1: never warn."""

FEWEST_DOCUMENTS = 20
"""A source with fewer documents raises no alarm, since a large share of few documents means nothing."""


def alarms(metrics: Mapping[str, Any], share: float) -> tuple[str, ...]:
    """A warning for each source that lost more than `share` of the documents that it sent to the stage.

    `metrics["sources"][source]` is `{"rows_sent": n, "dropped": {reason: n}}`.
    """
    warned = Warnings()
    for source, counts in sorted((metrics.get("sources") or {}).items()):
        sent, reasons = counts.get("rows_sent", 0), counts.get("dropped", {})
        lost = sum(reasons.values())
        if sent >= FEWEST_DOCUMENTS and lost > share * sent:
            why = ", ".join(f"{reason} {count:,}" for reason, count in sorted(reasons.items()))
            warned.add(
                "source_lost",
                f"source {source} lost {_percent(lost, sent)} of its documents ({lost:,} of {sent:,}: {why}). "
                f"Inspect some of them: {hint('dropped_of', source=source, reason=max(reasons, key=reasons.get))}. "
                "If they are copies, raise alarm_share",
            )
    return tuple(warned)


def _percent(lost: int, sent: int) -> str:
    """The percentage, rounded down so that 100% means all."""
    return f"{1000 * lost // sent / 10:g}%"

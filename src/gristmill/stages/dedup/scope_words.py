"""Which documents a dedup stage compares, and how a person reads it."""

from typing import Literal

Scope = Literal["global", "snapshot", "source", "source_and_snapshot"]
"""Which documents are compared. Those without a snapshot are one group."""

SCOPE_WORDS: dict[Scope, str] = {
    "global": "over all sources",
    "snapshot": "within each snapshot",
    "source": "within each source",
    "source_and_snapshot": "within each snapshot of each source",
}

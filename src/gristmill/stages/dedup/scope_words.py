"""The scope of a dedup stage, and how it is described to users."""

from typing import Literal

Scope = Literal["global", "snapshot", "source", "source_and_snapshot"]
"""Which documents are compared. Documents without a snapshot form one group."""

SCOPE_WORDS: dict[Scope, str] = {
    "global": "over all sources",
    "snapshot": "within each snapshot",
    "source": "within each source",
    "source_and_snapshot": "within each snapshot of each source",
}

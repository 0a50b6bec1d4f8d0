"""What the record of a run says of its stages. Nothing here needs the code of a stage."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class NodeFacts:
    """What there is to know of a stage of the graph without its code."""

    id: str
    name: str
    kind: str
    """read, map, exchange, fit, asset or sink."""
    sources: tuple[str, ...]
    """Whose documents it reads; an asset reads none."""
    columns: tuple[str, ...]
    """Of its layer."""
    identity: Mapping[str, Any]
    """What the stage itself puts into a task key: name, VERSION, config, libraries, code of the user's own."""

    @property
    def has_layers(self) -> bool:
        """Whether it has columns for every row; others have files."""
        return self.kind not in ("fit", "asset", "sink")

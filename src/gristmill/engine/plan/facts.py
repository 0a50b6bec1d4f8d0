"""What the record of a run says about its stages. Nothing here needs the code of a stage."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class NodeFacts:
    """What is known about a stage of the graph without its code."""

    id: str
    name: str
    kind: str
    """read, map, exchange, fit, asset or sink."""
    sources: tuple[str, ...]
    """The sources whose documents it reads; empty for an asset."""
    columns: tuple[str, ...]
    """The columns of its layer."""
    identity: Mapping[str, Any]
    """What the stage itself adds to a task key: name, VERSION, config, libraries, the user's own code."""

    @property
    def has_layers(self) -> bool:
        """Whether it has columns for every row; others have files."""
        return self.kind not in ("fit", "asset", "sink")

"""Estimate the disk space that a run needs in its store, before it runs.

The best estimate is the size that a step stored in an earlier run of the recipe, times the growth of the input. For a
step that never ran, there are rules of thumb in stored bytes per byte of content: documents and texts are compressed,
columns are small, shards are not compressed.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gristmill.engine.plan.graph import INDEX, Node
from gristmill.engine.schedule.run import Run
from gristmill.recipe.checks.columns import INGEST
from gristmill.stages.declarations import stage_of
from gristmill.store.parquet import BULKY
from gristmill.store.store import Store

FACTOR = 2.0
"""The stated uncertainty: the true size is within this factor of the middle, unless the run is small."""
SMALL_BYTES = 50_000_000
"""Less than this is not worth an estimate: records of tasks and disk blocks take most of it."""
TEXT_SHARE: Mapping[bool, float] = {True: 0.08, False: 0.75}
"""Bytes of text for later steps per byte of content: for markup (True) and for text."""
STORED: Mapping[str, float] = {
    "documents": 0.26,
    "texts": 0.35,
    "columns": 0.025,
    "exchange": 0.1,
    "fit": 0.03,
    "sink": 0.9,
    "index": 0.15,
}
"""Bytes stored by a step: for documents per byte of content, otherwise per byte of text. Each is the middle of a wide
range and may be far off for a single step. Over the steps of a recipe this evens out.
"""
_MARKUP = ("warc",)


@dataclass(frozen=True)
class Disk:
    """The disk space that a run needs, and the free space."""

    added_bytes: int
    stored_bytes: int
    """The size of the existing results of the current recipe."""
    free_bytes: int | None
    """None if the store is not a local folder."""

    @property
    def is_short(self) -> bool:
        """Whether the run may not fit."""
        most = max(FACTOR * self.added_bytes, SMALL_BYTES if self.added_bytes else 0)
        return self.free_bytes is not None and most > self.free_bytes


def estimate(run: Run, store: Store, before: Mapping[str, Mapping[str, Any]]) -> Disk:
    """Estimate the disk space for a dry run; `before` is what earlier runs recorded for each step."""
    added = stored = 0.0
    for node in run.graph.nodes.values():
        state = run.states[node.id]
        stored += state.stored_bytes
        if state.missing or state.waiting:
            measured = _measured(node, run, before)
            added += max((_rule(node, run) if measured is None else measured) - state.stored_bytes, 1.0)
    return Disk(int(added), int(stored), free_bytes(store))


def _input_bytes(run: Run, source: str) -> int:
    return run.inputs[source].taken_bytes(run.graph.recipe.sources[source].limit)


def _content_bytes(run: Run, source: str) -> float:
    """The estimated unpacked size of the files of a source, by their names."""
    files = run.inputs[source].needed(run.inputs[source].groups)
    packed = sum(file.size for file in files)
    return _input_bytes(run, source) * sum(file.payload_guess for file in files) / max(packed, 1)


def _measured(node: Node, run: Run, before: Mapping[str, Mapping[str, Any]]) -> float | None:
    """The bytes that a step stored in an earlier run, times the growth of its inputs."""
    stored = before.get(node.id, {}).get("stored_bytes")
    inputs: list[int] = [before.get(f"{source}/{INGEST}", {}).get("input_bytes") or 0 for source in node.sources]
    if not stored or not all(inputs):
        return None
    return float(stored * sum(_input_bytes(run, source) for source in node.sources) / max(sum(inputs), 1))


def _rule(node: Node, run: Run) -> float:
    """The bytes by rules of thumb; every step counts as if it had all documents."""
    if node.kind == "asset":  # about the size of its input files
        return float(sum(part.file_bytes for file in node.files.values() for _, _, part in file.files))
    content = 0.0
    for source in node.sources:
        size = _content_bytes(run, source)
        text = size * TEXT_SHARE[run.graph.recipe.sources[source].format in _MARKUP]
        content += size * STORED["documents"] if node.kind == "read" else text * STORED[_class(node)]
    return content


def _class(node: Node) -> str:
    if node.name == INDEX:
        return INDEX
    if node.kind != "map":
        return node.kind
    names = stage_of(node.module).schema_of(node.config).names
    return "texts" if any(name in BULKY for name in names) else "columns"


def free_bytes(store: Store) -> int | None:
    """The free space on the disk of the store, whose folder may not exist yet."""
    if not store.is_local:
        return None
    path = os.path.abspath(store.root)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return shutil.disk_usage(path).free

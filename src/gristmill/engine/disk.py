"""How much room a run will need in its store, before it runs.

What a step has stored in an earlier run of the recipe, times how much the input has grown since, is the best guess. A
step that never ran is guessed by rules of thumb, in bytes stored for each byte of content: documents and texts are kept
compressed, columns are small, shards are not compressed. Both are ranges; what is there already is taken off.
"""

import importlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from gristmill.engine.graph import Node
from gristmill.engine.run import Run
from gristmill.engine.seen import Seen
from gristmill.recipe.columns import INGEST
from gristmill.stages.resolve import schema_of
from gristmill.store.store import Store

Range = tuple[float, float]

MEASURED: Range = (0.8, 1.25)
"""Of what an earlier run has stored."""
TEXT_SHARE: Mapping[bool, Range] = {True: (0.04, 0.15), False: (0.5, 1.0)}
"""Bytes of text that later steps see, for each byte of content: of markup, and of text."""
STORED: Mapping[str, Range] = {
    "documents": (0.15, 0.45),
    "texts": (0.25, 0.5),
    "columns": (0.01, 0.06),
    "exchange": (0.03, 0.3),
    "fit": (0.0, 0.1),
    "sink": (0.6, 1.3),
}
"""Bytes stored by a step: of documents for each byte of content, of all others for each byte of text."""
RECORD_BYTES = 1 << 16
"""Of a page with its markup: what a limit on records is taken to be, in bytes."""
_MARKUP = ("warc",)


@dataclass(frozen=True)
class Disk:
    """What a run will add to the store, and what there is room for."""

    least_bytes: int
    most_bytes: int
    stored_bytes: int
    """By the steps of the recipe as it stands, already."""
    measured: bool
    """Whether earlier runs tell, and no rule of thumb."""
    free_bytes: int | None
    """None where the store is no folder of this machine."""

    @property
    def is_short(self) -> bool:
        """Whether it may not fit."""
        return self.free_bytes is not None and self.most_bytes > self.free_bytes


def estimate(run: Run, store: Store, before: Mapping[str, Mapping[str, Any]]) -> Disk:
    """For a dry run; `before` is what earlier runs say of each step."""
    least = most = 0.0
    stored, measured = 0, True
    for node in run.graph.nodes.values():
        made = run.made[node.id]
        there = stored_bytes(run, node.id)
        stored += there
        if not made.missing and not made.waiting:
            continue
        if made.foreseen is not None:
            need = 0 if store.has_part(made.foreseen) else made.foreseen.file_bytes
            least, most = least + need, most + need
            continue
        found = _measured(node, run, before)
        measured &= found is not None
        low, high = found or _rule(node, run)
        least += max(0.0, low - max(there, _may_stay(node, run, before)))
        most += max(0.0, high - there)
    return Disk(int(least), int(most), stored, measured, _free_bytes(store))


def stored_bytes(run: Run, node_id: str) -> int:
    """Of all files that the tasks of a step have in the store."""
    parts = {part.hash: part.file_bytes for key in run.made[node_id].tasks for part in run.done[key][2].parts}
    return sum(parts.values())


def held_bytes(seen: Seen, node_id: str) -> int | None:
    """The same, of a recipe as it is now or of a run; None where the run's record does not say."""
    if isinstance(seen, Run):
        return stored_bytes(seen, node_id)
    found: int | None = None if seen.record is None else seen.record["nodes"][node_id].get("stored_bytes")
    return found


def _may_stay(node: Node, run: Run, before: Mapping[str, Mapping[str, Any]]) -> int:
    """What a step that waits has stored earlier: whatever comes to it as it was then is not made again."""
    earlier = before.get(node.id, {})
    is_same = not run.made[node.id].missing and earlier.get("identity") == node.identity
    return earlier.get("stored_bytes") or 0 if is_same else 0


def input_bytes(run: Run, source: str) -> int:
    """Of the files that a source reads, as they lie there; of a sample or a limit, of what it takes."""
    inputs = run.inputs[source]
    size = sum(file.size for file in inputs.needed(inputs.groups))
    limit = run.graph.recipe.sources[source].limit
    return int(min(size * (inputs.share or 1), size if limit is None else limit * RECORD_BYTES))


def _content_bytes(run: Run, source: str) -> float:
    """The same, unpacked, as far as names tell."""
    files = run.inputs[source].needed(run.inputs[source].groups)
    packed = sum(file.size for file in files)
    return input_bytes(run, source) * sum(file.payload_guess for file in files) / max(packed, 1)


def _measured(node: Node, run: Run, before: Mapping[str, Mapping[str, Any]]) -> Range | None:
    earlier = before.get(node.id, {}).get("stored_bytes")
    inputs: list[int] = [before.get(f"{source}/{INGEST}", {}).get("input_bytes") or 0 for source in node.sources]
    if not earlier or not all(inputs):
        return None
    grown = sum(input_bytes(run, source) for source in node.sources) / sum(inputs)
    return MEASURED[0] * earlier * grown, MEASURED[1] * earlier * grown


def _rule(node: Node, run: Run) -> Range:
    low = high = 0.0
    stored = STORED[_class(node)]
    for source in node.sources:
        content = _content_bytes(run, source)
        markup = run.graph.recipe.sources[source].format in _MARKUP
        seen = (1.0, 1.0) if node.kind == "read" else TEXT_SHARE[markup]
        low += content * seen[0] * stored[0]
        high += content * seen[1] * stored[1]
    return low, high


def _class(node: Node) -> str:
    if node.kind != "map":
        return {"read": "documents"}.get(node.kind, node.kind)
    schema = schema_of(importlib.import_module(node.module), node.config)
    has_texts = "text" in schema.names or any(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) for kind in schema.types
    )
    return "texts" if has_texts else "columns"


def _free_bytes(store: Store) -> int | None:
    """Of the disk under the store, which may not be there yet."""
    if not store.is_local:
        return None
    path = os.path.abspath(store.root)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return shutil.disk_usage(path).free

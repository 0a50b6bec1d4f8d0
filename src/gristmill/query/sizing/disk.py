"""Estimate the disk space that a run needs in its store, before it runs.

The best estimate is the size that a step stored in an earlier run of the recipe, scaled by the growth of the input. For
a step that never ran, there are rules of thumb in stored bytes per byte of content: documents and texts are compressed,
columns are small, shards are not compressed.

In addition, each task has a fixed cost, however small it is: a file for its record and one for its output, rounded up
to disk blocks. In a run of some hundred documents, whose exchanges alone have hundreds of tasks, that is nearly
everything. These costs depend on the disk and the file formats, not on the recipe.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gristmill.engine.plan.graph import INDEX, Node, reads_from
from gristmill.engine.schedule.run import Run
from gristmill.engine.schedule.shuffle import RANGES
from gristmill.recipe.checks.columns import INGEST
from gristmill.stages.declarations import stage_of
from gristmill.store.parquet import BULKY
from gristmill.store.store import Store

Known = Mapping[str, Mapping[str, Any]]
"""What earlier runs recorded for each step."""
Range = tuple[float, float]

MEASURED: Range = (0.85, 1.2)
"""The range of the true size, relative to an estimate from an earlier run."""
GUESSED: Range = (0.5, 2.0)
"""The range relative to an estimate from rules of thumb."""
SAME_AGAIN = 0.5
"""The assumed share of a step's tasks whose input stays the same after an earlier step was changed."""

BLOCK_BYTES = 4096
"""Files and folders use whole blocks: this is the default of ext4, xfs, btrfs, APFS and NTFS."""
TASK_BYTES = 2 * BLOCK_BYTES
"""The fixed cost of a task: a block for its record, and on average half a block each for its part and verdicts."""
FOOTER_BYTES = 3072
"""The size of a part without content: schema and row hash in Parquet, both in the part and in its verdicts."""
MANIFEST_BYTES = 3 * BLOCK_BYTES
"""The fixed cost of a step and a source: a dataset, the stage record, and the entry in the run record."""
INPUT_FILE_BYTES = 512
"""The cost of an input file: its name and hash, in the record of its task and in inputs/."""
FOLDERS = 256
"""The folders of parts, by the first two digits of their hash."""

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
range and may be far off for a single step. Over the steps of a recipe this evens out: for the demo, a hundred notes, 11
MB of manuals and 80 MB of crawled pages, the middle of the estimate is 0.92 to 1.10 of the true size.
"""
DOCUMENT_BYTES = 2048
"""The average text of a document (C4: 750 GB in 365 million). With few documents, an exchange has fewer reducers."""
_MARKUP = ("warc",)


@dataclass(frozen=True)
class Disk:
    """The disk space that a run needs, and the free space."""

    least_bytes: int
    most_bytes: int
    stored_bytes: int
    """The size of the existing results of the current recipe."""
    measured: bool
    """Whether the estimate comes from earlier runs alone."""
    free_bytes: int | None
    """None if the store is not a local folder."""

    @property
    def is_short(self) -> bool:
        """Whether the run may not fit."""
        return self.free_bytes is not None and self.most_bytes > self.free_bytes


def estimate(run: Run, store: Store, before: Known) -> Disk:
    """Estimate the disk space for a dry run."""
    least = most = stored = 0.0
    parts_there = parts_to_come = 0.0
    measured = True
    changed: set[str] = set()
    for node in run.graph.nodes.values():
        made, manifests = run.states[node.id], MANIFEST_BYTES * max(len(node.sources), 1)
        stored += _taken(made.stored_bytes, len(made.tasks))
        each = 2 if node.has_layers else 1  # a layer has a verdicts part
        parts_there += each * len(made.tasks)
        if not made.missing and not made.waiting:
            stored += manifests
            continue
        need = _need(node, run, before, not changed.isdisjoint(reads_from(node)))
        if need.is_changed:
            changed.add(node.id)
        measured &= need.is_measured
        least += manifests + need.least
        most += manifests + need.most
        parts_to_come += each * max(len(made.missing), need.tasks - len(made.tasks))
    files = {
        part.hash: part
        for node in run.graph.nodes.values()
        for file in node.files.values()
        for _, _, part in file.files
    }
    for part in files.values():  # files named in settings are copied into the store
        if store.has_part(part):
            stored += part.file_bytes
        else:
            least, most = least + part.file_bytes, most + part.file_bytes
    folders = _folders_bytes(parts_there)
    more = _folders_bytes(parts_there + parts_to_come) - folders
    return Disk(int(least + more), int(most + more), int(stored + folders), measured, free_bytes(store))


@dataclass(frozen=True)
class _Need:
    """The disk space that a step will need."""

    least: float
    most: float
    tasks: float
    """The total number of its tasks."""
    is_measured: bool
    is_changed: bool
    """Whether its output changes, and does not only grow."""


def _need(node: Node, run: Run, before: Known, is_after_change: bool) -> _Need:
    """The need of a step that has to run; `is_after_change` means that its input changes."""
    made, earlier = run.states[node.id], before.get(node.id, {})
    is_same = earlier.get("identity") == node.identity
    is_changed = is_after_change or not is_same or node.kind == "fit"
    if made.foreseen is not None:
        size = 0 if run.store.has_part(made.foreseen) else _taken(made.foreseen.file_bytes, 1)
        return _Need(size, size, 1, True, is_changed)
    known = _measured(node, run, before)
    content, tasks = _rule(node, run) if known is None else known
    low, high = GUESSED if known is None else MEASURED
    there = _taken(made.stored_bytes, len(made.tasks))
    if is_same and not made.missing:  # all its tasks wait for input, and tasks with unchanged input do not run again
        if is_after_change:
            low *= SAME_AGAIN
        elif node.kind == "map":
            there = max(there, _taken(earlier["stored_bytes"], earlier["executed"] + earlier["cached"]))
    size = max(_taken(content, tasks) - there, _taken(0, max(len(made.missing), 1)))
    return _Need(low * size, high * size, tasks, known is not None, is_changed)


def _taken(content: float, tasks: float) -> float:
    """The disk space for the files of some tasks."""
    return content + TASK_BYTES * tasks


def _folders_bytes(parts: float) -> float:
    """The disk space for the folders of this many parts, which are spread at random."""
    return float(BLOCK_BYTES * FOLDERS * (1 - (1 - 1 / FOLDERS) ** parts))


def _input_bytes(run: Run, source: str) -> int:
    return run.inputs[source].taken_bytes(run.graph.recipe.sources[source].limit)


def _content_bytes(run: Run, source: str) -> float:
    """The estimated unpacked size of the files of a source, by their names."""
    files = run.inputs[source].needed(run.inputs[source].groups)
    packed = sum(file.size for file in files)
    return _input_bytes(run, source) * sum(file.payload_guess for file in files) / max(packed, 1)


def _measured(node: Node, run: Run, before: Known) -> tuple[float, float] | None:
    """Bytes and number of tasks, scaled from an earlier run; an exchange has as many reducers as before."""
    earlier = before.get(node.id, {})
    if node.kind == "asset" and earlier.get("stored_bytes"):
        return earlier["stored_bytes"], 1
    inputs: list[int] = [before.get(f"{source}/{INGEST}", {}).get("input_bytes") or 0 for source in node.sources]
    if not earlier.get("stored_bytes") or not inputs or not all(inputs):
        return None
    grown = sum(_input_bytes(run, source) for source in node.sources) / sum(inputs)
    tasks = earlier["executed"] + earlier["cached"]
    return grown * earlier["stored_bytes"], grown * tasks if node.kind in ("read", "map") else tasks


def _rule(node: Node, run: Run) -> tuple[float, float]:
    """The same by rules of thumb. Every exchange counts as one round, and every step as if it had all documents."""
    content = tasks = documents = 0.0
    if node.kind == "asset":  # about the size of its input files
        content = float(sum(part.file_bytes for file in node.files.values() for _, _, part in file.files))
    for source in node.sources:
        size, parts = _content_bytes(run, source), _parts(run, source)
        text = size * TEXT_SHARE[run.graph.recipe.sources[source].format in _MARKUP]
        documents += text / DOCUMENT_BYTES
        if node.kind == "read":
            content += size * STORED["documents"] + INPUT_FILE_BYTES * len(run.inputs[source].files)
            tasks += len(run.inputs[source].groups)
        else:
            content += text * STORED[_class(node)]
            tasks += {"map": parts, "exchange": 2 * parts, "fit": 0, "sink": parts + 1}[node.kind]
    if node.kind == "exchange":
        tasks += min(RANGES, documents)
    if not node.has_layers:
        tasks += 1
    return content + FOOTER_BYTES * tasks, tasks


def _parts(run: Run, source: str) -> float:
    """The estimated number of document parts of a source."""
    groups = len(run.inputs[source].groups)
    return max(groups, _content_bytes(run, source) / run.graph.recipe.sources[source].part_bytes)


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

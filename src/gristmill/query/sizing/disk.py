"""How much room a run will need in its store, before it runs.

What a step has stored in an earlier run of the recipe, times how much the input has grown since, is the best guess. A
step that never ran is guessed by rules of thumb, in bytes stored for each byte of content: documents and texts are kept
compressed, columns are small, shards are not compressed.

To both comes what a task costs, however little it holds: a file for its record and one for what it makes, each of whole
blocks of the disk. In a run of some hundred documents, whose exchanges alone have hundreds of tasks, that is nearly
everything. These costs follow from what a disk and the files look like, and from no recipe.
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
"""What earlier runs say of each step."""
Range = tuple[float, float]

MEASURED: Range = (0.85, 1.2)
"""Of what an earlier run tells: where the truth may lie."""
GUESSED: Range = (0.5, 2.0)
"""Of what rules of thumb tell."""
SAME_AGAIN = 0.5
"""The share of a step's tasks that are taken to read what they read before, where a step before them was changed."""

BLOCK_BYTES = 4096
"""A file or folder takes whole ones: the default of ext4, xfs, btrfs, APFS and NTFS."""
TASK_BYTES = 2 * BLOCK_BYTES
"""Of a task, beside the bytes of its parts: the block of its record (1 to 4 KB of JSON), and what a part and the
verdicts beside it leave empty of their last blocks, half of each on average."""
FOOTER_BYTES = 3072
"""Of a part without content: the schema and the mark of its rows, in Parquet; and its verdicts, which have them too."""
MANIFEST_BYTES = 3 * BLOCK_BYTES
"""Of a step and a source: a dataset, the record of the stage, and the step's place in the record of the run."""
INPUT_FILE_BYTES = 512
"""Of an input file: its name and hash, in the record of the task that reads it and in inputs/."""
FOLDERS = 256
"""That parts lie in, by the first two digits of their hash."""

TEXT_SHARE: Mapping[bool, float] = {True: 0.08, False: 0.75}
"""Bytes of text that later steps see, for each byte of content: of markup, and of text."""
STORED: Mapping[str, float] = {
    "documents": 0.26,
    "texts": 0.35,
    "columns": 0.025,
    "exchange": 0.1,
    "fit": 0.03,
    "sink": 0.9,
    "index": 0.15,
}
"""Bytes stored by a step: of documents for each byte of content, of all others for each byte of text. Each is the
middle of a wide range, and of a single step it may be far off. Over the steps of a recipe that evens out: for the
demo, a hundred notes, 11 MB of manuals and 80 MB of crawled pages the middle of the estimate is 0.92 to 1.10 of
the truth.
"""
DOCUMENT_BYTES = 2048
"""Of a document's text (C4: 750 GB in 365 million). Where there are few, an exchange has fewer reducers."""
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


def estimate(run: Run, store: Store, before: Known) -> Disk:
    """For a dry run."""
    least = most = stored = 0.0
    parts_there = parts_to_come = 0.0
    measured = True
    changed: set[str] = set()
    for node in run.graph.nodes.values():
        made, manifests = run.states[node.id], MANIFEST_BYTES * max(len(node.sources), 1)
        stored += _taken(made.stored_bytes, len(made.tasks))
        each = 2 if node.has_layers else 1  # a layer has its verdicts beside it
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
    for part in files.values():  # files that settings name are copied into the store
        if store.has_part(part):
            stored += part.file_bytes
        else:
            least, most = least + part.file_bytes, most + part.file_bytes
    folders = _folders_bytes(parts_there)
    more = _folders_bytes(parts_there + parts_to_come) - folders
    return Disk(int(least + more), int(most + more), int(stored + folders), measured, free_bytes(store))


@dataclass(frozen=True)
class _Need:
    """What a step will add."""

    least: float
    most: float
    tasks: float
    """That it will have in the end."""
    is_measured: bool
    is_changed: bool
    """Whether its output will be another one, and not only more of the same."""


def _need(node: Node, run: Run, before: Known, is_after_change: bool) -> _Need:
    """Of a step that has to run; `is_after_change`: what it reads will not be what it was."""
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
    if is_same and not made.missing:  # all that has to run waits, and what comes as it came before is not made again
        if is_after_change:
            low *= SAME_AGAIN
        elif node.kind == "map":
            there = max(there, _taken(earlier["stored_bytes"], earlier["executed"] + earlier["cached"]))
    size = max(_taken(content, tasks) - there, _taken(0, max(len(made.missing), 1)))
    return _Need(low * size, high * size, tasks, known is not None, is_changed)


def _taken(content: float, tasks: float) -> float:
    """Room that the files of some tasks take."""
    return content + TASK_BYTES * tasks


def _folders_bytes(parts: float) -> float:
    """Of the folders that so many parts fall into by chance."""
    return float(BLOCK_BYTES * FOLDERS * (1 - (1 - 1 / FOLDERS) ** parts))


def _input_bytes(run: Run, source: str) -> int:
    return run.inputs[source].taken_bytes(run.graph.recipe.sources[source].limit)


def _content_bytes(run: Run, source: str) -> float:
    """Of the files that a source reads, unpacked, as far as names tell."""
    files = run.inputs[source].needed(run.inputs[source].groups)
    packed = sum(file.size for file in files)
    return _input_bytes(run, source) * sum(file.payload_guess for file in files) / max(packed, 1)


def _measured(node: Node, run: Run, before: Known) -> tuple[float, float] | None:
    """Bytes of files and number of tasks by what an earlier run says; an exchange has as many reducers as before."""
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
    """The same by rules of thumb. An exchange is taken to have one round: what a second one costs, others save that see
    only a few of the documents.
    """
    content = tasks = documents = 0.0
    if node.kind == "asset":  # of the size of what it is made of
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
    """Document parts that a source will have, by its size."""
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
    """Of the disk under the store, which may not be there yet."""
    if not store.is_local:
        return None
    path = os.path.abspath(store.root)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return shutil.disk_usage(path).free

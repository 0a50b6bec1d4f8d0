"""What a task needs while it runs: executors share a machine by it, and request as much from clusters.

A stage may declare its needs. Otherwise they are one core and an estimate of memory, which follows from the bounds of
stages and of the engine (a part, a range of keys, a shard). The cost of every task has the measured memory
(`peak_rss_bytes`), and `python -m bench reducers` compares both. The expected time follows from the bytes read.
"""

from collections.abc import Iterable, Sequence

from gristmill.engine.work.shuffle import IN_MEMORY
from gristmill.engine.work.task import (
    Build,
    Collect,
    FitWork,
    Hash,
    IndexInput,
    MapWork,
    Merge,
    Preview,
    Read,
    Reduce,
    Scatter,
    Work,
    gated_only,
)
from gristmill.recipe.checks.columns import Columns
from gristmill.stages.contract import LayerStage, Piece, Resources
from gristmill.stages.declarations import stage_of
from gristmill.store.segments import Segment, SegmentList
from gristmill.store.store import Part

PROCESS_BYTES = 250 << 20
"""A worker that has imported and compiled everything and holds no data."""
SORTING = 4
"""Copies of the records in memory: as read, combined, sorted, and the output."""
BUILDING = 3
"""Copies of the records in memory: as read, in order, and the files."""
FITTED_BYTES = 1 << 30
"""A fit reads all documents batch by batch; this bounds the estimate of what it keeps."""

HOST_BYTES = 200 << 20
"""The process that hosts workers on a cluster, and their fork server."""
STEP_BYTES = 256 << 20
"""Clusters have a queue for each size of memory, so sizes are rounded up to multiples of this."""


INDEXING = 512 << 20
"""Bytes for an index: the most points of gzip, or the names of some million members."""
_WITHOUT_CODE = Hash | IndexInput | Merge | Preview | Collect
"""Work that runs no stage code."""


def rounded(memory: int) -> int:
    return -(-memory // STEP_BYTES) * STEP_BYTES


def needs_of(work: Work) -> Resources:
    declared = declared_for(work) or Resources()
    return declared if declared.memory else declared.model_copy(update={"memory": PROCESS_BYTES + _data_bytes(work)})


def declared_for(work: Work) -> Resources | None:
    """What the stage declares for a task that runs its code."""
    if isinstance(work, _WITHOUT_CODE):
        return None
    if isinstance(work, MapWork | Scatter):
        part_bytes = max((part.payload_bytes for part in work.layers), default=0)
    else:
        part_bytes = work.part_bytes if isinstance(work, Read) else bytes_read(work)
    return stage_of(work.module).resources_of(work.config, part_bytes)


def kept_for(node: str, work: Work) -> str:
    """The step that a worker is kept for after a task, because the step loads something (`setup`, a GPU); else ""."""
    loads = isinstance(work, MapWork) and stage_of(work.module, LayerStage).setup is not None
    return node if loads or needs_of(work).gpus else ""


def _data_bytes(work: Work) -> int:
    match work:
        case Preview():
            return 0
        case IndexInput():
            return INDEXING
        case Read():
            return 2 * work.part_bytes
        case MapWork() | Scatter():
            return 2 * _file_bytes(work.layers)
        case Merge():
            return SORTING * IN_MEMORY
        case Reduce():
            return SORTING * min(_memory(work.segments), IN_MEMORY)
        case Collect():
            return SORTING * _memory(work.segments)
        case Build():
            return BUILDING * _memory(work.segments)
        case FitWork():
            return min(2 * sum(map(_file_bytes, work.inputs)), FITTED_BYTES)
    return 0


def bytes_read(work: Work) -> int:
    """Bytes that a task reads, as stored or, for an exchange, in memory; known before it runs. Layers of which it only
    reads verdicts count 0, and so do hashing and tasks that read no data.
    """
    match work:
        case Read():
            return sum(map(_piece_bytes, work.pieces))
        case MapWork() | Scatter():
            return _content_bytes(work.layers, work.columns)
        case Merge():
            span = work.last - work.first + 1
            return sum(file.part.file_bytes * min(span, file.segments) // max(file.segments, 1) for file in work.files)
        case Reduce() | Build():
            return _memory(work.segments)
        case Collect():
            return _memory(work.segments) + work.documents.rows
        case FitWork():
            return sum(map(_content_bytes, work.inputs, work.columns))
    return 0


def pieces_read(work: Work) -> int:
    """Segments that a task reads; each takes some time, even if it is small."""
    if isinstance(work, Merge):
        return sum(min(work.last - work.first + 1, file.segments) for file in work.files)
    return len(work.segments) if isinstance(work, Reduce | Collect | Build) else 0


def _piece_bytes(piece: Piece) -> int:
    if piece.stop is not None:
        return piece.stop - piece.start
    if piece.view is not None:
        return max(0, piece.view.size - piece.start)
    return max(0, piece.content.size - piece.start) if piece.content is not None else 0


def _content_bytes(layers: Sequence[Part], columns: Columns) -> int:
    only_verdicts = gated_only(len(layers), columns)
    return sum(part.file_bytes for part, only in zip(layers, only_verdicts, strict=True) if not only)


def _memory(segments: Sequence[Segment]) -> int:
    return segments.memory if isinstance(segments, SegmentList) else sum(segment.memory for segment in segments)


def _file_bytes(parts: Iterable[Part]) -> int:
    return sum(part.file_bytes for part in parts)

"""What a task takes while it runs, about: executors share out a machine's memory by it, and clusters ask for so much.

Bounds of stages and of the engine say most of it (a part, a range of keys, a shard); what is measured is in the cost of
every task (`peak_rss_bytes`), and `python -m bench reducers` compares. How long it takes goes by the bytes that it
reads.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gristmill.engine.work.shuffle import IN_MEMORY
from gristmill.engine.work.task import Build, Collect, Fit, Map, Merge, Preview, Read, Reduce, Scatter, Work, gated_only
from gristmill.recipe.columns import Columns
from gristmill.stages.contract import Piece
from gristmill.store.segments import Segment, SegmentList
from gristmill.store.store import Part

PROCESS_BYTES = 250 << 20
"""A worker that has imported and compiled everything and holds no data."""
SORTING = 4
"""Records as they are read, in one piece, sorted, and what is made of them."""
BUILDING = 3
"""Records of a set of files, in their order, and the files."""
FITTED_BYTES = 1 << 30
"""A fit reads all documents one batch after the other; what it gathers is its own affair."""


@dataclass(frozen=True)
class Needs:
    memory_bytes: int
    cores: int = 1
    """Stages run on one: kernels let go of Python's lock, but none starts a thread of its own."""


def needs_of(work: Work) -> Needs:
    return Needs(PROCESS_BYTES + _data_bytes(work))


def _data_bytes(work: Work) -> int:
    match work:
        case Preview():
            return 0
        case Read():
            return 2 * work.part_bytes
        case Map() | Scatter():
            return 2 * _file_bytes(work.layers)
        case Merge():
            return SORTING * IN_MEMORY
        case Reduce():
            return SORTING * min(_memory(work.segments), IN_MEMORY)
        case Collect():
            return SORTING * _memory(work.segments)
        case Build():
            return BUILDING * _memory(work.segments)
        case Fit():
            return min(2 * sum(map(_file_bytes, work.inputs)), FITTED_BYTES)
    return 0


def bytes_read(work: Work) -> int:
    """What a task reads, as it lies there, or of an exchange in memory: known before it runs. Of a layer of which it
    reads nothing but verdicts, none; of hashing, and of what reads no data, none.
    """
    match work:
        case Read():
            return sum(map(_piece_bytes, work.pieces))
        case Map() | Scatter():
            return _content_bytes(work.layers, work.columns)
        case Merge():
            span = work.last - work.first + 1
            return sum(file.part.file_bytes * min(span, file.segments) // max(file.segments, 1) for file in work.files)
        case Reduce() | Build():
            return _memory(work.segments)
        case Collect():
            return _memory(work.segments) + work.documents.rows
        case Fit():
            return sum(map(_content_bytes, work.inputs, work.columns))
    return 0


def pieces_read(work: Work) -> int:
    """Segments that a task reads, each of which takes a while, however small it is."""
    if isinstance(work, Merge):
        return sum(min(work.last - work.first + 1, file.segments) for file in work.files)
    return len(work.segments) if isinstance(work, Reduce | Collect | Build) else 0


def _piece_bytes(piece: Piece) -> int:
    if piece.stop is not None:
        return piece.stop - piece.start
    return max(0, piece.content.size - piece.start) if piece.content is not None else 0


def _content_bytes(layers: Sequence[Part], columns: Columns) -> int:
    only_verdicts = gated_only(len(layers), columns)
    return sum(part.file_bytes for part, only in zip(layers, only_verdicts, strict=True) if not only)


def _memory(segments: Sequence[Segment]) -> int:
    return segments.memory if isinstance(segments, SegmentList) else sum(segment.memory for segment in segments)


def _file_bytes(parts: Iterable[Part]) -> int:
    return sum(part.file_bytes for part in parts)

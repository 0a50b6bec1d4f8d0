"""What a task takes while it runs, about: executors share out a machine's memory by it, and clusters ask for so much.

Bounds of stages and of the engine say most of it (a part, a range of keys, a shard); what is measured is in the cost of
every task (`peak_rss_bytes`), and `python -m bench reducers` compares.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from gristmill.engine.work.shuffle import IN_MEMORY
from gristmill.engine.work.task import Build, Collect, Fit, Map, Merge, Read, Reduce, Scatter, Work
from gristmill.store.segments import Segment
from gristmill.store.store import Part

PROCESS_BYTES = 250 << 20
"""A worker that has imported and compiled everything and holds no data."""
SORTING = 4
"""Records as they are read, in one piece, sorted, and what is made of them."""
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
            return 3 * _memory(work.segments)
        case Fit():
            return min(2 * sum(map(_file_bytes, work.inputs)), FITTED_BYTES)
    return 0


def _memory(segments: Iterable[Segment]) -> int:
    return sum(segment.memory for segment in segments)


def _file_bytes(parts: Iterable[Part]) -> int:
    return sum(part.file_bytes for part in parts)

"""Finding the record that kills workers, by halving what a task reads until one record is left.

Trials go through the executor like any task and store nothing, so this works the same on every executor.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from gristmill.engine.executor import Executor, WorkerDied
from gristmill.engine.task import Map, Read, Task, with_work
from gristmill.stages.contract import Piece

MOST_POISONED = 16
"""Records of one task that may be given up before the fault is taken to be the stage's or the machine's."""
FARTHEST = 1 << 50
"""No position in a file lies beyond this."""


class NothingFound(Exception):
    """The task dies, but no single record of it does: too little memory, or a kill from outside."""


async def isolate(task: Task, executor: Executor) -> Task:
    """The task without its next fatal record, which becomes a row with a reason."""
    if isinstance(task.work, Read):
        return await _isolate_position(task, task.work, executor)
    if isinstance(task.work, Map):
        return await _isolate_row(task, task.work, executor)
    raise NothingFound


async def _isolate_row(task: Task, work: Map, executor: Executor) -> Task:
    if len(work.poisoned) >= MOST_POISONED:
        raise NothingFound

    async def survives(start: int, stop: int) -> bool:
        return await _survives(replace(with_work(task, rows=(start, stop)), probe=True), executor)

    row = await _first_fatal(0, work.layers[0].rows, survives)
    return with_work(task, poisoned=(*work.poisoned, row))


async def _isolate_position(task: Task, work: Read, executor: Executor) -> Task:
    if len(work.poisoned) >= MOST_POISONED:
        raise NothingFound

    async def pieces_survive(pieces: Sequence[Piece]) -> bool:
        return await _survives(replace(with_work(task, pieces=tuple(pieces)), probe=True), executor)

    async def some_survive(start: int, stop: int) -> bool:
        return await pieces_survive(work.pieces[start:stop])

    index = await _first_fatal(0, len(work.pieces), some_survive)
    piece = work.pieces[index]

    async def stretch_survives(start: int, stop: int) -> bool:
        return await pieces_survive([replace(piece, start=start, stop=stop)])

    stop = piece.stop if piece.stop is not None else await _reach(piece.start, stretch_survives)
    position = await _first_fatal(piece.start, stop, stretch_survives)
    detail = "the reader killed its worker on this record alone"
    after = replace(piece, start=position + 1)
    pieces = [replace(piece, stop=position), replace(piece, start=position, stop=position), after]
    if not await stretch_survives(position + 1, position + 2):
        # The reader cannot get past the place at all: the rest of the file is out of reach.
        detail = "the reader killed its worker here, and cannot go on behind it: the rest of the file is lost"
        pieces.pop()
    kept = [part for part in pieces if part.stop is None or part.stop > part.start or part is pieces[1]]
    return with_work(
        task,
        pieces=(*work.pieces[:index], *kept, *work.pieces[index + 1 :]),
        poisoned=(*work.poisoned, (piece.name, position, detail)),
    )


async def _reach(start: int, survives: Callable[[int, int], Awaitable[bool]]) -> int:
    """A stop far enough that reading from `start` dies."""
    width = 1 << 20
    while start + width < FARTHEST:
        if not await survives(start, start + width):
            return start + width
        width *= 2
    raise NothingFound


async def _first_fatal(start: int, stop: int, survives: Callable[[int, int], Awaitable[bool]]) -> int:
    """The first unit of [start, stop) that dies alone."""
    while stop - start > 1:
        middle = (start + stop) // 2
        if await survives(start, middle):
            start = middle
        else:
            stop = middle
    if await survives(start, stop):
        raise NothingFound
    return start


async def _survives(task: Task, executor: Executor) -> bool:
    try:
        await executor.run(task)
    except WorkerDied:
        return False
    return True

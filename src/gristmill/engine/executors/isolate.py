"""Finds the record that ends its worker, by bisecting what a task reads until one record is left.

Only deaths that a process causes itself lead the search; after any other death the same probe runs again. The record is
given up if it ends TIMES new workers in a row, and the same task without any record ends none. Probes store nothing.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from gristmill.engine.executors.attempts import Attempts
from gristmill.engine.executors.executor import StartWorker, WorkerDied
from gristmill.engine.work.task import MapWork, Read, Task, with_work
from gristmill.places import exact

TIMES = 3
"""New workers that a record must end, one after the other."""
FARTHEST = 1 << 50
"""Larger than any position in a file."""

Crash = Callable[[int, int], Awaitable[WorkerDied | None]]
"""How a worker ends itself when it reads the units from start to stop; None if it survives."""


class Search:
    """The search for one fatal record of a task, with workers that run alone on their machine."""

    def __init__(self, attempts: Attempts, start: StartWorker) -> None:
        self._attempts = attempts
        self._task = attempts.task
        self._start = start

    async def find(self) -> Task | None:
        """The task without a fatal record, which becomes a row with a reason; None if no single record is fatal."""
        work = self._task.work
        if isinstance(work, Read | MapWork):
            self._attempts.note("searching for the record that kills its worker")
        if isinstance(work, Read):
            return await self._find_position(work)
        return await self._find_row(work) if isinstance(work, MapWork) else None

    async def _find_row(self, work: MapWork) -> Task | None:
        async def crash(start: int, stop: int) -> WorkerDied | None:
            return await self._crash(rows=(start, stop))

        rows = work.layers[0].rows
        if rows > 2 and await _all_fatal((0, rows // 2, rows - 1), crash):
            raise self._attempts.stop("any single document is enough, so the step is the cause")
        fatal = await _first_fatal(0, rows, crash)
        detail = None if fatal is None else await _evidence(fatal, crash, fatal)
        return None if detail is None else with_work(self._task, poisoned=(*work.poisoned, (fatal, detail)))

    async def _find_position(self, work: Read) -> Task | None:
        async def crash_on_pieces(start: int, stop: int) -> WorkerDied | None:
            return await self._crash(pieces=work.pieces[start:stop])

        index = await _first_fatal(0, len(work.pieces), crash_on_pieces)
        if index is None:
            return None
        piece = work.pieces[index]

        async def crash(start: int, stop: int) -> WorkerDied | None:
            return await self._crash(pieces=(replace(piece, start=start, stop=stop),))

        stop = piece.stop if piece.stop is not None else await _reach(piece.start, crash)
        position = None if stop is None else await _first_fatal(piece.start, stop, crash)
        detail = None if position is None else await _evidence(position, crash, position)
        if position is None or detail is None:
            return None
        after = [replace(piece, start=position + 1)] if piece.stop is None or piece.stop > position + 1 else []
        if after and await _evidence(position + 1, crash, position):
            detail, after = f"{detail}; the reader cannot continue after it: the rest of the file is lost", []
        before = [replace(piece, stop=position)] if position > piece.start else []
        pieces = (*before, replace(piece, start=position, stop=position), *after)
        return with_work(
            self._task,
            pieces=(*work.pieces[:index], *pieces, *work.pieces[index + 1 :]),
            poisoned=(*work.poisoned, (exact(piece.name), position, detail)),
        )

    async def _crash(self, **changes: object) -> WorkerDied | None:
        """How a worker ends itself on a part of what the task reads; None if it survives."""
        probe = replace(with_work(self._task, **changes), probe=True)
        end = await self._attempts.in_new_worker(probe, self._start)
        return end if isinstance(end, WorkerDied) else None


async def _all_fatal(units: Iterable[int], crash: Crash) -> bool:
    """Whether each unit alone is fatal. A search would lose many more workers, and the models that they load."""
    for unit in units:
        if await crash(unit, unit + 1) is None:
            return False
    return True


async def _evidence(unit: int, crash: Crash, control: int) -> str | None:
    """How one record ends its workers, for its row; None if one survives it, or if reading nothing from `control` is
    fatal, too.
    """
    causes = set()
    for _ in range(TIMES):
        if (death := await crash(unit, unit + 1)) is None:
            return None
        causes.add(death.cause)
    if await crash(control, control) is not None:
        return None
    cause = causes.pop() if len(causes) == 1 else "in more than one way"
    return f"killed its worker {TIMES} of {TIMES} times alone ({cause})"


async def _reach(start: int, crash: Crash) -> int | None:
    """A stop at which reading from `start` is fatal."""
    if await crash(start, FARTHEST) is None:
        return None
    width = 1 << 20
    while start + width < FARTHEST and await crash(start, start + width) is None:
        width *= 2
    return min(start + width, FARTHEST)


async def _first_fatal(start: int, stop: int, crash: Crash) -> int | None:
    """The first unit of [start, stop) that is fatal on its own, as far as one bisection can show."""
    first = True
    while stop - start > 1:
        middle = (start + stop) // 2
        if await crash(start, middle) is not None:
            stop = middle
        elif first and await crash(middle, stop) is None:
            return None  # neither half is fatal
        else:
            start = middle
        first = False
    return start if start < stop and await crash(start, stop) is not None else None

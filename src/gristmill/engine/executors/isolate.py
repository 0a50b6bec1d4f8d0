"""Finds the record that kills workers, by bisecting what a task reads until one record is left.

A kill from outside can mislead the search, so its result is only a suspect; the trial decides (`trial.py`). Probes
store nothing.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from gristmill.engine.executors.executor import StartWorker, WorkerDied
from gristmill.engine.executors.trial import Evidence, Patience, ask_new, is_own_doing, try_record
from gristmill.engine.work.task import MapWork, Read, Task, with_work
from gristmill.places import exact
from gristmill.stages.contract import Piece

FARTHEST = 1 << 50
"""Larger than any position in a file."""
WIDER = 8
"""By which factor each next range near a suspect is wider; the ranges are candidates for the control."""

Survives = Callable[[int, int], Awaitable[bool]]
Isolated = tuple[Task, dict[str, Any]]
"""The task without its next fatal record, which becomes a row with a reason, and the evidence."""


class Search:
    """The search for one fatal record of a task, with workers that run alone on their machine."""

    def __init__(self, task: Task, start: StartWorker, patience: Patience) -> None:
        self._task = task
        self._start = start
        self._patience = patience

    async def find(self) -> Isolated | None:
        """None if no single record is fatal: other kills misled the search, or it takes several. Raises Storm."""
        work = self._task.work
        if isinstance(work, Read):
            return await self._find_position(work)
        return await self._find_row(work) if isinstance(work, MapWork) else None

    async def _find_row(self, work: MapWork) -> Isolated | None:
        def probe(start: int, stop: int) -> Task:
            return self._probe(rows=(start, stop))

        async def survives(start: int, stop: int) -> bool:
            return await self._survives(probe(start, stop))

        rows = work.layers[0].rows
        row = await _first_fatal(0, rows, survives)
        if row is None:
            return None
        nearby = (probe(*some) for some in _nearby(0, row, rows))
        evidence = await self._try(probe(row, row + 1), nearby, probe(row, row))
        if evidence is None:
            return None
        return with_work(self._task, poisoned=(*work.poisoned, (row, evidence.detail))), evidence.of(row)

    async def _find_position(self, work: Read) -> Isolated | None:
        def probe(*pieces: Piece) -> Task:
            return self._probe(pieces=pieces)

        async def some_survive(start: int, stop: int) -> bool:
            return await self._survives(probe(*work.pieces[start:stop]))

        index = await _first_fatal(0, len(work.pieces), some_survive)
        if index is None:
            return None
        piece = work.pieces[index]

        def part_of_piece(start: int, stop: int) -> Task:
            return probe(replace(piece, start=start, stop=stop))

        async def part_survives(start: int, stop: int) -> bool:
            return await self._survives(part_of_piece(start, stop))

        stop = piece.stop if piece.stop is not None else await _reach(piece.start, part_survives)
        at = None if stop is None else await _first_fatal(piece.start, stop, part_survives)
        if at is None or stop is None:
            return None

        def nearby() -> Iterator[Task]:
            yield from (part_of_piece(*found) for found in _nearby(piece.start, at, stop))
            yield from (probe(other) for other in (*reversed(work.pieces[:index]), *work.pieces[index + 1 :]))

        evidence = await self._try(part_of_piece(at, at + 1), nearby(), part_of_piece(at, at))
        if evidence is None:
            return None
        detail = evidence.detail
        after = [replace(piece, start=at + 1)] if piece.stop is None or piece.stop > at + 1 else []
        if after and not await part_survives(at + 1, at + 2):
            # To declare the rest of the file lost is a verdict, too, so it needs a trial.
            rest = await self._try(part_of_piece(at + 1, at + 2), nearby(), part_of_piece(at, at))
            if rest is not None:
                detail, after = f"{detail}; the reader cannot go on behind it: the rest of the file is lost", []
        before = [replace(piece, stop=at)] if at > piece.start else []
        pieces = (*before, replace(piece, start=at, stop=at), *after)
        task = with_work(
            self._task,
            pieces=(*work.pieces[:index], *pieces, *work.pieces[index + 1 :]),
            poisoned=(*work.poisoned, (exact(piece.name), at, detail)),
        )
        return task, evidence.of(exact(piece.name), at)

    async def _try(self, probe: Task, nearby: Iterable[Task], nothing: Task) -> Evidence | None:
        """Try the record against the nearest range that survives and has a record that the stage processes."""
        died = False
        for control in nearby:
            try:
                processed = (await ask_new(control, self._start, self._patience)).values[0]
            except WorkerDied:
                died = True
                continue
            if processed:
                return await try_record(probe, control, "controls beside it", self._start, self._patience)
        if died:
            return None  # its neighbours die, too: no single record is the cause
        return await try_record(probe, nothing, "controls without a record", self._start, self._patience)

    def _probe(self, **changes: object) -> Task:
        return replace(with_work(self._task, **changes), probe=True)

    async def _survives(self, task: Task) -> bool:
        """Whether a probe survives; a death that may have come from outside must happen twice to count."""
        for _ in range(2):
            try:
                await ask_new(task, self._start, self._patience)
                return True
            except WorkerDied as death:
                if death.inside:
                    return False
        return False


async def dies_on_anything(task: Task, death: WorkerDied, start: StartWorker, patience: Patience) -> bool:
    """Whether a step that died by its own fault also dies on the first, the middle and the last document, each alone.
    Without this check, the search would lose many more workers, and the models that they load, before it ends.
    """
    rows = task.work.layers[0].rows if isinstance(task.work, MapWork) else 0
    controls = sorted({0, rows // 2, rows - 1}) if rows else []
    if len(controls) < 3:
        return False
    for row in controls:
        if not is_own_doing(death):
            return False
        try:
            await ask_new(replace(with_work(task, rows=(row, row + 1)), probe=True), start, patience)
            return False
        except WorkerDied as next_death:
            death = next_death
    return is_own_doing(death)


async def _reach(start: int, survives: Survives) -> int | None:
    """A stop at which reading from `start` dies."""
    if await survives(start, FARTHEST):
        return None
    width = 1 << 20
    while start + width < FARTHEST and await survives(start, start + width):
        width *= 2
    return min(start + width, FARTHEST)


async def _first_fatal(start: int, stop: int, survives: Survives) -> int | None:
    """The first unit of [start, stop) that is fatal on its own, as far as one bisection can show."""
    first = True
    while stop - start > 1:
        middle = (start + stop) // 2
        if not await survives(start, middle):
            stop = middle
        elif first and await survives(middle, stop):
            return None  # for instance after a kill from outside: both halves survive, so stop here
        else:
            start = middle
        first = False
    return None if start >= stop or await survives(start, stop) else start


def _nearby(start: int, at: int, stop: int) -> Iterator[tuple[int, int]]:
    """Ranges of [start, stop) near a unit, nearest and narrowest first: all before it, then all after it."""
    edge, width = at, 1
    while edge > start:
        yield max(edge - width, start), edge
        edge, width = edge - width, width * WIDER
    edge, width = at + 1, 1
    while edge < stop:
        yield edge, min(edge + width, stop)
        edge, width = edge + width, width * WIDER

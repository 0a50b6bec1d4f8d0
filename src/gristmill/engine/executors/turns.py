"""Decides which waiting tasks may start: as many as cores, memory and GPUs allow, the lowest order first."""

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from gristmill.stages.contract import Resources

_ONE_SLOT = Resources()


class Turns:
    """Slots, one for each core of a task, and the memory (None: unlimited) and GPUs that tasks share.

    A task that needs more than there is starts when no other task runs.
    """

    def __init__(self, slots: int, memory: int | None = None, gpus: int = 0) -> None:
        self.slots = slots
        self.taken = 0
        self._memory, self._memory_taken = memory, 0
        self._gpus, self._gpus_taken = gpus, 0
        self._waiting: list[tuple[tuple[int, ...], int, Resources, asyncio.Future[None]]] = []
        """Order, number, needs."""
        self._numbers = itertools.count()
        self._held_back = 0
        """How many callers currently hold back all waiting tasks."""
        self._idle: list[asyncio.Future[None]] = []
        """Futures to complete when no task runs."""

    @asynccontextmanager
    async def turn(self, order: tuple[int, ...], needs: Resources = _ONE_SLOT) -> AsyncIterator[None]:
        """Wait for a turn, and hold what a task needs meanwhile."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (order, next(self._numbers), needs, future))
        self.hand_out()
        try:
            await future
            yield
        finally:
            if future.done() and not future.cancelled():  # also if the caller was cancelled just as its turn came
                self._take(needs, -1)
                self.hand_out()

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Within this context, no task starts."""
        self._held_back += 1
        try:
            yield
        finally:
            self._held_back -= 1
            self.hand_out()

    async def all_done(self) -> None:
        """Wait until no task runs."""
        if self.taken:
            self._idle.append(asyncio.get_running_loop().create_future())
            await self._idle[-1]

    def hand_out(self) -> None:
        """Start waiting tasks with what is free."""
        if not self.taken:
            for idle in self._idle:
                if not idle.done():
                    idle.set_result(None)
            self._idle.clear()
        while not self._held_back and self._waiting and self._fits(self._waiting[0][2]):
            *_, needs, future = heapq.heappop(self._waiting)
            if not future.cancelled():
                future.set_result(None)
                self._take(needs, 1)

    def _take(self, needs: Resources, sign: int) -> None:
        self.taken += sign * needs.cores
        self._memory_taken += sign * needs.memory
        self._gpus_taken += sign * needs.gpus

    def fits_beside(self, kept: Sequence[Resources]) -> bool:
        """Whether memory and GPUs suffice for the running tasks and for what idle workers keep."""
        memory, gpus = sum(needs.memory for needs in kept), sum(needs.gpus for needs in kept)
        has_memory = self._memory is None or self._memory_taken + memory <= self._memory
        return has_memory and self._gpus_taken + gpus <= self._gpus

    def _fits(self, needs: Resources) -> bool:
        if not self.taken:
            return self.slots > 0
        return self.taken + needs.cores <= self.slots and self.fits_beside([needs])

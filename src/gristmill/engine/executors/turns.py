"""Who of those that wait may begin: as many at once as there are slots, those with the lowest order first."""

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager


class Turns:
    """Slots, and the memory that those who have one may hold together (None: whatever they like).

    Who needs more than there is has his turn when nobody else has one.
    """

    def __init__(self, slots: int, memory: int | None = None) -> None:
        self.slots = slots
        self.taken = 0
        self._memory = memory
        self._held = 0
        """What those at work are thought to need."""
        self._waiting: list[tuple[tuple[int, ...], int, int, asyncio.Future[None]]] = []
        """Order, number, memory."""
        self._numbers = itertools.count()
        self._held_back = 0
        """By how many all who wait are held back."""
        self._idle: list[asyncio.Future[None]] = []
        """Done when nobody is at work."""

    @asynccontextmanager
    async def turn(self, order: tuple[int, ...], memory: int = 0) -> AsyncIterator[None]:
        """A slot, from the moment that it is one's turn."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (order, next(self._numbers), memory, future))
        self.hand_out()
        try:
            await future
            yield
        finally:
            if future.done() and not future.cancelled():  # also of one who was called off just when it was his turn
                self.taken -= 1
                self._held -= memory
                self.hand_out()

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Nobody begins meanwhile."""
        self._held_back += 1
        try:
            yield
        finally:
            self._held_back -= 1
            self.hand_out()

    async def all_done(self) -> None:
        """Wait until nobody is at work."""
        if self.taken:
            self._idle.append(asyncio.get_running_loop().create_future())
            await self._idle[-1]

    def hand_out(self) -> None:
        """Give free slots to those who wait."""
        if not self.taken:
            for idle in self._idle:
                if not idle.done():
                    idle.set_result(None)
            self._idle.clear()
        while not self._held_back and self._waiting and self.taken < self.slots and self._has_room(self._waiting[0][2]):
            *_, memory, future = heapq.heappop(self._waiting)
            if not future.cancelled():
                future.set_result(None)
                self.taken += 1
                self._held += memory

    def _has_room(self, memory: int) -> bool:
        return self._memory is None or not self.taken or self._held + memory <= self._memory

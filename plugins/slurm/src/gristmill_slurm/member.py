"""A job that reported for work, as the process that runs the recipe sees it."""

import asyncio
import itertools
from collections.abc import Mapping
from typing import Any

from gristmill.engine.executors.executor import WorkerDied
from gristmill_slurm.job import BEAT_S, SILENCE_S
from gristmill_slurm.wire import Wire

NEAR_S = 5.0
"""Seconds before the end of its time that a job which goes was ended by it."""
FAILED = {"OUT_OF_MEMORY", "FAILED"}
"""States of a job that did not lose its machine: it held more memory than it was given (which Slurm without cgroups
calls FAILED, like every other end that a job comes to by itself).
"""


class Member:
    """The connection to a job, and what it has to do."""

    def __init__(self, wire: Wire, hello: Mapping[str, Any]) -> None:
        self._wire = wire
        self._clock = asyncio.get_running_loop().time
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count(1)
        self._heard = self._clock()
        self._ends = self._clock() + hello["left_s"]
        self.job: str = hello["job"]
        self.node: str = hello["node"]
        self.kind: str = hello["kind"]
        self.slots: int = hello["slots"]
        self.memory: int | None = hello["memory_bytes"]
        self.held: dict[int, int] = {}
        """Memory that its tasks are thought to need."""
        self.done = 0
        """Tasks that it has answered."""
        self.idle_since = self._clock()
        self.is_reserved = False
        self.is_draining = False
        """Whether it gets no further task, because somebody waits to have it alone."""
        self.is_gone = False
        self.said_why = ""
        self.fate = ""
        """The state of its job when it was gone."""
        self.ran_out = False
        """Whether it was gone at the end of its time."""

    # What it may be given

    @property
    def is_idle(self) -> bool:
        return not self.held and not self.is_reserved

    @property
    def has_slot(self) -> bool:
        return len(self.held) < self.slots and not (self.is_reserved or self.is_draining or self.is_gone)

    def has_room(self, memory: int) -> bool:
        """One that has nothing to do takes anything: there is none with more."""
        return self.memory is None or not self.held or sum(self.held.values()) + memory <= self.memory

    def has_time(self, needed_s: float) -> bool:
        """Before it has done anything it takes all: there is none with more."""
        return (not self.done and not self.held) or self._ends - self._clock() >= needed_s

    def set_time(self, left_s: float) -> None:
        self._ends = self._clock() + left_s

    def hold(self, number: int, memory: int) -> None:
        self.held[number] = memory

    def release(self, number: int) -> None:
        self.held.pop(number, None)
        self.idle_since = self._clock()
        if not self.held:
            self.is_draining = False

    # What is said

    def send(self, number: int, verb: str, *about: Any) -> None:
        self._wire.send((number, verb, *about))

    async def call(self, verb: str, *about: Any) -> Any:
        """Its answer. Raises what it raised there, or WorkerDied where the job is gone."""
        if self.is_gone:
            raise self._death()
        number = next(self._numbers)
        future = self._calls[number] = asyncio.get_running_loop().create_future()
        self.send(number, verb, *about)
        try:
            answer = await future
        finally:
            self._calls.pop(number, None)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def post(self, verb: str, *about: Any) -> None:
        """Say something that needs no answer."""
        self.send(0, verb, *about)

    def answered(self, number: int, answer: Any) -> None:
        future = self._calls.get(number)
        if future is not None and not future.done():
            self.done += 1
            future.set_result(answer)

    async def hear(self) -> tuple[Any, ...]:
        """The next that it says. EOFError where it is gone."""
        said: tuple[Any, ...] = await self._wire.receive()
        self._heard = self._clock()
        return said

    def beat(self, has_ended: bool) -> None:
        """Give a sign of life; end a connection that has shown none, sooner where Slurm says that the job is over."""
        if self._clock() - self._heard > (2 * BEAT_S if has_ended else SILENCE_S):
            self._wire.close()
        else:
            self.post("beat")

    # The end

    def dismiss(self) -> None:
        if not self.is_gone:
            self.is_gone = True
            self.post("bye")
            self._wire.close()

    def lose(self, state: str) -> None:
        """It is gone, and its job has come to that state."""
        self.is_gone = True
        self.fate = state
        self.ran_out = self._ends <= self._clock() + NEAR_S
        for future in list(self._calls.values()):
            if not future.done():
                future.set_result(self._death())

    def _death(self) -> WorkerDied:
        if self.fate in FAILED:
            return WorkerDied(f"its job is {self.fate}", False, True)
        why = self.said_why or (f"its job is {self.fate}" if self.fate else "its connection ended")
        return WorkerDied(f"job {self.job} on {self.node}: {why}", False, True, machine_lost=True)

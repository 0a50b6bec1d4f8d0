"""A connected job, from the side of the process that runs the recipe."""

import asyncio
import itertools
from collections.abc import Mapping
from typing import Any

from gristmill.engine.executors.executor import WorkerDied
from gristmill_slurm.job import BEAT_S, SILENCE_S
from gristmill_slurm.wire import Wire

NEAR_S = 5.0
"""A job that is lost within this many seconds of its time limit was ended by it."""
FAILED = {"OUT_OF_MEMORY", "FAILED"}
"""States of a job that failed on a healthy machine: it used more memory than it had (Slurm without cgroups calls that
FAILED, like every other failure of a job).
"""


class Member:
    """The connection to a job, and its tasks."""

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
        """Memory that its tasks are expected to need."""
        self.done = 0
        """Finished tasks."""
        self.idle_since = self._clock()
        self.is_reserved = False
        self.is_draining = False
        """Whether it gets no further tasks, because a task waits to run alone in it."""
        self.is_gone = False
        self.said_why = ""
        self.fate = ""
        """The state of the job after it was lost."""
        self.ran_out = False
        """Whether it was lost at its time limit."""

    # What it can run

    @property
    def is_idle(self) -> bool:
        return not self.held and not self.is_reserved

    @property
    def has_slot(self) -> bool:
        return len(self.held) < self.slots and not (self.is_reserved or self.is_draining or self.is_gone)

    def has_room(self, memory: int) -> bool:
        """Whether the memory is enough. An idle job accepts any task, since no job has more."""
        return self.memory is None or not self.held or sum(self.held.values()) + memory <= self.memory

    def has_time(self, needed_s: float) -> bool:
        """Whether the time is enough. A new job accepts any task, since no job has more."""
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

    # Messages

    def send(self, number: int, verb: str, *about: Any) -> None:
        self._wire.send((number, verb, *about))

    async def call(self, verb: str, *about: Any) -> Any:
        """Call the job and return its answer. Raises the job's error, or WorkerDied if the job is gone."""
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
        """Send a message that needs no answer."""
        self.send(0, verb, *about)

    def answered(self, number: int, answer: Any) -> None:
        future = self._calls.get(number)
        if future is not None and not future.done():
            self.done += 1
            future.set_result(answer)

    async def hear(self) -> tuple[Any, ...]:
        """The next message. Raises EOFError if the job is gone."""
        message: tuple[Any, ...] = await self._wire.receive()
        self._heard = self._clock()
        return message

    def beat(self, has_ended: bool) -> None:
        """Send a heartbeat. Close a connection without heartbeats, sooner if Slurm says that the job is over."""
        if self._clock() - self._heard > (2 * BEAT_S if has_ended else SILENCE_S):
            self._wire.close()
        else:
            self.post("beat")

    # Ending

    def dismiss(self) -> None:
        if not self.is_gone:
            self.is_gone = True
            self.post("bye")
            self._wire.close()

    def lose(self, state: str) -> None:
        """Record that the job is lost, with its final state."""
        self.is_gone = True
        self.fate = state
        self.ran_out = self._ends <= self._clock() + NEAR_S
        for future in list(self._calls.values()):
            if not future.done():
                future.set_result(self._death())

    def _death(self) -> WorkerDied:
        if self.fate in FAILED:
            return WorkerDied(f"its job is {self.fate}")
        why = self.said_why or (f"its job is {self.fate}" if self.fate else "its connection ended")
        return WorkerDied(f"job {self.job} on {self.node}: {why}", machine_lost=True)

"""Where tasks run. An executor takes a task and gives its result; how and where is its own affair.

To add one (Ray, Slurm): write a class with these members in a file of its own, and name it in `mill.EXECUTORS`;
`tests/engine/test_executors.py` says what it must do. It must not retry: a worker that dies is reported, and the engine
decides, the same for all of them (`insist.py`). What a task needs is in `work/needs.py`. Priorities are a wish, not a
promise; results never depend on them.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from gristmill.engine.work.memory import Memory
from gristmill.engine.work.perform import perform
from gristmill.engine.work.task import Result, Task
from gristmill.printable import aside
from gristmill.store.store import Store


class WorkerDied(Exception):
    """The process that ran a task ended without an answer: killed, out of memory, a crash in C."""

    def __init__(
        self,
        cause: str,
        inside: bool = False,
        reached: bool = False,
        peak_rss_bytes: int = 0,
        machine_lost: bool = False,
        memory: Memory | None = None,
    ) -> None:
        super().__init__(cause, inside, reached, peak_rss_bytes, machine_lost, memory)
        self.cause = cause
        """SIGSEGV, SIGKILL, `exit code 3`, ..."""
        self.inside = inside
        """What it did itself (a crash in C, an exit), not what may have been done to it (a kill, too little memory)."""
        self.reached = reached
        """Whether it had begun with the task."""
        self.peak_rss_bytes = peak_rss_bytes
        """The most memory that it was seen to hold; 0 when it was not looked at."""
        self.machine_lost = machine_lost
        """Whether its machine went with it (a node down, a job preempted), which says nothing of the task."""
        self.memory = memory
        """Of its machine, when it was given the task; None when nobody looked."""

    def __str__(self) -> str:
        return f"{'crashed' if self.inside else 'was lost'} ({self.cause})"


class StageFailed(Exception):
    """A stage raised: a bug, shown with the worker's traceback."""


class Worker(Protocol):
    """One process that does tasks, one after the other."""

    async def ask(self, task: Task) -> Result:
        """The task's result. Raises WorkerDied, CorruptPart, UserError, or StageFailed."""

    def kill(self) -> None:
        """End it now."""


StartWorker = Callable[[], Awaitable[Worker]]
"""Starts a worker that has done nothing yet. Raises UserError where none can be started."""


class Executor(Protocol):
    """Runs tasks somewhere."""

    @property
    def slots(self) -> int:
        """How many tasks it runs at once."""

    several_machines: bool
    """Whether one of them may be slow where others are not: then a straggler is run twice (`stragglers.py`)."""

    async def run(self, task: Task) -> Result:
        """The task's result. Raises WorkerDied, CorruptPart, UserError, or StageFailed."""

    def alone(self) -> AbstractAsyncContextManager[StartWorker]:
        """Wait until no task runs, hold back all others, and give a way to start workers that have it all."""

    def close(self) -> None:
        """End every worker now. Nothing that is half done may look finished."""


class InlineExecutor:
    """Runs tasks in this process, one after the other: for a store that no other process can see.

    It is its own worker, and a task that ends the process ends the run.
    """

    slots = 1
    several_machines = False

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self, task: Task) -> Result:
        await asyncio.sleep(0)
        with aside():
            return perform(task, self._store)

    async def ask(self, task: Task) -> Result:
        return await self.run(task)

    def kill(self) -> None:
        return

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[StartWorker]:
        async def start() -> Worker:
            return self

        yield start

    def close(self) -> None:
        return

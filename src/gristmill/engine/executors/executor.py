"""Where tasks run. An executor takes a task and gives its result; how and where is its own affair.

To add one, write a class with these members, and register it (`registry.py`);
`tests/engine/test_executors.py` says what it must do. It must not retry: a worker that dies is reported, and the engine
decides, the same for all of them (`insist.py`). What a task needs is in `work/needs.py`. Priorities are a wish, not a
promise; results never depend on them.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, TypeVar

from gristmill.counted import counted, size
from gristmill.engine.work.memory import Memory, total_bytes, visible_gpus
from gristmill.engine.work.perform import perform
from gristmill.engine.work.setup import release
from gristmill.engine.work.task import Result, Task
from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.printable import aside
from gristmill.stages.contract import Resources
from gristmill.store.store import Store

Made = TypeVar("Made")


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

    def lacks(self, needs: Resources) -> str | None:
        """What a task needs that no machine here has: `1 GPU, and this machine has none`; None: it can run."""

    def alone(self, needs: Resources) -> AbstractAsyncContextManager[StartWorker]:
        """Wait until no task runs, hold back all others, and give a way to start workers that have it all."""

    def close(self) -> None:
        """End every worker now. Nothing that is half done may look finished."""


async def in_thread(call: Callable[[], Made], discard: Callable[[Made], None] = lambda _: None) -> Made:
    """What a call gives that may take long or hang, while the loop goes on. A caller that is cancelled does not wait
    for the thread, and `discard` gets what comes too late.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Made] = loop.create_future()

    def settle(made: list[Made], error: BaseException | None) -> None:
        if future.done():
            for late in made:
                discard(late)
        elif error is not None:
            future.set_exception(error)
        else:
            future.set_result(made[0])

    def work() -> None:
        made: list[Made] = []
        error = None
        try:
            made.append(call())
        except BaseException as failure:
            error = failure
        try:
            loop.call_soon_threadsafe(settle, made, error)
        except RuntimeError:  # the loop is over
            for late in made:
                discard(late)

    threading.Thread(target=work, name="gristmill-call", daemon=True).start()
    return await future


def lacking(needs: Resources, memory: float | None, gpus: int, where: str = "this machine") -> str | None:
    """What a task needs that a machine with so much memory and so many GPUs does not have."""
    if needs.gpus > gpus:
        return f"{counted(needs.gpus, 'GPU')}, and {where} has {gpus or 'none'}"
    if memory is not None and needs.memory > memory:
        return f"{size(needs.memory)} of memory, and {where} has {size(memory)}"
    return None


class InlineExecutor:
    """Runs tasks in this process, one after the other: for a store that no other process can see.

    It is its own worker, and a task that ends the process ends the run.
    """

    slots = 1
    several_machines = False

    def __init__(self, store: Store, workers: int | None = None, **_: Any) -> None:
        if workers not in (None, 1):
            raise UserError(
                f"{option('workers', workers)} asks for processes, and this run has one: a store in memory, or "
                f"{option('executor', 'inline')}, is for this process alone. Leave {option('workers')} out."
            )
        self._store = store

    async def run(self, task: Task) -> Result:
        await asyncio.sleep(0)
        with aside():
            return perform(task, self._store)

    def lacks(self, needs: Resources) -> str | None:
        return lacking(needs, total_bytes(), len(visible_gpus()))

    async def ask(self, task: Task) -> Result:
        return await self.run(task)

    def kill(self) -> None:
        return

    @asynccontextmanager
    async def alone(self, needs: Resources) -> AsyncIterator[StartWorker]:
        async def start() -> Worker:
            return self

        yield start

    def close(self) -> None:
        release()

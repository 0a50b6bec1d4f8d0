"""The interface of executors: an executor runs a task somewhere and returns its result.

To add one, write a class with these members and register it (`registry.py`); `tests/engine/test_executors.py` defines
what it must do. It must not retry: it reports a worker that dies, and the engine decides, the same way for all
executors (`insist.py`). What a task needs is in `work/needs.py`. Priorities are a hint; results never depend on them.
"""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Protocol, TypeVar

from gristmill.counted import counted, size
from gristmill.engine.work.memory import total_bytes, visible_gpus
from gristmill.engine.work.perform import perform
from gristmill.engine.work.setup import release
from gristmill.engine.work.task import Result, Task
from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.printable import aside
from gristmill.stages.contract import Resources
from gristmill.stopping import TaskStopped, heeded
from gristmill.store.store import Store

Value = TypeVar("Value")


class WorkerDied(Exception):
    """The process that ran a task ended without an answer: killed, out of memory, a crash in C."""

    def __init__(self, cause: str, inside: bool = False, peak_rss_bytes: int = 0, machine_lost: bool = False) -> None:
        super().__init__(cause, inside, peak_rss_bytes, machine_lost)
        self.cause = cause
        """SIGSEGV, SIGKILL, `exit code 3`, ..."""
        self.inside = inside
        """Whether it caused its own end (a crash in C, an exit); otherwise it was perhaps killed or out of memory."""
        self.peak_rss_bytes = peak_rss_bytes
        """The most memory that it was observed to hold; 0 if it was not observed."""
        self.machine_lost = machine_lost
        """Whether its machine was lost, too (a node down, a job preempted), so that the task is not to blame."""

    def __str__(self) -> str:
        return f"{'crashed' if self.inside else 'was lost'} ({self.cause})"


class StageFailed(Exception):
    """A stage raised an exception: a bug, shown with the worker's traceback."""


class Worker(Protocol):
    """One process that runs tasks, one after the other."""

    async def ask(self, task: Task) -> Result:
        """Run a task. Raises WorkerDied, CorruptPart, UserError, or StageFailed."""

    def kill(self) -> None:
        """End it now."""


StartWorker = Callable[[], Awaitable[Worker]]
"""Starts a worker that has not run anything yet. Raises UserError if none can be started."""


class Begun(Protocol):
    """Hears that a worker gets a task, and where it is; only for display."""

    def __call__(self, task: Task, where: str = ..., /) -> None: ...


class Executor(Protocol):
    """Runs tasks somewhere."""

    @property
    def slots(self) -> int:
        """How many tasks it runs at once."""

    several_machines: bool
    """Whether one machine may be slower than others: then a straggler is run twice (`stragglers.py`)."""

    async def run(self, task: Task) -> Result:
        """Run a task. Raises WorkerDied, CorruptPart, UserError, or StageFailed."""

    def lacks(self, needs: Resources) -> str | None:
        """What a task needs that no machine here has, such as `1 GPU, but this machine has none`; None if it fits."""

    def alone(self, needs: Resources) -> AbstractAsyncContextManager[StartWorker]:
        """Wait until no task runs, hold back others, and yield a function that starts workers with all resources."""

    def close(self) -> None:
        """End every worker now. Unfinished work must not look finished."""


async def in_thread(call: Callable[[], Value], discard: Callable[[Value], None] = lambda _: None) -> Value:
    """The value of a call that may take long or hang, while the event loop continues. A cancelled caller does not wait
    for the thread, and `discard` gets a value that comes too late.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Value] = loop.create_future()

    def settle(values: list[Value], error: BaseException | None) -> None:
        if future.done():
            for late in values:
                discard(late)
        elif error is not None:
            future.set_exception(error)
        else:
            future.set_result(values[0])

    def work() -> None:
        values: list[Value] = []
        error = None
        try:
            values.append(call())
        except BaseException as failure:
            error = failure
        try:
            loop.call_soon_threadsafe(settle, values, error)
        except RuntimeError:  # the loop is over
            for late in values:
                discard(late)

    threading.Thread(target=work, name="gristmill-call", daemon=True).start()
    return await future


def lacking(needs: Resources, memory: float | None, gpus: int, where: str = "this machine") -> str | None:
    """What a task needs that a machine with this much memory and this many GPUs does not have; None if it has all."""
    if needs.gpus > gpus:
        return f"{counted(needs.gpus, 'GPU')}, but {where} has {gpus or 'none'}"
    if memory is not None and needs.memory > memory:
        return f"{size(needs.memory)} of memory, but {where} has {size(memory)}"
    return None


@contextmanager
def _stoppable() -> Iterator[None]:
    """A signal ends what this thread computes, which would otherwise block the loop that handles it."""

    def stop(*_: object) -> None:
        raise TaskStopped

    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, stop) for number in (heeded() if is_main else ())}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class InlineExecutor:
    """Runs tasks in this process, one after the other: for a store that no other process can access.

    It is its own worker, and a task that ends the process ends the run.
    """

    slots = 1
    several_machines = False

    def __init__(self, store: Store, workers: int | None = None, begun: Begun = lambda *_: None, **_: object) -> None:
        if workers not in (None, 1):
            raise UserError(
                f"{option('workers', workers)} does not apply: a store in memory, or {option('executor', 'inline')}, "
                f"runs tasks in this process only. Omit {option('workers')}."
            )
        self._store = store
        self._begun = begun
        self._is_stopped = False

    async def run(self, task: Task) -> Result:
        self._begun(task)
        await asyncio.sleep(0)
        try:
            if not self._is_stopped:  # the loop may begin other tasks before it heeds a signal
                with aside(), _stoppable():
                    return perform(task, self._store)
        except TaskStopped:
            self._is_stopped = True
        await asyncio.Event().wait()  # until the loop, which has got the signal too, cancels everything
        raise asyncio.CancelledError

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

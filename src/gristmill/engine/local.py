"""The local executor: a pool of processes on this machine.

A worker that dies takes only its task with it: its pipe closes, the task is reported as WorkerDied, and a new
worker is started when one is next needed. Workers start from a fork server that has imported the stages already
(milliseconds instead of seconds) and end by themselves when the process that started them is gone.
"""

import asyncio
import heapq
import itertools
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any

from gristmill.engine.executor import StageFailed, WorkerDied
from gristmill.engine.task import Result, Task
from gristmill.errors import UserError
from gristmill.printable import guard_streams
from gristmill.store.store import CorruptPart, Store


class LocalExecutor:
    """Runs up to `workers` tasks at once, each in a process of its own; those with the lowest order first."""

    def __init__(self, store: Store, workers: int, preload: Sequence[str] = ()) -> None:
        self.slots = workers
        self._free = workers
        self._store = store
        self._context: ForkServerContext = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["gristmill.engine.perform", *preload])
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._waiting: list[tuple[tuple[int, ...], int, asyncio.Future[None]]] = []
        self._counter = itertools.count()

    async def run(self, task: Task) -> Result:
        await self._turn(task.order)
        try:
            answer = await self._ask(task)
        finally:
            self._give_slot_back()
        if isinstance(answer, BaseException):
            raise answer
        assert isinstance(answer, Result)
        return answer

    async def _ask(self, task: Task) -> Any:
        worker = self._idle.pop() if self._idle else _Worker(self._context, self._store)
        self._busy.add(worker)
        try:
            answer = await worker.ask(task)
        except BaseException:
            worker.kill()
            raise
        finally:
            self._busy.discard(worker)
        self._idle.append(worker)
        return answer

    def close(self) -> None:
        for worker in [*self._busy, *self._idle]:
            worker.kill()
        self._busy.clear()
        self._idle.clear()

    async def _turn(self, order: tuple[int, ...]) -> None:
        if self._free:
            self._free -= 1
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (order, next(self._counter), future))
        await future

    def _give_slot_back(self) -> None:
        while self._waiting:
            future = heapq.heappop(self._waiting)[2]
            if not future.cancelled():
                future.set_result(None)
                return
        self._free += 1


class _Worker:
    """One process and the pipe to it."""

    def __init__(self, context: ForkServerContext, store: Store) -> None:
        self._pipe, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(target=_serve, args=(theirs, store), daemon=True)
        with _no_main_module():
            self._process.start()
        theirs.close()

    async def ask(self, task: Task) -> Any:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[None] = loop.create_future()
        descriptor = self._pipe.fileno()
        loop.add_reader(descriptor, lambda: None if answered.done() else answered.set_result(None))
        try:
            self._pipe.send(task)
            await answered
            return self._pipe.recv()
        except (EOFError, ConnectionError):
            raise WorkerDied(self._cause_of_death()) from None
        finally:
            loop.remove_reader(descriptor)

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()

    def _cause_of_death(self) -> str:
        self._process.join(5)
        code = self._process.exitcode
        if code is None or code >= 0:
            return f"ended with exit code {code}"
        name = signal.Signals(-code).name
        return f"killed by {name}" + (" (often: out of memory)" if name == "SIGKILL" else "")


@contextmanager
def _no_main_module() -> Iterator[None]:
    """Keep a new process from importing the main program again: workers need none of it, and it takes time."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _serve(pipe: Connection, store: Store) -> None:
    """A worker's life: tasks in, answers out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    guard_streams()  # what a step or a library prints about a document
    _use_one_core()
    from gristmill.engine.perform import perform

    inbox: list[Task] = []
    arrived = threading.Condition()

    def listen() -> None:
        # The pipe is read in a thread so that a closed one (the parent is gone) ends a busy worker too.
        while True:
            try:
                task = pipe.recv()
            except (EOFError, OSError):
                os._exit(1)
            with arrived:
                inbox.append(task)
                arrived.notify()

    threading.Thread(target=listen, daemon=True).start()
    while True:
        with arrived:
            arrived.wait_for(lambda: inbox)
            task = inbox.pop()
        answer: Result | BaseException
        try:
            answer = perform(task, store)
        except (UserError, CorruptPart) as error:
            answer = error
        except Exception:
            answer = StageFailed(f"{task.node}, {task.label}:\n{traceback.format_exc()}")
        pipe.send(answer)


def _use_one_core() -> None:
    """Parallelism is between tasks; a task that starts threads of its own would slow its neighbours."""
    import pyarrow as pa

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)

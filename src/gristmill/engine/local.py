"""The local executor: a pool of processes on this machine.

A worker that dies takes only its task with it: its pipe closes, the task is reported as WorkerDied, and a new
worker is started when one is next needed. Workers start from a fork server that has imported the stages already
(milliseconds instead of seconds) and end by themselves when the process that started them is gone. A fork server
that is killed costs the worker that was about to start; the next one starts another server.
"""

import asyncio
import heapq
import itertools
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any

from gristmill.engine.executor import StageFailed, StartWorker, WorkerDied
from gristmill.engine.memory import peak_bytes
from gristmill.engine.task import Result, Task
from gristmill.errors import UserError
from gristmill.printable import guard_streams
from gristmill.stages import own_code
from gristmill.stages.own_code import Code
from gristmill.store.store import CorruptPart, Store

BEGUN = "begun"
"""What a worker says before it does a task."""
LOOK_EVERY_S = 0.2
"""Seconds between looks at how much memory a busy worker holds."""
CRASHES = {
    *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT),
    *(signal.SIGSYS, signal.SIGTRAP),
}
"""Signals that a process brings upon itself."""
NOT_KNOWN = 255
"""The exit code of a worker whose fork server was gone before it could tell."""


class LocalExecutor:
    """Runs up to `workers` tasks at once, each in a process of its own; those with the lowest order first."""

    def __init__(self, store: Store, workers: int, preload: Sequence[str] = (), code: Code | None = None) -> None:
        self.slots = workers
        self._free = workers
        self._store = store
        self._code = code or {}
        self._context: ForkServerContext = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["gristmill.engine.perform", *preload])
        self._idle: list[_Process] = []
        self._busy: set[_Process] = set()
        self._waiting: list[tuple[tuple[int, ...], int, asyncio.Future[None]]] = []
        self._counter = itertools.count()
        self._one_alone = asyncio.Lock()
        self._drained: asyncio.Future[None] | None = None
        """There while somebody wants to be alone: done when no task runs."""

    async def run(self, task: Task) -> Result:
        await self._turn(task.order)
        try:
            worker = self._take_idle() or self._start()
            self._busy.add(worker)
            try:
                result = await worker.ask(task)
            finally:
                self._busy.discard(worker)
                if worker.is_free:
                    self._idle.append(worker)
                else:
                    worker.kill()
            return result
        finally:
            self._free += 1
            self._hand_out()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[StartWorker]:
        started: list[_Process] = []

        def start() -> _Process:
            started.append(self._start())
            self._busy.add(started[-1])
            return started[-1]

        async with self._one_alone:
            self._drained = asyncio.get_running_loop().create_future()
            self._hand_out()
            try:
                await self._drained
                while self._idle:  # what they hold is memory too
                    self._idle.pop().kill()
                yield start
            finally:
                for worker in started:
                    worker.kill()
                    self._busy.discard(worker)
                self._drained = None
                self._hand_out()

    def close(self) -> None:
        for worker in [*self._busy, *self._idle]:
            worker.kill()
        self._busy.clear()
        self._idle.clear()

    def _start(self) -> "_Process":
        return _Process(self._context, self._store, self._code)

    def _take_idle(self) -> "_Process | None":
        """A worker that waits for work; those that were killed meanwhile had no task to take with them."""
        while self._idle:
            worker = self._idle.pop()
            if not worker.has_ended():
                return worker
            worker.kill()
        return None

    async def _turn(self, order: tuple[int, ...]) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (order, next(self._counter), future))
        self._hand_out()
        await future

    def _hand_out(self) -> None:
        """Give free slots to those who wait, in order; none while somebody wants to be alone."""
        if self._drained is not None:
            if self._free == self.slots and not self._drained.done():
                self._drained.set_result(None)
            return
        while self._free and self._waiting:
            future = heapq.heappop(self._waiting)[2]
            if not future.cancelled():
                future.set_result(None)
                self._free -= 1


class _Process:
    """One worker and the pipe to it."""

    def __init__(self, context: ForkServerContext, store: Store, code: Code) -> None:
        self.is_free = True
        """Whether it may be given a task: it is not at one, and it lives as far as is known."""
        self._ended = False
        self._pipe, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(target=_serve, args=(theirs, store, code), daemon=True)
        try:
            # A resource tracker that was killed is started again, with a warning that helps nobody.
            with _no_main_module(), warnings.catch_warnings(action="ignore"):
                self._process.start()
        except (EOFError, OSError) as error:
            self._pipe.close()
            raise WorkerDied(f"it could not start: the fork server was gone, {type(error).__name__}") from None
        finally:
            theirs.close()

    async def ask(self, task: Task) -> Result:
        loop, arrived = asyncio.get_running_loop(), asyncio.Event()
        descriptor, reached, peak = self._pipe.fileno(), False, 0
        loop.add_reader(descriptor, arrived.set)
        self.is_free = False
        try:
            self._pipe.send(task)
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_EVERY_S):
                        await arrived.wait()
                arrived.clear()
                if not self._pipe.poll():
                    peak = max(peak, peak_bytes(self._process.pid))
                    continue
                answer = self._pipe.recv()
                if answer != BEGUN:
                    break
                reached = True
        except (EOFError, OSError):
            raise self._death(reached, peak) from None
        finally:
            loop.remove_reader(descriptor)
        if isinstance(answer, WorkerDied):
            raise answer
        self.is_free = True
        if isinstance(answer, BaseException):
            raise answer
        assert isinstance(answer, Result)
        return answer

    def has_ended(self) -> bool:
        """Of a worker that is at no task: it says nothing more, so anything to read is the end of the pipe."""
        try:
            return self._pipe.poll()
        except OSError:
            return True

    def kill(self) -> None:
        # Without its fork server the exit code of a living worker reads as NOT_KNOWN.
        if not self._ended and self._process.exitcode in (None, NOT_KNOWN) and self._process.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
        self._ended = True
        self._process.join()
        self._pipe.close()

    def _death(self, reached: bool, peak: int) -> WorkerDied:
        self._process.join(5)
        self._ended = True
        code = self._process.exitcode
        if code is None or code == NOT_KNOWN:
            return WorkerDied("how is not known: the fork server was gone", False, reached, peak)
        if code >= 0:
            return WorkerDied(f"exit code {code}", True, reached, peak)
        names = {item.value: item.name for item in signal.Signals}
        return WorkerDied(names.get(-code, f"signal {-code}"), -code in CRASHES, reached, peak)


@contextmanager
def _no_main_module() -> Iterator[None]:
    """Keep a new process from importing the main program again: workers need none of it, and it takes time."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _serve(pipe: Connection, store: Store, code: Code) -> None:
    """A worker's life: tasks in, answers out. `code` is the user's own, which is not read from files again."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.dup2(2, 1)  # what a step prints is for people, and standard output may be for a program
    guard_streams()  # what a step or a library prints about a document
    _use_one_core()
    own_code.use(code)
    from gristmill.engine.perform import perform

    inbox: list[bytes] = []
    arrived = threading.Condition()

    def listen() -> None:
        # The pipe is read in a thread so that a closed one (the parent is gone) ends a busy worker too.
        while True:
            try:
                sent = pipe.recv_bytes()
            except (EOFError, OSError):
                os._exit(1)
            with arrived:
                inbox.append(sent)
                arrived.notify()

    threading.Thread(target=listen, daemon=True).start()
    while True:
        with arrived:
            arrived.wait_for(lambda: inbox)
            sent = inbox.pop()
        pipe.send(BEGUN)
        answer: Any
        label = "a task that cannot be unpickled"
        try:
            task = _unpickled(sent)
            label = f"{task.node}, {task.label}"
            answer = perform(task, store)
        except (UserError, CorruptPart) as error:
            answer = error
        except MemoryError:
            pipe.send(WorkerDied("MemoryError", False, True, peak_bytes()))
            return
        except BaseException:
            answer = StageFailed(f"{label}:\n{traceback.format_exc()}")
        pipe.send(answer)


def _unpickled(sent: bytes) -> Task:
    """A task; its config is of a class that may be in a module of the user's own, which is imported here."""
    try:
        task: Task = pickle.loads(sent)
    except (Exception, SystemExit) as error:
        if (told := own_code.told(error)) is None:
            raise
        raise UserError(
            f"A worker cannot import what could be imported before: {told}\nThe run stopped; what is finished is kept. "
            "Correct the code and run again."
        ) from None
    return task


def _use_one_core() -> None:
    """Parallelism is between tasks; a task that starts threads of its own would slow its neighbours."""
    import pyarrow as pa

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)

"""The local executor: a pool of processes on this machine.

If a worker dies, only its task is lost: its pipe closes, the task is reported as WorkerDied, and a new worker is
started when one is next needed. Workers start from a fork server that has already imported the stages (milliseconds
instead of seconds), and they end when the process that started them is gone. If the fork server is killed, the next
worker restarts it.
"""

import asyncio
import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from types import ModuleType

from gristmill.engine.executors.executor import Begun, StartWorker, WorkerDied, in_thread, lacking
from gristmill.engine.executors.turns import Turns
from gristmill.engine.executors.worker import COMPILES, RELEASE_S, compile_ahead, serve
from gristmill.engine.work.memory import (
    available_bytes,
    available_cores,
    peak_bytes,
    total_bytes,
    visible_gpus,
)
from gristmill.engine.work.needs import kept_for, needs_of
from gristmill.engine.work.task import Result, Task
from gristmill.errors import UserError
from gristmill.kernels import cache_root
from gristmill.kernels.ahead import to_compile
from gristmill.kernels.code_files import make_private
from gristmill.processes import name_of, runs
from gristmill.stages.contract import Resources
from gristmill.stages.own_code import Code
from gristmill.store.store import Store

STARTS = 8
"""How often in a row a worker may fail to start."""
PAUSE_S = 0.1
"""Seconds to wait after the first failure; doubles each time."""
END_S = 5.0
"""Seconds to wait for the end of a process: one that the kernel cannot end must not hold up the others."""
CLOSE_S = 1.0
"""The same for all processes together when everything ends."""
CHECK_EVERY_S = 0.2
"""Seconds between checks of the memory of a busy worker."""
CRASHES = {
    *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT),
    *(signal.SIGSYS, signal.SIGTRAP),
}
"""Signals that a process causes itself."""
NOT_KNOWN = 255
"""The exit code of a worker whose fork server was gone before it could report one."""


class LocalExecutor:
    """Runs up to `workers` tasks at once, each in its own process; tasks with the lowest order start first.

    It starts no task that needs more cores, memory or GPUs than the others leave; one that needs more memory than the
    machine has runs alone. A worker that loaded something for a step (`setup`, a GPU) is kept for the step's tasks. It
    counts as using what they need until it is ended, which happens when other tasks need its resources.
    """

    several_machines = False

    def __init__(
        self,
        store: Store,
        workers: int | None,
        modules: Sequence[str] = (),
        code: Code | None = None,
        note: Callable[[str], None] = lambda _: None,
        memory: int | None = None,
        begun: Begun = lambda *_: None,
        **_: object,
    ) -> None:
        """`workers` defaults to the number of cores, and `memory`, in bytes for all tasks, to the memory free now."""
        self.slots = workers or available_cores()
        self._gpus = visible_gpus()
        self._note = note
        self._begun = begun
        self._compiles = False
        """Whether a worker reported that it compiles kernels."""
        self._turns = Turns(self.slots, available_bytes() if memory is None else memory, len(self._gpus))
        self._store = store
        self._code = code or {}
        self._context: ForkServerContext = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(
            ["gristmill.engine.executors.fork_server", "gristmill.engine.work.perform", *modules]
        )
        self._stages = modules
        self._compilers: list[_Child] | None = None
        """None until the first worker is started."""
        self._idle: list[_Process] = []
        self._busy: set[_Process] = set()
        self._one_alone = asyncio.Lock()
        self._one_starts = asyncio.Lock()

    def lacks(self, needs: Resources) -> str | None:
        return lacking(needs, total_bytes(), len(self._gpus))

    async def run(self, task: Task) -> Result:
        return await self.run_for(kept_for(task.node, task.work), needs_of(task.work), task)

    async def run_for(self, step: str, needs: Resources, task: Task) -> Result:
        """Run a task in a worker that is kept for a step, or in any worker if `step` is empty."""
        async with self._turns.turn(task.order, needs):
            worker = self._take_idle(step)
            await self._free_resources()
            worker = worker or await self._start(needs.gpus)
            worker.step, worker.needs = step, needs
            self._begun(task)
            try:
                return await worker.ask(task)
            finally:
                self._busy.discard(worker)
                if worker.is_free:
                    self._idle.append(worker)
                else:
                    worker.kill()

    async def _free_resources(self) -> None:
        """End workers that are kept for a step, the longest idle first, until the running tasks have what they need."""
        while (kept := [worker for worker in self._idle if worker.step]) and not self._turns.fits_beside(
            [worker.needs for worker in kept]
        ):
            self._idle.remove(kept[0])
            self._busy.add(kept[0])
            await asyncio.to_thread(kept[0].finish)
            self._busy.discard(kept[0])

    @asynccontextmanager
    async def alone(self, needs: Resources) -> AsyncIterator[StartWorker]:
        started: list[_Process] = []

        async def start() -> _Process:
            started.append(await self._start())
            return started[-1]

        async with self._one_alone:
            with self._turns.held_back():
                await self._turns.all_done()
                for child in [*self._idle, *(self._compilers or ())]:  # they hold memory, too
                    child.finish() if child.step else child.kill()
                self._idle.clear()
                try:
                    yield start
                finally:
                    for worker in started:
                        worker.kill()
                        self._busy.discard(worker)

    def close(self) -> None:
        children = [*self._busy, *self._idle, *(self._compilers or ())]
        kept = [worker for worker in self._idle if worker.step]
        for child in children:  # signal all of them first, so that none runs on while we wait for another
            child.hang_up() if child in kept else child.signal()
        until = time.monotonic() + CLOSE_S
        for child in children:
            child.finish() if child in kept else child.kill(max(0.0, until - time.monotonic()))
        self._busy.clear()
        self._idle.clear()

    async def _start(self, gpus: int = 0) -> "_Process":
        """Start a new worker, with GPUs that no other has, and count it as busy. A failure to start says nothing about
        a task, so it is not a WorkerDied.
        """
        for attempt in range(STARTS):
            try:
                async with self._one_starts:
                    taken = {gpu for worker in (*self._busy, *self._idle) for gpu in worker.gpus}
                    free = [gpu for gpu in self._gpus if gpu not in taken]
                    worker = await in_thread(partial(self._make, free[:gpus]), lambda late: late.kill())
                    self._busy.add(worker)
                    return worker
            except (EOFError, OSError, RuntimeError) as error:
                reason = str(error) or type(error).__name__
            await asyncio.sleep(PAUSE_S * 2**attempt)
        raise UserError(
            f"No worker could be started, {STARTS} times in a row ({reason}), so nothing can run. Finished work is "
            "kept. Either something kills the fork server that workers come from, or this machine is out of processes, "
            "memory or open files (`ulimit -u`, `ulimit -n`). Fix that, or use fewer workers, and run again."
        )

    def _make(self, gpus: Sequence[str]) -> "_Process":
        if self._compilers is None:
            names = to_compile(self._stages)
            self._compilers = [
                _Child(self._context, compile_ahead, names, self._stages) for _ in range(min(self.slots, len(names)))
            ]
        return _Process(self._context, self._store, self._code, self._hear_of_compiling, gpus)

    def _hear_of_compiling(self) -> None:
        if not self._compiles:
            self._compiles = True
            self._note(f"compiling kernels ({_how_often()})")

    def _take_idle(self, step: str) -> "_Process | None":
        """An idle worker for a step; idle workers that were killed meanwhile had no task, so they are dropped."""
        for worker in [worker for worker in reversed(self._idle) if worker.step == step]:
            self._idle.remove(worker)
            if not worker.has_ended():
                self._busy.add(worker)
                return worker
            worker.kill()
        return None


def _how_often() -> str:
    root = cache_root()
    try:
        make_private(root, root)
    except OSError as error:
        why = error.strerror or "no permission"
        return f"again in every run: {root} cannot be written: {why}; set XDG_CACHE_HOME to a folder that can be"
    return "once, 1 to 2 minutes on a new installation"


class _Child:
    """A process and the pipe to it. Raises OSError, EOFError or RuntimeError if it cannot be started."""

    step = ""
    """The step that a worker is kept for; empty if it runs any task."""

    def __init__(self, context: ForkServerContext, target: Callable[..., None], *about: object) -> None:
        self._pipe, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(target=target, args=(theirs, *about), daemon=True)
        try:
            with _no_main_module():
                _ensure_server()
                self._process.start()
        except BaseException:
            self._pipe.close()
            raise
        finally:
            theirs.close()
        assert self._process.pid is not None
        self._name = name_of(self._process.pid)

    def kill(self, patience_s: float = END_S) -> None:
        """End it and wait for its end; only the first call has an effect."""
        if self._pipe.closed:
            return
        self.signal()
        self._process.join(patience_s)
        self._pipe.close()

    def hang_up(self) -> None:
        """Close the pipe: an idle worker then releases what it loaded, and ends."""
        self._pipe.close()

    def finish(self) -> None:
        """End an idle worker; it has a few seconds to release what it loaded."""
        self.hang_up()
        self._process.join(RELEASE_S)
        self.signal()

    def signal(self) -> None:
        if self._lives() and self._process.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)

    def _lives(self) -> bool:
        code = self._process.exitcode
        # Without its fork server, the exit code of a running worker reads as NOT_KNOWN.
        return code is None or (code == NOT_KNOWN and runs(self._name) is True)


class _Process(_Child):
    """One worker."""

    def __init__(
        self,
        context: ForkServerContext,
        store: Store,
        code: Code,
        hear_of_compiling: Callable[[], None],
        gpus: Sequence[str],
    ) -> None:
        environment = dict(os.environ) | ({"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {})
        super().__init__(context, serve, environment, store, code)
        self.gpus = gpus
        self.needs = Resources()
        """What its last task needed."""
        self._hear_of_compiling = hear_of_compiling
        self.is_free = True
        """Whether it can take a task: it runs none, and it is alive as far as is known."""

    async def ask(self, task: Task) -> Result:
        loop, arrived = asyncio.get_running_loop(), asyncio.Event()
        descriptor, reached, peak = self._pipe.fileno(), False, 0
        loop.add_reader(descriptor, arrived.set)
        self.is_free = False
        try:
            self._pipe.send(task)
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(CHECK_EVERY_S):
                        await arrived.wait()
                arrived.clear()
                if not self._pipe.poll():
                    peak = max(peak, peak_bytes(self._process.pid))
                    # Its end of the pipe may still be open in a process that a stage started.
                    if not self._lives() and not self._pipe.poll():
                        raise EOFError
                    continue
                received = self._pipe.recv_bytes()
                if received == COMPILES:
                    self._hear_of_compiling()
                    continue
                if reached:
                    break
                reached = True
        except (EOFError, OSError):
            raise self._death(peak) from None
        finally:
            loop.remove_reader(descriptor)
        answer = ForkingPickler.loads(received)
        self.is_free = not isinstance(answer, WorkerDied)
        if isinstance(answer, BaseException):
            raise answer
        assert isinstance(answer, Result)
        return answer

    def has_ended(self) -> bool:
        """Whether an idle worker has ended: it sends nothing, so anything to read is the end of the pipe."""
        try:
            return self._pipe.poll()
        except OSError:
            return True

    def _death(self, peak: int) -> WorkerDied:
        self._process.join(END_S)
        code = self._process.exitcode
        if code is None:
            return WorkerDied("it closed its pipe but did not end", False, peak)
        if code == NOT_KNOWN:
            return WorkerDied("the cause is unknown: the fork server was gone", False, peak)
        if code >= 0:
            return WorkerDied(f"exit code {code}", True, peak)
        names = {item.value: item.name for item in signal.Signals}
        return WorkerDied(names.get(-code, f"signal {-code}"), -code in CRASHES, peak)


def _ensure_server() -> None:
    """Start the fork server if it does not run.

    A terminal sends Ctrl-C to every process, and one that is still importing would print a traceback. So the server and
    its children block the signal: they end when this process does.
    """
    # Python restarts a resource tracker that was killed, with a useless warning. This comes first because its start
    # unblocks the signal.
    with warnings.catch_warnings(action="ignore"):
        resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _no_main_module() -> Iterator[None]:
    """Keep a new process from importing the main program again: workers do not need it, and it takes time."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main

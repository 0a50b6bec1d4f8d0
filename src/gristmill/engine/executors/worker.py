"""The main loop of a worker: it answers tasks until the process that started it is gone."""

import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

from gristmill.engine.executors.executor import StageFailed, WorkerDied
from gristmill.engine.work.memory import peak_bytes
from gristmill.engine.work.setup import is_loaded, release
from gristmill.engine.work.task import Task
from gristmill.errors import UserError
from gristmill.kernels import compiling
from gristmill.kernels.ahead import compile_all
from gristmill.kernels.code_files import OthersCanWrite
from gristmill.objects.patience import IN_RUN
from gristmill.printable import guard_streams
from gristmill.stages import own_code
from gristmill.stages.own_code import Code
from gristmill.store.store import CorruptPart, Store

BEGUN = "begun"
"""What a worker sends first for every task."""
RELEASE_S = 5.0
"""Seconds that an idle worker has to release what its stages loaded."""
UNABLE = 70
"""Exit code of a worker that cannot send an answer."""
COMPILES = b"compiles"
"""The raw bytes that it sends when it reaches a kernel that this machine has not compiled yet."""


def serve(pipe: Connection, environment: Mapping[str, str], store: Store, code: Code) -> None:
    """Answer every task that comes through the pipe. `code` is the user's own, which is not read from files again.
    `environment` is set because the fork server may come from an earlier run of the same process with another one.
    """
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.excepthook = sys.__excepthook__
    os.dup2(2, 1)  # what a step prints is for people, and standard output may go to a program
    guard_streams(anew=True)  # steps and libraries may print text of documents
    # As in any program on Linux. A lock that a library makes (torch, tqdm) then has no name that must be removed at the
    # end, so a worker that is killed leaks none.
    multiprocessing.set_start_method("fork", force=True)
    IN_RUN.set()
    _use_one_core()
    own_code.use(code)
    compiling.tell = partial(pipe.send_bytes, COMPILES)
    me = os.getpid()
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    may_release = threading.Event()
    threading.Thread(target=_listen, args=(pipe, inbox, may_release), daemon=True).start()
    while True:
        request = inbox.get()
        if not request:
            release()
            os._exit(0)
        may_release.clear()
        reply(pipe, BEGUN)
        answer = _answer(request, store)
        if os.getpid() != me:  # a step forked, and this is its child: only the worker itself answers
            os._exit(0)
        if is_loaded():
            may_release.set()
        reply(pipe, answer)
        if isinstance(answer, WorkerDied):
            os._exit(1)


def compile_ahead(pipe: Connection, names: Sequence[str], stages: Sequence[str]) -> None:
    """Compile kernels until all are done, or until the process that started this one is gone. No task depends on it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.excepthook = sys.__excepthook__
    threading.Thread(target=_listen, args=(pipe, queue.SimpleQueue(), threading.Event()), daemon=True).start()
    compile_all(names, stages)


def _listen(pipe: Connection, inbox: "queue.SimpleQueue[bytes]", may_release: threading.Event) -> None:
    """Read the pipe in a thread, so that a closed pipe (the parent is gone) also ends a busy worker. An idle one that
    loaded something releases it first (an empty message), within RELEASE_S seconds.

    If reading fails for any reason, the worker ends: otherwise the parent would wait for its answer forever.
    """
    try:
        while True:
            inbox.put(pipe.recv_bytes())
    finally:
        if may_release.is_set():
            inbox.put(b"")
            time.sleep(RELEASE_S)
        os._exit(1)


def _answer(request: bytes, store: Store) -> Any:
    """The result of a task, or the error in running or unpickling it."""
    from gristmill.engine.work.perform import perform

    what = "a task that its worker cannot read"
    try:
        task = unpickled(request)
        what = f"{task.node}, {task.label}"
        return perform(task, store)
    except (UserError, CorruptPart, OthersCanWrite) as error:
        return error
    except MemoryError:
        return WorkerDied("MemoryError", peak_rss_bytes=peak_bytes())
    except BaseException:
        return StageFailed(f"{what}:\n{traceback.format_exc()}")


def unpickled(request: bytes) -> Task:
    """A task; its config may be of a class in the user's own code, which is imported here."""
    try:
        task: Task = ForkingPickler.loads(request)
    except (Exception, SystemExit) as error:
        if (message := own_code.trace_in_own_code(error)) is None:
            raise
        raise UserError(
            f"A worker cannot import a module that could be imported before: {message}\nThe run stopped; finished work "
            "is kept. Correct the code and run again."
        ) from None
    return task


def reply(pipe: Connection, answer: object) -> None:
    """Send an answer; if it cannot be pickled, send that as a bug instead of dying without explanation."""
    try:
        data = ForkingPickler.dumps(answer)
    except Exception:
        try:
            message = f"an answer of type {type(answer).__name__} cannot be sent:\n{traceback.format_exc()}"
            data = ForkingPickler.dumps(StageFailed(message))
        except Exception:  # a step removed what Python needs to send anything (`sys.modules.clear()`)
            os._exit(UNABLE)
    try:
        pipe.send_bytes(data)
    except OSError:  # the parent is gone
        os._exit(1)


def _use_one_core() -> None:
    """Use one core: tasks run in parallel, and a task with its own threads would slow its neighbours."""
    import pyarrow as pa

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)

"""A worker's life: tasks in, answers out, until the process that started it is gone."""

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
from gristmill.printable import guard_streams
from gristmill.stages import own_code
from gristmill.stages.own_code import Code
from gristmill.store.store import CorruptPart, Store

BEGUN = "begun"
"""What a worker says first of every task."""
RELEASE_S = 5.0
"""Seconds that an idle worker has to release what its stages loaded."""
UNABLE = 70
"""Exit code of a worker that can send no answer."""
COMPILES = b"compiles"
"""What it says, as it is, when it comes to a kernel that this machine has not compiled yet."""


def serve(pipe: Connection, environment: Mapping[str, str], store: Store, code: Code) -> None:
    """Answer every task that comes through the pipe. `code` is the user's own, which is not read from files again. The
    fork server may be of an earlier run of the same process, whose environment was another.
    """
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.excepthook = sys.__excepthook__
    os.dup2(2, 1)  # what a step prints is for people, and standard output may be for a program
    guard_streams(anew=True)  # what a step or a library prints about a document
    _use_one_core()
    own_code.use(code)
    compiling.tell = partial(pipe.send_bytes, COMPILES)
    me = os.getpid()
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    may_release = threading.Event()
    threading.Thread(target=_listen, args=(pipe, inbox, may_release), daemon=True).start()
    while True:
        asked = inbox.get()
        if not asked:
            release()
            os._exit(0)
        may_release.clear()
        reply(pipe, BEGUN)
        answer = _answer(asked, store)
        if os.getpid() != me:  # a step forked, and this is its child: the worker itself will answer
            os._exit(0)
        if is_loaded():
            may_release.set()
        reply(pipe, answer)
        if isinstance(answer, WorkerDied):
            os._exit(1)


def compile_ahead(pipe: Connection, names: Sequence[str], stages: Sequence[str]) -> None:
    """Compile kernels until all are, or until the process that started this one is gone. No task depends on it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.excepthook = sys.__excepthook__
    threading.Thread(target=_listen, args=(pipe, queue.SimpleQueue(), threading.Event()), daemon=True).start()
    compile_all(names, stages)


def _listen(pipe: Connection, inbox: "queue.SimpleQueue[bytes]", may_release: threading.Event) -> None:
    """The pipe is read in a thread so that a closed one (the parent is gone) ends a busy worker too. An idle one that
    loaded something releases it first (an empty message), if that does not take long.

    A worker that cannot hear is of no use, whatever the reason; somebody would wait for its answer for ever.
    """
    try:
        while True:
            inbox.put(pipe.recv_bytes())
    finally:
        if may_release.is_set():
            inbox.put(b"")
            time.sleep(RELEASE_S)
        os._exit(1)


def _answer(asked: bytes, store: Store) -> Any:
    """What came of a task, or of the attempt to understand it."""
    from gristmill.engine.work.perform import perform

    what = "a task that its worker cannot read"
    try:
        task = unpickled(asked)
        what = f"{task.node}, {task.label}"
        return perform(task, store)
    except (UserError, CorruptPart, OthersCanWrite) as error:
        return error
    except MemoryError:
        return WorkerDied("MemoryError", False, True, peak_bytes())
    except BaseException:
        return StageFailed(f"{what}:\n{traceback.format_exc()}")


def unpickled(asked: bytes) -> Task:
    """A task; its config is of a class that may be in a module of the user's own, which is imported here."""
    try:
        task: Task = ForkingPickler.loads(asked)
    except (Exception, SystemExit) as error:
        if (told := own_code.trace_in_own_code(error)) is None:
            raise
        raise UserError(
            f"A worker cannot import what could be imported before: {told}\nThe run stopped; what is finished is kept. "
            "Correct the code and run again."
        ) from None
    return task


def reply(pipe: Connection, answer: Any) -> None:
    """Send an answer; one that cannot be sent is a bug to tell of, not a death to wonder about."""
    try:
        data = ForkingPickler.dumps(answer)
    except Exception:
        try:
            told = f"an answer of type {type(answer).__name__} cannot be sent:\n{traceback.format_exc()}"
            data = ForkingPickler.dumps(StageFailed(told))
        except Exception:  # a step took away what Python needs to say anything (`sys.modules.clear()`)
            os._exit(UNABLE)
    try:
        pipe.send_bytes(data)
    except OSError:  # nobody is there to answer
        os._exit(1)


def _use_one_core() -> None:
    """Parallelism is between tasks; a task that starts threads of its own would slow its neighbours."""
    import pyarrow as pa

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)

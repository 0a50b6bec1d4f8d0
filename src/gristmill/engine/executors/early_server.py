"""The fork server, forked from a command that has imported everything and done nothing yet.

Starting the server as a new Python would import everything again, which takes a second per run. A process that is
forked before a recipe is read has the modules and nothing else: no thread, no store, no connection, no user code, no
listener. It waits until the first worker is needed, and then becomes Python's own server, with the same arguments. If
it is killed, its replacement is a new Python.
"""

import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import util
from pathlib import Path
from typing import Any, NoReturn, cast

from gristmill.stopping import SIGNALS, heeded

NAME = "gristmill-fork"
"""The name of the server and its workers in `ps`; their arguments are those of the command. Linux allows 15 letters."""
MOST_FILES = 8
_SPAWN = "spawnv_passfds"
"""The function with which Python starts servers; type stubs lack it."""


class _WaitingServer:
    """The process, and our end of the socket at which it waits. The process ends when this end is closed."""

    def __init__(self, pid: int, at: socket.socket) -> None:
        self.pid = pid
        self.at = at


_waiting: _WaitingServer | None = None


def fork_early() -> None:
    """Fork the server if that is safe: if this process had threads, the child would inherit their locks."""
    global _waiting
    if _waiting is not None or _threads() != 1:
        return
    ours, theirs = socket.socketpair()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # the child must get none while it has our handlers
    try:
        pid = os.fork()
        if pid == 0:
            _wait_and_serve(theirs, before)
    except OSError:  # the process limit is reached: starting a worker will report it
        ours.close()
    else:
        _waiting = _WaitingServer(pid, ours)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()


@contextmanager
def taken_up() -> Iterator[None]:
    """Within this context, Python starts its server in the process that waits, if there is one."""
    start: Callable[[Any, Sequence[Any], Sequence[int]], int] = getattr(util, _SPAWN)

    def hand_over(path: object, arguments: Sequence[Any], files: Sequence[int]) -> int:
        code = arguments[-1]
        pid = _hand_over(code, files) if "forkserver" in code else None
        return start(path, arguments, files) if pid is None else pid

    setattr(util, _SPAWN, hand_over)
    try:
        yield
    finally:
        setattr(util, _SPAWN, start)


def _threads() -> int:
    """The threads of this process, including those unknown to Python; 0 if that cannot be read (not Linux)."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 0


def _hand_over(code: str, files: Sequence[int]) -> int | None:
    """Let the waiting process run the code, which refers to files by number. Returns its pid; None if it is gone."""
    global _waiting
    if _waiting is None:
        return None
    waiting, _waiting = _waiting, None
    with waiting.at as at:
        try:
            # A new Python would start with the current environment and folder.
            request = json.dumps([list(files), dict(os.environ), os.getcwd(), code]).encode()
            socket.send_fds(at, [struct.pack("<Q", len(request))], files)
            at.sendall(request)
            return waiting.pid
        except OSError:
            at.close()  # which ends the process
            with suppress(ChildProcessError):
                os.waitpid(waiting.pid, 0)
            return None


def _wait_and_serve(at: socket.socket, mask: set[Any]) -> NoReturn:
    """The main function of the child. It never returns into the parent's code."""
    code = 1
    try:
        for number in heeded():
            signal.signal(number, signal.SIG_DFL)
        # A terminal sends Ctrl-C to every process; this one ends with the command instead.
        signal.pthread_sigmask(signal.SIG_SETMASK, {*mask, signal.SIGINT})
        for file in [int(name) for name in os.listdir("/proc/self/fd")]:
            if file > 2 and file != at.fileno():
                with suppress(OSError):
                    os.close(file)
        with suppress(OSError):
            Path("/proc/self/comm").write_text(NAME)
        size, files, _, _ = socket.recv_fds(at, struct.calcsize("<Q"), MOST_FILES)
        if size:
            numbers, environment, folder, program = json.loads(_received(at, *struct.unpack("<Q", size)))
            at.close()
            os.environ.clear()
            os.environ.update(environment)
            os.chdir(folder)
            _renumber(files, numbers)
            exec(program, {"__name__": "__main__"})
        code = 0
    except SystemExit:
        code = 0
    except BaseException:
        sys.excepthook(*cast(Any, sys.exc_info()))
    finally:
        os._exit(code)


def _received(at: socket.socket, size: int) -> bytes:
    """Exactly `size` bytes; raises EOFError if the other end closes earlier."""
    data = bytearray()
    while len(data) < size:
        piece = at.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


def _renumber(files: Sequence[int], wanted: Sequence[int]) -> None:
    """Give files the descriptors that they had in the parent."""
    beyond = max([*files, *wanted]) + 1
    for index, file in enumerate(files):  # move them away first: one may have the number that another needs
        os.dup2(file, beyond + index)
        os.close(file)
    for index, number in enumerate(wanted):
        os.dup2(beyond + index, number, inheritable=False)
        os.close(beyond + index)

"""The fork server, forked from a command that has imported everything and done nothing yet.

A server that is a new Python imports all of it again, a second for every run. What is forked before a recipe is read
has the modules and nothing else: no thread, no store, no connection, no code of the user's, no listener. It waits until
the first worker is wanted, and becomes what would have been started then: Python's own server, with the same arguments.
One that is killed, and one after it, is a new Python.
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
"""What `ps` calls it and its workers; their arguments are those of the command. Linux takes 15 letters."""
MOST_FILES = 8
_SPAWN = "spawnv_passfds"
"""What Python starts servers with; in no stub."""


class _Waiting:
    """The process, and the end of the socket at which it waits. Without this end it ends."""

    def __init__(self, pid: int, at: socket.socket) -> None:
        self.pid = pid
        self.at = at


_waiting: _Waiting | None = None


def fork_early() -> None:
    """Fork it, where that is safe: a process with threads would leave the child their locks."""
    global _waiting
    if _waiting is not None or _threads() != 1:
        return
    ours, theirs = socket.socketpair()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # none shall come to the child while it has our handlers
    try:
        pid = os.fork()
        if pid == 0:
            _wait_and_serve(theirs, before)
    except OSError:  # as many processes as there may be: whoever wants a worker says so
        ours.close()
    else:
        _waiting = _Waiting(pid, ours)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()


@contextmanager
def taken_up() -> Iterator[None]:
    """Meanwhile the server that Python starts is the one that waits, if there is one."""
    start: Callable[[Any, Sequence[Any], Sequence[int]], int] = getattr(util, _SPAWN)

    def hand_over(path: Any, arguments: Sequence[Any], files: Sequence[int]) -> int:
        code = arguments[-1]
        pid = _told(code, files) if "forkserver" in code else None
        return start(path, arguments, files) if pid is None else pid

    setattr(util, _SPAWN, hand_over)
    try:
        yield
    finally:
        setattr(util, _SPAWN, start)


def _threads() -> int:
    """Of this process, also those that Python does not know of; 0 where nobody says, which is not Linux."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 0


def _told(code: str, files: Sequence[int]) -> int | None:
    """The process that now runs the code, which names these files by their numbers; None: there is none any more."""
    global _waiting
    if _waiting is None:
        return None
    waiting, _waiting = _waiting, None
    with waiting.at as at:
        try:
            # A new Python would start with the environment and in the folder of now.
            told = json.dumps([list(files), dict(os.environ), os.getcwd(), code]).encode()
            socket.send_fds(at, [struct.pack("<Q", len(told))], files)
            at.sendall(told)
            return waiting.pid
        except OSError:
            at.close()  # it ends without the other end
            with suppress(ChildProcessError):
                os.waitpid(waiting.pid, 0)
            return None


def _wait_and_serve(at: socket.socket, mask: set[Any]) -> NoReturn:
    """The life of the child. It never returns to what its parent was at."""
    code = 1
    try:
        for number in heeded():
            signal.signal(number, signal.SIG_DFL)
        # A Ctrl-C goes to every process of the terminal; this one ends with the command.
        signal.pthread_sigmask(signal.SIG_SETMASK, {*mask, signal.SIGINT})
        for file in [int(name) for name in os.listdir("/proc/self/fd")]:
            if file > 2 and file != at.fileno():
                with suppress(OSError):
                    os.close(file)
        with suppress(OSError):
            Path("/proc/self/comm").write_text(NAME)
        size, files, _, _ = socket.recv_fds(at, struct.calcsize("<Q"), MOST_FILES)
        if size:
            numbers, environment, folder, asked = json.loads(_received(at, *struct.unpack("<Q", size)))
            at.close()
            os.environ.clear()
            os.environ.update(environment)
            os.chdir(folder)
            _renumber(files, numbers)
            exec(asked, {"__name__": "__main__"})
        code = 0
    except SystemExit:
        code = 0
    except BaseException:
        sys.excepthook(*cast(Any, sys.exc_info()))
    finally:
        os._exit(code)


def _received(at: socket.socket, size: int) -> bytes:
    """So many bytes; EOFError where the other end is gone before them."""
    data = bytearray()
    while len(data) < size:
        piece = at.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


def _renumber(files: Sequence[int], wanted: Sequence[int]) -> None:
    """Give files the numbers that they had in the parent."""
    beyond = max([*files, *wanted]) + 1
    for place, file in enumerate(files):  # away first: one may have the number that another is to get
        os.dup2(file, beyond + place)
        os.close(file)
    for place, number in enumerate(wanted):
        os.dup2(beyond + place, number, inheritable=False)
        os.close(beyond + place)

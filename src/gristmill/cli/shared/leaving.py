"""SIGINT and SIGTERM end a command with one line, whatever it is doing at that moment.

By default the process exits in the signal handler. An exception raised there could surface anywhere: in the import of
a C library, which prints it and goes on, or in a finalizer, which loses it. Exiting at once is as safe as being killed:
partial work never looks finished. A run with workers stops in an orderly way instead (`engine/mill.py`).

This module imports very little, so that a command can be stopped while everything else is still being imported.
"""

import atexit
import json
import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import NoReturn

from gristmill.stopping import heeded

_STDERR = 2
_SHOW_CURSOR = b"\x1b[?25h"
"""A progress bar hides it."""


def exit_on_signals() -> None:
    """Exit this process on a signal to stop. A signal that is ignored (`nohup`, a background job) stays ignored.

    The process that started us may have set SIGCHLD to be ignored; a fork server that ended would then look alive.
    """
    for number in heeded():
        signal.signal(number, _leave)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def end_process(code: int) -> NoReturn:
    """End this process as `sys.exit` does, but leave the interpreter intact.

    A thread of Arrow may still be releasing a buffer that belongs to Python. Until 3.13, an interpreter that is torn
    down ends such a thread in the middle of a C++ destructor, and then C++ aborts the process.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None: closed by the parent process
        stream.flush()
    os._exit(code)


RUN_STOPPED = "stopped. Finished work is kept; run the same command to continue."
"""The message for a command that is stopped during a run."""


def stopped() -> str:
    """The message for a command that is stopped: what is kept, and how to continue."""
    typed = [word for word in sys.argv[1:] if not word.startswith("-")]
    if typed[:1] == ["run"] or typed[:2] in (["tokenizer", "train"], ["versions", "reproduce"]):
        return RUN_STOPPED
    if typed[:1] == ["verify"] and "--repair" in sys.argv:
        return "stopped. Repairs so far are kept; run the same command to continue."
    if typed[:1] == ["gc"] and "--dry-run" not in sys.argv:
        return "stopped. Files removed so far are gone, all others are unchanged; run the same command to continue."
    return "stopped. Nothing was kept; run the same command again."


def _leave(number: int, _: FrameType | None) -> None:
    try:
        line = f"gristmill: {stopped()}\n".encode()
        if "--log-json" in sys.argv:
            now = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
            record = {"time": now, "level": "error", "logger": "gristmill.cli", "message": stopped(), "fields": {}}
            line = json.dumps(record).encode() + b"\n"
        os.write(_STDERR, _SHOW_CURSOR + b"\r" + line if os.isatty(_STDERR) else line)
    finally:
        os._exit(128 + number)

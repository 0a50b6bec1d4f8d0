"""SIGINT and SIGTERM end a command with one line, whatever it is doing when they come.

By default the process leaves at once from the signal handler. An exception raised there could surface anywhere: in the
import of a C library, which prints it and goes on, or in a finalizer, which loses it. Leaving at once is safe because
being killed is: nothing half done looks finished. While a run has workers it stops in an orderly way instead
(`engine/mill.py`).

This module imports next to nothing, so that a command can be stopped while everything else is still being imported.
"""

import os
import signal
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
STOPPED = "stopped. What is finished is kept; run the same command to go on."
_STDERR = 2
_SHOW_CURSOR = b"\x1b[?25h"
"""A progress bar hides it."""


class Interrupted(Exception):
    """A person or the system asked the run to stop."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.signal_number = signal_number


def leave_when_told() -> None:
    """From here on a signal to stop ends this process. One that is ignored (`nohup`, a job in the background) stays so.

    Whoever started us may have children reaped behind our back, and a fork server that is gone would look alive.
    """
    for number in heeded():
        signal.signal(number, _leave)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def heeded() -> list[int]:
    """The signals to stop that are not ignored."""
    return [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]


def _leave(number: int, _: FrameType | None) -> None:
    try:
        line = f"gristmill: {STOPPED}\n".encode()
        os.write(_STDERR, _SHOW_CURSOR + b"\r" + line if os.isatty(_STDERR) else line)
    finally:
        os._exit(128 + number)

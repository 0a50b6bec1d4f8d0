"""SIGINT and SIGTERM: which of them stop this process, and the exception of a stopped run.

This module imports very little, so that a command can be stopped while everything else is still being imported.
"""

import signal

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(Exception):
    """A person or the system stopped the run."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.signal_number = signal_number


class TaskStopped(BaseException):
    """A signal ended a task of this process. No `except Exception` of a reader or a step takes it for a fault."""


def heeded() -> list[int]:
    """The signals to stop that are not ignored."""
    return [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]

"""Imported by the fork server, and by nothing else, before the stages: how it and its children speak.

A worker gets what it runs through a pipe. A driver that is killed in the middle of that leaves it with half of it,
which Python tells with a traceback. Nobody is there any more to whom it would mean something.
"""

import sys
from types import TracebackType


def _tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, EOFError):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _tell

"""Imported by the fork server, and by nothing else, before the stages: how it and its children speak, what they share.

A worker gets what it runs through a pipe. A driver that is killed in the middle of that leaves it with half of it,
which Python tells with a traceback. Nobody is there any more to whom it would mean something.

A process that loads its first kernel fills Numba's tables of functions and types first, a third of a second. It is done
here, once for all workers.
"""

import sys
from types import TracebackType

from numba.core.registry import cpu_target


def _tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, EOFError):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _tell
cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()

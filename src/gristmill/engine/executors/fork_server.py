"""Imported only by the fork server, before the stages: prepares what its children share.

A worker receives its program through a pipe. If the driver is killed while it writes, the worker gets half of it, and
Python prints a traceback that would help nobody, so EOFError is silent here.

A process that loads its first kernel fills Numba's tables of functions and types first, which takes a third of a
second. That happens here, once for all workers.
"""

import sys
from types import TracebackType

from numba.core.registry import cpu_target


def _print_unless_eof(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, EOFError):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _print_unless_eof
cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()

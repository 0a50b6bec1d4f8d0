"""Standard loggers below `gristmill`: `gristmill.run`, `gristmill.objects`, `gristmill.loader`, `gristmill.export`.

Progress is INFO, waits and faults are WARNING, single tasks and requests are DEBUG. Names in messages are
data, so messages are made printable here. The command line shows the log (`cli/shared/screen.py`); elsewhere it goes
where `logging` is set up to send it.
"""

import logging
from logging import DEBUG as DEBUG
from logging import INFO as INFO
from logging import WARNING as WARNING
from typing import Protocol

from gristmill.printable import one_line

ROOT = logging.getLogger("gristmill")


class Note(Protocol):
    """Receives a message about a run."""

    def __call__(self, message: str, level: int = ..., /) -> None: ...


class Log:
    """The logger of a part of the library. `fields` are the facts of a message, for programs."""

    def __init__(self, name: str) -> None:
        self._logger = ROOT.getChild(name)

    def __call__(self, message: str, level: int = INFO, **fields: object) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, "%s", one_line(message), extra={"fields": fields})

    def warn(self, message: str) -> None:
        self(message, WARNING)

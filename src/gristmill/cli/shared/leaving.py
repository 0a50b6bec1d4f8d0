"""SIGINT and SIGTERM end a command with one line, whatever it is doing when they come.

By default the process leaves at once from the signal handler. An exception raised there could surface anywhere: in the
import of a C library, which prints it and goes on, or in a finalizer, which loses it. Leaving at once is safe because
being killed is: nothing half done looks finished. While a run has workers it stops in an orderly way instead
(`engine/mill.py`).

This module imports next to nothing, so that a command can be stopped while everything else is still being imported.
"""

import json
import os
import signal
import sys
import time
from types import FrameType

from gristmill.stopping import heeded

_STDERR = 2
_SHOW_CURSOR = b"\x1b[?25h"
"""A progress bar hides it."""


def leave_when_told() -> None:
    """From here on a signal to stop ends this process. One that is ignored (`nohup`, a job in the background) stays so.

    Whoever started us may have children reaped behind our back, and a fork server that is gone would look alive.
    """
    for number in heeded():
        signal.signal(number, _leave)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def stopped() -> str:
    """What is true when the command of this process ends before its end."""
    asked = [word for word in sys.argv[1:] if not word.startswith("-")]
    if asked[:1] in (["run"], ["ablate"]) or asked[:2] in (["tokenizer", "train"], ["versions", "reproduce"]):
        return "stopped. What is finished is kept; run the same command to go on."
    if asked[:1] == ["verify"] and "--repair" in sys.argv:
        return "stopped. What is mended stays so; run the same command to go on."
    if asked[:1] == ["gc"] and "--dry-run" not in sys.argv:
        return "stopped. What is removed is gone, all else is as it was; run the same command to go on."
    return "stopped. Nothing is kept of it; run the same command again."


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

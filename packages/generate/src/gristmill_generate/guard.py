"""Runs a program and ends it, with everything that it started, when standard input ends.

The worker that needs a server holds the other end of the pipe. When the worker is done, or is killed, the pipe closes.
This file is run by its path and imports nothing of Gristmill.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading

GRACE_S = 10
_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    with contextlib.suppress(OSError, AttributeError):  # Linux only; elsewhere the pipe alone decides
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    try:
        server = subprocess.Popen(
            sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_die_with_parent
        )
    except OSError as error:
        sys.exit(f"{sys.argv[1]}: {error.strerror}")
    threading.Thread(target=lambda: os._exit(server.wait() & 0xFF), daemon=True).start()
    sys.stdin.buffer.read()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(GRACE_S)
        os.killpg(server.pid, signal.SIGKILL)


if __name__ == "__main__":
    main()

"""Runs a command and waits for all processes that it starts; writes their CPU seconds to a file.

    python _process_tree.py FILE COMMAND…

When a parent ends before its child, as with the server that forks our workers, Linux gives the child to the nearest
ancestor that requests it (a subreaper). Without that, the child's time would not be counted.
"""

import ctypes
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


def main(file: str, *command: str) -> int:
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    first = os.posix_spawnp(command[0], command, os.environ)
    code = 0
    with suppress(ChildProcessError):  # there are no more
        while True:
            ended, status = os.wait()
            if ended == first:
                code = os.waitstatus_to_exitcode(status)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    Path(file).write_text(str(used.ru_utime + used.ru_stime))
    return abs(code)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""Names of processes, by which another process, container or machine can judge whether one still runs.

A process id is only valid in its namespace, and is reused after a restart. So a process is named by the scope of its
id (host, boot, namespace of process ids), its id, and its start time.
"""

import glob
import hashlib
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path


@cache
def here() -> str:
    """The scope in which this process's ids are valid: a short hash of host, boot and namespace."""
    facts = [socket.gethostname()]
    for read in (_boot, lambda: os.readlink("/proc/self/ns/pid")):
        try:
            facts.append(read())
        except OSError:
            facts.append("")
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()[:8]


def _boot() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def started(pid: int) -> str:
    """The start time of a process in this scope, in the kernel's ticks; `0` if it is unknown, `ended` for a zombie
    (in a container, perhaps no parent ever collects it).
    """
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
            return "ended" if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        return "0"


def name_of_self() -> str:
    """`scope-pid-start`, for the names of files that this process writes."""
    return _name_of_living(os.getpid())


@cache
def _name_of_living(pid: int) -> str:
    """The name of this process, which does not change while it runs."""
    return name_of(pid)


def name_of(pid: int) -> str:
    """The name of a process in this scope."""
    return f"{here()}-{pid}-{started(pid)}"


def runs(name: str) -> bool | None:
    """Whether the named process still runs; None if it is in another scope, or its start time is unknown."""
    scope, _, rest = name.partition("-")
    pid, _, start = rest.partition("-")
    if scope != here():
        return None
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError, OverflowError):
        return False
    except PermissionError:
        pass
    now = started(int(pid))
    return None if "0" in (start, now) else now == start


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder that gets its name when it is complete. Remains of killed processes are removed.

    Raises OSError, also if the name is taken.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    for left in folder.parent.glob(f".{glob.escape(folder.name)}-{here()}-*"):
        if runs(left.name.removeprefix(f".{folder.name}-").rpartition("-")[0]) is False:
            shutil.rmtree(left, ignore_errors=True)
    new = Path(tempfile.mkdtemp(prefix=f".{folder.name}-{name_of_self()}-", dir=folder.parent))
    try:
        yield new
        os.chmod(new, 0o755)
        new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)

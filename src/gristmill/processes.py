"""Who a process is, told so that another process, container or machine can judge whether it still runs.

A process id alone says nothing outside the namespace that gave it, and is given again after a restart. So a process
is named by the place that its id is valid in (host, boot, namespace of process ids), its id, and when it started.
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
    """Where process ids of this process are valid: a short hash of host, boot and namespace."""
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
    """When a process of this place started, in the kernel's ticks; `0` where nobody can tell, `ended` of one that
    has ended and that nobody has asked after yet (in a container, perhaps nobody ever will).
    """
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
            return "ended" if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        return "0"


def name_of_self() -> str:
    """`place-pid-start`, for the names of files that this process writes."""
    return _name_of_living(os.getpid())


@cache
def _name_of_living(pid: int) -> str:
    """What stays true while the process runs that asks."""
    return name_of(pid)


def name_of(pid: int) -> str:
    """The name of a process of this place."""
    return f"{here()}-{pid}-{started(pid)}"


def runs(name: str) -> bool | None:
    """Whether the process of a name still runs; None where only its own place can tell, or nobody when it started."""
    place, _, rest = name.partition("-")
    pid, _, start = rest.partition("-")
    if place != here():
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
    """A folder that has its name when it is whole. What a process that was killed left of it is removed.

    Raises OSError, also where the name is taken.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    for left in folder.parent.glob(f".{glob.escape(folder.name)}-{here()}-*"):
        if runs(left.name.removeprefix(f".{folder.name}-").rpartition("-")[0]) is False:
            shutil.rmtree(left, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}-{name_of_self()}-", dir=folder.parent))
    try:
        yield made
        os.chmod(made, 0o755)
        made.rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)

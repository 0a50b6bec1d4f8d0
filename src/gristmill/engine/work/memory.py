"""The memory, cores and GPUs of this machine, and the memory of a process, as far as the system reports them (Linux;
elsewhere less).
"""

import glob
import os
import resource
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")
_VERSIONS = (
    ("", "memory.max", "memory.current", "inactive_file"),
    ("/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""For both versions of cgroups: folder of the memory controller, files with limit and usage, line in memory.stat."""


def available_bytes() -> int | None:
    """The memory that a new process could still use; None if the system does not report it."""
    free = _line("/proc/meminfo", "MemAvailable:")
    # The page cache counts as used, but the kernel drops it when memory is short.
    left = [max(limit - used + files, 0) for limit, used, files in _cgroup_limits()]
    return None if free is None else min(free, *left, free)


def total_bytes() -> int | None:
    """The memory of this machine, container or job; None if the system does not report it."""
    whole = _line("/proc/meminfo", "MemTotal:")
    return None if whole is None else min(whole, *(limit for limit, _, _ in _cgroup_limits()), whole)


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def visible_gpus() -> list[str]:
    """The NVIDIA devices that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is None:
        return [str(number) for number, _ in enumerate(glob.glob("/dev/nvidia[0-9]*"))]
    return [name for name in given.split(",") if name.strip() not in ("", "-1", "NoDevFiles")]


def peak_bytes(process: int | None = None) -> int:
    """The most memory that a process held at once, by default this one; 0 if it is unknown for another."""
    found = _line(f"/proc/{process or 'self'}/status", "VmHWM:")
    if found is not None:
        return found
    if process is not None:
        return 0
    unit = 1 if os.uname().sysname == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def cpu_seconds() -> float:
    """The CPU time of this process and of its child processes, such as one that parses files for a reader; without
    theirs, since the workers of other tasks may be among them.
    """
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = time.process_time() + ended.ru_utime + ended.ru_stime
    for path in glob.glob("/proc/self/task/*/children"):
        with suppress(OSError):  # a thread or a child that has ended
            for child in Path(path).read_text().split():
                fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
                total += sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
    return total


def forget_peak() -> None:
    """Reset the kernel's high-water mark of this process, if possible (Linux)."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        return


def _cgroup_limits() -> Iterator[tuple[int, int, int]]:
    """Limit, usage and page cache in bytes, of each cgroup with a limit that this process is in (versions 1 and 2)."""
    try:
        lines = [line.split(":", 2) for line in OWN_GROUPS.read_text().splitlines()]
    except OSError:
        lines = []
    path = next((path for number, names, path in lines if number == "0" or "memory" in names.split(",")), "/")
    for root, limit, used, files in _VERSIONS:
        own = Path(f"{CGROUP}{root}{path}")
        for group in (own, *own.parents):
            if not group.is_relative_to(f"{CGROUP}{root}"):
                break
            if (most := _number(group / limit)) is not None:
                yield most, _number(group / used) or 0, _line(str(group / "memory.stat"), files, 1) or 0


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _line(path: str, name: str, unit: int = 1024) -> int | None:
    try:
        with open(path) as file:
            for line in file:
                if line.startswith(name):
                    return int(line.split()[1]) * unit
    except (OSError, ValueError):
        pass
    return None

"""How much memory there is and how much a process took, as far as the system tells (Linux; elsewhere less)."""

import os
import resource
from dataclasses import dataclass
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Memory:
    """The memory of a machine at some moment; None where the system does not tell."""

    free_bytes: int | None
    whole_bytes: int | None

    def __str__(self) -> str:
        if self.free_bytes is None or self.whole_bytes is None:
            return "how much memory was free is not known"
        return f"{self.free_bytes / 1e9:.1f} GB of {self.whole_bytes / 1e9:.1f} GB memory were free"


def memory_now() -> Memory:
    """Of this machine."""
    return Memory(available_bytes(), total_bytes())


def available_bytes() -> int | None:
    """What a new process could still use; None where the system does not tell."""
    free = _line("/proc/meminfo", "MemAvailable:")
    limit = _cgroup_limit()
    if free is None or limit is None:
        return free
    used = _number(CGROUP / "memory.current") or 0
    # Pages of files count as used, and are given up when memory is short.
    return min(free, max(limit - used + (_line(str(CGROUP / "memory.stat"), "inactive_file", 1) or 0), 0))


def total_bytes() -> int | None:
    """The memory of this machine, or of the container that we are in; None where the system does not tell."""
    whole = _line("/proc/meminfo", "MemTotal:")
    limit = _cgroup_limit()
    return whole if whole is None or limit is None else min(whole, limit)


def peak_bytes(process: int | None = None) -> int:
    """The most memory that a process held at once, this one unless told; 0 where nothing is known of another."""
    found = _line(f"/proc/{process or 'self'}/status", "VmHWM:")
    if found is not None:
        return found
    if process is not None:
        return 0
    unit = 1 if os.uname().sysname == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def forget_peak() -> None:
    """Let the kernel's high-water mark of this process start again, where it can (Linux)."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        return


def _cgroup_limit() -> int | None:
    return _number(CGROUP / "memory.max")


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

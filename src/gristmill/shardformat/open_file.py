"""An open file: read at any place by any thread, or mapped; closed when nobody holds it or a view of its map.

Batches are read with `pread` and not copied out of a map: a sample is then one request to the disk and not a page fault
for every 4 KB of it, a map's read-around (8 MB a fault on some systems) cannot fetch 500 times what was asked for, and
a disk that fails raises an error where a map kills the process with SIGBUS. From the page cache, copying 16 KB took 3.4
us that way and 4.2 us out of a fresh numpy memmap.
"""

import contextlib
import errno
import fcntl
import mmap
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.errors import UserError

Array = np.ndarray[Any, Any]
Identity = tuple[int, ...]
"""Device, inode, size, time of modification and, unless the file is private, of change."""


def open_plain(path: str | Path, follow: bool = True) -> tuple[int, os.stat_result]:
    """A descriptor of a plain file; OSError where it is something else. Never waits, as it would for a pipe."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
    found = os.fstat(file)
    if stat.S_ISREG(found.st_mode):
        return file, found
    os.close(file)
    raise OSError(errno.EINVAL, "It is no plain file", str(path))


class OpenFile:
    """A file that is read and never written.

    `lock`: hold a shared lock, which tells others to leave the file. It belongs to the open file, which a map keeps
    open too, so there is nothing to release by hand. `private`: it lies in a folder that only we write to. A symbolic
    link in its place is not followed; and the time of its last change says nothing, for to note a use changes it.
    """

    __slots__ = ("_file", "_private", "hashed_as", "modified", "path", "size")

    def __init__(self, path: str | Path, lock: bool = False, private: bool = False) -> None:
        self.path = path
        self.hashed_as: Identity | None = None
        """What it was when its hash was found right."""
        self._private = private
        self._file = -1
        self._file, found = open_plain(path, follow=not private)
        if lock:
            with contextlib.suppress(OSError):  # a file system without locks: the file may go, what is open stays good
                fcntl.flock(self._file, fcntl.LOCK_SH)
        self.size = found.st_size
        self.modified = found.st_mtime_ns
        """The time of modification when it was opened, in nanoseconds."""

    def identity(self) -> Identity:
        """Another one where the file is another, or was written to."""
        found = os.fstat(self._file)
        known = found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
        return known if self._private else (*known, found.st_ctime_ns)

    def used(self, now: int) -> None:
        """Note in the access time that the file was used, where that is allowed."""
        with contextlib.suppress(OSError):
            os.utime(self._file, ns=(now, os.fstat(self._file).st_mtime_ns))

    def read_some(self, target: memoryview, offset: int) -> int:
        """Read into `target` from an offset on; how many bytes, 0 at the end."""
        try:
            return os.preadv(self._file, (target,), offset)
        except OSError as error:
            raise self._unreadable(offset, error) from None

    def read_into(self, target: memoryview, offset: int) -> None:
        """Fill `target` from an offset on."""
        try:
            done = os.preadv(self._file, (target,), offset)
        except OSError as error:
            raise self._unreadable(offset, error) from None
        while done < len(target):
            more = self.read_some(target[done:], offset + done)
            if not more:
                raise UserError(
                    f"{self.path} ends at byte {offset + done} and had {self.size} when it was opened. "
                    "Something cut it, and its samples are gone. Copy the shard again."
                )
            done += more

    def _unreadable(self, offset: int, error: OSError) -> UserError:
        return UserError(
            f"{self.path} cannot be read at byte {offset} ({error.strerror}), so its samples are missing. "
            "Check the disk, and copy the shard again."
        )

    def mapped(self, scattered: bool = False) -> tuple[Array, mmap.mmap | None]:
        """The bytes, and the map behind them. `scattered`: reads will be far apart, so nothing is read around them."""
        if not self.size:
            return np.zeros(0, np.uint8), None
        try:
            made = mmap.mmap(self._file, self.size, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise UserError(
                f"{self.path} cannot be mapped ({error}), so its samples cannot be read. "
                "If something cut it, copy the shard again."
            ) from None
        if scattered:
            made.madvise(mmap.MADV_RANDOM)
        return np.frombuffer(made, np.uint8), made

    def __del__(self) -> None:
        if self._file >= 0:
            os.close(self._file)


def map_bytes(path: str | Path) -> Array:
    """The bytes of a file."""
    return OpenFile(path).mapped()[0]

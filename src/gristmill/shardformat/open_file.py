"""An open file, which any thread may read at any offset, or map; closed with its last reference or view.

Batches are read with `pread`, not copied out of a map: a sample is then one request to the disk, not a page fault for
every 4 KB; a map's read-around (8 MB per fault on some systems) cannot fetch 500 times the requested bytes; and a
failing disk raises an error, while a map kills the process with SIGBUS. From the page cache, copying 16 KB takes 3.4 us
with `pread` and 4.2 us from a fresh numpy memmap.
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
"""Device, inode, size, modification time and, unless the file is private, change time."""


def open_plain(path: str | Path, follow: bool = True) -> tuple[int, os.stat_result]:
    """A descriptor of a regular file; raises OSError if it is something else. Never blocks, even on a pipe."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
    found = os.fstat(file)
    if stat.S_ISREG(found.st_mode):
        return file, found
    os.close(file)
    raise OSError(errno.EINVAL, "It is not a regular file", str(path))


class OpenFile:
    """A file that is read, never written.

    `lock`: hold a shared lock, so that other processes do not remove the file. It belongs to the open file, which a map
    also keeps open, so it needs no explicit release. `private`: the file is in a folder that only we write to. Symbolic
    links are not followed, and the change time is ignored, since recording a use changes it.
    """

    __slots__ = ("_file", "_private", "hashed_as", "modified", "path", "size")

    def __init__(self, path: str | Path, lock: bool = False, private: bool = False) -> None:
        self.path = path
        self.hashed_as: Identity | None = None
        """Its identity when its hash was verified."""
        self._private = private
        self._file = -1
        self._file, found = open_plain(path, follow=not private)
        if lock:
            with contextlib.suppress(OSError):  # without file locks, the file may be removed, but it stays readable
                fcntl.flock(self._file, fcntl.LOCK_SH)
        self.size = found.st_size
        self.modified = found.st_mtime_ns
        """The modification time when it was opened, in nanoseconds."""

    def identity(self) -> Identity:
        """The identity, which differs if the file was replaced or written to."""
        found = os.fstat(self._file)
        known = found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
        return known if self._private else (*known, found.st_ctime_ns)

    def used(self, now: int) -> None:
        """Record the use in the access time, if permissions allow."""
        with contextlib.suppress(OSError):
            os.utime(self._file, ns=(now, os.fstat(self._file).st_mtime_ns))

    def read_some(self, target: memoryview, offset: int) -> int:
        """Read into `target` at an offset; returns the number of bytes, 0 at the end."""
        try:
            return os.preadv(self._file, (target,), offset)
        except OSError as error:
            raise self._unreadable(offset, error) from None

    def read_into(self, target: memoryview, offset: int) -> None:
        """Fill `target` from an offset."""
        try:
            done = os.preadv(self._file, (target,), offset)
        except OSError as error:
            raise self._unreadable(offset, error) from None
        while done < len(target):
            more = self.read_some(target[done:], offset + done)
            if not more:
                raise UserError(
                    f"{self.path} ends at byte {offset + done}, but had {self.size} bytes when it was opened. "
                    "It was truncated, so its samples are gone. Copy the shard again."
                )
            done += more

    def _unreadable(self, offset: int, error: OSError) -> UserError:
        return UserError(
            f"{self.path} cannot be read at byte {offset} ({error.strerror}), so its samples are missing. "
            "Check the disk, and copy the shard again."
        )

    def mapped(self, scattered: bool = False) -> tuple[Array, mmap.mmap | None]:
        """The bytes and their map. `scattered`: reads will be far apart, so the system should not read ahead."""
        if not self.size:
            return np.zeros(0, np.uint8), None
        try:
            map_ = mmap.mmap(self._file, self.size, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise UserError(
                f"{self.path} cannot be mapped ({error}), so its samples cannot be read. "
                "If it was truncated, copy the shard again."
            ) from None
        if scattered:
            map_.madvise(mmap.MADV_RANDOM)
        return np.frombuffer(map_, np.uint8), map_

    def __del__(self) -> None:
        if self._file >= 0:
            os.close(self._file)


def map_bytes(path: str | Path) -> Array:
    """The bytes of a file."""
    return OpenFile(path).mapped()[0]

"""An open file: read at any place by any thread, or mapped; closed when nobody holds it or a view of its map.

Batches are read with `pread` and not copied out of a map: a sample is then one request to the disk and not a page fault
for every 4 KB of it, a map's read-around (8 MB a fault on some systems) cannot fetch 500 times what was asked for, and
a disk that fails raises an error where a map kills the process with SIGBUS. From the page cache, copying 16 KB took 3.4
us that way and 4.2 us out of a fresh numpy memmap.
"""

import contextlib
import fcntl
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.errors import UserError

Array = np.ndarray[Any, Any]


class OpenFile:
    """A file that is read and never written.

    `lock`: hold a shared lock, which tells others to leave the file. It belongs to the open file, which a map keeps
    open too, so there is nothing to release by hand.
    """

    __slots__ = ("_file", "path", "size")

    def __init__(self, path: str | Path, lock: bool = False) -> None:
        self.path = path
        self._file = -1
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if lock:
            with contextlib.suppress(OSError):  # a file system without locks: the file may go, what is open stays good
                fcntl.flock(self._file, fcntl.LOCK_SH)
        self.size = os.fstat(self._file).st_size

    def read_into(self, target: memoryview, offset: int) -> None:
        """Fill `target` from an offset on."""
        done = os.preadv(self._file, [target], offset)
        while done < len(target):
            more = os.preadv(self._file, [target[done:]], offset + done)
            if not more:
                raise UserError(
                    f"{self.path} ends at byte {offset + done} and had {self.size} when it was opened. "
                    "Something cut it, and its samples are gone. Copy the shard again."
                )
            done += more

    def mapped(self, scattered: bool = False) -> tuple[Array, mmap.mmap | None]:
        """The bytes, and the map behind them. `scattered`: reads will be far apart, so nothing is read around them."""
        if not self.size:
            return np.zeros(0, np.uint8), None
        made = mmap.mmap(self._file, self.size, access=mmap.ACCESS_READ)
        if scattered:
            made.madvise(mmap.MADV_RANDOM)
        return np.frombuffer(made, np.uint8), made

    def __del__(self) -> None:
        if self._file >= 0:
            os.close(self._file)


def map_bytes(path: str | Path) -> Array:
    """The bytes of a file."""
    return OpenFile(path).mapped()[0]

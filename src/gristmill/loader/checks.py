"""Whether a file holds what the manifest says: by its seal, or by its hash.

What Gristmill writes is sealed: its modification time is computed from its hash. To look at that costs nothing, and
shows that a file was swapped, replaced or written to; it does not show bits that changed on the disk by themselves. A
hash shows everything, and costs one pass over the file, which for an index is so little that it is always hashed. A
file that was found right is not hashed again in this process while its inode, size and times stay as they are.
"""

import contextlib
import hashlib
import os
import threading

from gristmill.errors import UserError
from gristmill.log import Log
from gristmill.shardformat.open_file import Identity, OpenFile

_LOG = Log("loader")
CHECKS = ("seal", "hash")
BLOCK_BYTES = 1 << 20
# A file that somebody writes to is another one each time that it was hashed.
MOST_TRIES = 5


# By device and inode: the hash of a file, and what else was true of it when it was hashed.
_right: dict[Identity, tuple[str, Identity]] = {}
# Of several threads that want a file, one hashes it. A lock may stand for several files: they wait for each other.
_locks = [threading.Lock() for _ in range(64)]


def _forget_locks() -> None:
    """A thread that held one is not in the process that a fork made."""
    _locks[:] = [threading.Lock() for _ in _locks]


os.register_at_fork(after_in_child=_forget_locks)


def seal(digest: str) -> int:
    """The modification time of an untouched file, in nanoseconds: the hash's first 32 bits taken as seconds."""
    try:
        return int(digest[:8], 16) * 10**9
    except ValueError:  # a name that is no hash has no seal
        return -1


def renew_seal(path: str, digest: str) -> None:
    """Seal a file that has this hash again, where that is allowed."""
    with contextlib.suppress(OSError):
        os.utime(path, ns=(os.stat(path).st_atime_ns, seal(digest)))


class Checks:
    """How the files of a loader are checked, and what that took."""

    def __init__(self, how: str = "seal") -> None:
        if how not in CHECKS:
            raise UserError(
                f'check is {how!r}, so it is unknown how to check shards. Give "seal" (modification times, free) or '
                '"hash" (one pass over each shard before it is used).'
            )
        self.how = how
        self.hashed_files = 0
        self.hashed_bytes = 0
        self.closed = threading.Event()
        """Set where nobody waits for a hash any more."""
        self.seal_broken = False
        """Whether a file was met that had to be hashed for want of its seal."""

    def sealed(self, file: OpenFile, digest: str, location: str) -> bool:
        """Whether the seal is enough to believe a file, and is whole. The first that is not is told of."""
        if self.how != "seal":
            return False
        if file.modified == seal(digest):
            return True
        if not self.seal_broken:
            self.seal_broken = True
            _LOG.warn(
                f"{location} does not have the modification time that Gristmill gave it, so it is hashed before it is "
                "used, and so is every other such file, once in each process. Copy with times (cp -p, rsync -t), or "
                "renew them: gristmill shards verify"
            )
        return False

    def right(self, file: OpenFile, digest: str) -> bool:
        """Whether a file has this hash."""
        with _locks[hash(digest) % len(_locks)]:
            for _ in range(MOST_TRIES):
                before = file.identity()
                if _right.get(before[:2]) != (digest, before):
                    found = self._hashed(file)
                    if file.identity() != before:
                        continue
                    if found != digest:
                        return False
                    _right[before[:2]] = digest, before
                file.hashed_as = before
                return True
        raise UserError(
            f"{file.path} changed {MOST_TRIES} times while it was hashed, so its samples are not to be trusted. "
            "Find out what writes to it, and copy the shard again."
        )

    def _hashed(self, file: OpenFile) -> str:
        digest, block, at = hashlib.sha256(), memoryview(bytearray(BLOCK_BYTES)), 0
        while got := file.read_some(block, at):
            if self.closed.is_set():
                raise UserError(f"{file.path} was not hashed: the loader was closed. Open it again.")
            digest.update(block[:got])
            at += got
        self.hashed_files += 1
        self.hashed_bytes += at
        return digest.hexdigest()

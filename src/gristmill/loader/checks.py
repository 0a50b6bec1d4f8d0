"""Checks that a file has the content that the manifest names: by its seal, or by its hash.

Files that Gristmill writes are sealed: their modification time is computed from their hash. Checking the seal is free
and detects that a file was swapped, replaced or written to; it does not detect bits that flipped on the disk. A hash
detects everything and costs one pass over the file; an index is so small that it is always hashed. A file with the
right hash is not hashed again in this process while its inode, size and times stay the same.
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
# A file that is being written to changes each time while it is hashed.
MOST_TRIES = 5


# By device and inode: the hash of a file, and its identity when it was hashed.
_right: dict[Identity, tuple[str, Identity]] = {}
# One thread hashes a file while others wait. Several files may share a lock.
_locks = [threading.Lock() for _ in range(64)]


def _forget_locks() -> None:
    """Replace the locks after a fork: the threads that held them do not exist in the child."""
    _locks[:] = [threading.Lock() for _ in _locks]


os.register_at_fork(after_in_child=_forget_locks)


def seal(digest: str) -> int:
    """The modification time of an untouched file, in nanoseconds: the hash's first 32 bits taken as seconds."""
    try:
        return int(digest[:8], 16) * 10**9
    except ValueError:  # a name that is not a hash has no seal
        return -1


def renew_seal(path: str, digest: str) -> None:
    """Seal a file with this hash again, if permissions allow."""
    with contextlib.suppress(OSError):
        os.utime(path, ns=(os.stat(path).st_atime_ns, seal(digest)))


class Checks:
    """How the files of a loader are checked, and how many bytes were hashed."""

    def __init__(self, how: str = "seal") -> None:
        if how not in CHECKS:
            raise UserError(
                f'check is {how!r}, which is not a way to check shards. Give "seal" (modification times, free) or '
                '"hash" (one pass over each shard before it is used).'
            )
        self.how = how
        self.hashed_files = 0
        self.hashed_bytes = 0
        self.closed = threading.Event()
        """Set when the loader is closed, so that hashing stops."""
        self.seal_broken = False
        """Whether a file without a valid seal was found, which had to be hashed."""

    def sealed(self, file: OpenFile, digest: str, location: str) -> bool:
        """Whether the seal is enough to trust a file and is intact. Warns about the first broken seal."""
        if self.how != "seal":
            return False
        if file.modified == seal(digest):
            return True
        if not self.seal_broken:
            self.seal_broken = True
            _LOG.warn(
                f"{location} does not have the modification time that Gristmill set, so it is hashed before it is "
                "used, like every other such file, once per process. Copy with times (cp -p, rsync -t), or "
                "restore them: gristmill shards verify"
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
            f"{file.path} changed {MOST_TRIES} times while it was hashed, so its samples cannot be trusted. "
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

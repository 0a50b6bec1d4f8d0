"""A bounded folder of files fetched from an object store. Several processes may share it.

Files are named by their sha256. A file appears whole or not at all (temporary name, hash, rename). Names are not
trusted: a file is hashed when a process first uses it, through the descriptor that is then read from, and fetched again
if the hash differs. The folder belongs to one user, and no link in it is followed. The access time is the time of last
use; the least recently used files are removed first. A process holds a shared lock on a file while it is open, and
locked files are never removed.
"""

import contextlib
import fcntl
import os
import stat
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from gristmill.errors import UserError
from gristmill.loader.checks import Checks
from gristmill.shardformat.locations import file_system
from gristmill.shardformat.open_file import OpenFile, open_plain

# Waits before each retry: an outage of half a minute does not end a training run.
RETRY_SECONDS = (1.0, 5.0, 25.0)
# A file that other processes remove more often than this, before it is read, means that the cache is too small.
MOST_TRIES = 10


def default_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gristmill" / "shards"


class Cache:
    """Files by hash, up to a number of bytes."""

    def __init__(self, folder: str | Path, limit_bytes: int, checks: Checks | None = None) -> None:
        self.folder = Path(os.path.realpath(folder))
        self.limit_bytes = limit_bytes
        self.checks = checks or Checks()
        self.fetched_files = 0
        self.fetched_bytes = 0
        self.removed_files = 0
        try:
            for folder in (self.folder, self.folder / "locks"):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                _check_private(folder)
        except OSError as error:
            raise self._unusable(error) from None

    def opened(self, digest: str, location: str, size: int | None = None) -> OpenFile:
        """A file, fetched if necessary. It is not removed while it is open or has views."""
        try:
            for _ in range(MOST_TRIES):
                found = self._whole(digest, size)
                if found is None:
                    with self._only_one(digest[:2]):
                        found = self._whole(digest, size)
                        if found is None:
                            self._fetch(digest, location, size)
                            found = self._whole(digest, size)
                if found is not None:  # otherwise another process removed it just now
                    return found
        except OSError as error:
            raise self._unusable(error) from None
        raise UserError(
            f"{location} was fetched into {self.folder} and removed by others {MOST_TRIES} times before it was "
            "read: the cache is too small for all of them. Raise cache_bytes, or give each process its own cache."
        )

    def ensure(self, digest: str, location: str, size: int | None = None) -> Path:
        """Fetch a file into the folder if it is not there."""
        self.opened(digest, location, size)
        return self.folder / digest

    def _whole(self, digest: str, size: int | None) -> OpenFile | None:
        """The file, if it exists and has its hash."""
        try:
            file = OpenFile(self.folder / digest, lock=True, private=True)
        except OSError:
            return None  # missing, or a link or a folder, which a fetch replaces or reports
        if (size is not None and file.size != size) or not self.checks.right(file, digest):
            return None
        file.used(time.time_ns())
        return file

    def _fetch(self, digest: str, location: str, size: int | None) -> None:
        fault = ""
        for wait in (0.0, *RETRY_SECONDS):
            if self.checks.closed.wait(wait):
                raise UserError(f"{location} was not fetched: the loader was closed. Open it again.")
            try:
                system, remote = file_system(location)
                remote_bytes = int(system.size(remote) or 0)
                if size is not None and remote_bytes not in (0, size):
                    fault = f"it has {remote_bytes} bytes and should have {size}"
                    continue
                if remote_bytes > self.limit_bytes:
                    fault = f"it has {remote_bytes} bytes, but the cache may only hold {self.limit_bytes}"
                    break
                with self._reserved(remote_bytes), self._temporary(".part") as (temporary, _):
                    system.get_file(remote, str(temporary))
                    file = OpenFile(temporary, private=True)
                    if size is not None and file.size != size:
                        fault = f"it has {file.size} bytes and should have {size}"
                        continue
                    if self.checks.right(file, digest):
                        temporary.replace(self.folder / digest)
                        self.fetched_files += 1
                        self.fetched_bytes += file.size
                        return
                fault = "its content does not have the hash in the manifest"
            except FileNotFoundError:
                fault = "there is no such file"
                break
            except OSError as error:
                fault = str(error) or type(error).__name__
        raise UserError(
            f"{location} cannot be fetched: {fault}. Its samples cannot be read. "
            "Check the store, or upload the shard again."
        )

    def _unusable(self, error: OSError) -> UserError:
        return UserError(
            f"{self.folder} cannot be used as a cache ({error}), so shards cannot be fetched. "
            "Give a writable folder with cache=."
        )

    @contextlib.contextmanager
    def _reserved(self, size: int) -> Iterator[None]:
        """Reserve space while a file is fetched, by a sparse file that other processes count."""
        with contextlib.ExitStack() as stack:
            with self._only_one("room"):
                self.free_space(size)
                _, file = stack.enter_context(self._temporary(".room"))
                os.ftruncate(file, size)
            yield

    def free_space(self, wanted: int) -> None:
        """Remove the least recently used files until `wanted` bytes fit. Files that are open anywhere stay."""
        files = []
        for entry in os.scandir(self.folder):
            with contextlib.suppress(FileNotFoundError):
                if not entry.is_dir(follow_symlinks=False):
                    found = entry.stat(follow_symlinks=False)
                    # A temporary file without a lock is left from a killed process. Its reservation is counted instead.
                    used = 0 if entry.name.startswith(".") else found.st_atime_ns
                    files.append((used, 0 if entry.name.startswith(".part") else found.st_size, entry.path))
        total = sum(size for _, size, _ in files) + wanted
        for used, size, path in sorted(files):
            if total <= self.limit_bytes and used:
                return
            if _removed(path):
                total -= size
                self.removed_files += 1

    @contextlib.contextmanager
    def _temporary(self, kind: str) -> Iterator[tuple[Path, int]]:
        """A file that is locked while in use and deleted afterwards."""
        while True:
            path = self.folder / f"{kind}.{uuid.uuid4().hex}"
            file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file).st_nlink:
                break
            os.close(file)  # another process removed it before it was locked, as if a dead process had left it
        try:
            yield path, file
        finally:
            os.close(file)
            with contextlib.suppress(FileNotFoundError):
                path.unlink()

    @contextlib.contextmanager
    def _only_one(self, name: str) -> Iterator[None]:
        """A lock between processes and threads: one fetches a file, the others wait."""
        flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open(self.folder / "locks" / name, flags, 0o600)
        try:
            with contextlib.suppress(OSError):  # without file locks, a file may be fetched twice
                fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)


def _removed(path: str) -> bool:
    try:
        file, _ = open_plain(path, follow=False)
    except FileNotFoundError:
        return True
    except OSError:  # a link or a pipe, which is never read
        file = -1
    try:
        if file >= 0:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    finally:
        if file >= 0:
            os.close(file)
    return True


def _check_private(folder: Path) -> None:
    """Raise unless only this user can create files in the folder."""
    found = folder.stat(follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(f"{folder} is not a folder")
    if found.st_uid != os.geteuid():
        raise UserError(
            f"{folder} belongs to another user ({found.st_uid}), who could replace the shards in it, so it is not "
            "used as a cache. Give a folder that you own with cache=."
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UserError(
            f"{folder} is writable by other users (mode {stat.S_IMODE(found.st_mode):o}), who could replace the "
            f"shards in it, so it is not used as a cache. Fix it: chmod go-w {folder}"
        )

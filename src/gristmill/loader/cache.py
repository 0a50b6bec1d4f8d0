"""A bounded folder of files that were fetched from an object store; several processes may share it.

Files are named by their sha256. One appears whole or not at all (temporary name, hash, rename). Names are not believed:
what lies in the folder is hashed when a process first uses it, through the descriptor that is then read from, and is
fetched again if it differs. The folder is its user's alone, and no link in it is followed. The access time says when a
file was last used; the files that were not used for longest go first. Whoever has a file open holds a shared lock on
it, and what is locked is never removed.
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

# Waits before each new attempt: a store that is away for half a minute does not end a training run.
RETRY_SECONDS = (1.0, 5.0, 25.0)
# Fetched, removed by another process, fetched again: more often than so is no accident.
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
            for made in (self.folder, self.folder / "locks"):
                made.mkdir(mode=0o700, parents=True, exist_ok=True)
                _check_private(made)
        except OSError as error:
            raise self._unusable(error) from None

    def opened(self, digest: str, location: str, size: int | None = None) -> OpenFile:
        """A file, fetched if need be; not removed before it is closed and the last view of it is gone."""
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
            f"{location} was fetched into {self.folder} and removed by others {MOST_TRIES} times before it could be "
            "read: the cache is too small for all that use it. Raise cache_bytes, or give each its own cache."
        )

    def ensure(self, digest: str, location: str, size: int | None = None) -> Path:
        """Have a file in the folder."""
        self.opened(digest, location, size)
        return self.folder / digest

    def _whole(self, digest: str, size: int | None) -> OpenFile | None:
        """The file, if it is there and has its hash."""
        try:
            file = OpenFile(self.folder / digest, lock=True, private=True)
        except OSError:
            return None  # not there, or a link or a folder in its place, which a fetch replaces or tells of
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
                bytes_there = int(system.size(remote) or 0)
                if size is not None and bytes_there not in (0, size):
                    fault = f"it has {bytes_there} bytes and should have {size}"
                    continue
                if bytes_there > self.limit_bytes:
                    fault = f"it has {bytes_there} bytes, and the cache may hold {self.limit_bytes}"
                    break
                with self._room(bytes_there), self._temporary(".part") as (temporary, _):
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
                fault = "its content does not have the hash that the manifest names"
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
            "Give a folder that you may write with cache=."
        )

    @contextlib.contextmanager
    def _room(self, size: int) -> Iterator[None]:
        """So many bytes kept free while a file is fetched: a sparse file stands for it, which others count."""
        with contextlib.ExitStack() as stack:
            with self._only_one("room"):
                self.make_room(size)
                _, file = stack.enter_context(self._temporary(".room"))
                os.ftruncate(file, size)
            yield

    def make_room(self, wanted: int) -> None:
        """Remove what was not used for longest until so many bytes fit in; what is open anywhere stays."""
        files = []
        for entry in os.scandir(self.folder):
            with contextlib.suppress(FileNotFoundError):
                if not entry.is_dir(follow_symlinks=False):
                    found = entry.stat(follow_symlinks=False)
                    # A temporary that nobody holds is what a killed process left. Its room is counted, and not itself.
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
        """A file, locked while in use and gone afterwards."""
        while True:
            path = self.folder / f"{kind}.{uuid.uuid4().hex}"
            file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file).st_nlink:
                break
            os.close(file)  # who made room took it for one that a dead process left, before it was locked
        try:
            yield path, file
        finally:
            os.close(file)
            with contextlib.suppress(FileNotFoundError):
                path.unlink()

    @contextlib.contextmanager
    def _only_one(self, name: str) -> Iterator[None]:
        """One process and thread at a time: of all that want a file, one fetches it and the others wait."""
        flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open(self.folder / "locks" / name, flags, 0o600)
        try:
            with contextlib.suppress(OSError):  # a file system without locks: it is fetched twice, no more
                fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)


def _removed(path: str) -> bool:
    try:
        file, _ = open_plain(path, follow=False)
    except FileNotFoundError:
        return True
    except OSError:  # a link or a pipe, which nobody reads from
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
    """That nobody else can put files into a folder, or links."""
    found = folder.stat(follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(f"{folder} is no folder")
    if found.st_uid != os.geteuid():
        raise UserError(
            f"{folder} belongs to another user ({found.st_uid}), who could exchange the shards in it, so it is not "
            "used as a cache. Give a folder of your own with cache=."
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UserError(
            f"{folder} may be written by other users (mode {stat.S_IMODE(found.st_mode):o}), who could exchange the "
            f"shards in it, so it is not used as a cache. Take the right away: chmod go-w {folder}"
        )

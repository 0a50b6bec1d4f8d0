"""A bounded folder of files that were fetched from an object store; several processes may share it.

Files are named by their sha256. One appears whole or not at all (temporary name, hash, rename), and is then sealed:
its modification time is computed from its hash, so a file that anything wrote to is known without being read, and is
hashed, and fetched again if it differs. The access time says when it was last used; the files that were not used for
longest go first. Whoever has a file open holds a shared lock on it, and what is locked is never removed.
"""

import contextlib
import fcntl
import hashlib
import os
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from gristmill.errors import UserError
from gristmill.loader.locations import file_system
from gristmill.loader.open_file import OpenFile

# Waits before each new attempt: a store that is away for half a minute does not end a training run.
RETRY_SECONDS = (1.0, 5.0, 25.0)


def default_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gristmill" / "shards"


class Cache:
    """Files by hash, up to a number of bytes."""

    def __init__(self, folder: str | Path, limit_bytes: int) -> None:
        self.folder = Path(folder)
        self.limit_bytes = limit_bytes
        self.fetched_files = 0
        self.fetched_bytes = 0
        self.removed_files = 0
        self.closed = threading.Event()
        try:
            (self.folder / "locks").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"{self.folder} cannot be used as a cache ({error}), so shards cannot be fetched. "
                "Give a folder that you may write with cache=."
            ) from None

    def opened(self, digest: str, location: str, size: int | None = None) -> OpenFile:
        """A file, fetched if need be; not removed before it is closed and the last view of it is gone."""
        while True:
            path = self.ensure(digest, location, size)
            with contextlib.suppress(FileNotFoundError):  # another process removed it just now
                return OpenFile(path, lock=True)

    def ensure(self, digest: str, location: str, size: int | None = None) -> Path:
        """Have a file in the folder."""
        path = self.folder / digest
        if self._is_whole(path, digest, size):
            return path
        with self._only_one(digest[:2]):
            if not self._is_whole(path, digest, size, hash_it=True):
                self._fetch(path, digest, location)
        return path

    def _is_whole(self, path: Path, digest: str, size: int | None, hash_it: bool = False) -> bool:
        try:
            stat = path.stat()
            if size is not None and stat.st_size != size:
                return False
            if stat.st_mtime_ns != _seal(digest) and (not hash_it or _sha256(path) != digest):
                return False
            os.utime(path, ns=(time.time_ns(), _seal(digest)))
        except FileNotFoundError:
            return False
        return True

    def _fetch(self, path: Path, digest: str, location: str) -> None:
        fault = ""
        for wait in (0.0, *RETRY_SECONDS):
            if self.closed.wait(wait):
                raise UserError(f"{location} was not fetched: the loader was closed. Open it again.")
            try:
                system, remote = file_system(location)
                with self._room(int(system.size(remote) or 0)), self._temporary(".part") as (temporary, _):
                    system.get_file(remote, str(temporary))
                    if _sha256(temporary) == digest:
                        size = temporary.stat().st_size
                        os.utime(temporary, ns=(time.time_ns(), _seal(digest)))
                        temporary.replace(path)
                        self.fetched_files += 1
                        self.fetched_bytes += size
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
                if entry.is_file():
                    stat = entry.stat()
                    # A temporary that nobody holds is what a killed process left. Its room is counted, and not itself.
                    used = 0 if entry.name.startswith(".") else stat.st_atime_ns
                    files.append((used, 0 if entry.name.startswith(".part") else stat.st_size, entry.path))
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
        path = self.folder / f"{kind}.{uuid.uuid4().hex}"
        file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        try:
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
            yield path, file
        finally:
            os.close(file)
            with contextlib.suppress(FileNotFoundError):
                path.unlink()

    @contextlib.contextmanager
    def _only_one(self, name: str) -> Iterator[None]:
        """One process and thread at a time: of all that want a file, one fetches it and the others wait."""
        file = os.open(self.folder / "locks" / name, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        try:
            with contextlib.suppress(OSError):  # a file system without locks: it is fetched twice, no more
                fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)


def _removed(path: str) -> bool:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    finally:
        os.close(file)
    return True


def _seal(digest: str) -> int:
    """The modification time of an untouched file, in nanoseconds: the hash's first 32 bits taken as seconds."""
    return int(digest[:8], 16) * 10**9


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

"""A local cache of parts from a remote store, for libraries that open a path.

The cache folder is writable only by the user. Each process hashes a file before its first use. The size is bounded; the
least recently used files are removed first.
"""

import hashlib
import os
import stat
import uuid
from collections.abc import Callable
from pathlib import Path

from gristmill.errors import UserError

LIMIT_BYTES = 32 << 30
"""The size limit of the folder; GRISTMILL_CACHE_BYTES overrides it."""

_checked: dict[Path, tuple[int, ...]] = {}
"""Files that this process has hashed, with their inode, size and times at that moment."""


def folder() -> Path:
    """The cache folder. Raises UserError if other users can write to it."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gristmill" / "parts"
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = root.lstat()
    except OSError as error:
        raise UserError(
            f"{root} cannot be used as a cache for parts of the store: {error}. Nothing was run. "
            "Set XDG_CACHE_HOME to a folder that you can write."
        ) from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise UserError(
            f"{root} is not a folder that only you can write, so its files cannot be trusted. Nothing was run. "
            f"Remove it, or run: chmod 700 {root}"
        )
    return root


def fetched(part_hash: str, suffix: str, fetch: Callable[[], memoryview]) -> Path:
    """The path of a part in the cache. If it is missing or damaged, `fetch` returns its checked bytes."""
    path = folder() / f"{part_hash}.{suffix}"
    if not _is_whole(path, part_hash):
        data = fetch()
        _make_room(path.parent, data.nbytes)
        temporary = path.parent / f".{uuid.uuid4().hex}"
        temporary.write_bytes(data)
        temporary.replace(path)
        _checked[path] = _state(path)
    return path


def _is_whole(path: Path, part_hash: str) -> bool:
    try:
        if path.is_symlink() or not path.is_file():
            return False
        if _checked.get(path) != _state(path):
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != part_hash:
                    return False
        os.utime(path)
        _checked[path] = _state(path)
    except FileNotFoundError:
        return False
    return True


def _state(path: Path) -> tuple[int, ...]:
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _make_room(root: Path, wanted: int) -> None:
    limit = int(os.environ.get("GRISTMILL_CACHE_BYTES") or LIMIT_BYTES)
    files = []
    for entry in os.scandir(root):
        try:
            found = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        files.append((found.st_mtime_ns, found.st_size, entry.path))
    total = wanted + sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= limit:
            return
        Path(path).unlink(missing_ok=True)
        total -= size

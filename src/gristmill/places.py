"""Where files lie: on this machine's disk, in an object store (`objects/`), or in another file system of fsspec.

What a user writes is a URL if it begins with a scheme (`s3://…`, also chained, `simplecache::s3://…`), and otherwise a
path, whatever characters are in it. What was found by listing is a path in the file system that was listed, and stays
one: a name like `a::b.jsonl` is never parsed again, for as a URL it would be another file.

File names are bytes. Python has those that are no UTF-8 as text with lone surrogates, which no JSON, no Arrow and no
terminal takes: `shown` is what people see of a name, `exact` what keys and records hold.
"""

import os
import re
import stat
from dataclasses import dataclass
from typing import IO, Any

from gristmill import objects
from gristmill.errors import UserError

_NAME = r"[A-Za-z][A-Za-z0-9+.\-]*"
_URL = re.compile(rf"(?:{_NAME}::)*{_NAME}://")
_ON_DISK = re.compile(r"(?:file|local)://")
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def is_url(location: str) -> bool:
    """Whether a location names a scheme."""
    return _URL.match(location) is not None


def local_path(location: str) -> str | None:
    """The path that a location means on this machine's disk; None for one that lies elsewhere.

    As everywhere in fsspec, `%20` in a file:// address are three characters.
    """
    if found := _ON_DISK.match(location):
        return location[found.end() :]
    return None if is_url(location) else location


def system_of(location: str) -> tuple[Any, str]:
    """The file system of a location that a user wrote, and the path in it."""
    path = local_path(location)
    if path is not None:
        from fsspec.implementations.local import LocalFileSystem  # takes as long as all else that reads a record

        return LocalFileSystem(), os.path.abspath(path)
    return _elsewhere(location)


def _elsewhere(location: str) -> tuple[Any, str]:
    if objects.is_object(location):
        from gristmill.objects.system import system_at

        return system_at(location)
    import fsspec

    try:
        system, path = fsspec.url_to_fs(location)
    except Exception as error:  # a library of a file system fails in its own ways
        raise UserError(
            f"{shown(location)} cannot be opened: {error}. Nothing was read or written. Install what its library "
            "needs, or use another address."
        ) from None
    return system, str(path)


@dataclass(frozen=True, slots=True)
class FileLocation:
    """A file that was found: a path, and the file system that it is a path in."""

    path: str
    system: Any = None
    """fsspec's; None: this machine's disk."""

    def open(self, block_bytes: int | None = None) -> IO[bytes]:
        """The file; `block_bytes` is what one request of an object store fetches, where little of it will be read."""
        if self.system is None:
            return open_path(self.path)
        options = {} if block_bytes is None else {"block_size": block_bytes}
        file: IO[bytes] = self.system.open(self.path, "rb", **options)
        return file


def place_of(location: str) -> FileLocation:
    """The place that a user's location means."""
    path = local_path(location)
    if path is not None:
        return FileLocation(path)
    system, path = _elsewhere(location)
    return FileLocation(path, system)


def open_path(path: str) -> IO[bytes]:
    """A file of this machine's disk. Anything that is none is refused: a pipe would be waited for, perhaps for ever."""
    _refuse(path, os.stat(path).st_mode)
    # Not to wait either if it becomes a pipe just now; a file does not care.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        _refuse(path, os.fstat(descriptor).st_mode)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _refuse(path: str, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise UserError(f"{shown(path)} is {kind_of(mode)} and no file, so it cannot be read. Name a file instead.")


def kind_of(mode: int) -> str:
    """What people call a thing in a folder that is no file."""
    return _KINDS.get(stat.S_IFMT(mode), "something else")


def shown(name: str) -> str:
    """A name for people: bytes that are no UTF-8 are U+FFFD."""
    return re.sub("[\ud800-\udfff]", "\ufffd", name)


def exact(name: str) -> str:
    """A name for keys and records: different for different names, and valid text.

    A byte that is no UTF-8 is a NUL, which no name has, and two digits.
    """
    return re.sub("[\udc80-\udcff]", lambda found: f"\0{ord(found[0]) - 0xDC00:02x}", name)


def from_exact(name: str) -> str:
    """The name that `exact` made that of."""
    return re.sub("\0([0-9a-f]{2})", lambda found: chr(0xDC00 + int(found[1], 16)), name)


def shown_exact(name: str) -> str:
    """What people see of a name that `exact` wrote."""
    return re.sub("\0[0-9a-f]{2}", "\ufffd", name)

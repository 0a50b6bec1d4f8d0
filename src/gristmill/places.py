"""File locations: on the local disk, in an object store (`objects/`), or in another file system of fsspec.

A location from a user is a URL if it begins with a scheme (`s3://…`, also chained, `simplecache::s3://…`), and
otherwise a path, whatever characters it has. A listed file is a path in the listed file system and is never parsed
again: as a URL, a name like `a::b.jsonl` would be another file.

File names are bytes. Python represents those that are not UTF-8 by lone surrogates, which JSON, Arrow and terminals
reject: `shown` gives a name for people, `exact` one for keys and records.
"""

import errno
import os
import re
import stat
from dataclasses import dataclass
from functools import partial
from typing import IO, Any

from gristmill import objects
from gristmill.errors import UserError

_NAME = r"[A-Za-z][A-Za-z0-9+.\-]*"
_URL = re.compile(rf"(?:{_NAME}::)*{_NAME}://")
_URL_END = re.compile(r"([\s'\")\]]+)")
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


def without_secrets(text: str) -> str:
    """A location, or a text with locations, without the parts of URLs that may hold a password or a signature."""
    return "".join(_without_secrets(word) if "://" in word else word for word in _URL_END.split(text))


def _without_secrets(word: str) -> str:
    """The same for a word: no user and password, and nothing from `?` or `#` on."""
    first, *locations = word.split("://")
    found = [first]
    for location in locations:
        cut = re.split("[?#]", location, maxsplit=1)
        user, at, rest = cut[0].partition("@")
        has_user = at and "/" not in user.partition(":")[0]  # a key may contain a slash
        found.append(rest if has_user else cut[0])
        if len(cut) > 1:
            break
    return "://".join(found)


def local_path(location: str) -> str | None:
    """The path of a location on the local disk; None if it is elsewhere.

    As in fsspec, `%20` in a file:// URL is three characters.
    """
    if found := _ON_DISK.match(location):
        return location[found.end() :]
    return None if is_url(location) else location


def system_of(location: str) -> tuple[Any, str]:
    """The file system of a user's location, and the path in it."""
    path = local_path(location)
    if path is not None:
        from fsspec.implementations.local import LocalFileSystem  # a slow import

        return LocalFileSystem(), os.path.abspath(path)
    return _elsewhere(location)


def _elsewhere(location: str) -> tuple[Any, str]:
    if objects.is_object(location):
        from gristmill.objects.system import system_at

        return system_at(location)
    import fsspec

    try:
        system, path = fsspec.url_to_fs(location)
    except Exception as error:  # file system libraries raise all kinds of errors
        raise UserError(
            f"{shown(location)} cannot be opened: {error}. Nothing was read or written. Install what its library "
            "needs, or use another location."
        ) from None
    return system, str(path)


@dataclass(frozen=True, slots=True)
class FileLocation:
    """A file: a path and its file system."""

    path: str
    system: Any = None
    """A file system of fsspec; None: the local disk."""
    ranges: bytes | None = None
    """Only these bytes of the file, concatenated (ranges.py)."""

    def open(self, block_bytes: int | None = None) -> IO[bytes]:
        """Open the file. `block_bytes` is the size of one request to an object store, if little will be read."""
        if self.ranges is not None:
            return self._open_ranges(self.ranges)
        if self.system is None:
            return open_path(self.path)
        options = {} if block_bytes is None else {"block_size": block_bytes}
        file: IO[bytes] = self.system.open(self.path, "rb", **options)
        return file

    def _open_ranges(self, ranges: bytes) -> IO[bytes]:
        from gristmill.ranges import RangesFile

        if self.system is not None:
            found: Any = RangesFile(ranges, partial(self.system.cat_file, self.path), lambda: None)
        else:
            file = open_path(self.path)
            found = RangesFile(ranges, lambda start, stop: os.pread(file.fileno(), stop - start, start), file.close)
        return found  # type: ignore[no-any-return]


def place_of(location: str) -> FileLocation:
    """The file at a user's location."""
    path = local_path(location)
    if path is not None:
        return FileLocation(path)
    system, path = _elsewhere(location)
    return FileLocation(path, system)


def open_path(path: str) -> IO[bytes]:
    """Open a regular file on the local disk. Anything else is refused: a pipe could block forever."""
    _refuse(path, os.stat(path).st_mode)
    # O_NONBLOCK: do not wait even if it has just become a pipe.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        _refuse(path, os.fstat(descriptor).st_mode)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _refuse(path: str, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise UserError(f"{shown(path)} is {kind_of(mode)}, not a file, so it cannot be read. Name a file instead.")


def kind_of(mode: int) -> str:
    """The name of a kind of directory entry that is not a file."""
    return _KINDS.get(stat.S_IFMT(mode), "something else")


def shown(name: str) -> str:
    """A name for people: bytes that are not UTF-8 become U+FFFD."""
    return re.sub("[\ud800-\udfff]", "\ufffd", name)


def exact(name: str) -> str:
    """A name for keys and records: different for different names, and valid text.

    A byte that is not UTF-8 becomes a NUL, which no name has, and two digits.
    """
    return re.sub("[\udc80-\udcff]", lambda found: f"\0{ord(found[0]) - 0xDC00:02x}", name)


def from_exact(name: str) -> str:
    """The name from the result of `exact`."""
    return re.sub("\0([0-9a-f]{2})", lambda found: chr(0xDC00 + int(found[1], 16)), name)


def shown_exact(name: str) -> str:
    """A name for people, from the result of `exact`."""
    return re.sub("\0[0-9a-f]{2}", "\ufffd", name)


def must_be_file(path: str) -> None:
    """Raise IsADirectoryError for anything but a regular file: a named pipe may block, and a device may have no end."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is not a file", path)

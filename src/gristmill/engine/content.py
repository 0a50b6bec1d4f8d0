"""The content hashes of input files, remembered so that an unchanged file is not read again to be hashed.

A file counts as unchanged while its size, modification and change times and inode stay the same (the change time
cannot be set by hand); on an object store, while its ETag does.
"""

import hashlib
import os
from typing import Any

import fsspec

from gristmill.store.store import Store


class ContentHashes:
    """What the store remembers of one recipe's input files."""

    def __init__(self, store: Store, recipe: str) -> None:
        self._store = store
        self._name = f"inputs/{recipe}.json"
        self._known: dict[str, list[str]] = store.read_json(self._name) or {}
        self._changed = False

    def get(self, uri: str, stamp: str) -> str | None:
        known = self._known.get(uri)
        return known[1] if known is not None and known[0] == stamp else None

    def remember(self, uri: str, stamp: str, content: str) -> None:
        self._known[uri] = [stamp, content]
        self._changed = True

    def save(self) -> None:
        if self._changed:
            self._store.write_json(self._name, self._known)
            self._changed = False

    def of_path(self, path: str) -> str:
        """The content of a file or folder that a config names."""
        fs, root = fsspec.url_to_fs(path)
        if not fs.isdir(root):
            return self._of_file(fs, root)
        names = sorted(fs.find(root))
        listing = "".join(f"{name[len(root) :]}\0{self._of_file(fs, name)}\n" for name in names)
        return f"folder:{hashlib.sha256(listing.encode()).hexdigest()}"

    def _of_file(self, fs: Any, path: str) -> str:
        stamp = stamp_of(path, fs.info(path))
        known = self.get(path, stamp)
        if known is None:
            with fs.open(path, "rb") as file:
                known = hash_stream(file)
            self.remember(path, stamp, known)
        return known


def stamp_of(path: str, info: dict[str, Any]) -> str:
    """A text that changes whenever the file may have changed."""
    if "ino" in info:
        stat = os.stat(path)
        return f"{stat.st_size}-{stat.st_mtime_ns}-{stat.st_ctime_ns}-{stat.st_ino}"
    tags = (info.get(name) for name in ("ETag", "etag", "md5Hash", "created"))
    return f"{info['size']}-{next((tag for tag in tags if tag), '')}"


def hash_stream(file: Any) -> str:
    digest = hashlib.sha256()
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()

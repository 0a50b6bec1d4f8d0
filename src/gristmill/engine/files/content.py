"""Remembers the content hashes of input files, so that an unchanged file is not read again to be hashed.

A file counts as unchanged while its size, modification and change times and inode stay the same (the change time
cannot be set by hand); on an object store, while its ETag does. If a file changes under the same stamp anyway, its
reader notices (checked.py), and its hash is forgotten.
"""

import os
from collections.abc import Mapping
from typing import Any

from gristmill.checked import Content, content_of
from gristmill.engine.files.indexing import FileIndex, known_index, remember_index
from gristmill.places import FileLocation, exact
from gristmill.store.store import Store

_TAGS = (
    ("ETag", "etag", "md5Hash", "generation", "version_id", "blob_id"),
    ("LastModified", "last_modified", "mtime", "modified", "modificationTime", "updated", "created"),
)


class ContentHashes:
    """The content hashes that the store remembers for one recipe's files."""

    def __init__(self, store: Store, recipe: str) -> None:
        self._store = store
        self._name = f"inputs/{recipe}.json"
        known = store.read_json(self._name)
        self._known: dict[str, list[Any]] = known if isinstance(known, dict) else {}
        self._changed = False

    def get(self, uri: str, stamp: str) -> Content | None:
        """The content of a file under a stamp; nothing is remembered for a file without a stamp."""
        known = self._known.get(exact(uri))
        if not stamp or not isinstance(known, list) or known[:1] != [stamp]:
            return None
        return Content.from_json(known[1:])

    def remember(self, uri: str, stamp: str, content: Content) -> None:
        if stamp:
            self._known[exact(uri)] = [stamp, *content.as_json()]
            self._changed = True

    def forget(self, uri: str) -> None:
        self._changed |= self._known.pop(exact(uri), None) is not None

    def index(self, sha256: str) -> FileIndex | None:
        """The index of a file with this hash, if the store has it."""
        return known_index(self._store, sha256)

    def remember_index(self, sha256: str, data: bytes) -> FileIndex:
        remember_index(self._store, sha256, data)
        index = FileIndex.from_bytes(data)
        assert index is not None
        return index

    def selection(self, key: str) -> bytes | None:
        """What an index selects, if the store has it (cdx.py)."""
        return self._store.read_file(f"inputs/indexes/{key}")

    def remember_selection(self, key: str, data: bytes) -> None:
        self._store.write_file(f"inputs/indexes/{key}", data)

    def save(self) -> None:
        if self._changed:
            self._store.write_json(self._name, self._known)
            self._changed = False

    def of(self, uri: str, place: FileLocation, stamp: str) -> Content:
        """The content of a file, hashed here and now if it is not known."""
        known = self.get(uri, stamp)
        if known is None:
            with place.open() as file:
                known = content_of(file)
            self.remember(uri, stamp, known)
        return known


def stamp_of_path(found: os.stat_result) -> str:
    """A text that changes whenever a local file may have changed."""
    return f"{found.st_size}-{found.st_mtime_ns}-{found.st_ctime_ns}-{found.st_ino}"


def stamp_of(info: Mapping[str, Any]) -> str:
    """The same for a file elsewhere; empty if its file system has no attribute that shows changes."""
    for names in _TAGS:
        tag = next((info[name] for name in names if info.get(name)), None)
        if tag is not None:
            return f"{info['size']}-{tag}"
    return ""

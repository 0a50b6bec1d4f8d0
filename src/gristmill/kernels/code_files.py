"""Files of compiled code: the check before one is used, and the folders that are allowed.

One flipped bit in machine code gives other results without an error, so every file begins with a SHA-256 of its name
and content, and nothing is unpickled before that agrees. A hash does not keep anyone from writing another file, so code
is only used from a folder that no one else can write to.
"""

import hashlib
import os
import pickle
import shlex
import stat
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import IndexDataCacheFile

from gristmill.kernels.shipped import BASELINE, read_shipped

DAMAGED = "This compiled kernel was damaged. It, and any other that is, is deleted and compiled again."
show_warning = warnings.showwarning
"""As Python has it: Numba records warnings while it compiles, and gives them again, perhaps as errors."""
_said: set[str] = set()
NOBODY = 65534
"""Owner of files that belong to root outside of a container with another root user."""


class OthersCanWrite(Exception):
    """Compiled code is in a folder that another user can write to."""


def make_private(folder: Path, root: Path) -> None:
    """Creates a folder (`root`, or one in it) that only this user can write to. Raises OthersCanWrite if another user
    can write there, or can replace the folder.
    """
    if not os.path.isdir(folder):
        for at in reversed((folder, *folder.parents)):
            at.mkdir(0o700, exist_ok=True)
    _refuse_others(str(folder), str(root))


@cache
def _refuse_others(folder: str, root: str) -> None:
    if folder != root:
        _refuse_others(root, root)
    above = {*Path(root).parents, *Path(root).resolve().parents} if folder == root else ()
    user = os.geteuid()
    # Anyone who can write to the folder, or to one above it, can exchange its files.
    for at in (Path(folder), *above):
        found, owners, others = at.stat(), {user, 0}, stat.S_IWGRP | stat.S_IWOTH
        if at in above:
            owners.add(NOBODY)
            if found.st_mode & stat.S_ISVTX:  # as in /tmp: users cannot rename files of others
                others = 0
            elif user == os.getegid() == found.st_gid:  # the user's own group, as created by `useradd`
                others = stat.S_IWOTH
        if found.st_mode & others or found.st_uid not in owners:
            fix = (
                f"run: chmod go-w {shlex.quote(str(at))}" if found.st_uid == user else "name another in NUMBA_CACHE_DIR"
            )
            raise OthersCanWrite(
                f"Other users can write to {at}, so they could replace the compiled kernels in {root}, which run with "
                f"your rights. Nothing was run. Delete {root} unless you trust these users, and {fix}"
            )
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{folder} cannot be written")


def is_whole(path: str | Path, data: bytes) -> bool:
    """Whether a file of compiled code has the content that was written under its name."""
    return data[:32] == _digest(path, memoryview(data)[32:])


def _digest(path: str | Path, content: bytes | memoryview) -> bytes:
    """Returns the hash of a file; the folder's name includes the kernel and the hash of its sources."""
    name = "/".join(str(path).split(os.sep)[-2:]).encode()
    return hashlib.sha256(hashlib.sha256(name).digest() + hashlib.sha256(content).digest()).digest()


class CheckedFiles(IndexDataCacheFile):
    """The index of one function and the code of its forms. A form is stored with its key, so that an index and the code
    of another process that wrote at the same time are never combined.
    """

    def load(self, key: Any) -> Any:
        found = super().load(key)  # type: ignore[no-untyped-call]
        if found is not None and found[0] == key:
            return found[1]
        shipped = self._load_shipped(key)
        if shipped is not None:
            self.save(key, shipped)
        return shipped

    def _load_shipped(self, key: Any) -> Any:
        """Returns the code in the wheel, compiled for every CPU of the architecture; None if there is none."""
        index = self._unpack(self._index_name)
        if index is None:
            return None
        signature, (triple, *_), sources = key
        baseline = (signature, (triple, *BASELINE), sources)
        found = self._unpack(index[baseline]) if baseline in index else None
        return found[1] if found is not None and found[0] == baseline else None

    def _unpack(self, name: str) -> Any:
        path = self._data_path(name)  # type: ignore[no-untyped-call]
        data = read_shipped(path)
        return pickle.loads(memoryview(data)[32:]) if data is not None and is_whole(path, data) else None

    def save(self, key: Any, data: Any) -> None:
        super().save(key, (key, data))  # type: ignore[no-untyped-call]

    def _load_index(self) -> Any:
        try:
            return self._load_data(self._index_name)
        except FileNotFoundError:
            return {}

    def _save_index(self, overloads: Any) -> None:
        self._save_data(self._index_name, overloads)

    def _load_data(self, name: str) -> Any:
        path = self._data_path(name)  # type: ignore[no-untyped-call]
        data = Path(path).read_bytes()
        if is_whole(path, data):
            return pickle.loads(memoryview(data)[32:])
        with suppress(OSError):
            os.unlink(path)
        if DAMAGED not in _said:  # once in a process
            _said.add(DAMAGED)
            show_warning(DAMAGED, RuntimeWarning, ascii(path)[1:-1], 0)
        raise FileNotFoundError(path)

    def _save_data(self, name: str, data: Any) -> None:
        path, content = self._data_path(name), self._dump(data)  # type: ignore[no-untyped-call]
        with self._open_for_write(path) as file:
            file.write(_digest(path, content) + content)

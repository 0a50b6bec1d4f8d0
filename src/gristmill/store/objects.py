"""The files of a store in an object store, or in the memory of this process.

Uploads are atomic, so there are no temporary files and no seals. Requests are slow, so many are sent at the same time.
A mark is an object that is only created if it does not exist yet.
"""

import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsspec.implementations.memory import MemoryFileSystem

from gristmill.objects.system import ObjectSystem
from gristmill.processes import name_of_self, runs
from gristmill.store.faults import Unwritable, unwritable
from gristmill.store.files import About, Answer
from gristmill.store.shelves import Page, Shelves

if TYPE_CHECKING:
    import pyarrow as pa

_PART = re.compile(r"parts/[0-9a-f]{2}/[0-9a-f]{64}\.\w+")
REMOTE_AT_ONCE = 32
"""Requests to a remote store at the same time."""


class ObjectFiles:
    """Keys below a prefix of a bucket."""

    is_local = False

    def __init__(self, uri: str, fs: Any, root: str) -> None:
        self.uri = uri
        self.fs = fs
        self.root = root
        self.is_shared = not isinstance(fs, MemoryFileSystem)
        self._is_ours = isinstance(fs, ObjectSystem)
        self._shelves = Shelves(self._pages)

    def read(self, name: str) -> bytes:
        return bytes(self.fs.cat_file(f"{self.root}/{name}"))

    def read_part(self, name: str, size: int) -> "pa.Buffer":
        path = f"{self.root}/{name}"
        import pyarrow as pa  # imported here because records do not need it

        return pa.py_buffer(self.fs.cat_large(path, size) if self._is_ours else self.fs.cat_file(path))

    def read_range(self, name: str, start: int, stop: int) -> bytes:
        return bytes(self.fs.cat_file(f"{self.root}/{name}", start=start, end=stop))

    def each(self, question: Callable[[About], Answer], things: Iterable[About]) -> Iterator[Answer]:
        with ThreadPoolExecutor(REMOTE_AT_ONCE) as pool:
            yield from pool.map(question, things)

    def doubtful(self, parts: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
        wanted = list(parts)
        for name, _ in wanted:
            self._shelves.expect(name)
        for part, is_whole in zip(wanted, self.each(self._exists_whole, wanted), strict=True):
            if not is_whole:
                yield part

    def _exists_whole(self, part: tuple[str, int]) -> bool:
        try:
            return bool(self.is_whole(*part))
        except FileNotFoundError:
            return False

    def is_whole(self, name: str, size: int) -> bool | None:
        if self._shelves.has(name, size):
            return True
        return bool(self.fs.info(f"{self.root}/{name}")["size"] == size)

    def _pages(self, folder: str) -> Iterator[Page]:
        """(name, size) of the parts in a folder, in order; other files in the folder are ignored."""
        path, skip = f"{self.root}/{folder}", len(self.root) + 1
        pages = self.fs.pages(path) if self._is_ours else ()  # the cost of a listing is unknown for other systems
        for page in pages:
            yield [(one[skip:], size) for one, size in page if _PART.fullmatch(one[skip:])]

    def seal(self, name: str) -> None:
        """Objects have no seals."""

    def write(self, name: str, data: memoryview) -> None:
        self.fs.pipe_file(f"{self.root}/{name}", data if self._is_ours else bytes(data))

    def take(self, path: Path, name: str) -> None:
        self.fs.put_file(str(path), f"{self.root}/{name}")
        path.unlink()

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        folder = tempfile.mkdtemp(prefix=f"gristmill-{name_of_self()}-")
        try:
            yield Path(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def location(self, name: str) -> str:
        return str(self.fs.unstrip_protocol(f"{self.root}/{name}"))

    def list_files(self, folder: str) -> Iterator[tuple[str, int]]:
        found = self.fs.find(f"{self.root}/{folder}", detail=True)
        for path in sorted(found):
            yield path[len(self.root) + 1 :], int(found[path]["size"])

    def has_other_names(self, name: str) -> bool:
        return False

    def remove(self, name: str) -> None:
        self._shelves.forget(name)
        self.fs.rm_file(f"{self.root}/{name}")

    def remove_any(self, name: str) -> None:
        path = f"{self.root}/{name}"
        self._shelves.forget(name)
        if self._is_ours:
            self.fs.rm_file(path)
        elif self.fs.exists(path):
            self.fs.rm(path, recursive=True)

    def mark(self, name: str, value: str) -> None:
        self.fs.pipe_file(f"{self.root}/{name}", value.encode(), mode="create")

    def marked(self, name: str) -> str:
        return str(self.fs.cat_file(f"{self.root}/{name}").decode("ascii", "replace"))

    def unmark(self, name: str) -> None:
        self._shelves.forget(name)
        self.fs.rm_file(f"{self.root}/{name}")

    def modified(self, name: str) -> float:
        return float(self.fs.modified(f"{self.root}/{name}").timestamp())

    def in_the_way(self, name: str) -> str | None:
        return None

    def temporary(self, path: str) -> str:
        raise NotImplementedError("uploads to an object store are atomic and need no temporary files")

    def sweep_temporaries(self, age_seconds: Callable[[str], float | None]) -> list[str]:
        for left in Path(tempfile.gettempdir()).glob("gristmill-*-*-*-*"):  # scratch folders of killed processes
            if runs(left.name.removeprefix("gristmill-").rpartition("-")[0]) is False:
                shutil.rmtree(left, ignore_errors=True)
        return []

    def unwritable_by(self, error: OSError, path: str | None = None) -> Unwritable:
        return unwritable(self.uri, error)

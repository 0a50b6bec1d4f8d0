"""Virtual Parquet files for DuckDB that join columns of several layers of a document part.

All bytes come from the parts of the store, local or remote, and are verified against their hashes. The file system has
no other files and is read-only.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from fsspec.spec import AbstractFileSystem

from gristmill.store.footer import MAGIC, LayerFile, joined
from gristmill.store.store import Part, Store
from gristmill.store.verdicts import Chunk, SparsePart

PROTOCOL = "gristmill"
HELD_BYTES = 64 << 20
"""The cache for recent chunks: a reader returns for the next page of the same chunk."""
HELD_FILES = 256
"""The most files whose footers are cached."""
GUESS_BYTES = 1 << 16
"""Padding before the footer: a reader fetches the last kilobytes of a file, which should not include column data."""
DIGITS = 9
"""Digits of a file number, so that names sort in order."""
_NAME = re.compile(rf"(.+)/([0-9]{{{DIGITS}}})\.parquet")
LayerColumns = tuple[tuple[str, Part, tuple[str, ...]], ...]
"""(step, its part, the columns to include)"""


class JoinedFiles(AbstractFileSystem):  # type: ignore[misc]
    """A file system with all joined files, by name."""

    protocol = PROTOCOL
    cachable = False

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self.fault: BaseException | None = None
        """The last error of the store, which DuckDB would hide in a traceback."""
        self._sets: dict[str, tuple[int, Callable[[int], LayerColumns]]] = {}
        self._opened: OrderedDict[str, _Contents] = OrderedDict()
        self._held: OrderedDict[tuple[str, int], memoryview] = OrderedDict()
        self._held_bytes = 0
        self._lock = threading.RLock()

    def add(self, name: str, count: int, columns: Callable[[int], LayerColumns]) -> str:
        """Add a set of files, which are built when they are opened; returns the pattern of their names."""
        self._sets[name] = (count, columns)
        return f"{PROTOCOL}://{name}/*"

    def hold(self, part: Part, opened: SparsePart, chunk: Chunk) -> memoryview:
        """The verified bytes of a chunk."""
        known = opened.known(chunk)
        if known is not None:
            return known
        with self._lock:
            found = self._held.get((part.hash, chunk.start))
        if found is None:
            check = lambda data: opened.checked(chunk, memoryview(data))  # noqa: E731
            found = self.store.get_range(part, chunk.start, chunk.stop, check)
        with self._lock:
            if (part.hash, chunk.start) not in self._held:
                self._held_bytes += len(found)
            self._held[part.hash, chunk.start] = found
            self._held.move_to_end((part.hash, chunk.start))
            while self._held_bytes > HELD_BYTES and len(self._held) > 1:
                self._held_bytes -= len(self._held.popitem(last=False)[1])
        return found

    def contents(self, path: str) -> "_Contents":
        name = self._strip_protocol(path)
        with self._lock:
            if name not in self._opened:
                among, _, number = name.rpartition("/")
                if not self.exists(name):
                    raise FileNotFoundError(path)
                self._opened[name] = _Contents(self, self._sets[among][1](int(number[:DIGITS])))
                while len(self._opened) > HELD_FILES:
                    self._opened.popitem(last=False)
            return self._opened[name]

    # The file system interface for DuckDB

    def info(self, path: str, **_: object) -> Mapping[str, Any]:
        return {"name": path, "size": self._kept(lambda: self.contents(path).size), "type": "file"}

    def modified(self, path: str) -> datetime:
        return datetime(2000, 1, 1, tzinfo=UTC)  # they never change

    def exists(self, path: str, **_: object) -> bool:
        found = _NAME.fullmatch(self._strip_protocol(path))
        return found is not None and int(found[2]) < self._sets.get(found[1], (0, None))[0]

    def glob(self, path: str, **_: object) -> list[str]:
        among, _, last = self._strip_protocol(path).rpartition("/")
        if last != "*":
            return [path] if self.exists(path) else []
        count = self._sets.get(among, (0, None))[0]
        return [f"{PROTOCOL}://{among}/{number:0{DIGITS}}.parquet" for number in range(count)]

    def _open(self, path: str, mode: str = "rb", **_: object) -> "_OpenFile":
        if mode != "rb":
            raise PermissionError(f"{path} can only be read")
        return _OpenFile(self, self._kept(lambda: self.contents(path)))

    def _kept(self, call: Any) -> Any:
        try:
            return call()
        except Exception as error:
            self.fault = error
            raise


class _Contents:
    """The bytes of a file: the concatenated parts, then the joint footer."""

    def __init__(self, files: JoinedFiles, columns: LayerColumns) -> None:
        self._files = files
        self._layers: list[tuple[int, Part, SparsePart | None, memoryview | None]] = []
        layers, at = [], 0
        for step, part, names in columns:
            opened = None if part.verdicts is None else SparsePart(files.store, part)
            whole = None if opened is not None else memoryview(files.store.get_part(part))
            footer = opened.footer if opened is not None else bytes(whole or b"")
            self._layers.append((at, part, opened, whole))
            layers.append(LayerFile(step, footer, at, names))
            at += part.file_bytes
        self._footer_at, self._footer = at + GUESS_BYTES, joined(layers)
        self.size = self._footer_at + len(self._footer)

    def read(self, start: int, stop: int) -> bytes:
        stop = min(stop, self.size)
        result = bytearray(max(stop - start, 0))
        for at, data in self._stretches(start, stop):
            first, last = max(at, start), min(at + len(data), stop)
            if first < last:
                result[first - start : last - start] = data[first - at : last - at]
        return bytes(result)

    def _stretches(self, start: int, stop: int) -> Iterator[tuple[int, memoryview | bytes]]:
        yield 0, MAGIC
        for at, part, opened, whole in self._layers:
            if at < stop and start < at + part.file_bytes:
                if whole is not None:
                    yield at, whole
                elif opened is not None:
                    for chunk in opened.within(max(start - at, 0), stop - at):
                        yield at + chunk.start, self._files.hold(part, opened, chunk)
        yield self._footer_at, self._footer


class _OpenFile:
    """An open file. DuckDB's threads share it, and each seeks before it reads, so each has its own position."""

    closed = False

    def __init__(self, files: JoinedFiles, contents: _Contents) -> None:
        self._files, self._contents = files, contents
        self._place = threading.local()

    def seek(self, offset: int, whence: int = 0) -> int:
        base = (0, self.tell(), self._contents.size)[whence]
        self._place.at = base + offset
        return base + offset

    def tell(self) -> int:
        return getattr(self._place, "at", 0)

    def read(self, count: int = -1) -> bytes:
        at = self.tell()
        stop = self._contents.size if count < 0 else at + count
        data: bytes = self._files._kept(lambda: self._contents.read(at, stop))
        self._place.at = at + len(data)
        return data

    def close(self) -> None:
        """Do nothing: there is no resource to release."""

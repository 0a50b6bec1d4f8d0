"""Random access to the bytes of one file through one window of memory."""

import re
from types import TracebackType
from typing import IO

from gristmill.places import place_of
from gristmill.stages.contract import Piece
from gristmill.stages.reading.head import Head

WINDOW_BYTES = 4 << 20
"""Read-ahead for sequential access: about a hundred records of a crawl, one request to an object store."""
HOP_BYTES = 128 << 10
"""Read-ahead for random access."""


class ByteSource:
    """The bytes of a file. `read` is cheap for neighbouring offsets, since the last range stays in memory."""

    def __init__(self, opened: Piece | str | IO[bytes]) -> None:
        if isinstance(opened, str):
            opened = place_of(opened).open()
        self.file: IO[bytes] = opened.open() if isinstance(opened, Piece) else opened
        self._window_bytes = HOP_BYTES if isinstance(self.file, Head) else WINDOW_BYTES
        self.file.seek(0, 2)
        self.size: int = self.file.tell()
        self.base = 0
        """Offset in the file of the window's first byte."""
        self.window = b""

    def __enter__(self) -> "ByteSource":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()

    def read(self, start: int, length: int) -> bytes:
        """Returns `length` bytes from `start`; fewer only at the end."""
        length = max(0, min(length, self.size - start))
        first = start - self.base
        if length and (first < 0 or first + length > len(self.window)):
            self._load(start, length)
            first = 0
        return self.window[first : first + length] if length else b""

    def peek(self, start: int, length: int) -> bytes:
        """As `read`, but keeps the window, for a read far ahead."""
        length = max(0, min(length, self.size - start))
        first = start - self.base
        if first >= 0 and first + length <= len(self.window):
            return self.window[first : first + length]
        self.file.seek(start)
        return self._take(length)

    def _load(self, start: int, length: int) -> None:
        ahead = self._window_bytes if self.window and self.base <= start <= self.base + len(self.window) else HOP_BYTES
        self.file.seek(start)
        self.base, self.window = start, self._take(min(max(length, ahead), self.size - start))

    def _take(self, wanted: int) -> bytes:
        parts: list[bytes] = []
        while wanted > 0 and (part := self.file.read(wanted)):  # a raw stream may return less than requested
            parts.append(part)
            wanted -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def find(self, needle: bytes, start: int, skip: int, limit: int) -> int:
        """Offset of the first `needle` in [start + skip, start + limit), or -1.

        Copies nothing, and leaves the window so that everything from `start` to the needle can be read.
        """
        first = start - self.base
        at = self.window.find(needle, first + skip, self.size - self.base) if 0 <= first < len(self.window) else -1
        if at < 0 and (first < 0 or self.base + len(self.window) < self.size):
            self._load(start, limit)
            at = self.window.find(needle, skip, self.size - self.base)
        return self.base + at if 0 <= at < start + limit - self.base else -1

    def search(self, pattern: re.Pattern[bytes], start: int, stop: int, reach: int) -> int | None:
        """Offset of the first match that begins in [start, stop). No match may be longer than `reach` bytes."""
        last = min(stop + reach, self.size)
        while start < min(stop, self.size):
            first, loaded = start - self.base, self.base + len(self.window)
            if first < 0 or (loaded - start < reach and loaded < self.size):
                self._load(start, reach)
                first, loaded = 0, start + len(self.window)
            # Searches in the window itself: copying the rest of it for each of many matches would be quadratic.
            if found := pattern.search(self.window, first, min(loaded, last) - self.base):
                at = self.base + found.start()
                return at if at < stop else None
            if loaded >= last:
                return None
            start = max(loaded - reach, start) + 1
        return None

"""The bytes that a reader sees of a file, if it does not see the file itself: a member of an archive, or what a
compressed file unpacks to.
"""

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import IO, Any

from gristmill.checked import SeekableFile
from gristmill.stages.reading.decompress import Feed, ReadFault, member_chunks, unpack

Opener = Callable[[], IO[bytes]]
HELD_BYTES = 64 << 20
"""A compressed member up to this size is unpacked in memory. A larger one is unpacked again if its reader goes back."""
METHODS = {zipfile.ZIP_DEFLATED: "deflate", zipfile.ZIP_BZIP2: "bzip2"}
"""Compressions of members of zip archives."""
_LOCAL_HEADER = struct.Struct("<4s22xHH")  # the magic, and the lengths of name and extra field


@dataclass(frozen=True, slots=True)
class Unpacked:
    """What a compressed file unpacks to. It is read from the start; going back unpacks it again."""

    kind: str
    size: int

    def open(self, opener: Opener, identity: str | None = None) -> IO[bytes]:
        file = opener()
        return io.BufferedReader(_Stream(file, lambda: unpack(self.kind, file), self.size), 1 << 16)


class _Stream(SeekableFile):
    """Unpacks a file, again from its start if the reader goes back."""

    def __init__(self, file: IO[bytes], chunks: Callable[[], Iterator[bytes]], size: int) -> None:
        super().__init__(size)
        self._file, self._open_chunks = file, chunks
        self._chunks: Iterator[bytes] = iter(())
        self._chunk, self._start = b"", -1
        """The current chunk, and its position."""

    def readinto(self, target: Any) -> int:
        if self._at >= self._size:
            return 0
        if self._start < 0 or self._at < self._start:
            self._file.seek(0)
            self._chunks, self._chunk, self._start = self._open_chunks(), b"", 0
        while self._at >= self._start + len(self._chunk):
            self._start += len(self._chunk)
            self._chunk = next(self._chunks)
        view = memoryview(target).cast("B")
        part = self._chunk[self._at - self._start : self._at - self._start + len(view)]
        view[: len(part)] = part
        self._at += len(part)
        return len(part)

    def close(self) -> None:
        self._file.close()
        super().close()


@dataclass(frozen=True, slots=True)
class ArchiveMember:
    """A member of a tar archive, or of a zip archive if it has a `method`."""

    offset: int
    """Of its bytes in the tar archive, or of its header in the zip archive."""
    size: int
    method: int | None = None
    packed_size: int = 0
    crc: int = 0
    inside: Unpacked | None = None
    """A tar archive is a member of what this unpacks to."""

    @property
    def is_plain(self) -> bool:
        """Whether it can be read from the middle."""
        return not self.method

    def open(self, opener: Opener, identity: str | None = None) -> IO[bytes]:
        closes = identity is None
        file = _shared(opener if self.inside is None else partial(self.inside.open, opener), identity)
        start = self._data_start(file) if self.method is not None and self.inside is None else self.offset
        if self.inside is not None or self.is_plain:
            return io.BufferedReader(Window(file, start, self.size, closes), 1 << 16)
        packed = io.BufferedReader(Window(file, start, self.packed_size, closes), 1 << 16)
        member = _Stream(packed, lambda: self._chunks(packed), self.size)
        if self.size > HELD_BYTES:
            return io.BufferedReader(member, 1 << 16)
        with member:
            return io.BytesIO(member.readall())

    def _chunks(self, packed: IO[bytes]) -> Iterator[bytes]:
        """What a compressed member of a zip archive unpacks to."""
        size = checksum = 0
        try:
            for chunk in member_chunks(METHODS[self.method or 0], Feed(packed.read)):
                size, checksum = size + len(chunk), zlib.crc32(chunk, checksum)
                if size > self.size or (size == self.size and checksum != self.crc):
                    raise ReadFault("corrupt_zip", "the member's size or checksum is not the one in the archive")
                yield chunk
        except ReadFault as fault:
            is_cut = fault.reason == "truncated_archive"
            raise ReadFault(fault.reason if is_cut else "corrupt_zip", fault.detail) from None
        raise ReadFault("corrupt_zip", f"the member unpacks to {size} bytes, and should to {self.size}")

    def _data_start(self, file: IO[bytes]) -> int:
        file.seek(self.offset)
        head = file.read(_LOCAL_HEADER.size)
        if len(head) < _LOCAL_HEADER.size or not head.startswith(b"PK\3\4"):
            raise ReadFault("corrupt_zip", f"no member begins at byte {self.offset} of the archive")
        _, name, extra = _LOCAL_HEADER.unpack(head)
        return self.offset + _LOCAL_HEADER.size + int(name) + int(extra)


class Window(SeekableFile):
    """A range of a file."""

    def __init__(self, file: IO[bytes], start: int, size: int, closes: bool) -> None:
        super().__init__(size)
        self._file, self._start, self._closes = file, start, closes

    def readinto(self, target: Any) -> int:
        wanted = max(0, min(len(target), self._size - self._at))
        if not wanted:
            return 0
        self._file.seek(self._start + self._at)
        found = self._file.read(wanted)
        if not found:
            raise ReadFault("truncated_archive", f"the archive ends within this member, at its byte {self._at}")
        target[: len(found)] = found
        self._at += len(found)
        return len(found)

    def close(self) -> None:
        if self._closes:
            self._file.close()
        super().close()


@dataclass(frozen=True, slots=True)
class Faults:
    """Rows that represent what cannot be read of a file: reason and detail of each."""

    rows: tuple[tuple[str, str], ...]
    size: int = 0

    def open(self, opener: Opener, identity: str | None = None) -> IO[bytes]:
        raise ReadFault(*self.rows[0])


View = Unpacked | ArchiveMember | Faults

_last: tuple[str, IO[bytes]] | None = None
"""The archive that was opened last. The members of a task follow each other in it, so it is read and checked once."""


def _shared(open_archive: Opener, identity: str | None) -> IO[bytes]:
    global _last
    if identity is None:
        return open_archive()
    if _last is None or _last[0] != identity:
        if _last is not None:
            _last[1].close()
        _last = None
        _last = identity, open_archive()
    return _last[1]

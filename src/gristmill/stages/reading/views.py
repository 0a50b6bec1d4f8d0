"""The bytes that a reader sees of a file, if it does not see the file itself: a member of an archive, or what a
compressed file unpacks to. Both can be opened anywhere, so readers read them like plain files.
"""

import io
import struct
import zipfile
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import IO, Any, NamedTuple

from gristmill.checked import SeekableFile
from gristmill.stages.reading.decompress import ReadFault, read_bzip2, read_gzip, read_xz, read_zstd

Opener = Callable[[], IO[bytes]]
HELD_BYTES = 64 << 20
"""A compressed member up to this size is unpacked in memory. A larger one is unpacked again if its reader goes back."""
BUFFER_BYTES = 32 << 20
"""Bytes that are unpacked at once: indexed_gzip starts every reading at a point."""
_LOCAL_HEADER = struct.Struct("<4s22xHH")  # the magic, and the lengths of name and extra field
_STREAMS = {"gzip": read_gzip, "zstd": read_zstd, "bzip2": read_bzip2, "xz": read_xz}


class Point(NamedTuple):
    """A position of a compressed file from which it can be unpacked."""

    packed: int
    unpacked: int
    bits: int = 0
    """gzip: bits of the byte before `packed` that belong to the next block."""
    window: bytes = b""
    """gzip: the unpacked bytes before the point, to which later ones refer."""


@dataclass(frozen=True, slots=True)
class Unpacked:
    """What a compressed file unpacks to."""

    kind: str
    packed_size: int
    size: int
    points: tuple[Point, ...]
    """The first one is the start of the file."""
    spacing: int = 0
    """gzip: bytes between points."""

    def near(self, start: int, stop: int | None = None) -> "Unpacked":
        """The same with only the points for reading from the start of the file, and from `start` to `stop`."""
        first = bisect_right(self.points, start, key=lambda point: point.unpacked) - 1
        end = self.size if stop is None else stop
        own = [point for point in self.points[max(first, 1) :] if point.unpacked < end]
        return replace(self, points=(self.points[0], *own))

    def open(self, opener: Opener, identity: str | None = None) -> IO[bytes]:
        file = opener()
        if self.kind != "gzip" or not self.spacing:
            return io.BufferedReader(_Stream(file, self), 1 << 16)
        from indexed_gzip import IndexedGzipFile

        unpacked: IO[bytes] = IndexedGzipFile(
            fileobj=file, readbuf_size=1 << 20, buffer_size=BUFFER_BYTES, skip_crc_check=True
        )
        unpacked.import_index(fileobj=io.BytesIO(gzip_index(self)))  # type: ignore[attr-defined]
        return unpacked


class _Stream(SeekableFile):
    """Unpacks from the nearest point before a position."""

    def __init__(self, file: IO[bytes], view: Unpacked) -> None:
        super().__init__(view.size)
        self._file, self._view = file, view
        self._chunks: Iterator[bytes] = iter(())
        self._chunk, self._start = b"", -1
        """The current chunk, and its position."""

    def readinto(self, target: Any) -> int:
        if self._at >= self._size:
            return 0
        points = self._view.points
        point = points[bisect_right(points, self._at, key=lambda one: one.unpacked) - 1]
        if self._start < 0 or self._at < self._start or point.unpacked > self._start + len(self._chunk):
            self._file.seek(point.packed)
            self._chunks, self._chunk, self._start = _STREAMS[self._view.kind](self._file), b"", point.unpacked
        while self._at >= self._start + len(self._chunk):
            self._start += len(self._chunk)
            self._chunk = next(self._chunks)
        view = memoryview(target).cast("B")
        found = self._chunk[self._at - self._start : self._at - self._start + len(view)]
        view[: len(found)] = found
        self._at += len(found)
        return len(found)

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
        if self.inside is not None:
            file = _shared(self.inside, opener, identity)
            return io.BufferedReader(Window(file, self.offset, self.size, closes=identity is None), 1 << 16)
        file = opener()
        start = self.offset if self.method is None else self._data_start(file)
        if self.is_plain:
            return io.BufferedReader(Window(file, start, self.size, closes=True), 1 << 16)
        info = zipfile.ZipInfo()
        info.compress_type, info.compress_size, info.file_size = self.method or 0, self.packed_size, self.size
        info.CRC, info.flag_bits, info.orig_filename = self.crc, 0, info.filename
        file.seek(start)
        member = _Inflated(zipfile.ZipExtFile(file, "r", info, close_fileobj=True), self.size)
        if self.size > HELD_BYTES:
            return io.BufferedReader(member, 1 << 16)
        with member:
            return io.BytesIO(member.readall())

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


class _Inflated(SeekableFile):
    """A compressed member of a zip archive. Damage raises ReadFault."""

    def __init__(self, member: zipfile.ZipExtFile, size: int) -> None:
        super().__init__(size)
        self._member = member

    def readinto(self, target: Any) -> int:
        try:
            if self._member.tell() != self._at:
                self._member.seek(self._at)
            found = self._member.read(min(len(target), max(0, self._size - self._at)))
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError) as error:
            raise ReadFault("corrupt_zip", str(error) or "the member ends early") from None
        if not found and self._at < self._size and len(target):
            raise ReadFault("corrupt_zip", f"the member unpacks to {self._at} bytes, and should to {self._size}")
        target[: len(found)] = found
        self._at += len(found)
        return len(found)

    def close(self) -> None:
        self._member.close()
        super().close()


@dataclass(frozen=True, slots=True)
class Faults:
    """Rows that represent what cannot be read of a file: reason and detail of each."""

    rows: tuple[tuple[str, str], ...]
    size: int = 0

    def open(self, opener: Opener, identity: str | None = None) -> IO[bytes]:
        raise ReadFault(*self.rows[0])


View = Unpacked | ArchiveMember | Faults

_last: tuple[tuple[str, int], IO[bytes]] | None = None
"""The archive that was unpacked last. The members of a task follow each other in it, so it is unpacked once."""


def _shared(view: Unpacked, opener: Opener, identity: str | None) -> IO[bytes]:
    global _last
    if identity is None:
        return view.open(opener)
    key = identity, view.points[-1].unpacked
    if _last is None or _last[0] != key:
        if _last is not None:
            _last[1].close()
        _last = None
        _last = key, view.open(opener)
    return _last[1]


_HEADER = struct.Struct("<5sBBQQIII")  # GZIDX, version, reserved; sizes; spacing, bytes of a window, points
_POINT = struct.Struct("<QQBB")  # offsets; bits; whether there is a window
_WINDOW_BYTES = 32 << 10


def gzip_index(view: Unpacked) -> bytes:
    """The points as a file of indexed_gzip."""
    head = _HEADER.pack(b"GZIDX", 1, 0, view.packed_size, view.size, view.spacing, _WINDOW_BYTES, len(view.points))
    points = [_POINT.pack(one.packed, one.unpacked, one.bits, bool(one.window)) for one in view.points]
    return b"".join([head, *points, *(one.window for one in view.points)])


def from_gzip_index(data: bytes) -> Unpacked:
    """The inverse of `gzip_index`."""
    _, version, _, packed_size, size, spacing, window_bytes, count = _HEADER.unpack_from(data)
    assert (version, window_bytes) == (1, _WINDOW_BYTES)
    found, at = [], _HEADER.size + count * _POINT.size
    for number in range(count):
        packed, unpacked, bits, has_window = _POINT.unpack_from(data, _HEADER.size + number * _POINT.size)
        found.append(Point(packed, unpacked, bits, data[at : at + _WINDOW_BYTES] if has_window else b""))
        at += _WINDOW_BYTES if has_window else 0
    return Unpacked("gzip", packed_size, size, tuple(found), spacing)

"""A sequence of decoded bytes: a plain file, or a run of compressed frames.

`at` never reads past the frame in which the last record ended. `must` also opens the frames after it, for archives
whose frames are cut anywhere (bgzip, pigz) instead of between records. A frame that begins with a record header is
never joined to the frame before it. So an archive reads the same from there on, whatever damage came before.
"""

from collections.abc import Iterator
from itertools import chain

from gristmill.stages.ingest.frames import MAGIC, Frame, fault_before
from gristmill.stages.ingest.source import ByteSource
from gristmill.stages.ingest.warc_headers import holds_arc, opens_record

FORGET_BYTES = 1 << 16
"""How many bytes before the reader's position are kept before they are freed."""


class Tape:
    """A plain file."""

    fault: str | None = None
    """The fault of the last frame."""
    whole = False
    """Whether the tape ends where its writer ended, which the end of an intact single frame shows."""
    jumps = True
    """Whether skipping bytes is free."""
    arc: bool
    """Whether the records are ARC records."""

    def __init__(self, source: ByteSource) -> None:
        self.source = source
        self.arc = holds_arc(source.read(0, 1 << 20))

    @property
    def known(self) -> int:
        """How far the tape was read; if `at` or `must` returned less than requested, its end."""
        return self.source.size

    def at(self, offset: int, length: int) -> bytes:
        """Returns `length` bytes from `offset`; fewer only at the end."""
        return self.source.read(offset, length)

    def whole_frame(self) -> bytes:
        """The tape from its beginning if it is one intact frame in one piece, else nothing."""
        return b""

    def peek(self, offset: int, length: int) -> bytes:
        """As `at`, to check an offset where a header claims that something is."""
        return self.source.peek(offset, length)

    def must(self, offset: int, length: int) -> int:
        """How many bytes `at` will return, for a range that belongs to a record already begun."""
        return max(0, min(length, self.known - offset))

    def damage(self) -> str | None:
        """The fault of the current frame, before or after the bytes read so far."""
        return None

    def forget(self, offset: int) -> None:
        """Promises that no byte before `offset` will be read again."""


class FrameTape(Tape):
    """The frames from `start` on, decoded as far as needed."""

    jumps = False

    def __init__(self, source: ByteSource, kind: str, start: int, dictionary: bytes | None) -> None:
        self.source, self.kind, self.dictionary = source, kind, dictionary
        self.whole = True
        self._before = 0
        self._checked: Frame | None = None
        self._damage: str | None = None
        self.last = Frame(source, kind, start, dictionary)
        self._chunks: Iterator[bytes] = self.last.chunks()
        first = next(self._chunks, b"")
        # Kept as bytes, because most frames are one chunk that holds one record; a bytearray once it grows or shrinks.
        self._data: bytes | bytearray = first
        self._base = 0
        self._unjoined = -1
        self.arc = holds_arc(first)

    @property
    def known(self) -> int:
        return self._base + len(self._data)

    @property
    def taken(self) -> int:
        """Bytes of the file from `start` on that certainly belong to these frames."""
        return self._before + self.last.taken

    def at(self, offset: int, length: int) -> bytes:
        first = offset - self._base
        if first + length > len(self._data):
            self._fill(first + length)
        if isinstance(self._data, bytes):
            return self._data[first : first + length]
        with memoryview(self._data) as view:
            return bytes(view[first : first + length])

    def peek(self, offset: int, length: int) -> bytes:
        return self.at(offset, length)

    def whole_frame(self) -> bytes:
        return self._data if self.last.end is not None and isinstance(self._data, bytes) else b""

    def must(self, offset: int, length: int) -> int:
        end = offset - self._base + length
        if end > len(self._data):
            self._fill(end, join=True)
            return max(0, min(length, self.known - offset))
        return length

    def damage(self) -> str | None:
        if self._checked is not self.last:
            self._checked = self.last
            self._damage = fault_before(self.source, self.last, self.source.size)
        return self._damage

    def forget(self, offset: int) -> None:
        if offset - self._base > FORGET_BYTES:
            if isinstance(self._data, bytes):
                self._data = bytearray(memoryview(self._data)[offset - self._base :])
            else:
                del self._data[: offset - self._base]
            self._base = offset

    def _fill(self, length: int, join: bool = False) -> None:
        while len(self._data) < length:
            if part := next(self._chunks, b""):
                if isinstance(self._data, bytes):
                    self._data = bytearray(self._data)
                self._data += part
            elif not (join and self._join_next()):
                self.fault = self.last.fault
                break

    def _join_next(self) -> bool:
        """Continues with the next frame, unless it begins with a record or there is none."""
        end = self.last.end
        if end is None or end == self._unjoined or not self.source.read(end, 4).startswith(MAGIC[self.kind]):
            return False
        follower = Frame(self.source, self.kind, end, self.dictionary)
        chunks = follower.chunks()
        first = next(chunks, b"")
        if opens_record(first[: 1 << 14]):
            self._unjoined = end  # any number of records may try again
            return False
        self._before += self.last.taken
        self.last, self._chunks, self.whole = follower, chain([first] if first else [], chunks), False
        return True

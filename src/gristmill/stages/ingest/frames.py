"""Compressed frames of archives: gzip members, zstd frames. A well-formed archive has one for each record.

A frame is decoded in pieces, in bounded memory. Everything before a fault is still returned. Whole gzip members of
usual size are decoded by fastwarc's inflate (zlib-rs), which is twice as fast as CPython's zlib. The frames of an lz4
file are one frame here: fastwarc decodes them, and what follows damage is lost.
"""

import io
import re
import warnings
import zlib
from collections.abc import Callable, Iterator

import zstandard

with warnings.catch_warnings():  # the import warns about names that it uses
    warnings.simplefilter("ignore", DeprecationWarning)
    from fastwarc.stream_io import GzipReader, Lz4Reader

from gristmill.stages.ingest.source import ByteSource
from gristmill.stages.ingest.warc_headers import ARC_HEAD, ARC_SEARCH, WARC_HEAD, opens_record
from gristmill.stages.reading.decompress import (
    ZSTD_MAGIC,
    Feed,
    ReadFault,
    gzip_member,
    raise_for_memory,
    unpack_bytes,
    zstd_frame,
)
from gristmill.stages.reading.views import Window

MAGIC = {"gzip": b"\x1f\x8b\x08", "zstd": ZSTD_MAGIC, "lz4": b"\x04\x22\x4d\x18"}
# Reserved flag bits of the headers must be zero, which reduces chance matches when searching for a frame.
FRAME = {
    "gzip": re.compile(rb"\x1f\x8b\x08[\x00-\x1f]"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd[\x00-\x07\x20-\x27\x40-\x47\x60-\x67\x80-\x87\xa0-\xa7\xc0-\xc7\xe0-\xe7]"),
    "lz4": re.compile(rb"\x04\x22\x4d\x18[\x40-\x7f]"),
}
SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")
DICTIONARY_MAGIC = b"\x5d\x2a\x4d\x18"  # IIPC "WARC with zstandard compression": the file's first frame
SUFFIXES = {".gz": "gzip", ".zst": "zstd", ".lz4": "lz4"}
MOST_DICTIONARY_BYTES = 1 << 26
ZSTD_WINDOW_BYTES = 1 << 27
LZ4_STEP_BYTES = 1 << 12
"""The call that meets damage returns nothing."""
WHOLE_INPUT_BYTES = 4 << 20
WHOLE_OUTPUT_BYTES = 16 << 20
"""Members up to these sizes are decoded in one call."""
MOST_RATIO = 1032
"""Deflate's own bound: 258 bytes from 2 bits. A member that claims more is damaged, and no memory is allocated for it.
"""
PROBE_STEP_BYTES, PROBE_BYTES = 1 << 8, 1 << 12
"""How much of a possible gzip member is read to see whether it has a record: its name may be long."""
LEAVE_SHARE = 256
"""After a frame without a record, one byte is skipped for this many bytes that were read of it. So nested frames, as in
hostile files, are not each read to the end of the file."""


class Frame:
    """One frame of `source` from `start`. After its chunks are read, either `end` or `fault` is set."""

    def __init__(
        self, source: ByteSource, kind: str, start: int, dictionary: bytes | None = None, stop: int | None = None
    ) -> None:
        self.source, self.kind, self.start, self.dictionary = source, kind, start, dictionary
        self._feed = Feed(_reads(source, start, source.size if stop is None else stop))
        self.taken = 0
        """Bytes of input that certainly belong to the frame."""
        self.end: int | None = None
        """Offset of the first byte after an intact frame."""
        self.fault: str | None = None

    @property
    def next_start(self) -> int:
        """Where the search for a frame continues if this one is damaged or has no record."""
        return self.start + 1 + self._feed.taken // LEAVE_SHARE

    def chunks(self) -> Iterator[bytes]:
        if self.kind == "gzip" and (whole := self._whole()) is not None:
            yield whole
            return
        yield from self.steps()

    def steps(self) -> Iterator[bytes]:
        """The chunks, without decoding more of the frame than is taken."""
        try:
            for chunk in self._decoded():
                self.taken = self._feed.taken
                yield chunk
            self.end = self.start + self._feed.taken
            self.taken = self._feed.taken
        except ReadFault as fault:
            self.fault = fault.reason

    def _decoded(self) -> Iterator[bytes]:
        if self.kind == "gzip":
            return gzip_member(self._feed, 1)
        if self.kind == "zstd":
            known = zstandard.ZstdCompressionDict(self.dictionary) if self.dictionary else None
            return zstd_frame(self._feed, 1, known, ZSTD_WINDOW_BYTES)
        return self._unlz4()

    def _unlz4(self) -> Iterator[bytes]:
        file = Window(self.source.file, self.start, self.source.size - self.start, closes=False)
        reader = Lz4Reader(file)
        while True:
            try:
                chunk = reader.read(LZ4_STEP_BYTES)
            except OSError as error:
                raise ReadFault("corrupt_lz4", str(error)) from error
            finally:
                self._feed.taken = file.tell()
            if not chunk:
                return
            yield chunk

    def _whole(self) -> bytes | None:
        """A whole gzip member, if the next member's magic (or the end of the file) shows where it ends.

        The reader checks length and checksum, but does not report a member that is cut short. So it gets one more byte:
        the member is complete only if the reader says that a new member starts at exactly that byte.
        """
        source, start = self.source, self.start
        end = source.find(MAGIC["gzip"], start, 3, WHOLE_INPUT_BYTES)
        if end < 0:
            if source.size - start > WHOLE_INPUT_BYTES:
                return None
            end = source.size
        length = end - start
        data = source.read(start, length + 1)
        size = int.from_bytes(data[length - 4 : length], "little")
        if not length or size > min(WHOLE_OUTPUT_BYTES, MOST_RATIO * length):
            return None
        reader = GzipReader(io.BytesIO(data if len(data) > length else data + b"\x1f"), 1 << 15)
        try:
            out: bytes = reader.read(size + 1)  # the reader allocates the whole requested size
            if len(out) != size or reader.frame_start_position() != length:
                return None
        except (OSError, EOFError, ValueError, RuntimeError):
            return None
        self.taken = length
        self.end = end
        return out


def fault_before(source: ByteSource, frame: Frame, stop: int) -> str | None:
    """The fault of a frame that ends before another one begins: its end may only be missing."""
    again = Frame(source, frame.kind, frame.start, frame.dictionary, stop)
    for _ in again.steps():
        pass
    return again.fault


def _reads(source: ByteSource, start: int, stop: int) -> Callable[[int], bytes]:
    """Reads a range of a source sequentially."""
    offset = start

    def read(size: int) -> bytes:
        nonlocal offset
        data = source.read(offset, min(size, stop - offset))
        offset += len(data)
        return data

    return read


def container(source: ByteSource, name: str) -> str:
    """ "gzip", "zstd", "lz4" or "plain": decided by the first bytes, and by the name only if these are damaged."""
    head = source.read(0, 1 << 14)
    for kind, magic in MAGIC.items():
        if head.startswith(magic):
            return kind
    if opens_record(head):
        return "plain"
    if skippable(source, 0) is not None:
        return "zstd"
    named = next((kind for suffix, kind in SUFFIXES.items() if name.endswith(suffix)), "plain")
    return named if named != "plain" and next_frame(source, named, 0, None) < source.size else "plain"


def next_frame(source: ByteSource, kind: str, start: int, dictionary: bytes | None, stop: int | None = None) -> int:
    """Offset of the first frame from `start` on that has a record in its first bytes, or the end."""
    stop = source.size if stop is None else stop
    while (offset := source.search(FRAME[kind], start, stop, 5)) is not None:
        head, taken = _opening(source, kind, offset, dictionary)
        if WARC_HEAD.search(head) or ARC_HEAD.match(head) or ARC_SEARCH.search(head):
            return offset
        start = offset + 1 + taken // LEAVE_SHARE
    return source.size


def _opening(source: ByteSource, kind: str, offset: int, dictionary: bytes | None) -> tuple[bytes, int]:
    """The first decoded bytes of a possible frame, and how many bytes were read for them."""
    if kind != "gzip":
        frame = Frame(source, kind, offset, dictionary)
        return next(frame.steps(), b"")[: 1 << 16], LEAVE_SHARE * (frame.next_start - offset - 1)
    inflate, taken = zlib.decompressobj(31), 0
    while taken < PROBE_BYTES and (data := source.read(offset + taken, PROBE_STEP_BYTES)):
        taken += len(data)
        try:
            head = inflate.decompress(data, 1 << 12)
        except zlib.error as error:
            raise_for_memory(error)
            break
        if head:
            return head, taken
    return b"", taken


def skippable(source: ByteSource, start: int) -> int | None:
    """End of the skippable frame at `start`, if there is a complete one."""
    head = source.read(start, 8)
    if len(head) < 8 or not SKIPPABLE.match(head):
        return None
    end = start + 8 + int.from_bytes(head[4:], "little")
    return end if end <= source.size else None


def zstd_dictionary(source: ByteSource) -> bytes | None:
    """The dictionary in the file's first frame, which is plain or itself a zstd frame."""
    end = skippable(source, 0)
    if end is None or source.read(0, 4) != DICTIONARY_MAGIC or end > MOST_DICTIONARY_BYTES:
        return None
    data = source.read(8, end - 8)
    if not data.startswith(ZSTD_MAGIC):
        return data
    dictionary, fault = unpack_bytes("zstd", data, MOST_DICTIONARY_BYTES)
    return dictionary if fault is None else None

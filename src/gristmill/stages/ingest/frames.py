"""Compressed frames: gzip members, zstd frames, lz4 frames. A well-formed archive has one for each record.

A frame is decoded in pieces, in bounded memory. Everything before a fault is still returned, to the byte. Whole members
of usual size are decoded by fastwarc's inflate (zlib-rs), which is twice as fast as CPython's zlib.
"""

import io
import re
import zlib
from collections.abc import Iterator
from typing import Any

import lz4.frame
import zstandard
from fastwarc.stream_io import GzipReader

from gristmill.stages.ingest.source import ByteSource
from gristmill.stages.reading.decompress import raise_for_memory

MAGIC = {"gzip": b"\x1f\x8b\x08", "zstd": b"\x28\xb5\x2f\xfd", "lz4": b"\x04\x22\x4d\x18"}
# Reserved flag bits of the three headers must be zero, which reduces chance matches when searching for a frame.
FRAME = {
    "gzip": re.compile(rb"\x1f\x8b\x08[\x00-\x1f]"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd[\x00-\x07\x20-\x27\x40-\x47\x60-\x67\x80-\x87\xa0-\xa7\xc0-\xc7\xe0-\xe7]"),
    "lz4": re.compile(rb"\x04\x22\x4d\x18[\x40-\x7f]"),
}
SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")
DICTIONARY_MAGIC = b"\x5d\x2a\x4d\x18"  # IIPC "WARC with zstandard compression": the file's first frame

# The longest run of input bytes that a compressor copies verbatim: a stored deflate block, a raw zstd block, an
# uncompressed lz4 block. A longer chain of intact frames cannot be inside another frame.
VERBATIM_BYTES = {"gzip": (1 << 16) + 64, "zstd": (1 << 17) + 64, "lz4": (1 << 22) + 64}

STEP_BYTES = {"gzip": 1 << 12, "zstd": 1 << 10, "lz4": 1 << 12}
"""How much input is decoded at once. zstd's decoder cannot bound its output: 1 KiB of input gives 32 MiB at most."""
OUTPUT_BYTES = 1 << 20
WHOLE_INPUT_BYTES = 4 << 20
WHOLE_OUTPUT_BYTES = 16 << 20
"""Members up to these sizes are decoded in one call."""
MOST_RATIO = 1032
"""Deflate's own bound: 258 bytes from 2 bits. A member that claims more is damaged, and no memory is allocated for it.
"""

ERRORS = (zlib.error, zstandard.ZstdError, RuntimeError, OSError, EOFError, ValueError)


def _decoder(kind: str, dictionary: bytes | None) -> Any:
    if kind == "gzip":
        return zlib.decompressobj(31)
    if kind == "lz4":
        return lz4.frame.LZ4FrameDecompressor()
    known = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
    return zstandard.ZstdDecompressor(dict_data=known, max_window_size=1 << 27).decompressobj()


def _feed(kind: str, decoder: Any, data: bytes) -> Iterator[bytes]:
    """All output for `data`, in pieces of bounded size."""
    if kind == "zstd":
        yield decoder.decompress(data)
        return
    out = decoder.decompress(data, OUTPUT_BYTES)
    yield out
    while not decoder.eof and (decoder.unconsumed_tail if kind == "gzip" else not decoder.needs_input):
        rest = decoder.unconsumed_tail if kind == "gzip" else b""
        out = decoder.decompress(rest, OUTPUT_BYTES)
        yield out
        if not out and kind == "lz4":
            return


class Frame:
    """One frame of `source` from `start`. After its chunks are read, either `end` or `fault` is set."""

    def __init__(
        self, source: ByteSource, kind: str, start: int, dictionary: bytes | None = None, salvage: bool = True
    ) -> None:
        self.source, self.kind, self.start, self.dictionary = source, kind, start, dictionary
        self._step, self._salvage = STEP_BYTES[kind], salvage
        self.fed = 0
        """Bytes of input passed to the decoder so far."""
        self.taken = 0
        """Bytes of input that certainly belong to the frame. It may end within the bytes that were passed last."""
        self.end: int | None = None
        """Offset of the first byte after an intact frame."""
        self.fault: str | None = None

    def chunks(self) -> Iterator[bytes]:
        if self.kind == "gzip" and (whole := self._whole()) is not None:
            yield whole
            return
        decoder = _decoder(self.kind, self.dictionary)
        given = 0
        while True:
            at = self.start + self.fed
            data = self.source.read(at, self._step)
            if not data:
                self.fault = f"truncated_{self.kind}"
                return
            self.fed += len(data)
            try:
                for out in _feed(self.kind, decoder, data):
                    given += len(out)
                    if decoder.eof:
                        self.taken = self.fed - len(decoder.unused_data or b"")
                        self.end = self.start + self.taken
                    if out:
                        yield out
            except ERRORS as error:
                raise_for_memory(error)
                self.fault = f"corrupt_{self.kind}"
                if self._salvage:
                    yield from self._up_to_fault(at, given)
                return
            if self.end is not None:
                return
            self.taken = self.fed

    def _whole(self) -> bytes | None:
        """A whole gzip member, if the next member's magic (or the end of the file) shows where it ends.

        The reader checks length and checksum, but does not report a member that is cut short. So it gets one more byte:
        the member is complete only if the reader says that a new member starts at exactly that byte.
        """
        source, start = self.source, self.start
        end = source.find(MAGIC["gzip"], start, 3, WHOLE_INPUT_BYTES)
        if end < 0:
            if source.end - start > WHOLE_INPUT_BYTES:
                return None
            end = source.end
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
        except ERRORS:
            return None
        self.fed = self.taken = length
        self.end = end
        return out

    def _up_to_fault(self, at: int, given: int) -> Iterator[bytes]:
        """The output from byte `given` to the fault in the step at offset `at`, which the failed call did not return.

        Decodes again from the start, in smaller and smaller steps around the fault.
        """
        for fine in (64, 1):
            decoder = _decoder(self.kind, self.dictionary)
            offset, skip = self.start, given
            parts: list[bytes] = []
            try:
                while not decoder.eof and (
                    data := self.source.read(offset, max(0, min(self._step, at - offset)) or fine)
                ):
                    for out in _feed(self.kind, decoder, data):
                        if fine == 1 and len(out) > skip:
                            parts.append(out[skip:])
                        skip = max(0, skip - len(out))
                    offset += len(data)
            except ERRORS as error:
                raise_for_memory(error)
                at = offset
            if parts:
                yield b"".join(parts)


def prefix(
    source: ByteSource, kind: str, start: int, length: int, most_input: int, dictionary: bytes | None
) -> tuple[bytes, int]:
    """Up to `length` decoded bytes of the frame at `start`, and how many bytes were read for them.

    Returns few or no bytes if the frame cannot be decoded, or if that would take more than `most_input` bytes: a header
    may claim an endless name.
    """
    decoder = _decoder(kind, dictionary)
    parts: list[bytes] = []
    have = fed = 0
    try:
        while have < length and fed < most_input and not decoder.eof and (data := source.read(start + fed, 256)):
            fed += len(data)
            for part in _feed(kind, decoder, data):
                parts.append(part)
                have += len(part)
                if have >= length:
                    break
    except ERRORS as error:
        raise_for_memory(error)
    return b"".join(parts)[:length], fed


def skippable(source: ByteSource, start: int) -> int | None:
    """End of the skippable frame at `start`, if there is a complete one."""
    head = source.read(start, 8)
    if len(head) < 8 or not SKIPPABLE.match(head):
        return None
    end = start + 8 + int.from_bytes(head[4:], "little")
    return end if end <= source.end else None


def zstd_dictionary(source: ByteSource) -> bytes | None:
    """The dictionary in the file's first frame, which is plain or itself a zstd frame."""
    end = skippable(source, 0)
    if end is None or source.read(0, 4) != DICTIONARY_MAGIC or end > 1 << 26:
        return None
    data = source.read(8, end - 8)
    if data.startswith(MAGIC["zstd"]):
        try:
            with zstandard.ZstdDecompressor().stream_reader(data) as reader:
                data = reader.read(1 << 26)
        except ERRORS as error:
            raise_for_memory(error)
            return None
    return data


def cut_short(source: ByteSource, kind: str, start: int, stop: int, dictionary: bytes | None = None) -> bool:
    """Whether the frame at `start` is intact up to `stop`, where another one starts, and only its end is missing."""
    decoder = _decoder(kind, dictionary)
    step = STEP_BYTES[kind]
    try:
        for offset in range(start, stop, step):
            for _ in _feed(kind, decoder, source.read(offset, min(step, stop - offset))):
                pass
            if decoder.eof:
                return False
    except ERRORS as error:
        raise_for_memory(error)
        return False
    return True

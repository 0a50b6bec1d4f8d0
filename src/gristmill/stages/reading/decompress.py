"""Decompresses gzip, zlib, deflate, Zstandard, bzip2, xz, Brotli and lz4 in bounded memory.

The usual wrappers lose what a call had decoded before it met damage, or end silently at a cut. Here a generator yields
what can be decoded, up to a few hundred bytes of input before the damage, and then raises `ReadFault`. Consecutive
members and frames are one stream. A step yields at most `CHUNK_BYTES`, so a decompression bomb unpacks in steps.
"""

import bz2
import io
import lzma
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO, Any, Protocol, cast

import brotli
import lz4.frame
from backports import zstd
from zlib_ng import zlib_ng

UNPACKING = ("backports.zstd", "zlib-ng")
"""The libraries that a reader of compressed files depends on."""
CHUNK_BYTES = 1 << 20
"""The most that one step yields, compressed or not."""
FEED_BYTES = 1 << 14
"""The least that is read of a file at a time."""
FIRST_STEP_BYTES = 1 << 14
"""A member may have 20 bytes, and what a decoder does not use is copied."""
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_XZ_MEMORY_BYTES = 1 << 29
"""xz -9 needs 65 MiB; a damaged header may request 4 GiB."""
_ZSTD_WINDOW_LOG = 31
"""Dumps that zstd packed with a window of 2 GB are common; the window is only as large as the file requires."""


class ReadFault(Exception):
    """Damage in an input: a reason for `drop` and a line for `detail`."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class Feed:
    """The input of decoders: a decoder gives back what follows its member."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._data, self._offset = b"", 0
        self.taken = 0
        """Bytes that were taken and not given back."""
        self.used = 0
        """Bytes that certainly belong to the member."""

    def take(self, size: int) -> bytes:
        """Up to `size` bytes; none only at the end."""
        if self._offset == len(self._data):
            self._data, self._offset = self._read(max(size, FEED_BYTES)), 0
        part = self._data[self._offset : self._offset + size]
        self._offset += len(part)
        self.taken += len(part)
        return part

    def give_back(self, size: int) -> None:
        """Gives back some of the bytes that were taken last."""
        self._offset -= size
        self.taken -= size

    def peek(self, size: int) -> bytes:
        """The next `size` bytes, which are not taken; fewer only at the end."""
        while len(self._data) - self._offset < size and (data := self._read(FEED_BYTES)):
            self._data, self._offset = self._data[self._offset :] + data, 0
        return self._data[self._offset : self._offset + size]

    def begin(self) -> None:
        """Counts from here on."""
        self.taken = self.used = 0

    def begins(self, member: int) -> bool:
        """Whether another member follows. Zeros after a member are padding (tape blocks)."""
        while data := self.take(1 << 9):
            rest = data.lstrip(b"\0") if member else data
            if rest:
                self.give_back(len(rest))
                return True
        return False


class _Decoder(Protocol):
    """A decoder as those of the standard library."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes | None: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


_ZlibError = cast("type[Exception]", zlib_ng.error)


class _Inflate:
    """A decoder of gzip, zlib and deflate by zlib-ng, which is as strict as zlib and needs half its time. A fault is
    raised after all that can be decoded before it."""

    def __init__(self, window_bits: int) -> None:
        self._decoder: Any = zlib_ng.decompressobj(window_bits)
        self._rest, self._is_full = b"", False
        self._error: Exception | None = None

    @property
    def eof(self) -> bool:
        return bool(self._decoder.eof)

    @property
    def needs_input(self) -> bool:
        return not self._rest and not self._is_full and self._error is None

    @property
    def unused_data(self) -> bytes:
        return bytes(self._decoder.unused_data)

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        if self._error is not None:
            raise self._error
        data, copy = self._rest or data, self._decoder.copy()  # the copy costs 1%
        try:
            chunk: bytes = self._decoder.decompress(data, max_length)
        except _ZlibError as error:
            raise_for_memory(error)
            self._error = error.with_traceback(None)
            return b"".join(_before_fault(copy, data))
        self._rest, self._is_full = self._decoder.unconsumed_tail, len(chunk) == max_length
        return chunk


def _before_fault(decoder: Any, data: bytes) -> Iterator[bytes]:
    with suppress(_ZlibError):
        for offset in range(len(data)):
            yield decoder.decompress(data[offset : offset + 1])


class _Brotli:
    """A decoder of Brotli."""

    unused_data = b""

    def __init__(self) -> None:
        self._decoder = brotli.Decompressor()

    @property
    def eof(self) -> bool:
        return bool(self._decoder.is_finished())

    @property
    def needs_input(self) -> bool:
        return bool(self._decoder.can_accept_more_data())

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        chunk: bytes = self._decoder.process(data, output_buffer_limit=max_length)
        return chunk


def zstd_decoder(dictionary: zstd.ZstdDict | None = None, window_log: int = _ZSTD_WINDOW_LOG) -> _Decoder:
    return zstd.ZstdDecompressor(dictionary, options={zstd.DecompressionParameter.window_log_max: window_log})


# The most bytes of a step: the others return nothing from the call that fails.
_DECODERS: dict[str, tuple[Callable[[], _Decoder], str, int]] = {
    "gzip": (lambda: _Inflate(31), "gzip", 1 << 16),
    "zlib": (lambda: _Inflate(15), "gzip", 1 << 16),
    "deflate": (lambda: _Inflate(-15), "gzip", 1 << 16),
    "zstd": (zstd_decoder, "zstd", 1 << 10),
    "bzip2": (bz2.BZ2Decompressor, "bzip2", 1 << 8),
    "xz": (lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, _XZ_MEMORY_BYTES), "xz", 1 << 8),
    "br": (_Brotli, "brotli", 1 << 10),
    "lz4": (lz4.frame.LZ4FrameDecompressor, "lz4", 1 << 10),
}
_DAMAGE = (OSError, ValueError, RuntimeError, lzma.LZMAError, zstd.ZstdError, _ZlibError, brotli.error)
_NO_MEMORY = re.compile(r"not enough memory|^Error -4 |allocation_failed")  # the messages of zstd, zlib and lz4


def raise_for_memory(error: Exception) -> None:
    """Raises MemoryError if a decoder ran out of memory: that is not damage and must not become a row."""
    if isinstance(error, MemoryError) or _NO_MEMORY.search(str(error)):
        raise MemoryError(f"no memory to decompress a file ({error})") from error


def member_chunks(kind: str, feed: Feed, number: int = 1, decoder: _Decoder | None = None) -> Iterator[bytes]:
    """What one member, frame or stream unpacks to. Gives back what follows it."""
    make, name, most = _DECODERS[kind]
    decoder = decoder or make()
    fault, step = None, min(FIRST_STEP_BYTES, most)
    while not decoder.eof:
        data = b""
        if decoder.needs_input:
            feed.used = feed.taken
            data, step = feed.take(step), min(2 * step, most)
            if not data:
                fault = ReadFault(f"truncated_{name}", f"the data end inside member {number}")
                break
        try:
            chunk = decoder.decompress(data, CHUNK_BYTES)
        except _DAMAGE as error:
            raise_for_memory(error)
            fault = ReadFault(f"corrupt_{name}", f"member {number}: {error}")
            break
        if chunk:
            yield chunk
    if fault is None:
        feed.give_back(len(decoder.unused_data or b""))
        return
    del decoder  # it may have a window of 2 GiB, which a stored fault would keep
    raise fault


def unpack(kind: str, file: IO[bytes]) -> Iterator[bytes]:
    """What a compressed file unpacks to: all of its members."""
    feed, member = Feed(file.read), 0
    while feed.begins(member):
        member += 1
        yield from member_chunks(kind, feed, member)


def unpack_bytes(kind: str, data: bytes, limit: int) -> tuple[bytes, ReadFault | None]:
    """At most `limit` + 1 bytes of what `data` unpacks to, and the fault that ended it early. Bytes after the first
    member that are not a member are padding."""
    feed, member = Feed(io.BytesIO(data).read), 0
    parts: list[bytes] = []
    left = limit + 1
    try:
        while left > 0 and feed.begins(member):
            member += 1
            for chunk in member_chunks(kind, feed, member):
                parts.append(chunk[:left])
                left -= len(parts[-1])
                if left <= 0:
                    break
    except ReadFault as fault:
        is_padding = member > 1 and fault.reason.startswith("corrupt_")
        return b"".join(parts), None if is_padding else fault
    return b"".join(parts), None

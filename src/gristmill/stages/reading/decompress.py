"""Decompresses gzip, Zstandard, bzip2 and xz in bounded memory and keeps every byte before damage.

The usual wrappers lose what a call had decoded before it met the damage, or end silently at a cut (python-zstandard's
stream reader does). Here each generator yields everything that can be decoded and then raises `ReadFault`. Consecutive
members and frames are one stream. Work per step is bounded, so even a decompression bomb unpacks in steps.
"""

import bz2
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Protocol

from zstandard import ZstdCompressionDict, ZstdDecompressor, ZstdError

CHUNK_BYTES = 1 << 20
"""The most that one step yields, compressed or not."""


class ReadFault(Exception):
    """Damage in an input: a reason for `drop` and a line for `detail`."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


_NO_MEMORY = re.compile(r"not enough memory|^Error -4 |allocation_failed")  # the messages of zstd, zlib and lz4


def raise_for_memory(error: Exception) -> None:
    """Raises MemoryError if a decoder ran out of memory: that is not damage and must not become a row."""
    if isinstance(error, MemoryError) or _NO_MEMORY.search(str(error)):
        raise MemoryError(f"no memory to decompress a file ({error})") from error


class Feed:
    """The input of decoders: a decoder gives back what follows its member."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._data, self._at = b"", 0
        self.taken = 0
        """Bytes that were taken and not given back."""

    def take(self, size: int) -> bytes:
        """Up to `size` bytes; none only at the end."""
        if self._at == len(self._data):
            self._data, self._at = self._read(max(size, 1 << 9)), 0  # little: a member may have 20 bytes
        part = self._data[self._at : self._at + size]
        self._at += len(part)
        self.taken += len(part)
        return part

    def give_back(self, size: int) -> None:
        """Gives back some of the bytes that were taken last."""
        self._at -= size
        self.taken -= size

    def begins(self, member: int) -> bool:
        """Whether another member follows. Zeros after a member are padding (tape blocks)."""
        while data := self.take(1 << 9):
            rest = data.lstrip(b"\0") if member else data
            if rest:
                self.give_back(len(rest))
                return True
        return False


def unpack(kind: str, file: IO[bytes]) -> Iterator[bytes]:
    """What a compressed file unpacks to: all of its members."""
    feed, member = Feed(file.read), 0
    while feed.begins(member):
        member += 1
        yield from MEMBERS[kind](feed, member)


def unpack_bytes(kind: str, data: bytes, limit: int) -> tuple[bytes, ReadFault | None]:
    """At most `limit` + 1 bytes of what `data` unpacks to, and the fault that ended it early. Bytes after the first
    member that are not a member are padding."""
    feed, member = Feed(io.BytesIO(data).read), 0
    parts: list[bytes] = []
    left = limit + 1
    try:
        while left > 0 and feed.begins(member):
            member += 1
            for chunk in MEMBERS[kind](feed, member):
                parts.append(chunk[:left])
                left -= len(parts[-1])
                if left <= 0:
                    break
    except ReadFault as fault:
        is_padding = member > 1 and fault.reason.startswith("corrupt_")
        return b"".join(parts), None if is_padding else fault
    return b"".join(parts), None


def gzip_member(feed: Feed, member: int, window_bits: int = 31) -> Iterator[bytes]:
    inflate = zlib.decompressobj(wbits=window_bits)
    # A call copies what it does not consume, and a member may have 20 bytes, so the first steps are small.
    step = 1 << 9
    while not inflate.eof:
        data = feed.take(step)
        if not data:
            if rest := inflate.flush():
                yield rest
            if inflate.eof:
                return
            raise ReadFault("truncated_gzip", f"the file ends inside member {member}")
        # The copy costs 1% and lets a fault return the output that its call had produced.
        before = inflate.copy()
        try:
            chunk = inflate.decompress(data, CHUNK_BYTES)
        except zlib.error as error:
            raise_for_memory(error)
            feed.give_back(len(data))
            yield from _inflate_bytewise(before, data)
            raise ReadFault("corrupt_gzip", f"member {member}: {error}") from error
        # At the end of a member, zlib may name the bytes after it twice: unused, and not consumed.
        feed.give_back(len(inflate.unused_data if inflate.eof else inflate.unconsumed_tail))
        if chunk:
            yield chunk
        step = min(2 * step, 1 << 16)


class _Inflate(Protocol):
    def decompress(self, data: bytes, /) -> bytes: ...


def _inflate_bytewise(inflate: _Inflate, data: bytes) -> Iterator[bytes]:
    for at in range(len(data)):
        try:
            chunk = inflate.decompress(data[at : at + 1])
        except zlib.error:
            return
        if chunk:
            yield chunk


ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = 0x184D2A50
# Dumps packed with `zstd --long=31` are common; the window is only as large as the file requires.
_ZSTD_WINDOW_BYTES = 1 << 31


def zstd_frame(
    feed: Feed, frame: int, dictionary: ZstdCompressionDict | None = None, window_bytes: int = _ZSTD_WINDOW_BYTES
) -> Iterator[bytes]:
    """A frame, fed block by block (RFC 8878, 3.1.1). A block decodes to at most 128 KiB, which bounds each step, and a
    fault only costs its own block."""

    def take(size: int) -> bytes:
        parts = [feed.take(size)]
        while (have := sum(map(len, parts))) < size:
            if not parts[-1]:
                raise ReadFault("truncated_zstd", f"the file ends inside frame {frame}")
            parts.append(feed.take(size - have))
        return b"".join(parts)

    def decode(data: bytes) -> bytes:
        try:
            chunk: bytes = decoder.decompress(data)
        except ZstdError as error:
            raise_for_memory(error)
            raise ReadFault("corrupt_zstd", f"frame {frame}: {error}") from error
        return chunk

    magic = take(4)
    if int.from_bytes(magic, "little") & 0xFFFFFFF0 == _ZSTD_SKIPPABLE:
        left = int.from_bytes(take(4), "little")
        while left:
            left -= len(take(min(left, CHUNK_BYTES)))
        return
    if magic != ZSTD_MAGIC:
        raise ReadFault("corrupt_zstd", f"bytes that are not a frame follow frame {frame - 1}")
    decoder = ZstdDecompressor(dict_data=dictionary, max_window_size=window_bytes).decompressobj()
    flags = take(1)
    single_segment = flags[0] >> 5 & 1
    dictionary_bytes = (0, 1, 2, 4)[flags[0] & 3]
    size_bytes = (single_segment, 2, 4, 8)[flags[0] >> 6]
    decode(magic + flags + take(1 - single_segment + dictionary_bytes + size_bytes))
    last = False
    while not last:
        head = take(3)
        value = int.from_bytes(head, "little")
        last = bool(value & 1)
        run_length = value >> 1 & 3 == 1
        if chunk := decode(head + take(1 if run_length else value >> 3)):
            yield chunk
    if flags[0] & 4:
        decode(take(4))
    if not decoder.eof:
        raise ReadFault("corrupt_zstd", f"frame {frame} does not end with its last block")


class _Decoder(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


# xz -9 needs 65 MiB; a damaged header may request 4 GiB.
_XZ_MEMORY_BYTES = 1 << 29


def _stream(feed: Feed, stream: int, kind: str, decoder: _Decoder) -> Iterator[bytes]:
    while not decoder.eof:
        # 256 bytes per call: a decoder returns no output from the call that fails, so little is lost. This costs 2%.
        data = feed.take(256) if decoder.needs_input else b""
        if not data and decoder.needs_input:
            raise ReadFault(f"truncated_{kind}", f"the file ends inside stream {stream}")
        try:
            chunk = decoder.decompress(data, CHUNK_BYTES)
        except (OSError, lzma.LZMAError) as error:
            raise ReadFault(f"corrupt_{kind}", f"stream {stream}: {error}") from error
        if chunk:
            yield chunk
    feed.give_back(len(decoder.unused_data))


MEMBERS: dict[str, Callable[[Feed, int], Iterator[bytes]]] = {
    "gzip": gzip_member,
    "zlib": lambda feed, member: gzip_member(feed, member, 15),
    "deflate": lambda feed, member: gzip_member(feed, member, -15),
    "zstd": zstd_frame,
    "bzip2": lambda feed, stream: _stream(feed, stream, "bzip2", bz2.BZ2Decompressor()),
    "xz": lambda feed, stream: _stream(feed, stream, "xz", lzma.LZMADecompressor(lzma.FORMAT_XZ, _XZ_MEMORY_BYTES)),
}
"""Unpacks one member, frame or stream, and gives back what follows it."""

"""Decompresses gzip, Zstandard, bzip2 and xz in bounded memory and keeps every byte before damage.

The usual wrappers lose what a call had decoded before it met the damage, or end silently at a cut (python-zstandard's
stream reader does). Here each generator yields everything that can be decoded and then raises `ReadFault`. Consecutive
members and frames are one stream. Work per step is bounded, so even a decompression bomb unpacks in steps.
"""

import bz2
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Protocol

from zstandard import ZstdDecompressor, ZstdError

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


def read_gzip(file: IO[bytes]) -> Iterator[bytes]:
    """All members. Zero padding after a member is legal (tape blocks); other bytes there are damage."""
    member = 0
    data, at = file.read(1 << 16), 0
    while data:
        if member:
            padding = _NOT_ZERO.search(data, at)
            if padding is None:
                data, at = file.read(1 << 16), 0
                continue
            at = padding.start()
            if data[at] != 0x1F:
                raise ReadFault("corrupt_gzip", f"bytes that are not gzip follow member {member}")
        member += 1
        inflate = zlib.decompressobj(wbits=31)
        # A call copies what it does not consume, and a member may have 20 bytes, so the first steps are small.
        step = 1 << 9
        while not inflate.eof:
            if at == len(data):
                data, at = file.read(1 << 16), 0
            if not data:
                if rest := inflate.flush():
                    yield rest
                if inflate.eof:
                    break
                raise ReadFault("truncated_gzip", f"the file ends inside member {member}")
            # The copy costs 1% and lets a fault return the output that its call had produced.
            before = inflate.copy()
            given = data[at : at + step]
            try:
                chunk = inflate.decompress(given, CHUNK_BYTES)
            except zlib.error as error:
                raise_for_memory(error)
                yield from _inflate_bytewise(before, given)
                raise ReadFault("corrupt_gzip", f"member {member}: {error}") from error
            if chunk:
                yield chunk
            # At the end of a member, zlib may name the bytes after it twice: unused, and not consumed.
            at += len(given) - len(inflate.unused_data if inflate.eof else inflate.unconsumed_tail)
            step = min(2 * step, 1 << 16)


_NOT_ZERO = re.compile(rb"[^\0]")


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


_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE = 0x184D2A50
# Dumps packed with `zstd --long=31` are common; the window is only as large as the file requires.
_ZSTD_WINDOW_BYTES = 1 << 31


def read_zstd(file: IO[bytes], note: Callable[[int], None] | None = None) -> Iterator[bytes]:
    """All frames, fed block by block (RFC 8878, 3.1.1). A block decodes to at most 128 KiB, which bounds each step, and
    a fault only costs its own block. `note` is called with the offset of each frame before it is decoded."""
    frame = 0

    def take(size: int) -> bytes:
        data = file.read(size)
        if len(data) < size:
            raise ReadFault("truncated_zstd", f"the file ends inside frame {frame}")
        return data

    def feed(data: bytes) -> bytes:
        try:
            chunk: bytes = decoder.decompress(data)
        except ZstdError as error:
            raise_for_memory(error)
            raise ReadFault("corrupt_zstd", f"frame {frame}: {error}") from error
        return chunk

    while start := file.read(4):
        frame += 1
        magic = int.from_bytes(start + take(4 - len(start)), "little")
        if magic & 0xFFFFFFF0 == _ZSTD_SKIPPABLE:
            left = int.from_bytes(take(4), "little")
            while left:
                left -= len(take(min(left, CHUNK_BYTES)))
            continue
        if magic != _ZSTD_MAGIC:
            raise ReadFault("corrupt_zstd", f"bytes that are not a frame follow frame {frame - 1}")
        if note is not None:
            note(file.tell() - 4)
        decoder = ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES).decompressobj()
        flags = take(1)
        single_segment = flags[0] >> 5 & 1
        dictionary_bytes = (0, 1, 2, 4)[flags[0] & 3]
        size_bytes = (single_segment, 2, 4, 8)[flags[0] >> 6]
        feed(start + flags + take(1 - single_segment + dictionary_bytes + size_bytes))
        last = False
        while not last:
            head = take(3)
            value = int.from_bytes(head, "little")
            last = bool(value & 1)
            run_length = value >> 1 & 3 == 1
            if chunk := feed(head + take(1 if run_length else value >> 3)):
                yield chunk
        if flags[0] & 4:
            feed(take(4))
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


def read_bzip2(file: IO[bytes]) -> Iterator[bytes]:
    """All streams of a bzip2 file."""
    return _read_streams(file, bz2.BZ2Decompressor, "bzip2")


def read_xz(file: IO[bytes]) -> Iterator[bytes]:
    """All streams of an xz file, with optional zero padding between them."""
    return _read_streams(file, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, _XZ_MEMORY_BYTES), "xz")


def _read_streams(file: IO[bytes], new: Callable[[], _Decoder], kind: str) -> Iterator[bytes]:
    # 256 bytes per call: a decoder returns no output from the call that fails, so little is lost. This costs 2%.
    step = 256
    stream = 0
    data = file.read(step)
    while data:
        stream += 1
        decoder = new()
        while not decoder.eof:
            if not data and decoder.needs_input and not (data := file.read(step)):
                raise ReadFault(f"truncated_{kind}", f"the file ends inside stream {stream}")
            try:
                chunk = decoder.decompress(data, CHUNK_BYTES)
            except (OSError, lzma.LZMAError) as error:
                raise ReadFault(f"corrupt_{kind}", f"stream {stream}: {error}") from error
            data = b""
            if chunk:
                yield chunk
        data = decoder.unused_data.lstrip(b"\0")
        while not data and (data := file.read(step)):
            data = data.lstrip(b"\0")

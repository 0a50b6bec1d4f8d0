"""Reads input files decompressed.

The first bytes decide the compression, not the name: a `.gz` that a mirror decompressed in transit and a `.jsonl` that
was gzipped by hand are both read correctly. Everything before damage is yielded before the fault is raised.
"""

from collections.abc import Iterable, Iterator
from typing import IO

from gristmill.stages.reading.decompress import CHUNK_BYTES, ReadFault, unpack
from gristmill.stages.reading.head import Head

COMPRESSED_SUFFIXES = (".gz", ".gzip", ".zst", ".zstd", ".bz2", ".xz")

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"  # after a byte 0x50..0x5f
_BZIP2 = (b"\x31\x41\x59\x26\x53\x59", b"\x17\x72\x45\x38\x50\x90")  # a block, or the end of an empty stream
_XZ = b"\xfd7zXZ\x00"
MAGIC_BYTES = 10


def compression(magic: bytes) -> str | None:
    """The compression of a file by its first `MAGIC_BYTES` bytes; None for a plain file."""
    if magic.startswith(_GZIP):
        return "gzip"
    if magic.startswith(_ZSTD) or (magic[1:4] == _ZSTD_SKIPPABLE and 0x50 <= magic[0] <= 0x5F):
        return "zstd"
    # `BZh9` alone may begin a plain text; followed by the block's magic, it is bzip2.
    if magic[:3] == b"BZh" and magic[4:10] in _BZIP2:
        return "bzip2"
    if magic.startswith(_XZ):
        return "xz"
    return None


def plain_chunks(file: IO[bytes]) -> Iterator[bytes]:
    """The rest of the file, unchanged."""
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def decompressed(file: IO[bytes]) -> tuple[bool, Iterator[bytes]]:
    """Whether the file is plain, and its content from the start; iterating may raise `ReadFault`."""
    kind = compression(file.read(MAGIC_BYTES))
    file.seek(0)
    chunks = plain_chunks(file) if kind is None else unpack(kind, file)
    return kind is None, file.bounded(chunks) if isinstance(file, Head) else chunks


def peek(chunks: Iterator[bytes], size_bytes: int) -> tuple[bytes, bool, Iterator[bytes]]:
    """The first bytes of a stream, whether it broke off within them, and the stream from its start, with its fault."""
    taken: list[bytes] = []
    head = b""
    fault: ReadFault | None = None
    try:
        while len(head) < size_bytes:
            taken.append(next(chunks))
            head += taken[-1][: size_bytes - len(head)]
    except StopIteration:
        pass
    except ReadFault as met:
        fault = met

    def again() -> Iterator[bytes]:
        yield from taken
        if fault is not None:
            raise fault
        yield from chunks

    return head, fault is not None, again()


def bounded(chunks: Iterable[bytes], limit_bytes: int) -> bytes:
    """The whole content, or `ReadFault` `record_too_large` once it passes the limit."""
    taken: list[bytes] = []
    size = 0
    for chunk in chunks:
        taken.append(chunk)
        size += len(chunk)
        if size > limit_bytes:
            raise ReadFault("record_too_large", f"more than max_record_bytes = {limit_bytes}")
    return b"".join(taken)


def without_compression_suffix(name: str) -> str:
    """Removes the suffix of a compression: `notes.md.gz` is `notes.md`."""
    lowered = name.lower()
    for suffix in COMPRESSED_SUFFIXES:
        if lowered.endswith(suffix):
            return name[: -len(suffix)]
    return name

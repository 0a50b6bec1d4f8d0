"""Mutates compressed files: unpacks the content, changes it and packs it again."""

import bz2
import gzip
import io
import lzma
import random
import re
import zlib
from contextlib import suppress
from itertools import pairwise

from backports import zstd

from fuzz.mutate import mutated
from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.stream import decompressed

MOST_BYTES = 1 << 20
LEVEL, CHECKSUM = zstd.CompressionParameter.compression_level, zstd.CompressionParameter.checksum_flag
_STEP_BYTES = 64


def unpacked(data: bytes) -> bytes:
    """The content of the first frames, up to any damage, or the bytes themselves if nothing can be decoded."""
    content, at = bytearray(), 0
    for _ in range(64):
        part, end = _content(data[at:])
        content += part
        if not end or len(content) > MOST_BYTES:
            break
        at += end
    return bytes(content[:MOST_BYTES]) or data


def size(data: bytes) -> int:
    """The size of the file and of everything that a reader may find in it: frames also follow bytes that are not
    frames, and occur within others.
    """
    total = len(data)
    for found in _MAGIC.finditer(data):
        total += max(len(_content(data[found.start() :])[0]), _read_by_us(data[found.start() :]))
        if total > MOST_BYTES:
            break
    return min(total, MOST_BYTES)


def _read_by_us(data: bytes) -> int:
    """The bytes that our own decoders return: before damage, each decoder returns another amount."""
    total = 0
    with suppress(ReadFault):
        for chunk in decompressed(io.BytesIO(data))[1]:
            total += len(chunk)
            if total > MOST_BYTES:
                break
    return total


_MAGIC = re.compile(rb"\x1f\x8b|\x28\xb5\x2f\xfd|\x04\x22\x4d\x18|BZh|\xfd7zXZ")


def _content(data: bytes) -> tuple[bytes, int]:
    """The content of the first frame, up to its end or to damage, and where the frame ends; 0 if it does not end."""
    decoder = _decoder(data)
    content = bytearray()
    if decoder is None:
        return b"", 0
    try:
        for at in range(0, len(data), _STEP_BYTES):  # in steps, because the bytes before the damage are content
            content += decoder.decompress(data[at : at + _STEP_BYTES])
            if decoder.eof:
                return bytes(content), min(at + _STEP_BYTES, len(data)) - len(decoder.unused_data or b"")
            if len(content) > MOST_BYTES:
                break
    except Exception:  # each decoder raises its own
        pass
    return bytes(content), 0


def _decoder(data: bytes):  # type: ignore[no-untyped-def]
    if data.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(31)
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: 24})
    if data.startswith(b"BZh"):
        return bz2.BZ2Decompressor()
    return lzma.LZMADecompressor() if data.startswith(b"\xfd7zXZ") else None


def pack(kind: str, data: bytes, draw: random.Random) -> bytes:
    if kind == "gzip":
        return gzip.compress(data, draw.choice((0, 1, 9)), mtime=0)
    if kind == "zstd":
        return zstd.compress(data, options={LEVEL: draw.choice((1, 9)), CHECKSUM: draw.random() < 0.5})
    if kind == "bzip2":
        return bz2.compress(data, 1)
    return lzma.compress(data, preset=0) if kind == "xz" else data


def repack(draw: random.Random, data: bytes, kinds: tuple[str, ...]) -> bytes:
    """The content, changed a little, in one frame or in several."""
    content = mutated(draw, unpacked(data)) if draw.random() < 0.8 else unpacked(data)
    kind = draw.choice(kinds)
    cuts = sorted(draw.randrange(len(content) + 1) for _ in range(draw.choice((0, 0, 1, 3, 12))))
    edges = [0, *cuts, len(content)]
    return b"".join(pack(kind, content[a:b], draw) for a, b in pairwise(edges))

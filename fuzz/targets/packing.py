"""Compressed files as something to mutate: what is inside, packed anew."""

import bz2
import gzip
import lzma
import random
import zlib
from itertools import pairwise

import lz4.frame
import zstandard

from fuzz.mutate import mutated

MOST_BYTES = 1 << 20
_STEP_BYTES = 64


def unpacked(data: bytes) -> bytes:
    """The content of the first frames, up to any damage, or the bytes themselves where nothing can be decoded."""
    content = bytearray()
    rest, frames = data, 0
    while rest and len(content) < MOST_BYTES and frames < 64 and (decoder := _decoder(rest)) is not None:
        frames += 1
        try:
            for at in range(0, len(rest), _STEP_BYTES):  # in steps: what came before the damage is content
                content += decoder.decompress(rest[at : at + _STEP_BYTES])
                if decoder.eof:
                    rest = (decoder.unused_data or b"") + rest[at + _STEP_BYTES :]
                    break
            else:
                break
        except Exception:  # each decoder has its own
            break
    return bytes(content[:MOST_BYTES]) or data


def size(data: bytes) -> int:
    """Of the file and of what it holds."""
    return len(data) + len(unpacked(data))


def _decoder(data: bytes):  # type: ignore[no-untyped-def]
    if data.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(31)
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        return zstandard.ZstdDecompressor(max_window_size=1 << 24).decompressobj()
    if data.startswith(b"\x04\x22\x4d\x18"):
        return lz4.frame.LZ4FrameDecompressor()
    if data.startswith(b"BZh"):
        return bz2.BZ2Decompressor()
    return lzma.LZMADecompressor() if data.startswith(b"\xfd7zXZ") else None


def pack(kind: str, data: bytes, draw: random.Random) -> bytes:
    if kind == "gzip":
        return gzip.compress(data, draw.choice((0, 1, 9)), mtime=0)
    if kind == "zstd":
        return zstandard.ZstdCompressor(draw.choice((1, 9)), write_checksum=draw.random() < 0.5).compress(data)
    if kind == "lz4":
        return lz4.frame.compress(data, content_checksum=draw.random() < 0.5)
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

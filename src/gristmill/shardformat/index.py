"""The index of a shard: the pieces of every sample, their documents, and facts about the tokens.

A shard is a `.bin` of raw little-endian ids, `seq_len` per sample, and an index next to it:

    512 bytes     HEADER
    first_piece   uint64[samples + 1]   pieces of sample i: first_piece[i] up to first_piece[i + 1]
    length        uint32[pieces]        tokens of a piece, end-of-document token included; padded to 8 bytes
    doc_offset    uint64[pieces]        offset of the piece in the tokens of its document
    doc_id        16 bytes[pieces]

The pieces of a sample are concatenated from its first token on; the rest of the sample is padding. Everything
is read through one memory map: opening an index only reads its header.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.errors import UserError
from gristmill.shardformat.open_file import map_bytes

Array = np.ndarray[Any, Any]

MAGIC, VERSION = b"GRISTIDX", 1
HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("token_bytes", "<u4"),
        ("seq_len", "<u8"),
        ("samples", "<u8"),
        ("pieces", "<u8"),
        ("tokens", "<u8"),
        ("documents", "<u8"),
        ("end_of_document", "<u4"),
        ("padding", "<u4"),
        ("tokenizer", "S64"),
        ("bin", "S64"),
        ("recipe", "S128"),
        ("group", "S128"),
        ("reserved", "V64"),
    ]
)
DOC_ID = np.dtype("V16")


@dataclass(frozen=True)
class Header:
    """The facts that a shard stores about itself."""

    token_bytes: int
    """2 or 4."""
    seq_len: int
    samples: int
    pieces: int
    tokens: int
    """Without padding."""
    documents: int
    end_of_document: int
    padding: int
    tokenizer: str
    """The tokenizer's hash."""
    bin: str
    """sha256 of the `.bin`."""
    recipe: str
    group: str


@dataclass(frozen=True)
class Index:
    """A header and the arrays after it. When read from a file, they are views of its map."""

    header: Header
    first_piece: Array
    length: Array
    doc_offset: Array
    doc_id: Array


def write_index(path: str | Path, index: Index) -> None:
    """Write an index. Equal indexes give equal bytes."""
    head = np.zeros((), HEADER)
    head["magic"], head["version"] = MAGIC, VERSION
    for name, value in vars(index.header).items():
        head[name] = value.encode() if isinstance(value, str) else value
    with open(path, "wb") as file:
        file.write(head.tobytes())
        file.write(index.first_piece.astype("<u8").tobytes())
        file.write(index.length.astype("<u4").tobytes())
        file.write(bytes(-4 * index.header.pieces % 8))
        file.write(index.doc_offset.astype("<u8").tobytes())
        file.write(np.ascontiguousarray(index.doc_id).view(DOC_ID).tobytes())


def read_index(path: str | Path) -> Index:
    """Map an index. Raises UserError if the file is something else, or truncated."""
    try:
        return index_of(map_bytes(path), path)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist, so its shard cannot be read. Copy the shard again.") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}). Copy the shard again.") from None


def index_of(data: Array, path: str | Path) -> Index:
    """The index in the bytes of a file, as views of them."""
    if len(data) < HEADER.itemsize or bytes(data[:8]) != MAGIC:
        raise UserError(f"{path} is not the index of a shard, so its samples cannot be found. Name another file.")
    head = data[: HEADER.itemsize].view(HEADER)[0]
    if int(head["version"]) != VERSION:
        raise UserError(
            f"{path} has format {int(head['version'])}, but this version of Gristmill reads format {VERSION}. "
            "Use the version that wrote it, or make the shards again."
        )
    try:
        fields: dict[str, Any] = {
            name: head[name].decode() if head.dtype[name].kind == "S" else int(head[name])
            for name in Header.__annotations__
        }
    except UnicodeDecodeError:
        raise UserError(f"{path} has a name that is not text, so it is damaged. Copy the shard again.") from None
    header = Header(**fields)
    at, arrays = HEADER.itemsize, []
    sizes = (("<u8", header.samples + 1), ("<u4", header.pieces), ("<u8", header.pieces), (DOC_ID, header.pieces))
    expected = at + 8 * (header.samples + 1) + 28 * header.pieces + -4 * header.pieces % 8
    if len(data) != expected:
        raise UserError(
            f"{path} has {len(data)} bytes and should have {expected}, so it is damaged. Copy the shard again."
        )
    for kind, count in sizes:
        stop = at + np.dtype(kind).itemsize * count
        arrays.append(data[at:stop].view(kind))
        at = stop + -stop % 8
    return Index(header, *arrays)

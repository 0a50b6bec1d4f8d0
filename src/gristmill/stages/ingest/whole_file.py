"""Readers of formats with one document per file: they share how a file is found, read and bounded."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from gristmill.schema import Record
from gristmill.stages.contract import Piece, Reader
from gristmill.stages.ingest import text
from gristmill.stages.reading.decompress import UNPACKING, ReadFault
from gristmill.stages.reading.stream import bounded, decompressed

C = TypeVar("C", bound=text.TreeConfig)
Parse = Callable[[bytes, Record, C], None]
"""Sets the text of the record, and what else the file states. Raises ReadFault."""


def one_record(piece: Piece, config: C, content_type: str, parse: Parse[C]) -> Iterator[Record]:
    """The row of a file. Reasons, in addition to those of `parse`: `empty_file`, `empty_text`, `record_too_large`, and
    `truncated_` or `corrupt_` with `gzip`, `zstd`, `bzip2`, `xz`."""
    if piece.start > 0 or piece.stop == 0:
        return
    record = Record(0, content_type=content_type)
    try:
        with piece.open() as file:
            data = bounded(decompressed(file)[1], config.max_record_bytes)
        if not data.strip():
            raise ReadFault("empty_file", f"{len(data)} bytes, none of them visible")
        parse(data, record, config)
        if not record.text or record.text.isspace():
            raise ReadFault("empty_text", "the file has no text")
    except ReadFault as fault:
        record = Record(0, content_type=content_type, drop=fault.reason, detail=fault.detail)
    yield record


def tree_reader(
    version: int,
    config: type[C],
    read: Callable[[Piece, C], Iterator[Record]],
    libraries: tuple[str, ...] = (),
    positions: str = text.POSITIONS,
) -> Reader[C]:
    """Declares the reader of such a format."""
    return Reader(
        version=version,
        config=config,
        libraries=(*libraries, *UNPACKING),
        positions=positions,
        wanted=text.wanted,
        other_suffix=text.other_suffix,
        skipped_folder=text.skipped_folder,
        read=read,
    )

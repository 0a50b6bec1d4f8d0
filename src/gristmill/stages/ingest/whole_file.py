"""Readers of formats with one document per file: they share how a file is found, read and bounded."""

from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any, TypeVar

from gristmill.schema import Record
from gristmill.stages.contract import Bytes, Piece, Reader, StageConfig
from gristmill.stages.reading.decompress import UNPACKING, ReadFault
from gristmill.stages.reading.stream import bounded, decompressed, without_compression_suffix

POSITIONS = "the whole file"
VCS_DIRS = frozenset((".git", ".hg", ".svn", ".bzr", "CVS", "_darcs"))
"""Folders in which version control keeps its own files. They are never documents."""


class TreeConfig(StageConfig):
    """Which files of a tree are documents."""

    suffixes: tuple[str, ...]
    """Suffixes of the files to read, with the dot, in any case. A compression suffix may follow. `""` selects files
    without a suffix (README)."""
    max_record_bytes: Bytes = 64 << 20
    """A larger file is dropped as `record_too_large`. Bytes, decompressed."""


def wanted(name: str, config: TreeConfig) -> bool:
    """Whether the file with this path below the root is a document, decided by its name alone."""
    path = PurePosixPath(without_compression_suffix(name))
    wanted = {suffix.lower() for suffix in config.suffixes}
    return path.suffix.lower() in wanted and skipped_folder(name, config) is None


def other_suffix(name: str, config: TreeConfig) -> str | None:
    """The suffix because of which a file is skipped, unless the recipe lists suffixes. Hidden files do not count."""
    path = PurePosixPath(without_compression_suffix(name))
    hidden = any(part.startswith(".") for part in path.parts) or skipped_folder(name, config) is not None
    return None if hidden or "suffixes" in config.model_fields_set else path.suffix.lower()


def skipped_folder(name: str, config: TreeConfig) -> str | None:
    """The outermost version control folder in the path."""
    return next((folder for folder in PurePosixPath(name).parts[:-1] if folder in VCS_DIRS), None)


C = TypeVar("C", bound=TreeConfig)
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
        if record.drop is None and record.html is None and (not record.text or record.text.isspace()):
            raise ReadFault("empty_text", "the file has no text")
    except ReadFault as fault:
        record = Record(0, content_type=content_type, drop=fault.reason, detail=fault.detail)
    yield record


def tree_reader(
    version: int,
    config: type[C],
    read: Callable[[Piece, C], Iterator[Record]],
    libraries: tuple[str, ...] = (),
    positions: str = POSITIONS,
    other_suffix: Callable[[str, C], str | None] = other_suffix,
    **more: Any,
) -> Reader[C]:
    """Declares the reader of such a format."""
    return Reader(
        version=version,
        config=config,
        libraries=(*libraries, *UNPACKING),
        positions=positions,
        wanted=wanted,
        other_suffix=other_suffix,
        skipped_folder=skipped_folder,
        read=read,
        **more,
    )

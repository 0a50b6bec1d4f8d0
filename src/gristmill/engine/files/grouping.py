"""Groups the input files of a source into tasks.

Files are cut and grouped by their names and sizes alone: large files that can be read from the middle are cut
into ranges, and small files are grouped. The end of a group depends on the hash of the next file's name, so that a new
file only changes the group that it falls into.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gristmill.engine.files.listing import InputFile
from gristmill.places import shown
from gristmill.ranges import unpack_ranges
from gristmill.stages.contract import Piece, Reader
from gristmill.stages.reading.stream import COMPRESSED_SUFFIXES
from gristmill.stages.reading.views import ArchiveMember, View

MOST_RANGES = 64
"""The most ranges of one file. If records can only be found from the start, a range costs as much as all before it."""


@dataclass(frozen=True, slots=True)
class FileGroup:
    """The files, or parts of files, that one read task reads."""

    snapshot: str | None
    pieces: tuple[Piece, ...]
    label: str
    size: int
    """Bytes, as stored."""


def group_files(files: Sequence[InputFile], part_bytes: int, reader: Reader[Any]) -> Iterator[FileGroup]:
    """Cut and group files for read tasks of about one part each; a group never spans two snapshots."""
    by_snapshot: dict[str | None, list[InputFile]] = {}
    for file in files:
        by_snapshot.setdefault(file.snapshot, []).append(file)
    for snapshot in sorted(by_snapshot, key=lambda value: (value is not None, value)):
        group: list[InputFile] = []
        filled = 0
        for file in by_snapshot[snapshot]:
            if one_after_the_other(file, group):
                group.append(file)
                filled = part_bytes  # nothing else joins
                continue
            if group and _ends_before(file, filled, part_bytes):
                yield _group_of(group)
                group, filled = [], 0
            if file.payload_guess > part_bytes and not is_sequential(file.view):
                yield from _ranges(file, part_bytes, reader)
            else:
                group.append(file)
                filled += file.payload_guess
        if group:
            yield _group_of(group)


def one_after_the_other(file: InputFile, group: Sequence[InputFile]) -> bool:
    """Whether a file is a member of the same archive as the last one of a group, and both are unpacked together."""
    return bool(group) and is_sequential(file.view) and group[-1].uri == file.uri


def is_sequential(view: View | None) -> bool:
    """Whether a member can only be reached by unpacking everything before it."""
    return isinstance(view, ArchiveMember) and view.inside is not None


def _ends_before(file: InputFile, filled: int, part_bytes: int) -> bool:
    if filled + file.payload_guess > part_bytes:
        return True
    if filled < part_bytes // 4:
        return False
    name = file.name.encode("utf-8", "surrogateescape")
    chance = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big") / 2**64
    return chance < 2 * max(file.payload_guess, 1) / part_bytes


def _group_of(files: Sequence[InputFile]) -> FileGroup:
    label = shown(files[0].name) + (f" and {len(files) - 1} more" if len(files) > 1 else "")
    return FileGroup(files[0].snapshot, tuple(file.piece() for file in files), label, sum(file.size for file in files))


def _ranges(file: InputFile, part_bytes: int, reader: Reader[Any]) -> Iterator[FileGroup]:
    starts = _starts(file, part_bytes, reader)
    for index, (start, stop) in enumerate(zip(starts, [*starts[1:], None], strict=True)):
        label = shown(file.name) + (f" {index + 1}/{len(starts)}" if len(starts) > 1 else "")
        yield FileGroup(file.snapshot, (file.piece(start, stop),), label, file.size // len(starts))


def _starts(file: InputFile, part_bytes: int, reader: Reader[Any]) -> list[int]:
    """Where the ranges of a large file begin."""
    if file.place is not None and file.place.ranges is not None:
        return _starts_of_ranges(unpack_ranges(file.place.ranges), part_bytes * file.size // file.payload_guess)
    is_plain = not isinstance(file.view, ArchiveMember) or file.view.is_plain
    if not (is_plain and reader.splittable) or file.name.lower().endswith(COMPRESSED_SUFFIXES):
        return [0]
    step = max(1, part_bytes * file.size // file.payload_guess, -(-file.size // MOST_RANGES))
    return [index * step for index in range(max(1, round(file.size / step)))]


def _starts_of_ranges(ranges: Sequence[tuple[int, int]], step: int) -> list[int]:
    """Where to cut, so that the ranges from one cut to the next have about `step` bytes."""
    starts, filled = [0], 0
    for start, stop in ranges:
        if filled >= step:
            starts.append(start)
            filled = 0
        filled += stop - start
    return starts

"""Decides which files, parts of files and records a sample takes.

A piece (a file, or a range of a large one) is the smallest unit that can be skipped without reading it. So a sample
chooses pieces first: its share of them, but at least LEAST_PIECES if there are that many, with the smallest hashes of
their names. Among the records in them it takes the remaining share, by a hash of file and position. So the time
shrinks with the share, and the choice depends only on names and positions.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from gristmill.engine.files.grouping import FileGroup, group_files
from gristmill.engine.files.listing import InputFile
from gristmill.places import exact
from gristmill.schema import Record
from gristmill.stages.contract import Piece, Reader

LEAST_PIECES = 10
"""With fewer pieces, a sample could be a few pages of one site, or one author."""

Named = tuple[str, Record]
"""The name of a file, and one of its records."""


class Sampled(NamedTuple):
    """The files of a source to read, and the share of their records to take."""

    groups: tuple[FileGroup, ...]
    share: float


def sampled(files: Sequence[InputFile], part_bytes: int, reader: Reader[Any], share: float) -> Sampled:
    pieces = [piece for group in group_files(files, part_bytes, reader) for piece in group.pieces]
    wanted = min(len(pieces), max(LEAST_PIECES, round(share * len(pieces))))
    taken = set(sorted(pieces, key=_chance_of_piece)[:wanted])
    names = {piece.name for piece in taken}
    # Grouped again, so that each task reads as much as in a full run; large files are cut into the same pieces again.
    groups = group_files([file for file in files if file.name in names], part_bytes, reader)
    kept = tuple(group for group in groups if taken.issuperset(group.pieces))
    return Sampled(kept, min(1.0, share * len(pieces) / wanted))


def _chance_of_piece(piece: Piece) -> tuple[bytes, str, int]:
    return _digest(f"{exact(piece.name)}\0{piece.start}"), exact(piece.name), piece.start


def take(records: Iterable[Named], share: float) -> Iterator[Named]:
    """A share of the records of a task, and at least one: the one with the smallest hash."""
    bound = int(share * 2**64)
    nearest: tuple[bytes, Named] | None = None
    some = False
    for name, record in records:
        chance = _digest(f"{exact(name)}\0{record.position}\0record")
        if int.from_bytes(chance, "big") < bound:
            some = True
            yield name, record
        elif not some and (nearest is None or chance < nearest[0]):
            nearest = chance, (name, record)
    if not some and nearest is not None:
        yield nearest[1]


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8, person=b"sample").digest()

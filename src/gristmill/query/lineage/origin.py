"""The origin of a document: the input file and the byte range of its record.

A document id is a hash of source, file, position and key (`engine/work/read.py`), so it can confirm a position. The
locator has the position if the record has no key; otherwise the reader reads the file again until it finds the record.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gristmill.engine.plan.inputs import work_of
from gristmill.engine.schedule.corpus_view import CorpusView, DocumentPart
from gristmill.engine.schedule.run import Run
from gristmill.engine.work.read import id_of, records_of
from gristmill.engine.work.task import Read
from gristmill.places import shown
from gristmill.recipe.checks.columns import INGEST
from gristmill.schema import Record
from gristmill.stages.contract import Piece, Reader
from gristmill.stages.declarations import stage_of

_IN_LOCATOR = re.compile(r"(\d{1,18})(?:\+(\d{1,18}))?")
"""A position, or the position of a frame and the number of the record in it."""


@dataclass(frozen=True)
class RecordOrigin:
    """A range of an input file."""

    file: str
    """The path relative to the root of the source."""
    start: int | None
    """None if it cannot be determined without the input file, which is missing."""
    stop: int | None
    """The start of the next record; None at the end of the file, or if unknown."""
    unit: str
    """The unit of start and stop."""
    sha256: str | None
    """The hash of the whole file when it was read."""


@dataclass(frozen=True)
class Reread:
    """A record that was read again."""

    work: Read
    name: str
    record: Record
    stop: int | None
    """The start of the next record."""


def read_again(run: Run, document: DocumentPart, wanted: Mapping[bytes, str]) -> dict[bytes, Reread]:
    """Read records of a document part again, by document id; `wanted` has their locators.

    Each file is read once. If only one record is wanted and its position is known, reading starts there.
    """
    source = run.graph.recipe.sources[document.source]
    inputs = run.inputs[document.source]
    work, _ = work_of(source, inputs, inputs.groups[document.order[0]], None)
    found: dict[bytes, Reread] = {}
    for piece in work.pieces:
        here = {
            doc_id: position_of(document.source, piece.name, doc_id, locator)
            for doc_id, locator in wanted.items()
            if locator.startswith(f"{shown(piece.name)}#")
        }
        if here:
            found |= _read_piece(replace(work, pieces=(piece,), share=None), piece, here)
    return found


def _read_piece(work: Read, piece: Piece, wanted: Mapping[bytes, int | None]) -> dict[bytes, Reread]:
    known = [position for position in wanted.values() if position is not None]
    if len(known) == len(wanted) and not any(_is_within(piece, position) for position in known):
        return {}
    if len(wanted) == 1 and known:
        work = replace(work, pieces=(replace(piece, start=known[0]),))
    found: dict[bytes, Reread] = {}
    last: bytes | None = None
    for name, record in records_of(work):
        if last is not None:
            found[last] = replace(found[last], stop=record.position)
            last = None
        if len(found) == len(wanted):
            break
        doc_id = id_of(work.source, name, record)
        if doc_id in wanted:
            found[doc_id], last = Reread(work, name, record, None), doc_id
    return found


def _is_within(piece: Piece, position: int) -> bool:
    return piece.start <= position and (piece.stop is None or position < piece.stop)


def position_of(source: str, name: str, doc_id: bytes, locator: str) -> int | None:
    """The position in the locator; None if it has none."""
    key = locator.removeprefix(f"{shown(name)}#")
    numbers = _IN_LOCATOR.fullmatch(key)
    if numbers is None:
        return None
    position = int(numbers[1]) + int(numbers[2] or 0)
    for record in (Record(position), Record(position, key)):
        if id_of(source, name, record) == doc_id:
            return position
    return None


def origin_of(
    view: CorpusView, document: DocumentPart, row: Mapping[str, Any], after: Mapping[str, Any] | None
) -> RecordOrigin:
    """The origin of a row; `after` is the next row of its part, which gives the end.

    For a recorded run without its recipe, only the information in the store is used.
    """
    doc_id, locator = row["doc_id"], row["locator"]
    files = _files(view, document.source)
    for name, digest in _named_in(locator, files):
        start = position_of(document.source, name, doc_id, locator)
        stop = None
        if start is not None and after is not None and after["locator"].startswith(f"{shown(name)}#"):
            stop = position_of(document.source, name, after["doc_id"], after["locator"])
        if (start is None or stop is None) and isinstance(view, Run):
            again = read_again(view, document, {doc_id: locator}).get(doc_id)
            if again is None:
                continue
            start, stop = again.record.position, again.stop
        return RecordOrigin(shown(name), start, stop, unit_of(view, document.source), digest)
    return RecordOrigin(locator.rpartition("#")[0], None, None, unit_of(view, document.source), None)


def _named_in(locator: str, files: Mapping[str, str | None]) -> list[tuple[str, str | None]]:
    """The files, or members of archives among them, that a locator may begin with, the longest name first; with the
    hash of the file or archive.
    """
    found: dict[str, str | None] = {}
    for name, digest in files.items():
        if locator.startswith(f"{shown(name)}/"):  # the name of a member; it, or a key after it, may contain `#`
            ends = [at.start() for at in re.finditer("#", locator) if at.start() > len(shown(name))]
            found |= {locator[:end]: digest for end in ends}
    found |= {name: digest for name, digest in files.items() if locator.startswith(f"{shown(name)}#")}
    return sorted(found.items(), key=lambda item: len(item[0]), reverse=True)


def unit_of(view: CorpusView, source: str) -> str:
    """The unit of positions in a source."""
    if isinstance(view, Run):
        return stage_of(view.graph.recipe.sources[source].module, Reader).positions
    assert view.record is not None
    stage = str(view.record["nodes"][f"{source}/{INGEST}"]["identity"]["stage"])
    is_ours = stage.startswith("ingest.")
    return stage_of(f"gristmill.stages.{stage}", Reader).positions if is_ours else Reader.positions


def _files(view: CorpusView, source: str) -> dict[str, str | None]:
    """The input files of a source, with their hashes."""
    if isinstance(view, Run):
        inputs = view.inputs[source]
        return {file.name: inputs.content[uri].sha256 for uri, file in inputs.files.items() if uri in inputs.content}
    assert view.record is not None
    recorded: Mapping[str, str] = view.record["nodes"][f"{source}/{INGEST}"].get("files", {})
    return {_as_named(name): digest for name, digest in recorded.items()}


def _as_named(name: str) -> str:
    """The inverse of `exact`."""
    return re.sub("\0([0-9a-f]{2})", lambda found: chr(0xDC00 + int(found[1], 16)), name)

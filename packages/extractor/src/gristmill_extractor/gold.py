"""Gold pages: pages whose main text is known, to score extractors.

A folder has them in two kinds of files, at any depth: web archives with the pages (`*.warc`, also compressed), and
JSON Lines with `gold` in the name (`extraction_gold.jsonl`, also .gz or .zst), one line per page:

    warc_record_id      the WARC-Record-ID of the page's response
    set                 the collection that it belongs to
    text                its main text; or instead of it,
    must_have, must_not segments that an extractor must return, and those that it must not
    lang, url, comments the language; the URL, if the record's own is made up; the comments of readers

Pages are decoded by the WARC reader of recipes. Other fields are ignored.
"""

import hashlib
import html
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.places import open_path, shown
from gristmill.recipe.checks.plain_words import describe
from gristmill.schema import Record, as_str
from gristmill.stages.contract import Piece
from gristmill.stages.ingest import warc
from gristmill.stages.ingest.jsonl import lines
from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.json_value import parsed
from gristmill.stages.reading.stream import decompressed, without_compression_suffix
from gristmill_extractor.gold_domains import domain_of
from gristmill_extractor.gold_scores import Score, score_segments, score_text, words_of

MAX_LINE_BYTES = 64 << 20
"""Limit of a line of a gold file, decompressed; as in the reader of JSON Lines."""
WEAK = "-weakgold"
"""The suffix of the name of a set whose gold is the output of a tool."""
_TAG = re.compile("<[^<>]*>")


class _Line(BaseModel):
    """The fields of a line."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    warc_record_id: str
    set: str
    lang: str | None = None
    url: str | None = None
    text: str | None = None
    comments: str | None = None
    must_have: list[str] | None = None
    must_not: list[str] | None = None


@dataclass(frozen=True, slots=True)
class GoldPage:
    """A page and its gold."""

    record_id: str
    """Without the angle brackets."""
    set: str
    language: str | None
    url: str | None
    domain: str
    """The domain of its owner, as far as known; never empty. Pages of one domain look alike."""
    domain_from: str
    """The source of the domain: one of gold_domains.KINDS."""
    html: str
    text: str | None
    """Its main text; None if there are segments."""
    comments: str | None
    must_have: tuple[str, ...]
    must_not: tuple[str, ...]

    @property
    def is_weak(self) -> bool:
        """Whether the gold of its set is weak."""
        return is_weak(self.set)

    @property
    def is_strange(self) -> bool:
        """Whether no word of its gold is in it: the gold may belong to another page."""
        texts = [self.text] if self.text is not None else [*self.must_have, *self.must_not]
        wanted = {word for text in texts for word in words_of(text)}
        return wanted.isdisjoint(words_of(html.unescape(_TAG.sub(" ", self.html))))

    def score(self, text: str) -> Score:
        """The score of an extracted text."""
        if self.text is not None:
            return score_text(text, self.text)
        return score_segments(text, self.must_have, self.must_not)


def is_weak(name: str) -> bool:
    """Whether the gold of a set is too weak for a mean."""
    return name.endswith(WEAK)


class _GoldLine(NamedTuple):
    """A line of a gold file."""

    path: Path
    position: int
    """In bytes of the decompressed file."""

    def __str__(self) -> str:
        """The path and line number. The file is read again for it, since only error messages need it."""
        left, number = self.position, 1
        with open_path(str(self.path)) as file:
            chunks = decompressed(file)[1]
            while left > 0:
                chunk = next(chunks)
                number += chunk.count(b"\n", 0, left)
                left -= len(chunk)
        return f"{shown(str(self.path))}:{number}"


def read_gold(folder: Path, limit: int | None = None) -> list[GoldPage]:
    """The pages, sorted by id; at most `limit`, always the same ones. Raises UserError if there are none."""
    if not folder.is_dir():
        raise UserError(f"{shown(str(folder))} is not a folder, so it has no gold. Check the path.")
    golds = dict(sorted(_golds(folder).items(), key=lambda item: hashlib.blake2b(item[0].encode()).digest())[:limit])
    archives = _below(folder, lambda name: name.endswith(".warc"))
    if not archives:
        raise UserError(
            f"{shown(str(folder))} and its subfolders have no WARC file, so the pages of the gold are missing. Put the "
            "archives next to the gold (*.warc, *.warc.gz, *.warc.zst)."
        )
    pages: dict[str, GoldPage] = {}
    archive_of: dict[str, Path] = {}
    refused: dict[str, Record] = {}
    for path in archives:
        for record_id, record in _responses(path):
            if record_id not in golds:
                continue
            if record.html is None:
                refused[record_id] = record
                continue
            if record_id in pages:
                raise UserError(
                    f"{shown(str(path))} has a page with the id {record_id}, and so does "
                    f"{shown(str(archive_of[record_id]))}, so it is not clear to which the gold belongs "
                    f"({golds[record_id][1]}). Nothing was done. Remove one of them."
                )
            pages[record_id] = _page(record_id, golds[record_id][0], record, as_str(record.html))
            archive_of[record_id] = path
    if missing := {record_id: gold for record_id, gold in golds.items() if record_id not in pages}:
        raise UserError(_missing(folder, missing, refused, len(pages)))
    return [pages[record_id] for record_id in sorted(pages)]


def read_golds(folders: Sequence[Path]) -> list[GoldPage]:
    """The pages of several folders, sorted by id. Raises UserError for a page that two of them have."""
    found: dict[str, tuple[GoldPage, Path]] = {}
    for folder in folders:
        for page in read_gold(folder):
            if page.record_id in found:
                raise UserError(
                    f"{shown(str(folder))} has gold for the page {page.record_id}, and so does "
                    f"{shown(str(found[page.record_id][1]))}, so it is not clear which is right. Nothing was "
                    "done. Remove one, or name each folder once."
                )
            found[page.record_id] = page, folder
    return [found[record_id][0] for record_id in sorted(found)]


def _page(record_id: str, gold: _Line, record: Record, html: str) -> GoldPage:
    url = gold.url or record.url
    domain = domain_of(url, html, record_id)
    return GoldPage(
        record_id,
        gold.set,
        gold.lang,
        url,
        domain.name,
        domain.kind,
        html,
        gold.text,
        gold.comments,
        tuple(gold.must_have or ()),
        tuple(gold.must_not or ()),
    )


def _golds(folder: Path) -> dict[str, tuple[_Line, _GoldLine]]:
    """The lines of all gold files, by the id of their page."""
    paths = _below(folder, lambda name: name.endswith(".jsonl") and "gold" in name)
    found: dict[str, tuple[_Line, _GoldLine]] = {}
    for path in paths:
        for line, place in _read(path):
            record_id = line.warc_record_id.strip("<>")
            if record_id in found:
                raise UserError(
                    f"{place} has the page {record_id}, which {found[record_id][1]} has, too, so it is not clear "
                    "which is right. Remove one."
                )
            found[record_id] = line, place
    if not found:
        fact = f"{shown(str(paths[0]))} is empty" if paths else f"{shown(str(folder))} has no gold file"
        raise UserError(
            f"{fact}, so there is no gold to read. Gold is a JSON Lines file with gold in its name "
            "(extraction_gold.jsonl, also .gz or .zst), in the folder or a subfolder."
        )
    return found


def _read(path: Path) -> Iterator[tuple[_Line, _GoldLine]]:
    with refuse_unreadable(), open_path(str(path)) as file:
        for position, line in lines(decompressed(file)[1], 0, MAX_LINE_BYTES):
            place = _GoldLine(path, position)
            try:
                yield _checked(_Line.model_validate(parsed(line, first=position == 0)), place), place
            except ReadFault as fault:
                raise UserError(
                    f"{place}: {fault.reason.replace('_', ' ')}, {fault.detail}. Nothing was done: gold is complete "
                    "lines of JSON, one object each. Correct the file."
                ) from None
            except ValidationError as error:
                raise UserError(_message(error, place)) from None


@contextmanager
def refuse_unreadable() -> Iterator[None]:
    """Turn an OSError about a file into a UserError."""
    try:
        yield
    except OSError as error:
        name = f"{shown(str(error.filename))} " if error.filename else "A file "
        fix = "Check the path." if isinstance(error, FileNotFoundError) else "Make it readable, or remove it."
        raise UserError(f"{name}cannot be read: {error.strerror or error}. Nothing was done. {fix}") from None


def _checked(line: _Line, place: _GoldLine) -> _Line:
    if line.text is None and not (line.must_have or line.must_not):
        raise UserError(
            f"{place} has neither text nor segments, so nothing can be compared with it. Add text, or must_have "
            "and must_not, or remove the line."
        )
    for name, texts in (
        ("set", [line.set]),
        ("warc_record_id", [line.warc_record_id.strip("<>")]),
        ("text", [] if line.text is None else [line.text]),
        ("must_have", line.must_have or []),
        ("must_not", line.must_not or []),
    ):
        if not all(text.strip() for text in texts):
            raise UserError(
                f"{place} has an empty {name}{_EMPTY.get(name, '')}. Nothing was done. Fill it in, or remove it."
            )
    return line


_EMPTY = {
    "text": ", so no tool could return any of it",
    "must_have": ", which every text contains, so it would test nothing",
    "must_not": ", which every text contains, so no tool could be right",
}


def _message(error: ValidationError, place: _GoldLine) -> str:
    found = error.errors(include_url=False)[:1]
    name = ".".join(map(str, found[0]["loc"]))
    if found[0]["type"] == "missing":
        return f"{place} has no {name}. Nothing was done: a line of gold requires warc_record_id and set. Add it."
    return f"{place}: {describe(name, found, found[0]['input'])} Nothing was done. Correct the line, or remove it."


def _responses(path: Path) -> Iterator[tuple[str, Record]]:
    """The records of an archive that have an id, from the WARC reader of recipes."""
    with refuse_unreadable():
        for record in warc.read(Piece(str(path), path.name), warc.Config()):
            meta = orjson.loads(record.meta) if record.meta else {}
            if "record_id" in meta:
                yield meta["record_id"], record


def _missing(folder: Path, golds: dict[str, tuple[_Line, _GoldLine]], refused: dict[str, Record], found: int) -> str:
    """The message for gold whose page is missing or has no markup."""
    record_id, (_, place) = next(iter(sorted(golds.items())))
    many = f"{len(golds):,} of {counted(len(golds) + found, 'page')} with gold"
    if record := refused.get(record_id):
        detail = f" ({record.detail})" if record.detail else ""
        return (
            f"{many} cannot be read from the WARC files in {shown(str(folder))}: the record {record_id} ({place}) is "
            f"dropped as {record.drop or 'plain text'}{detail}. Nothing was done. Remove such lines from the gold."
        )
    return (
        f"{many} are in no WARC file in {shown(str(folder))}: none has a record {record_id} ({place}). Nothing "
        "was done. Add the archives that have them, or remove their lines from the gold."
    )


def _below(folder: Path, wanted: Callable[[str], bool]) -> list[Path]:
    """Files in a folder and its subfolders whose name, in lower case and without a compression suffix, is wanted."""

    def refuse(error: OSError) -> None:
        raise error

    with refuse_unreadable():
        return sorted(
            Path(at, name)
            for at, _, names in os.walk(folder, onerror=refuse)
            for name in names
            if wanted(without_compression_suffix(name).lower())
        )

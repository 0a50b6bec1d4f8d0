"""Reads subtitles (SubRip .srt and WebVTT .vtt), one document per file: what is said, without times and styles.

Lines that a caption repeats from the one before it are written once, as captions that scroll have them; `meta` has
their number. A pause longer than `paragraph_pause_s` begins a paragraph. A speaker's name in WebVTT is kept: `Miller:
The wheel turns.` Each speaker of a caption with several (`- Yes.`, `- No.`) begins a line.
"""

import html
import re
from collections.abc import Iterator

from pydantic import Field

from gristmill.schema import Record
from gristmill.stages.contract import Piece
from gristmill.stages.ingest.decode import decode
from gristmill.stages.ingest.whole_file import TreeConfig, one_record, tree_reader
from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.fields import dump

_TIME = r"(?:(\d{1,4}):)?(\d\d?):(\d\d?)[.,](\d{1,3})"
_CUE = re.compile(rf"[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}")
_SPEAKER = re.compile(r"<v(?:\.[^\s<>]*)?\s++([^<>]{1,100}+)>")
_BEFORE_SPEAKER = re.compile(r"(?=<v[.\s])")
_TURN = re.compile(r"<v[.\s]|(?:<[^<>]{1,20}>)?[-\u2010-\u2015] ?\w")
"""How a line begins that a speaker says in a caption with several."""
_TAG = re.compile(r"</?[A-Za-z][^<>\n]{0,200}>|<\d{1,4}:[\d:.]{1,20}>|</?>|\{(?:\\|[Yy]:)[^{}\n]{0,200}\}")
_BREAK = re.compile(r"\\[Nh]")
"""A line end and a space as the format SubStation Alpha has them, from which files are converted."""
_PICTURE = re.compile(r"\S{1,300}\.(?:jpe?g|png|webp|gif|avif)(?:[?#]\S{0,200})?", re.I)
"""A line of a track of thumbnails: `sprite.jpg#xywh=0,0,128,72`."""
_LANGUAGE = re.compile(r"^Language:[ \t]*([A-Za-z-]{2,20})", re.MULTILINE)


class Config(TreeConfig):
    suffixes: tuple[str, ...] = (".srt", ".vtt")
    paragraph_pause_s: float = Field(default=3.0, ge=0)
    """A longer pause between two captions begins a paragraph. Seconds."""


def read(piece: Piece, config: Config) -> Iterator[Record]:
    """Reasons: `not_subtitles`, `binary_file`, `invalid_utf8`, and those of every file."""
    return one_record(piece, config, "text/vtt", _parse)


def _parse(data: bytes, record: Record, config: Config) -> None:
    text, record.charset = decode(data)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not lines[0].startswith("WEBVTT"):
        record.content_type = "application/x-subrip"
    paragraphs: list[list[str]] = [[]]
    last: set[str] = set()
    end = cues = repeated = 0
    at = 0
    while at < len(lines):
        cue = _CUE.match(lines[at])
        at += 1
        if cue is None:
            continue
        first = at
        while at < len(lines) and lines[at].strip() and not _CUE.match(lines[at]):
            at += 1
        is_followed = at < len(lines) and _CUE.match(lines[at])
        last_line = at - 1 if is_followed and lines[at - 1].strip().isdecimal() else at  # the number of the next one
        cues += 1
        pieces = [piece for line in lines[first:last_line] for piece in _BEFORE_SPEAKER.split(line)]
        said = [line for line in map(_said, pieces) if line]
        turns = [piece for piece in pieces if _TURN.match(piece)]
        speakers = {*map(_said, turns)} if len(turns) > 1 else set()
        if cues > 1 and _milliseconds(cue.groups()[:4]) - end > 1000 * config.paragraph_pause_s:
            paragraphs.append([])
        new = [line for line in said if line not in last]
        repeated += len(said) - len(new)
        paragraphs[-1] += [f"\n{line}" if line in speakers else line for line in new]
        last, end = set(said), _milliseconds(cue.groups()[4:])
    if not cues:
        raise ReadFault("not_subtitles", "no line has the times of a caption (00:00:01,000 --> 00:00:02,000)")
    record.text = "\n\n".join(" ".join(one).replace(" \n", "\n").strip("\n") for one in paragraphs if one)
    stated = _LANGUAGE.search(text[:1000])
    record.language_hint = stated[1] if stated else None
    record.meta = dump({"captions": cues, "seconds": end // 1000} | ({"repeated_lines": repeated} if repeated else {}))


def _milliseconds(time: tuple[str | None, ...]) -> int:
    hours, minutes, seconds = (int(one or 0) for one in time[:3])
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + int((time[3] or "").ljust(3, "0"))


def _said(line: str) -> str:
    """A line without tags, with the name of its speaker; "" for the address of a picture."""
    line = _BREAK.sub(" ", _TAG.sub("", _SPEAKER.sub(r"\1: ", line)))
    said = " ".join(html.unescape(line).split())
    return "" if _PICTURE.fullmatch(said) else said


STAGE = tree_reader(5, Config, read, ("orjson", "resiliparse"))

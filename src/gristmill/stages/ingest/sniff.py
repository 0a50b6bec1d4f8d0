"""Guesses the format of a file from its name and its first bytes, for readers that were given another format."""

import codecs
import re

import orjson

from gristmill.stages.contract import Piece
from gristmill.stages.ingest.warc_headers import opens_record
from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.stream import decompressed, peek, without_compression_suffix

HEAD_BYTES = 1 << 16

_BOM = b"\xef\xbb\xbf"
_PARQUET = (b"PAR1", b"PARE")
ZIP = (b"PK\x03\x04", b"PK\x05\x06")
UNREADABLE = "nothing can be read from it before it is unpacked"
_ARRAY = re.compile(rb"\[\s*+(?:[{\[\"\]]|\Z)")
_OBJECT = re.compile(rb'\{\s*+["}]')
_PAGE = re.compile(rb"<(?:!doctype\s{1,64}html|html)[\s>]", re.I)
_SUFFIXES = {
    **dict.fromkeys((".csv", ".tsv", ".tab"), "csv"),
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    **dict.fromkeys((".warc", ".arc"), "warc"),
    **dict.fromkeys((".txt", ".md", ".rst"), "text"),
    **dict.fromkeys((".docx", ".odt"), "office"),
    **dict.fromkeys((".mbox", ".mbx"), "mbox"),
    **dict.fromkeys((".srt", ".vtt"), "subtitles"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
    **dict.fromkeys((".tex", ".ltx"), "latex"),
    ".epub": "epub",
    ".nxml": "jats",
    ".pdf": "pdf",
    ".json": "json",
    ".ipynb": "notebook",
    ".parquet": "parquet",
    ".wet": "wet",
}
_WIKI_DUMP = ".xml.bz2"


def beginning(head: bytes, size: int = 16) -> str:
    """The first bytes of a file for people: as text, or as numbers if they are not text."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head[:size])  # the last character may be cut
    except UnicodeDecodeError:
        text = "\0"
    return repr(text) if "".join(text.split()).isprintable() else f"the bytes {head[:size].hex(' ')}"


def format_by_name(name: str) -> str | None:
    """The recipe `format` of a file, by its suffix. A compression suffix may follow it."""
    if name.lower().endswith(_WIKI_DUMP):
        return "mediawiki"
    _, dot, ending = without_compression_suffix(name).lower().rpartition(".")
    return _SUFFIXES.get(dot + ending)


def format_of(piece: Piece) -> str | None:
    """The recipe `format` of a file, by its first bytes after decompression. None if they do not show it."""
    try:
        with piece.open() as file:
            head = peek(decompressed(file)[1], HEAD_BYTES)[0]
    except ReadFault:  # of a member of an archive
        return None
    return "pdf" if head.startswith(b"%PDF-") else signature(head) or _looks_like(head.removeprefix(_BOM).lstrip())


def signature(head: bytes) -> str | None:
    """The format of a file whose first bytes only occur in that format."""
    if head.startswith(_PARQUET):
        return "parquet"
    if opens_record(head) is not None:
        return "wet" if b"WARC-Type: conversion" in head else "warc"
    return None


def refuse_packed(head: bytes, plain: bool, reason: str) -> None:
    """Raises `ReadFault` for a file that must be unpacked first. `head` is decompressed, unless the file was plain."""
    is_tar = head[257:262] == b"ustar" and b"\0" in head[:257]
    if is_tar or head.startswith(ZIP):
        kind = "tar" if is_tar else "zip"
        fix = f"if `paths` names it (such as `*.{kind}`), its members are read"
        raise ReadFault(reason, f"the file is a {kind} archive, so {UNREADABLE}; {fix}")
    if not plain and head.startswith(_PARQUET):
        raise ReadFault(reason, f"the file is compressed Parquet, so {UNREADABLE} (`gunzip` for gzip)")


def refuse(head: bytes, plain: bool, reason: str) -> None:
    """Raises `ReadFault` for a file that clearly has another format, or that must be converted first."""
    refuse_packed(head, plain, reason)
    if (charset := wide_charset(head)) is not None:
        fact = f"the file is {charset.upper()} by its first bytes, {beginning(head, 8)}, and this reader takes UTF-8"
        raise ReadFault(reason, f"{fact}: `iconv -f {charset} -t utf-8 OLD > NEW` makes it so")
    if (found := signature(head)) is not None:
        raise ReadFault(reason, f"the file begins with {beginning(head)}, as those do that `format: {found}` reads")


def wide_charset(head: bytes) -> str | None:
    """The charset of text with several bytes per letter: by its byte order mark, or by zeros between letters."""
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    for charset, zeros, letters in (("utf-16le", head[1:8:2], head[:8:2]), ("utf-16be", head[:8:2], head[1:8:2])):
        if len(head) >= 8 and not any(zeros) and all(letters):
            return charset
    return None


def _looks_like(head: bytes) -> str | None:
    if _ARRAY.match(head):
        return "json"
    if _OBJECT.match(head):
        try:
            orjson.loads(head.partition(b"\n")[0])
        except orjson.JSONDecodeError:
            return "json" if b"\n" in head else None  # an object over several lines, or a line longer than the head
        return "jsonl"
    return "html" if _PAGE.match(head) else None

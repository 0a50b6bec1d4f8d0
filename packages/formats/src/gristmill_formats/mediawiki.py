"""Reads XML dumps of MediaWiki (`pages-articles`), one document per page: plain text of the last revision in the dump.

A page's position is the byte of its `<page>` in the decompressed stream. In a bzip2 file it is the byte of the file at
which the page's stream begins, times 2^26, plus the number of the page in that stream. So a file of many streams
(`multistream`) can be read from the middle: a range has the pages of the streams that begin in it. A dump states no
license: name it in the recipe.
"""

import bz2
import re
from collections.abc import Iterator
from typing import IO

from gristmill.schema import Record
from gristmill.stages.contract import Bytes, Piece, Reader, StageConfig
from gristmill.stages.ingest.sniff import refuse
from gristmill.stages.reading.decompress import CHUNK_BYTES, ReadFault
from gristmill.stages.reading.fields import dump
from gristmill.stages.reading.head import Head
from gristmill.stages.reading.stream import MAGIC_BYTES, compression, decompressed, peek, plain_chunks
from gristmill.stages.reading.timestamps import microseconds
from gristmill_formats.wiki.templates import DISAMBIGUATION, REDIRECTS, UNSHOWN
from gristmill_formats.wiki.wikitext import plain_text

_HEAD_BYTES = 1 << 16
_OPEN, _CLOSE = b"<page>", b"</page>"
_STREAM = re.compile(rb"BZh[1-9](?:\x31\x41\x59\x26\x53\x59|\x17\x72\x45\x38\x50\x90)")
_STREAM_PAGES = 1 << 26
"""The most pages in a bzip2 stream, so that positions rise from stream to stream."""
_NAMESPACE = re.compile(rb'<namespace key="(-?\d+)"[^<>]*>([^<]*)<')
_FIELDS = {
    name: re.compile(rb"<%s\b[^<>]*>([^<]*)<" % name.encode()) for name in ("title", "ns", "id", "timestamp", "model")
}
_TEXT = re.compile(rb"<text\b[^<>]*>")
_REFERENCE = re.compile(rb"&(lt|gt|quot|amp|apos|#x[0-9A-Fa-f]{1,6}|#\d{1,7});")
_SIGNS = {b"lt": b"<", b"gt": b">", b"quot": b'"', b"amp": b"&", b"apos": b"'"}
_REDIRECT = re.compile(rb'<redirect title="([^"]*)"')
_FIRST_WORD = re.compile(r"\s*+#[ \t]*+([^\W\d_][^\[\]:{}\n#]{2,24}+):?\s*+\[\[")
_TEMPLATE = re.compile(r"\{\{\s{0,8}([^{}|\n]{1,60})")
_NUMBER = re.compile(r"-?\d{1,9}", re.ASCII)
_BASE = re.compile(rb"<base>([^<\s]{1,2000})/[^/<]*</base>")
_LANGUAGE = re.compile(rb'xml:lang="([\w-]{1,20})"')


class Config(StageConfig):
    """Which pages are documents."""

    namespaces: tuple[int, ...] = (0,)
    """Numbers of the namespaces to read: 0 has the articles, odd numbers have the talk pages, 1 those of articles. A
    page of another one is dropped as `other_namespace`."""
    redirects: bool = False
    """Keep redirects, which have no text but a link. Otherwise they are dropped as `redirect`."""
    disambiguation: bool = False
    """Keep pages that only list meanings of a title. Otherwise they are dropped as `disambiguation_page`."""
    max_record_bytes: Bytes = 64 << 20
    """A larger page (with all its revisions in the dump) is dropped as `record_too_large`. Bytes, decompressed."""


class _Site:
    """What the first lines of a dump say about the wiki."""

    def __init__(self, head: bytes) -> None:
        names = {int(key): _unescaped(name).lower() for key, name in _NAMESPACE.findall(head)}
        self.unshown = UNSHOWN | {names[key] for key in (6, 14) if names.get(key)}
        base, language = _BASE.search(head), _LANGUAGE.search(head)
        self.base = _unescaped(base[1]) if base else None
        self.language = language[1].decode() if language else None


def splittable(name: str) -> bool:
    """Plain files and bzip2 files of many streams can be read from the middle."""
    return name.lower().endswith((".xml", ".bz2"))


def read(piece: Piece, config: Config) -> Iterator[Record]:
    """Reasons: `empty_file`, `not_mediawiki`, `xml_entities`, `other_namespace`, `redirect`, `disambiguation_page`,
    `not_wikitext`, `empty_text`, `invalid_utf8`, `record_too_large`, `truncated_page`, `too_many_pages`, and
    `truncated_` or `corrupt_` with `gzip`, `zstd`, `bzip2`, `xz`.
    """
    with piece.open() as file:
        is_bzip2 = compression(file.read(MAGIC_BYTES)) == "bzip2"
        file.seek(0)
        plain, chunks = decompressed(file)
        head, broken, chunks = peek(chunks, _HEAD_BYTES)
        try:
            if not head.strip() and not broken:
                raise ReadFault("empty_file", f"{len(head)} bytes, none of them visible")
            refuse(head, plain, "not_mediawiki")
            if b"<mediawiki" not in head and not broken:
                raise ReadFault("not_mediawiki", f"no <mediawiki> in the first {len(head)} bytes")
            if b"<!ENTITY" in head.partition(b"<mediawiki")[0]:
                raise ReadFault("xml_entities", "the dump declares entities, as no MediaWiki does")
        except ReadFault as fault:
            if piece.start == 0 and piece.stop != 0:
                yield Record(0, drop=fault.reason, detail=fault.detail)
            return
        site = _Site(head)
        if is_bzip2:
            found = _numbered(_pages(_streams(file, piece.start), config.max_record_bytes))
        elif plain:
            file.seek(piece.start)
            found = _placed(_pages(_offset(plain_chunks(file), piece.start), config.max_record_bytes))
        else:
            found = _placed(_pages(_offset(chunks, 0), config.max_record_bytes))
        empty = True
        for begins_at, position, page in found:
            if piece.stop is not None and begins_at >= piece.stop:
                return
            empty = False
            if begins_at >= piece.start:
                yield _record(position, page, site, config)
        if empty and piece.start == 0 and piece.stop != 0:
            yield Record(0, drop="empty_file", detail="a dump without a page")


_Chunks = Iterator[tuple[int, bytes | ReadFault]]
"""Chunks of the decompressed stream, each with its offset there, or with that of its bzip2 stream in the file."""
_Found = Iterator[tuple[int, int, bytes | ReadFault]]
"""Pages or faults: the offset that came with the chunk in which it begins, its own offset in a plain stream, its bytes.
"""


def _offset(chunks: Iterator[bytes], position: int) -> _Chunks:
    try:
        for chunk in chunks:
            yield position, chunk
            position += len(chunk)
    except ReadFault as fault:
        yield position, fault


def _streams(file: IO[bytes], at: int) -> _Chunks:
    """The content of the bzip2 streams from the first one that begins at or after a byte of the file."""
    start = _next_stream(file, at)
    while start is not None:
        file.seek(start)
        decoder = bz2.BZ2Decompressor()
        used = 0
        try:
            while not decoder.eof:
                data = file.read(1 << 14) if decoder.needs_input else b""
                if not data and decoder.needs_input:
                    raise ReadFault("truncated_bzip2", f"the file ends inside the stream at byte {start}")
                used += len(data)
                chunk = decoder.decompress(data, CHUNK_BYTES)
                if isinstance(file, Head):
                    chunk = next(file.bounded(iter((chunk,))))
                if chunk:
                    yield start, chunk
        except OSError as error:
            yield start, ReadFault("corrupt_bzip2", f"the stream at byte {start}: {error}")
            start = _next_stream(file, start + 1)
        except ReadFault as fault:
            yield start, fault
            return
        else:
            start = _next_stream(file, start + used - len(decoder.unused_data))


def _next_stream(file: IO[bytes], start: int) -> int | None:
    """The first byte of the next bzip2 stream. Its magic is 80 bits long, so chance matches do not occur."""
    file.seek(start)
    kept = b""
    while data := file.read(1 << 16):
        data = kept + data
        if found := _STREAM.search(data):
            return start - len(kept) + found.start()
        start += len(data) - len(kept)
        kept = data[-(MAGIC_BYTES - 1) :]
    return None


def _pages(chunks: _Chunks, limit_bytes: int) -> _Found:
    """The bytes between `<page>` and `</page>`. A longer page is never held; damage ends the page that it is in."""
    held = b""  # the end of the last chunk, which may begin a tag
    held_origins: list[int] = []  # for each byte of it
    parts: list[bytes] = []
    size = 0
    begun: tuple[int, int] | None = None
    for origin, chunk in chunks:
        if isinstance(chunk, ReadFault):
            if begun and chunk.reason.endswith("_bzip2") and begun[0] != origin:  # a row of each of two ranges
                yield (*begun, ReadFault("truncated_page", "the stream in which it goes on is damaged"))
                begun = None
            yield (*(begun or (origin, origin)), chunk)
            begun, parts, size, held, held_origins = None, [], 0, b"", []
            continue
        data, at, shift = held + chunk, 0, len(held)
        end = data.find(_CLOSE)
        while True:
            if begun is None:
                start = data.find(_OPEN, at)
                if start < 0:
                    kept = max(at, len(data) - len(_OPEN) + 1)
                    break
                begun = (held_origins[start] if start < shift else origin, origin + start - shift)
                at = start + len(_OPEN)
            if 0 <= end < at:  # not again for every <page>: many may be open before one end
                end = data.find(_CLOSE, at)
            if (inner := data.find(_OPEN, at, len(data) if end < 0 else end)) >= 0:  # every <page> begins a page
                yield (*begun, ReadFault("truncated_page", "another page begins inside it"))
                begun, parts, size, at = None, [], 0, inner
                continue
            if end < 0:
                kept = max(at, len(data) - len(_CLOSE) + 1)
                size += kept - at
                if size <= limit_bytes:
                    parts.append(data[at:kept])
                break
            size += end - at
            fault = ReadFault("record_too_large", f"{size} bytes, max_record_bytes = {limit_bytes}")
            yield (*begun, fault if size > limit_bytes else b"".join((*parts, data[at:end])))
            begun, parts, size, at = None, [], 0, end + len(_CLOSE)
        held = data[kept:]
        held_origins = [*held_origins[kept:], *[origin] * (len(held) - len(held_origins[kept:]))]
    if begun is not None:
        yield (*begun, ReadFault("truncated_page", "the file ends inside the page"))


_Placed = Iterator[tuple[int, int, bytes | ReadFault]]
"""The byte of the file that decides to which range a page belongs, its position, and the page."""


def _placed(found: _Found) -> _Placed:
    for _, offset, page in found:
        yield offset, offset, page


def _numbered(found: _Found) -> _Placed:
    """Positions of pages in bzip2 streams."""
    last, number = -1, 0
    for origin, _, page in found:
        number = number + 1 if origin == last else 0
        last = origin
        if number == _STREAM_PAGES - 1:
            page = ReadFault("too_many_pages", f"the stream at byte {origin} has more, which are not read")
        if number < _STREAM_PAGES:
            yield origin, origin * _STREAM_PAGES + number, page


def _record(position: int, page: bytes | ReadFault, site: _Site, config: Config) -> Record:
    if isinstance(page, ReadFault):
        return Record(position, drop=page.reason, detail=page.detail)
    record = Record(position, content_type="text/x-wiki", language_hint=site.language)
    try:
        title, namespace, key = (_field(page, name) for name in ("title", "ns", "id"))
        record.title = title or None
        if site.base and title:
            record.url = f"{site.base}/{title.replace(' ', '_')}"
        last = after = max(page.find(b"<revision"), 0)
        while (after := page.find(b"<revision", after + 1)) >= 0:  # `rfind` takes ten times as long
            last = after
        revision = page[last:]
        record.timestamp_us = microseconds(_field(revision, "timestamp"))
        number = int(namespace) if _NUMBER.fullmatch(namespace) else 0
        record.meta = dump({"page_id": key, "namespace": number})
        if number not in config.namespaces:
            raise ReadFault("other_namespace", f"namespace {number}")
        redirect = _REDIRECT.search(page, 0, max(page.find(b"<revision"), 0))
        if redirect and not config.redirects:
            raise ReadFault("redirect", f"to {_unescaped(redirect[1])}")
        model = _field(revision, "model")
        if model not in ("", "wikitext"):
            raise ReadFault("not_wikitext", f"the page's model is {model[:40]}")
        source = _unescaped(_text(revision).replace(b"\0", b"").replace(b"\r\n", b"\n"))
        first = _FIRST_WORD.match(source)
        if first and first[1].strip().lower() in REDIRECTS and not config.redirects:
            raise ReadFault("redirect", "by its first word")
        if not config.disambiguation and _is_disambiguation(source):
            raise ReadFault("disambiguation_page", "by its template")
        record.text = plain_text(source, title, site.unshown)
        if not record.text:
            raise ReadFault("empty_text", "the page has no text")
    except UnicodeDecodeError as error:
        record.drop, record.detail = "invalid_utf8", f"byte {error.start}: {error.reason}"
    except ReadFault as fault:
        record.text, record.drop, record.detail = None, fault.reason, fault.detail
    return record


def _text(revision: bytes) -> bytes:
    """The content of <text>: it has no other elements."""
    tag = _TEXT.search(revision)
    if tag is None or tag[0].endswith(b"/>"):
        return b""
    end = revision.find(b"<", tag.end())
    return revision[tag.end() : end] if end >= 0 else b""


def _is_disambiguation(source: str) -> bool:
    names = (found[1].strip().lower() for found in _TEMPLATE.finditer(source[:2000] + source[-2000:]))
    return any(name in DISAMBIGUATION for name in names)


def _field(page: bytes, name: str) -> str:
    found = _FIELDS[name].search(page)
    return _unescaped(found[1]) if found else ""


def _unescaped(data: bytes) -> str:
    """The text with the references that XML defines, and no others: those are wikitext."""
    parts = _REFERENCE.split(data)
    parts[1::2] = [_SIGNS.get(name) or _character(name) for name in parts[1::2]]
    return b"".join(parts).decode()


def _character(reference: bytes) -> bytes:
    """MediaWiki itself writes no references to characters, other programs do."""
    code = int(reference[2:], 16) if reference[1:2] == b"x" else int(reference[1:])
    return chr(code).encode(errors="replace") if 0 < code < 0x110000 else b""


STAGE = Reader(
    version=6,
    config=Config,
    libraries=("orjson", "zstandard"),
    positions="bytes of the decompressed stream; in bzip2, 2^26 for each byte of the file, and the page in its stream",
    beside=("redirect", "other_namespace", "disambiguation_page", "not_wikitext"),
    splittable=splittable,
    read=read,
)

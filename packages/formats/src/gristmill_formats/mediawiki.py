"""Reads XML dumps of MediaWiki (`pages-articles`), one document per page: plain text of the last revision in the dump.

A page's position is the byte of its `<page>` in the decompressed stream. A dump states no license: name it in the
recipe.
"""

import re
from collections.abc import Iterator

from gristmill.schema import Record
from gristmill.stages.contract import Bytes, Piece, Reader, StageConfig
from gristmill.stages.ingest.sniff import refuse
from gristmill.stages.reading.decompress import UNPACKING, ReadFault
from gristmill.stages.reading.fields import dump
from gristmill.stages.reading.stream import decompressed, peek, plain_chunks
from gristmill.stages.reading.timestamps import microseconds
from gristmill_formats.wiki.templates import DISAMBIGUATION, REDIRECTS, UNSHOWN
from gristmill_formats.wiki.wikitext import plain_text

_HEAD_BYTES = 1 << 16
_OPEN, _CLOSE = b"<page>", b"</page>"
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


def read(piece: Piece, config: Config) -> Iterator[Record]:
    """Reasons: `empty_file`, `not_mediawiki`, `xml_entities`, `other_namespace`, `redirect`, `disambiguation_page`,
    `not_wikitext`, `empty_text`, `invalid_utf8`, `record_too_large`, `truncated_page`, and `truncated_`
    or `corrupt_` with `gzip`, `zstd`, `bzip2`, `xz`.
    """
    with piece.open() as file:
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
        start = 0
        if plain and piece.start > 0:
            start = piece.start
            file.seek(start)
            chunks = plain_chunks(file)
        empty = True
        for position, page in _pages(chunks, start, config.max_record_bytes):
            if piece.stop is not None and position >= piece.stop:
                return
            empty = False
            if position >= piece.start:
                yield _record(position, page, site, config)
        if empty and piece.start == 0 and piece.stop != 0:
            yield Record(0, drop="empty_file", detail="a dump without a page")


def _pages(chunks: Iterator[bytes], position: int, limit_bytes: int) -> Iterator[tuple[int, bytes | ReadFault]]:
    """The bytes between `<page>` and `</page>`, with positions; `position` is that of the first chunk. A page over the
    limit is never held."""
    held = b""  # the end of the last chunk, which may begin a tag
    parts: list[bytes] = []
    size = 0
    begun: int | None = None
    fault = ReadFault("truncated_page", "the file ends inside the page")
    try:
        for chunk in chunks:
            data, at = held + chunk, 0
            origin = position - len(held)
            position += len(chunk)
            end = data.find(_CLOSE)
            while True:
                if begun is None:
                    start = data.find(_OPEN, at)
                    if start < 0:
                        kept = max(at, len(data) - len(_OPEN) + 1)
                        break
                    begun = origin + start
                    at = start + len(_OPEN)
                if 0 <= end < at:  # not again for every <page>: many may be open before one end
                    end = data.find(_CLOSE, at)
                if (inner := data.find(_OPEN, at, len(data) if end < 0 else end)) >= 0:  # every <page> begins a page
                    yield begun, ReadFault("truncated_page", "another page begins inside it")
                    begun, parts, size, at = None, [], 0, inner
                    continue
                if end < 0:
                    kept = max(at, len(data) - len(_CLOSE) + 1)
                    size += kept - at
                    if size <= limit_bytes:
                        parts.append(data[at:kept])
                    break
                size += end - at
                large = ReadFault("record_too_large", f"{size} bytes, max_record_bytes = {limit_bytes}")
                yield begun, large if size > limit_bytes else b"".join((*parts, data[at:end]))
                begun, parts, size, at = None, [], 0, end + len(_CLOSE)
            held = data[kept:]
    except ReadFault as damage:
        fault = damage
        begun = position if begun is None else begun
    if begun is not None:
        yield begun, fault


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
    version=7,
    config=Config,
    libraries=("orjson", *UNPACKING),
    positions="bytes of the decompressed stream",
    beside=("redirect", "other_namespace", "disambiguation_page", "not_wikitext"),
    splittable=True,
    read=read,
)

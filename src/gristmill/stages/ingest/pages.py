"""Turns a record of an archive into a row: which records are documents, and their text."""

import re
from collections.abc import Mapping
from typing import Any

import orjson

from gristmill.schema import Record
from gristmill.stages.contract import Bytes, StageConfig
from gristmill.stages.ingest import bodies, charset, http
from gristmill.stages.ingest.walk import ArchiveRecord
from gristmill.stages.ingest.warc_headers import decoded
from gristmill.stages.reading.timestamps import microseconds

_OTHER_TYPES = frozenset({"warcinfo", "request", "metadata", "revisit", "continuation"})
BESIDE = tuple(sorted(f"{kind}_record" for kind in (*_OTHER_TYPES, "filedesc")))
"""Reasons of records that archives contain in addition to pages."""
STATUSES = (200, 203)
"""HTTP statuses whose bodies are documents."""
MOST_REPLACED = 0.1
"""Largest share of characters that decoding may replace by U+FFFD; above: undecodable_charset."""
_ROBOTS = re.compile(r"[^:/?#]*:?//[^/?#]*/robots\.txt(?:[?#]|\Z)")
_HTML = re.compile(
    rb"\s{0,256}(?:<!--.{0,1024}?-->\s{0,64})?<(?:!doctype\s+html|html|head|body|title|meta)[\s>]", re.I | re.S
)
# Formats that servers send as text/html or text/plain. Decoded as text they would be noise.
_BINARY = (
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG", "image/png"),
    (b"GIF8", "image/gif"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b\x08", "application/gzip"),
    (b"Rar!\x1a", "application/vnd.rar"),
    (b"\xd0\xcf\x11\xe0", "application/msword"),
    (b"\x7fELF", "application/x-executable"),
    (b"wOFF", "font/woff"),
    (b"wOF2", "font/woff2"),
    (b"ID3", "audio/mpeg"),
    (b"OggS", "application/ogg"),
)
_TEXT_BYTES = bytes(byte for byte in range(256) if byte >= 32 or byte in b"\t\n\x0c\r\x1b")
_BINARY_STARTS = tuple(start for start, _ in _BINARY)


class Config(StageConfig):
    """What is kept of an archive."""

    max_record_bytes: Bytes = 64 << 20
    """Largest record body, stored and decoded (bytes); larger ones are dropped as body_too_large."""
    html_types: tuple[str, ...] = ("text/html", "application/xhtml+xml")
    """Media types that are kept as markup for an extractor."""
    text_types: tuple[str, ...] = ("text/plain",)
    """Media types that are kept as plain text."""
    bodies: Mapping[str, Any] | None = None
    """Formats that read bodies of their media types, with their settings: `{pdf: {}}` reads PDF files (docs/pdf.md).
    Other bodies are dropped as `not_text`."""


def row_of(position: int, found: ArchiveRecord, is_arc: bool, config: Config) -> Record:
    """The row of a record."""
    row = Record(position, drop=found.fault, detail=found.detail)
    fields = found.fields
    if not fields:
        return row
    meta: dict[str, object] = {}
    notes = [found.note] if found.note else []
    if is_arc:
        row.url = decoded(fields[b"url"])
        row.timestamp_us = microseconds(decoded(fields[b"date"][:14].ljust(14, b"0")))
        kind = "filedesc" if fields[b"url"].startswith(b"filedesc:") else "response"
        mime = decoded(fields[b"mime"])
    else:
        row.url = (decoded(fields.get(b"warc-target-uri")) or "").strip("<> \t") or None
        row.timestamp_us = microseconds(decoded(fields.get(b"warc-date")))
        row.language_hint = _first(decoded(fields.get(b"warc-identified-content-language")))
        kind = (decoded(fields.get(b"warc-type")) or "").lower()
        mime = decoded(fields.get(b"content-type"))
        if identity := fields.get(b"warc-record-id"):
            meta["record_id"] = (decoded(identity) or "").strip("<>")
        if truncated := fields.get(b"warc-truncated"):
            meta["truncated"] = decoded(truncated)
    meta["record_type"] = kind
    if row.drop is None:
        if kind == "response":
            _response(row, mime, found, config, meta, notes)
        elif kind in ("resource", "conversion"):
            row.content_type, label = http.media_type(mime)
            meta |= document(row, found.block, label, config)
        elif kind in _OTHER_TYPES or kind == "filedesc":
            row.drop = f"{kind}_record"
        else:
            row.drop, row.detail = "unknown_record", kind or "no WARC-Type"
    if notes:
        meta["salvage"] = notes
    row.meta = orjson.dumps(meta).decode()
    return row


def _response(
    row: Record,
    mime: str | None,
    found: ArchiveRecord,
    config: Config,
    meta: dict[str, object],
    notes: list[str],
) -> None:
    block = found.block
    head = http.parse_head(block)
    if head is None:
        row.content_type, label = http.media_type(mime)
        if not block.strip():
            row.drop = "empty_body"
        elif _HTML.match(block):
            notes.append("no_http_header")
            row.content_type = "text/html"
            document(row, block, label, config)
        elif config.bodies and bodies.format_of(config.bodies, None, block[: bodies.OPENING_BYTES]):
            meta |= document(row, block, label, config)
        elif row.content_type is not None and row.content_type not in ("application/http", *config.html_types):
            row.drop, row.detail = "not_text", row.content_type
        else:
            row.drop, row.detail = "bad_http_header", repr(block[:40])[1:]
        return
    status, fields, start = head
    meta["http_status"] = status
    if tag := fields.get("x-robots-tag"):
        meta["x_robots_tag"] = tag
    if language := fields.get("content-language"):
        meta["content_language"] = language
        row.language_hint = row.language_hint or _first(language)
    row.content_type, label = http.media_type(fields.get("content-type"))
    if row.content_type is None:
        row.content_type, _ = http.media_type(decoded(found.fields.get(b"warc-identified-payload-type")))
    if status not in STATUSES:
        row.drop, row.detail = "http_status", str(status)
        return
    robots = row.url is not None and "/robots.txt" in row.url and _ROBOTS.match(row.url) is not None
    kept = row.content_type in (*config.html_types, *config.text_types)
    if not kept and config.bodies:  # under any type, such as application/octet-stream
        opening = http.body_of(fields, block[start : start + bodies.OPENING_BYTES], bodies.OPENING_BYTES).data
        kept = bodies.format_of(config.bodies, row.content_type, opening) is not None
    if not kept and row.content_type is not None and not robots:
        row.drop, row.detail = "not_text", row.content_type
        return
    body = http.body_of(fields, block[start:], config.max_record_bytes)
    notes += body.notes
    if body.fault:
        row.drop, row.detail = body.fault, body.detail
        return
    meta |= document(row, body.data, label, config, robots)


def document(row: Record, body: bytes, label: str | None, config: Config, robots: bool = False) -> Mapping[str, object]:
    """Decodes a body into `html` or `text`, depending on the row's content type, or lets another format read it;
    returns metadata of that.
    """
    other = config.bodies and bodies.format_of(config.bodies, row.content_type, body[: bodies.OPENING_BYTES])
    if config.bodies and other and body.strip():
        return bodies.fill(row, body, config.bodies, other)
    if row.content_type is None:
        row.content_type = _sniffed(body)
    markup = row.content_type in config.html_types
    if not body or body.isspace():
        row.drop = "empty_body"
    elif not markup and not robots and row.content_type not in config.text_types:
        row.drop, row.detail = "not_text", row.content_type or "no media type"
    elif body.startswith(_BINARY_STARTS):
        row.drop = "not_text"
        row.detail = next(kind for start, kind in _BINARY if body.startswith(start))
    else:
        text: str | bytes
        if charset.is_plain_utf8(body, label):
            text, row.charset, replaced = body, "utf-8", 0
        else:
            text, row.charset, replaced = charset.decode(body, label, markup)
        if replaced > MOST_REPLACED * len(text):
            row.drop = "undecodable_charset"
            row.detail = f"{row.charset}: {replaced} of {len(text)} characters cannot be decoded"
        elif robots:
            row.drop, row.text = "robots_txt", text
        elif markup:
            row.html = text
        else:
            row.text = text
    return {}


def _sniffed(body: bytes) -> str | None:
    """The type of a body without one, roughly as browsers guess it (WHATWG MIME sniffing, section 7.1)."""
    if _HTML.match(body):
        return "text/html"
    return None if body.translate(None, _TEXT_BYTES) else "text/plain"


def _first(value: str | None) -> str | None:
    return (value.partition(",")[0].strip() or None) if value else None

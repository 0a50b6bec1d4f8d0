"""Decodes HTTP responses in archives: a header, then a body that may be chunked and compressed, or only claims to be.

Crawlers often store a decoded body under the header of the encoded one. So a header that the bytes contradict is
ignored and noted. What a browser would show of a broken body is kept:

    says chunked, but no chunk size at the start    the bytes unchanged            not_chunked
    ends without the final chunk                    the chunks that arrived        missing_last_chunk
    an invalid chunk size within the body           the chunks before it           bad_chunking
    says gzip, br, …, but is not                    the bytes unchanged            not_encoded
    compressed data that ends early                 what can be decoded            truncated_encoding
    compressed data with an error in it             nothing: bad_content_encoding
"""

import re
from dataclasses import dataclass, field

from gristmill.stages.ingest.warc_headers import blank_line, decoded
from gristmill.stages.reading.decompress import ZSTD_MAGIC, unpack_bytes

_STATUS = re.compile(rb"(?:HTTP/\d(?:\.\d)?|ICY)[ \t]+(\d{3})(?!\d)")
_FIELD = re.compile(
    rb"\n[ \t\r\x0b\x0c]*(content-type|content-encoding|content-language|transfer-encoding|x-robots-tag)"
    rb"[ \t\r\x0b\x0c]*:([^\n]*)",
    re.I,
)
"""The fields that describe a body, wherever they are."""
_CHUNK = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]{0,4096})?\r?\n")
_TYPE = re.compile(r"\s*[\"']?([\w.+\-]+/[\w.+*\-]+)", re.A)
# `*+` does not backtrack; two plain `\s*` would split a run of spaces in as many ways as it is long.
_CHARSET = re.compile(r"charset\s*+=\s*+[\"']?\s*+([\w.:\-]+)", re.I)
_PLAIN_ENCODINGS = frozenset({"", "identity", "none", "utf-8", "utf8", "binary", "8bit", "7bit", "text", "html"})
# How bodies of an encoding are packed. HTTP's deflate is zlib by the standard, but bare deflate on some servers.
_KINDS = {"gzip": ("gzip",), "deflate": ("gzip", "zlib", "deflate"), "zstd": ("zstd",), "br": ("br",)}
_MAGIC = {"gzip": b"\x1f\x8b", "zstd": ZSTD_MAGIC}
MAX_LAYERS = 3
MOST_RATIO = 1032
LEAST_LIMIT_BYTES = 1 << 16
"""A body may hold this many bytes, plus 1,032 for each stored byte, which is deflate's maximum. More is a decompression
bomb: three layers turn 100 bytes into 64 MB, and a file may hold many of these."""


@dataclass(slots=True)
class Body:
    """A decoded body, or the reason why there is none."""

    data: bytes = b""
    notes: list[str] = field(default_factory=list)
    fault: str | None = None
    detail: str | None = None


def parse_head(block: bytes) -> tuple[int, dict[str, str], int] | None:
    """Status, the useful fields by lower-case name, and where the body starts. None if it is not an HTTP response."""
    status = _STATUS.match(block)
    if status is None:
        return None
    span = blank_line(block) or (len(block), len(block))
    fields: dict[str, str] = {}
    tags: list[str] = []
    for name, value in _FIELD.findall(block, 0, span[0]):
        key = name.lower().decode()
        text = decoded(value.strip()) or ""
        fields.setdefault(key, text)
        if key == "x-robots-tag":
            tags.append(text)
    if tags:
        fields["x-robots-tag"] = "\n".join(tags)
    return int(status[1]), fields, span[1]


def media_type(value: str | None) -> tuple[str | None, str | None]:
    """The type without parameters, in lower case, and the charset parameter."""
    if not value:
        return None, None
    kind = _TYPE.match(value)
    found = _CHARSET.search(value)
    return kind[1].lower() if kind else None, found[1] if found else None


def body_of(fields: dict[str, str], raw: bytes, limit: int) -> Body:
    """The body of at most `limit` bytes, with transfer and content encodings removed."""
    limit = min(limit, LEAST_LIMIT_BYTES + MOST_RATIO * len(raw))
    body = Body(raw)
    if "chunked" in fields.get("transfer-encoding", "").lower():
        _unchunk(body)
    encodings = fields.get("content-encoding")
    if encodings:
        layers = [name.strip().lower() for name in encodings.split(",")]
        for name in reversed(layers[:MAX_LAYERS]):
            if body.fault is None:
                _decompress(body, name, limit)
    if body.fault is None and len(body.data) > limit:
        body.fault, body.detail, body.data = "body_too_large", f"more than {limit} bytes", b""
    return body


def _unchunk(body: Body) -> None:
    data = body.data
    parts: list[bytes] = []
    at = 0
    while head := _CHUNK.match(data, at):
        size = int(head[1], 16)
        if size == 0:
            break
        start, stop = head.end(), head.end() + size
        if not parts and stop < len(data) and data[stop] not in b"\r\n":
            head = None  # text that happens to start like a chunk
            break
        parts.append(data[start:stop])
        at = stop
        if data.startswith(b"\r\n", at):
            at += 2
        elif data.startswith(b"\n", at):
            at += 1
    if head is None:
        if not parts and data.strip():
            body.notes.append("not_chunked")
            return
        body.notes.append("missing_last_chunk" if at >= len(data) else "bad_chunking")
    body.data = b"".join(parts)


def _decompress(body: Body, name: str, limit: int) -> None:
    if name in _PLAIN_ENCODINGS or not body.data:
        return
    data, fault = body.data, None
    kinds = _KINDS.get(name.removeprefix("x-"))
    if kinds is None:
        body.notes.append("unknown_encoding")
        return
    kinds = tuple(kind for kind in kinds if data.startswith(_MAGIC.get(kind, b"")))
    if not kinds:
        body.notes.append("not_encoded")
    for kind in kinds:
        body.data, fault = unpack_bytes(kind, data, limit)
        if fault is None or fault.reason.startswith("truncated_"):
            break
    if fault is None:
        return
    if fault.reason.startswith("truncated_"):
        body.notes.append("truncated_encoding")
    elif looks_like_text(data):
        body.notes.append("not_encoded")
        body.data = data
    else:
        body.fault, body.detail, body.data = "bad_content_encoding", f"{name}: {fault.detail}", b""


def looks_like_text(data: bytes) -> bool:
    """Whether the bytes start like uncompressed text: no control characters at the start."""
    return not any(byte < 9 or 13 < byte < 27 for byte in data[:256])

"""A small writer of WARC 1.1: one gzip member per record, and every byte depends only on what is written."""

import gzip
import hashlib
import uuid
from base64 import b32encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from urllib.parse import urlsplit


@dataclass(slots=True)
class Response:
    """A server's response."""

    url: str
    body: bytes
    content_type: str | None = "text/html; charset=utf-8"
    status: str = "200 OK"
    headers: tuple[tuple[str, str], ...] = field(default=())
    fields: tuple[tuple[str, str], ...] = field(default=())
    """Fields of its WARC record in addition to those that every record has."""
    cut: float | None = None
    """Share of the response's compressed bytes that reaches the file; None for all of them."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A truncated member and its position in the file, so that a test can step around it."""

    url: str
    offset: int
    length: int


def write(path: Path, responses: Iterable[Response], start: datetime) -> list[Damage]:
    """Writes one archive: a warcinfo, then a request and a response for each page, two seconds apart."""
    out = bytearray()
    info = b"software: gristmill demo\r\nformat: WARC File Format 1.1\r\nrobots: classic\r\n"
    out += _member("warcinfo", None, start, "application/warc-fields", info, [("WARC-Filename", path.name)])
    damages = []
    for number, response in enumerate(responses):
        when = start + timedelta(seconds=2 * number)
        parts = urlsplit(response.url)
        ask = (
            f"GET {parts.path or '/'} HTTP/1.1\r\nHost: {parts.netloc}\r\nUser-Agent: CCBot/2.0\r\nAccept: */*\r\n\r\n"
        )
        out += _member("request", response.url, when, "application/http; msgtype=request", ask.encode(), [])
        content_type, block = "application/http; msgtype=response", _http(response, when)
        member = _member("response", response.url, when, content_type, block, list(response.fields))
        if response.cut is not None:
            member = member[: int(len(member) * response.cut)]
            damages.append(Damage(response.url, len(out), len(member)))
        out += member
    path.write_bytes(out)
    return damages


def chunked(body: bytes, size: int = 4096) -> bytes:
    """The body in the chunks of HTTP/1.1."""
    pieces = [body[i : i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in [*pieces, b""])


def _http(response: Response, when: datetime) -> bytes:
    names = {name.lower() for name, _ in response.headers}
    lines = [f"HTTP/1.1 {response.status}", f"Date: {format_datetime(when, usegmt=True)}", "Server: nginx"]
    if response.content_type:
        lines.append(f"Content-Type: {response.content_type}")
    if "transfer-encoding" not in names:
        lines.append(f"Content-Length: {len(response.body)}")
    lines += [f"{name}: {value}" for name, value in response.headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + response.body


def _member(
    kind: str, url: str | None, when: datetime, content_type: str, block: bytes, extra: list[tuple[str, str]]
) -> bytes:
    digest = hashlib.sha1(block).digest()
    name = uuid.uuid5(uuid.NAMESPACE_URL, f"{kind} {url} {when} {digest.hex()}")
    fields = [
        ("WARC-Type", kind),
        ("WARC-Record-ID", f"<urn:uuid:{name}>"),
        ("WARC-Date", f"{when:%Y-%m-%dT%H:%M:%SZ}"),
    ]
    fields += [("WARC-Target-URI", url)] if url else []
    fields += [("WARC-Block-Digest", "sha1:" + b32encode(digest).decode()), *extra]
    fields += [("Content-Type", content_type), ("Content-Length", str(len(block)))]
    head = "WARC/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields) + "\r\n"
    return gzip.compress(head.encode() + block + b"\r\n\r\n", compresslevel=5, mtime=0)

"""WARC, WET and ARC files, plain and compressed."""

import gzip
import random
import zlib
from collections.abc import Iterator
from pathlib import Path

import brotli
from backports import zstd

from fuzz.target import Target, words
from fuzz.targets.packing import repack, size
from fuzz.targets.reading import check_reader
from gristmill.stages.ingest import warc

KINDS = ("plain", "gzip", "zstd")
_SUFFIX = {"plain": "", "gzip": ".gz", "zstd": ".zst"}


def http(body: bytes, *fields: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *fields]).encode() + b"\r\n\r\n" + body


def record(block: bytes, *fields: str, kind: str = "response", url: str = "http://a.example/") -> bytes:
    head = ["WARC/1.0", f"WARC-Type: {kind}", f"WARC-Target-URI: {url}", "WARC-Date: 2021-03-04T05:06:07Z", *fields]
    head.append(f"Content-Length: {len(block)}")
    return "\r\n".join(head).encode() + b"\r\n\r\n" + block + b"\r\n\r\n"


def packed(kind: str, data: bytes) -> bytes:
    if kind == "gzip":
        return gzip.compress(data, mtime=0)
    if kind == "zstd":
        return zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1})
    return data


def _pages() -> list[bytes]:
    page = b"<html><head><meta charset=utf-8><title>Mill</title></head><body><p>the stones turn</p></body></html>"
    deflate = zlib.compressobj(wbits=-15)
    kind = "Content-Type: text/html"
    return [
        record(b"software: x\r\n", kind="warcinfo"),
        record(http(page, kind), "WARC-Record-ID: <urn:uuid:1>"),
        record(http(b"5\r\n<p>ab\r\n3;x=y\r\nc d\r\n0\r\n\r\n", kind, "Transfer-Encoding: chunked")),
        record(http(gzip.compress(page), kind, "Content-Encoding: gzip")),
        record(http(deflate.compress(page) + deflate.flush(), kind, "Content-Encoding: deflate")),
        record(http(brotli.compress(page), kind, "Content-Encoding: br")),
        record(http(zstd.compress(page), kind, "Content-Encoding: zstd, identity")),
        record(http("Mühle".encode("latin-1") * 9, "Content-Type: text/plain; charset=iso-8859-1")),
        record(http(b"User-agent: *\nDisallow: /a\n", "Content-Type: text/plain"), url="http://a.example/robots.txt"),
        record(http(b"", kind, "X-Robots-Tag: noindex", status="301 Moved")),
        record(page, "WARC-Truncated: length", kind="resource"),
        record(b"\x1b$B%F%9%H\x1b(B" * 5, "Content-Type: text/plain", kind="resource"),
    ]


def _warc_seeds() -> Iterator[bytes]:
    for kind in KINDS:
        yield b"".join(packed(kind, page) for page in _pages())
    yield packed("gzip", b"".join(_pages()))
    yield zlib.compress(b"".join(_pages()), wbits=31, level=0)


def _wet_seeds() -> Iterator[bytes]:
    parts = [
        record(f"plain words of page {n}\nand more\n".encode(), "Content-Type: text/plain", kind="conversion")
        for n in range(4)
    ]
    for kind in KINDS:
        yield b"".join(packed(kind, part) for part in parts)


def _arc_seeds() -> Iterator[bytes]:
    version = b"1 0 Mill\nURL IP-address Archive-date Content-type Archive-length\n"
    blocks = [(b"filedesc://mill.arc", b"text/plain", version)]
    blocks += [
        (b"http://a.example/%d" % n, b"text/html", http(b"<p>page %d" % n, "Content-Type: text/html")) for n in range(4)
    ]
    parts = [b"%b 1.2.3.4 20010203040506 %b %d\n%b\n" % (url, mime, len(block), block) for url, mime, block in blocks]
    for kind in KINDS:
        yield b"".join(packed(kind, part) for part in parts)


def _check(stem: str) -> object:
    def check(data: bytes, folder: Path) -> None:
        kind = KINDS[zlib.adler32(data) % len(KINDS)]
        check_reader(warc, data, folder, stem + _SUFFIX[kind], max_record_bytes=1 << 16)

    return check


_WORDS = (
    *words(
        b"WARC/1.0\r\n|WARC/1.0\r\nA:|WARC/1.1\r\nWARC-Type: response\r\n|Content-Length: 0\r\n"
        b"|Content-Length: 99999999\r\n|\r\n\r\n|\n\n|\r\n|HTTP/1.1 200 OK\r\n|Content-Encoding: gzip\r\n"
        b"|Content-Encoding: br\r\n|Transfer-Encoding: chunked\r\n|WARC-Type: conversion\r\n"
        b"|WARC-Type: resource\r\n|Content-Type: text/html\r\n|0\r\n\r\n|ffffffff\r\n|<meta charset=|<!--|-->"
        b"|<html>|</html>|http://a.b/ 1.2.3.4 20010203040506 text/html 9\n|WARC-Date: 9999-99-99"
        b"|X-Robots-Tag: a\r\n"
    ),
    b"\x1f\x8b\x08\x00",
    b"\x1f\x8b\x08\x1f",
    b"\x28\xb5\x2f\xfd\x04",
    b"\x04\x22\x4d\x18\x60\x40",
    b"\x5d\x2a\x4d\x18\x04\0\0\0",
    gzip.compress(b"", mtime=0),
    zstd.compress(b""),
)


def _reframe(draw: random.Random, data: bytes) -> bytes:
    """The content packed again, in frames that end anywhere."""
    return repack(draw, data, ("gzip", "zstd", "plain"))


TARGETS = [
    Target("warc", _warc_seeds, _check("x.warc"), _WORDS, (_reframe,), size=size),
    Target("wet", _wet_seeds, _check("x.wet"), _WORDS, (_reframe,), size=size),
    Target("arc", _arc_seeds, _check("x.arc"), _WORDS, (_reframe,), size=size),
]

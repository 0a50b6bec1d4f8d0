"""Small archives, built by hand so that a test knows every byte of them."""

import gzip
import random
from collections.abc import Iterable
from pathlib import Path

import lz4.frame
from backports import zstd

from gristmill.schema import Record, as_str
from gristmill.stages.contract import Piece
from gristmill.stages.ingest import warc

SUFFIX = {"plain": ".warc", "gzip": ".warc.gz", "zstd": ".warc.zst", "lz4": ".warc.lz4"}
KINDS = tuple(SUFFIX)


def http(body: bytes, *fields: str, status: str = "200 OK", mime: str | None = "text/html") -> bytes:
    head = [f"HTTP/1.1 {status}", *([f"Content-Type: {mime}"] if mime else []), *fields]
    return "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body


def record(
    block: bytes, *fields: str, kind: str = "response", url: str = "http://a.example/", mime: str | None = None
) -> bytes:
    """One WARC record, with the two empty lines after it."""
    mime = mime or ("application/http; msgtype=response" if kind == "response" else "text/plain")
    head = ["WARC/1.0", f"WARC-Type: {kind}", f"WARC-Target-URI: {url}", "WARC-Date: 2021-03-04T05:06:07Z"]
    head += [f"Content-Type: {mime}", *fields, f"Content-Length: {len(block)}"]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + block + b"\r\n\r\n"


def page(number: int, words: int = 40) -> bytes:
    """A response whose HTML contains its number and is unlike that of any other number."""
    chance = random.Random(number)
    text = " ".join(f"{chance.getrandbits(32):x}" for _ in range(words))
    html = f"<html><title>page {number}</title><p>{text}</p></html>".encode()
    return record(http(html), f"WARC-Record-ID: <urn:n:{number}>", url=f"http://a.example/{number}")


def packed(kind: str, data: bytes) -> bytes:
    if kind == "gzip":
        return gzip.compress(data, mtime=0)
    if kind == "zstd":
        return zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1})
    if kind == "lz4":
        return lz4.frame.compress(data, content_checksum=True)
    return data


def rows(
    data: bytes, path: Path, name: str = "x.warc", start: int = 0, stop: int | None = None, **config: object
) -> list[Record]:
    """The reader's records of a file with these bytes."""
    path.write_bytes(data)
    return piece(path, name, start, stop, **config)


def piece(path: Path, name: str, start: int = 0, stop: int | None = None, **config: object) -> list[Record]:
    """The records of a piece of an existing file, with UTF-8 bytes as strings."""
    found = list(warc.read(Piece(str(path), name, start, stop), warc.Config.model_validate(config)))
    for row in found:
        row.html, row.text = (None if one is None else as_str(one) for one in (row.html, row.text))
    return found


def reasons(found: Iterable[Record]) -> list[str | None]:
    return [row.drop for row in found]

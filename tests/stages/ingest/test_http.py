"""HTTP responses: headers as servers write them, bodies as crawlers store them."""

import gzip
import tracemalloc
import zlib
from functools import partial

import brotli
import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.stages.ingest import http

PAGE = b"<html><p>" + b"some words and more words " * 40 + b"</html>"
LIMIT = 1 << 20

ENCODERS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": lambda data: brotli.compress(data, quality=3),
    "zstd": zstd.compress,
}


def chunked(data: bytes, size: int) -> bytes:
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def bare_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    "block",
    [
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Language: en\r\n\r\nbody",
        b"HTTP/1.1 200 OK\nContent-Type: text/html\nContent-Language: en\n\nbody",
        b"HTTP/1.0 200\r\ncontent-TYPE:text/html\n content-language : en\r\n\nbody",
        b"HTTP/2 200\r\nContent-Type: text/html\r\nno colon\r\nContent-Language: en\r\ncontent-language: fr\n\nbody",
    ],
)
def test_headers_are_read_however_lines_end(block: bytes) -> None:
    """CRLF, LF or both, spaces around names, lines without a field: the fields and the body are found."""
    head = http.parse_head(block)
    assert head is not None
    status, fields, start = head
    assert (status, block[start:]) == (200, b"body")
    assert (fields["content-type"], fields["content-language"]) == ("text/html", "en")


@pytest.mark.parametrize(
    "block", [b"", b"<html>", b"HTTP/1.1 OK\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 2000 x\r\n\r\n"]
)
def test_a_response_needs_a_status_line(block: bytes) -> None:
    """Only a status line makes a response."""
    assert http.parse_head(block) is None


def test_header_bytes_that_are_not_utf8_are_no_error() -> None:
    """A header in Latin-1 is read as Latin-1."""
    head = http.parse_head(b"HTTP/1.1 200 OK\r\nContent-Language: caf\xe9\r\nX-Robots-Tag: caf\xc3\xa9\r\n\r\n")
    assert head is not None
    assert (head[1]["content-language"], head[1]["x-robots-tag"]) == ("café", "café")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("text/html", ("text/html", None)),
        ('Text/HTML; Charset="EUC-KR"', ("text/html", "EUC-KR")),
        ("text/html charset=utf-8", ("text/html", "utf-8")),
        ("text/html, text/html;charset=x", ("text/html", "x")),
        ("html", (None, None)),
        ("", (None, None)),
        (None, (None, None)),
    ],
)
def test_media_types_lose_their_parameters(value: str | None, expected: tuple[str | None, str | None]) -> None:
    """The type is bare and in lower case, and the charset is found, in forms that servers really send."""
    assert http.media_type(value) == expected


@given(data=st.binary(min_size=1, max_size=400), size=st.integers(1, 500), name=st.sampled_from(sorted(ENCODERS)))
@settings(deadline=None, max_examples=150)
def test_any_encoded_body_is_decoded(data: bytes, size: int, name: str) -> None:
    """Any body comes back from any encoding, chunked in any size, without a note."""
    fields = {"content-encoding": name, "transfer-encoding": "Chunked"}
    body = http.body_of(fields, chunked(ENCODERS[name](data), size), LIMIT)
    assert (body.data, body.notes, body.fault) == (data, [], None)


def test_encodings_in_a_row_are_undone_from_the_last() -> None:
    """`deflate, gzip` means deflated first; bare deflate without zlib's frame is accepted, too."""
    body = http.body_of({"content-encoding": "deflate, gzip"}, gzip.compress(bare_deflate(PAGE)), LIMIT)
    assert (body.data, body.notes) == (PAGE, [])


@pytest.mark.parametrize(
    ("fields", "raw", "note"),
    [
        ({"transfer-encoding": "chunked"}, PAGE, "not_chunked"),
        ({"transfer-encoding": "chunked"}, b"fee\nfi fo fum\n" * 600, "not_chunked"),
        ({"content-encoding": "gzip"}, PAGE, "not_encoded"),
        ({"content-encoding": "br"}, PAGE, "not_encoded"),
        ({"content-encoding": "zstd"}, PAGE, "not_encoded"),
        ({"content-encoding": "deflate"}, PAGE, "not_encoded"),
        ({"content-encoding": "rot13"}, PAGE, "unknown_encoding"),
    ],
)
def test_a_header_that_the_bytes_contradict_is_ignored(fields: dict[str, str], raw: bytes, note: str) -> None:
    """Crawlers store decoded bodies under the header of the encoded ones."""
    body = http.body_of(fields, raw, LIMIT)
    assert (body.data, body.notes, body.fault) == (raw, [note], None)


def test_broken_chunking_keeps_what_a_browser_shows() -> None:
    """Without the last chunk, or with an invalid size, the chunks before it are kept."""
    fields = {"transfer-encoding": "chunked"}
    whole = chunked(PAGE, 100)
    cut = http.body_of(fields, whole[:500], LIMIT)
    assert cut.notes == ["missing_last_chunk"]
    assert PAGE.startswith(cut.data)
    assert len(cut.data) > 400
    broken = http.body_of(fields, whole.replace(b"\r\n64\r\n", b"\r\nxx\r\n").replace(b"xx", b"64", 3), LIMIT)
    assert (broken.notes, broken.data) == (["bad_chunking"], PAGE[:400])


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_compressed_data_that_ends_early_keeps_its_beginning(name: str) -> None:
    """What arrived of a cut transfer is kept."""
    noise = bytes(b % 90 + 32 for b in zlib.compress(bytes(range(256)) * 40) * 30)
    packed = ENCODERS[name](noise)
    body = http.body_of({"content-encoding": name}, packed[: len(packed) * 3 // 4], LIMIT)
    assert body.notes == ["truncated_encoding"]
    assert body.data or name == "zstd"  # whose first block has 128 KiB
    assert noise.startswith(body.data)


@pytest.mark.parametrize(
    ("name", "place"), [("gzip", -6), ("deflate", -1), ("br", 8), ("zstd", -1)]
)  # in three of them a byte of the checksum
def test_compressed_data_with_an_error_is_a_fault(name: str, place: int) -> None:
    """Bytes that start correctly but cannot be decoded are not a page."""
    with_checksum = partial(zstd.compress, options={zstd.CompressionParameter.checksum_flag: 1})
    encode = {**ENCODERS, "zstd": with_checksum}[name]
    packed = bytearray(encode(bytes(range(256)) * 4))
    packed[place] ^= 0xFF
    body = http.body_of({"content-encoding": name}, bytes(packed), LIMIT)
    assert (body.fault, body.data) == ("bad_content_encoding", b"")


@pytest.mark.parametrize("name", sorted(ENCODERS))
def test_bombs_are_bounded_while_they_unpack(name: str) -> None:
    """A body that would decode to 30 MB is refused without ever taking more than a few times the limit."""
    bomb = ENCODERS[name](bytes(30_000_000))
    tracemalloc.start()
    body = http.body_of({"content-encoding": name}, bomb, LIMIT)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert body.fault == "body_too_large"
    assert peak < (8 * LIMIT if name != "zstd" else 80 * LIMIT)  # zstd: see the bound of its decoder


@given(
    raw=st.binary(max_size=300),
    transfer=st.sampled_from(["", "chunked"]),
    name=st.sampled_from(["", *sorted(ENCODERS)]),
)
def test_no_bytes_make_it_fail(raw: bytes, transfer: str, name: str) -> None:
    """For any bytes and any header: a body or a fault, never an exception."""
    body = http.body_of({"content-encoding": name, "transfer-encoding": transfer}, raw, 1000)
    assert body.fault is None or body.data == b""

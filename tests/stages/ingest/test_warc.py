"""The WARC reader on intact archives: what is kept, what becomes a row with a reason, and reading in pieces."""

import gzip
import random
import re
from functools import partial
from itertools import pairwise
from pathlib import Path

import fsspec
import orjson
import pytest
from backports import zstd
from tests.stages.ingest.archives import KINDS, SUFFIX, http, packed, page, piece, reasons, record, rows

from gristmill.stages.contract import Piece
from gristmill.stages.ingest import walk, warc, warc_headers


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "archive"


def arc(url: str, block: bytes, mime: str = "text/html") -> bytes:
    return f"{url} 192.0.2.1 20140216050221 {mime} {len(block)}\n".encode() + block + b"\n"


@pytest.mark.parametrize("kind", KINDS)
def test_every_record_is_one_row_at_its_offset(path: Path, kind: str) -> None:
    """Each record gives one row, in order, whose position is where its bytes start in the file."""
    frames = [packed(kind, page(number)) for number in range(5)]
    found = rows(b"".join(frames), path, "x" + SUFFIX[kind])
    assert [row.position for row in found] == [sum(map(len, frames[:n])) for n in range(5)]
    assert [row.url for row in found] == [f"http://a.example/{n}" for n in range(5)]
    assert all(row.html and f"page {n}<" in row.html for n, row in enumerate(found))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["x.warc", "x.warc.gz", "x.warc.zst", "x.json"])
def test_the_bytes_decide_and_not_the_name(path: Path, kind: str, name: str) -> None:
    """A file under the wrong suffix is read for what it is."""
    assert reasons(rows(packed(kind, page(1)) + packed(kind, page(2)), path, name)) == [None, None]


def test_the_headers_are_in_the_row(path: Path) -> None:
    """URL, time, language, type, charset and the kept headers are in their columns."""
    block = http(b"<p>x", "X-Robots-Tag: noai", "X-Robots-Tag: noindex", "Content-Language: de, en", status="203 Ok")
    data = record(block, "WARC-Record-ID: <urn:x:1>", "WARC-Truncated: length", url="<http://b.example/ü>")
    (row,) = rows(data, path)
    assert (row.url, row.timestamp_us, row.language_hint) == ("http://b.example/ü", 1614834367000000, "de")
    assert (row.content_type, row.charset, row.html, row.drop) == ("text/html", "utf-8", "<p>x", None)
    assert orjson.loads(row.meta or "") == {
        "record_id": "urn:x:1",
        "record_type": "response",
        "http_status": 203,
        "x_robots_tag": "noai\nnoindex",
        "content_language": "de, en",
        "truncated": "length",
    }


def test_the_language_of_the_archive_comes_before_that_of_the_server(path: Path) -> None:
    """WARC-Identified-Content-Language was detected from the text; Content-Language is often a server default."""
    data = record(http(b"<p>x", "Content-Language: en"), "WARC-Identified-Content-Language: deu,eng")
    assert rows(data, path)[0].language_hint == "deu"


@pytest.mark.parametrize(
    ("value", "micros"),
    [
        ("2021-03-04T05:06:07Z", 1614834367000000),
        ("2021-03-04T05:06:07.250Z", 1614834367250000),
        ("2021", 1609459200000000),
        ("yesterday", None),
        ("2021-13-45T00:00:00Z", None),
    ],
)
def test_dates_are_read_or_left_out(path: Path, value: str, micros: int | None) -> None:
    """A date of any precision of WARC 1.1 is parsed; an invalid one is not an error."""
    data = record(http(b"<p>x")).replace(b"2021-03-04T05:06:07Z", value.encode())
    (row,) = rows(data, path)
    assert (row.timestamp_us, row.drop) == (micros, None)


@pytest.mark.parametrize(
    ("data", "reason", "detail"),
    [
        (record(b"a: b", kind="warcinfo"), "warcinfo_record", None),
        (record(b"GET / HTTP/1.1\r\n\r\n", kind="request"), "request_record", None),
        (record(b"a: b", kind="metadata"), "metadata_record", None),
        (record(http(b""), kind="revisit"), "revisit_record", None),
        (record(b"rest", kind="continuation"), "continuation_record", None),
        (record(b"x", kind="surprise"), "unknown_record", "surprise"),
        (record(http(b"<p>gone", status="404 Not Found")), "http_status", "404"),
        (record(http(b"<p>part", status="206 Partial Content")), "http_status", "206"),
        (record(http(b"\x89PNG", mime="Image/PNG; a=b")), "not_text", "image/png"),
        (record(http(b"%PDF-1.4 \x00\x01")), "not_text", "application/pdf"),
        (record(http(b"")), "empty_body", None),
        (record(http(b" \r\n ")), "empty_body", None),
        (record(b"no http here"), "bad_http_header", "'no http here'"),
        (record(http(b"\x00\x01binary", mime=None)), "not_text", "no media type"),
        (record(b"a", kind="resource", mime="image/gif"), "not_text", "image/gif"),
    ],
)
def test_records_that_are_not_documents_have_a_reason(path: Path, data: bytes, reason: str, detail: str | None) -> None:
    """Every kind of record that is not kept is a row with its reason."""
    (row,) = rows(data, path)
    assert (row.drop, row.detail, row.html, row.text) == (reason, detail, None, None)


def test_a_pdf_file_is_not_text_unless_the_recipe_names_its_format(path: Path) -> None:
    """Under any media type; the row says which format it is."""
    found = rows(record(http(b"%PDF-1.4 a", mime="application/pdf")) + record(http(b"%PDF-1.4 b")), path)
    assert [(row.drop, row.detail, row.more) for row in found] == [("not_text", "application/pdf", ())] * 2


def test_text_resources_and_conversions_are_kept(path: Path) -> None:
    """Plain text responses, resource records and the conversion records of WET files become text; HTML stays HTML."""
    data = record(http(b"a", mime="text/plain")) + record(b"b", kind="conversion") + record(b"c", kind="resource")
    data += record(b"<p>d", kind="resource", mime="text/html; charset=utf-8") + record(http(b"e\n", mime=None))
    found = rows(data, path)
    assert [row.text or row.html for row in found] == ["a", "b", "c", "<p>d", "e\n"]
    assert [row.content_type for row in found] == ["text/plain"] * 3 + ["text/html", "text/plain"]
    assert [row.html is None for row in found] == [True, True, True, False, True]


def test_robots_files_are_dropped_with_their_text(path: Path) -> None:
    """A robots.txt is not a document, but the stage that obeys it needs its rules; a missing one has no rules."""
    robots = "http://a.example/robots.txt"
    data = record(http(b"User-agent: *", mime="text/plain"), url=robots)
    data += record(http(b"User-agent: x", mime="application/octet-stream"), url=robots + "?a")
    data += record(http(b"none", mime="text/plain", status="404 no"), url=robots)
    data += record(http(b"page", mime="text/plain"), url="http://a.example/see/robots.txt")
    found = rows(data, path)
    assert reasons(found) == ["robots_txt", "robots_txt", "http_status", None]
    assert [row.text for row in found] == ["User-agent: *", "User-agent: x", None, "page"]


def test_a_page_without_its_http_header_is_kept(path: Path) -> None:
    """Some writers store only the page; it can be read, and the note says what is missing."""
    (row,) = rows(record(b"<!DOCTYPE html><p>x"), path)
    assert row.html == "<!DOCTYPE html><p>x"
    assert orjson.loads(row.meta or "")["salvage"] == ["no_http_header"]


@pytest.mark.parametrize("kind", KINDS)
def test_large_bodies_are_dropped_and_the_next_record_is_read(path: Path, kind: str) -> None:
    """A record above the bound, stored or only when decoded, is a row; its neighbours are not harmed."""
    bomb = gzip.compress(b"<p>" + b"a" * 3_000_000, mtime=0)
    parts = [
        page(1),
        record(http(b"<p>" + b"b" * 3_000_000)),
        page(2),
        record(http(bomb, "Content-Encoding: gzip")),
        page(3),
    ]
    expected = [None, "body_too_large", None, "body_too_large", None]
    for data in (b"".join(packed(kind, part) for part in parts), packed(kind, b"".join(parts))):
        assert reasons(rows(data, path, max_record_bytes="1MB")) == expected


@pytest.mark.parametrize("pack", [lambda data: data, lambda data: gzip.compress(data, mtime=0)])
def test_arc_files_are_read(path: Path, pack: object) -> None:
    """ARC records are rows like those of WARC, with spaces in URLs and with an invalid length."""
    assert callable(pack)
    parts = [
        arc("filedesc://x.arc", b"1 0 x\nURL IP-address Archive-date Content-type Archive-length\n", "text/plain"),
        arc("http://a.example/a b", http(b"<p>x")),
        arc("dns:a.example", b"a 1.2.3.4", "text/dns"),
        b"http://a.example/2 192.0.2.1 20140216050221 text/html -1\n\n",
        arc("http://a.example/3", http(b"<p>y")),
    ]
    found = rows(b"".join(pack(part) for part in parts), path)
    assert reasons(found) == ["filedesc_record", None, "not_text", "bad_arc_header", None]
    assert (found[1].url, found[1].html, found[1].timestamp_us) == ("http://a.example/a b", "<p>x", 1392526941000000)


def test_a_zstd_dictionary_at_the_head_of_the_file_is_used(path: Path) -> None:
    """The IIPC form of .warc.zst: a skippable frame with the dictionary, plain or compressed, then the records."""
    pages = [page(number) for number in range(200)]
    dictionary = zstd.train_dict(pages, 4096)
    pack = partial(zstd.compress, zstd_dict=dictionary)
    for stored in (dictionary.dict_content, zstd.compress(dictionary.dict_content)):
        head = b"\x5d\x2a\x4d\x18" + len(stored).to_bytes(4, "little") + stored
        data = head + b"".join(map(pack, pages))
        found = rows(data, path, "x.warc.zst")
        assert reasons(found) == [None] * 200
        assert found[0].position == len(head)
        middle = found[100].position
        assert rows(data, path, "x.warc.zst", middle) == found[100:]


@pytest.mark.parametrize("stored", [b"", b"raw", b"\x37\xa4\x30\xec" + b"z" * 500, zstd.compress(b"a")[:-3]])
def test_a_damaged_dictionary_is_no_fault_of_the_program(path: Path, stored: bytes) -> None:
    """Frames that need it are rows with a reason, and the others are read."""
    pages = [page(number) for number in range(50)]
    pack = partial(zstd.compress, zstd_dict=zstd.train_dict(pages, 4096))
    head = b"\x5d\x2a\x4d\x18" + len(stored).to_bytes(4, "little") + stored
    found = rows(head + pack(pages[0]) + packed("zstd", pages[1]), path, "x.warc.zst")
    assert reasons(found) == ["corrupt_zstd", None]


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
@pytest.mark.parametrize("cut", [100, 1000, 5000, 1 << 20])
def test_frames_need_not_end_where_records_do(path: Path, kind: str, cut: int) -> None:
    """Archives compressed as one stream, or in blocks of any size, give the same rows as the plain file."""
    plain = b"".join(page(number, 60) for number in range(12))
    blocks = b"".join(packed(kind, plain[at : at + cut]) for at in range(0, len(plain), cut))
    found = rows(blocks, path, "x" + SUFFIX[kind])
    assert [row.html for row in found] == [row.html for row in rows(plain, path)]
    assert len({row.key or row.position for row in found}) == 12
    assert [row.position for row in found] == sorted(row.position for row in found)


def _pieces(data: bytes, path: Path, name: str, cuts: list[int]) -> list[object]:
    path.write_bytes(data)
    edges = [0, *cuts, None]
    return [row for start, stop in pairwise(edges) for row in piece(path, name, start or 0, stop)]


@pytest.mark.parametrize("style", ["plain", "gzip", "zstd", "one gzip", "blocks"])
def test_pieces_give_exactly_the_records_of_the_whole(path: Path, style: str) -> None:
    """However a file is cut into ranges, the records of the ranges are those of the file, each once, in order."""
    pages = [page(number, 20) for number in range(8)]
    if style == "one gzip":
        data = packed("gzip", b"".join(pages))
    elif style == "blocks":
        data = b"".join(
            packed("gzip", part) for part in (pages[0], pages[1] + pages[2][:90], pages[2][90:], *pages[3:])
        )
    else:
        data = b"".join(packed(style, part) for part in pages)
    whole = rows(data, path)
    assert reasons(whole) == [None] * 8
    chance = random.Random(style)
    for cut in [0, 1, *(row.position for row in whole), *(row.position + 1 for row in whole), len(data)]:
        assert _pieces(data, path, "x", [cut]) == whole
    for _ in range(60):
        assert _pieces(data, path, "x", sorted(chance.choices(range(len(data) + 1), k=2))) == whole
    for row in whole:
        assert rows(data, path, start=row.position, stop=row.position + 1) == [row]


def test_files_are_found_through_fsspec(path: Path) -> None:
    """A local path, a file:// address and a store of fsspec give the same rows."""
    data = packed("gzip", page(1)) + packed("gzip", page(2))
    path.write_bytes(data)
    with fsspec.open("memory://archives/x.warc.gz", "wb") as file:
        file.write(data)
    uris = [str(path), path.as_uri(), "memory://archives/x.warc.gz"]
    first, *others = [list(warc.read(Piece(uri, "x.warc.gz"), warc.Config())) for uri in uris]
    assert reasons(first) == [None, None]
    assert others == [first, first]


@pytest.mark.parametrize(
    ("data", "name", "reason"),
    [
        (b"", "x.warc.gz", "empty_file"),
        (b"PK\x03\x04 not this", "x.warc", "not_an_archive"),
        (b"\x00" * 5000, "x.warc.gz", "not_an_archive"),
        (gzip.compress(b'{"some": "json"}\n' * 50, mtime=0), "x.warc.gz", "not_an_archive"),
    ],
)
def test_files_that_hold_no_archive_are_one_row(path: Path, data: bytes, name: str, reason: str) -> None:
    """A file of another kind gives one row that says so."""
    assert reasons(rows(data, path, name)) == [reason]


def test_a_config_refuses_what_it_does_not_know() -> None:
    """A typo in a recipe is an error, and a size may have a unit."""
    assert warc.Config.model_validate({"max_record_bytes": "2MiB"}).max_record_bytes == 2 << 20
    with pytest.raises(ValueError, match="max_bytes"):
        warc.Config.model_validate({"max_bytes": 1})


@pytest.mark.parametrize(
    ("head", "is_clean"),
    [
        (b"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 3", True),
        (b"WARC/1.1\nWARC-Type:response\nWARC-TYPE: request\ncontent-length:  3  ", True),
        (b"WARC/1.0\r\nWARC-Type:\r\n response\r\nContent-Length: 3", True),
        (b"WARC/1.0\r\nWARC-Type : response\r\nContent-Length: 3\r\nno colon", False),
        (b"WARC/1.0\r\n: nameless\r\nwarc-type: response\r\nb\xe9: 1\r\nContent-Length: 3", True),
    ],
)
def test_headers_are_read_however_they_are_written(head: bytes, is_clean: bool) -> None:
    """Names in any case, folded lines, spaces around colons: the first of each name counts."""
    fields, clean = warc_headers.warc_fields(head)
    assert (fields[b"content-length"], fields[b"warc-type"], clean) == (b"3", b"response", is_clean)


def test_the_first_empty_line_ends_a_header_with_any_line_ending() -> None:
    """Even if a bare line feed comes before two empty lines: the second one belongs to the body."""
    assert warc_headers.blank_line(b"A: b\n\r\n\r\nbody") == (4, 7)
    assert warc_headers.blank_line(b"A: b\r\n\r\nbody\n\r\n") == (5, 8)


def test_many_line_ends_after_a_record_do_no_harm(path: Path) -> None:
    """It is kept, and so is the next; the run is not scanned again for every record that claims to end there."""
    found = rows(packed("gzip", page(1) + b"\r\n" * 20_000 + page(2)), path)
    assert [row.drop for row in found] == [None, None]


def test_line_ends_are_not_scanned_again_for_every_record_before_them(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice as many of them, before a run twice as long, need twice the work, and not four times as much."""
    scanned = []

    class Counting:
        def match(self, data: bytes, start: int) -> re.Match[bytes] | None:
            match = line_ends.match(data, start)
            scanned.append(match.end() - start if match else 0)
            return match

    line_ends = walk._LINE_ENDS
    monkeypatch.setattr(walk, "_LINE_ENDS", Counting())
    totals = []
    for many in (500, 1000):
        scanned.clear()
        heads = [b"WARC/1.0\r\nContent-Length: %010d\r\n\r\n" % (40 * left) for left in reversed(range(many))]
        rows(packed("gzip", b"".join(heads) + b"\r\n" * 20 * many + b"junk"), path)
        totals.append(sum(scanned))
    assert totals[0] > 500
    assert totals[1] < 2.5 * totals[0]

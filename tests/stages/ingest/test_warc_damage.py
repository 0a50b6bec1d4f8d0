"""The WARC reader on damaged archives: nothing raises, nothing hangs, nothing readable is lost, nothing vanishes."""

import gzip
import random
import tracemalloc
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import orjson
import pytest
from tests.stages.ingest.archives import KINDS, SUFFIX, http, packed, page, piece, reasons, record, rows

from gristmill.schema import Record
from gristmill.stages.contract import Piece
from gristmill.stages.ingest import warc
from gristmill.stages.ingest.frames import DecodedRun
from gristmill.stages.ingest.walk import walk

FRAMED = [kind for kind in KINDS if kind != "plain"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "archive"


def markup(part: bytes) -> str:
    return part[part.index(b"<html>") : -4].decode()


def salvage(row: Record) -> list[str]:
    notes: list[str] = orjson.loads(row.meta or "{}").get("salvage", [])
    return notes


@pytest.mark.parametrize("kind", FRAMED)
def test_a_frame_cut_short_is_one_row_and_the_next_is_read(path: Path, kind: str) -> None:
    """A frame whose end is missing is a truncated_* row at the end of the file; within it, the bytes that follow are
    an error."""
    frames = [packed(kind, page(number, 400)) for number in range(4)]
    frames[1], frames[3] = frames[1][:-300], frames[3][:-300]
    found = rows(b"".join(frames), path)
    assert reasons(found) == [None, f"corrupt_{kind}", None, f"truncated_{kind}"]
    assert found[2].position == len(frames[0]) + len(frames[1])


@pytest.mark.parametrize("kind", FRAMED)
def test_a_frame_with_an_error_is_one_row_and_the_next_is_read(path: Path, kind: str) -> None:
    """A frame that fails its checksum is a corrupt_* row, even if its text looks whole."""
    frames = [packed(kind, page(number, 400)) for number in range(3)]
    frames[1] = frames[1][:-1] + bytes([frames[1][-1] ^ 1])
    assert reasons(rows(b"".join(frames), path)) == [None, f"corrupt_{kind}", None]


@pytest.mark.parametrize("kind", KINDS)
def test_garbage_between_records_is_a_row_with_its_size(path: Path, kind: str) -> None:
    """Bytes that belong to no record are accounted for, before, between and after records."""
    data = b"".join([b"?" * 50, packed(kind, page(1)), b"\0" * 700, packed(kind, page(2)), b"!" * 9])
    found = rows(data, path, "x" + SUFFIX[kind])
    assert [(row.drop, row.detail) for row in found] == [
        ("unreadable_bytes", "50 bytes"),
        (None, None),
        ("unreadable_bytes", "700 bytes"),
        (None, None),
        ("unreadable_bytes", "9 bytes"),
    ]


def test_records_before_the_damage_in_a_shared_frame_are_kept(path: Path) -> None:
    """In an archive that is one gzip member, everything decoded before the error is kept, except what touches it."""
    parts = [page(number, 400) for number in range(10)]
    packer = zlib.compressobj(wbits=31)
    blocks = [packer.compress(part) + packer.flush(zlib.Z_FULL_FLUSH) for part in parts]
    data = b"".join(blocks) + packer.flush()
    start = sum(map(len, blocks[:6])) + len(blocks[6]) // 2
    broken = data[:start] + b"\xff" * 40 + data[start + 40 :]
    found = rows(broken, path)
    assert [row.html for row in found[:6]] == [markup(part) for part in parts[:6]]
    assert found[6].drop == "corrupt_gzip"


def test_a_length_that_is_too_large_swallows_no_record(path: Path) -> None:
    """The next header ends a record that claims to be longer; the page is whole and the fault is noted."""
    broken = page(1).replace(b"\r\nContent-Length: ", b"\r\nContent-Length: 9")
    for data in (broken + page(2) + page(3), packed("gzip", broken + page(2) + page(3))):
        found = rows(data, path)
        assert [row.html for row in found] == [markup(page(number)) for number in (1, 2, 3)]
        assert [salvage(row) for row in found] == [["content_length"], [], []]


def test_a_length_beyond_the_bound_swallows_no_record(path: Path) -> None:
    """The same holds if the claim is larger than any record may be."""
    broken = page(1).replace(b"\r\nContent-Length: ", b"\r\nContent-Length: 9999999")
    for data in (broken + page(2), packed("gzip", broken + page(2)), packed("gzip", broken) + packed("gzip", page(2))):
        assert [row.html for row in rows(data, path)] == [markup(page(1)), markup(page(2))]


def test_a_length_that_is_too_small_leaves_a_gap(path: Path) -> None:
    """The rest of the page is a separate row, and the next record is found."""
    block = http(b"<p>" + b"word " * 100)
    broken = record(block).replace(b"Content-Length: %d" % len(block), b"Content-Length: %d" % (len(block) - 20))
    found = rows(broken + page(2), path)
    assert reasons(found) == [None, "unreadable_bytes", None]


@pytest.mark.parametrize("end", [b"", b"\r\n", b"\n", b"\r\n\r\n\r\n\r\n"])
def test_empty_lines_between_records_may_be_missing(path: Path, end: bytes) -> None:
    """Two empty lines should follow a record; none, one or four are no fault."""
    data = page(1)[:-4] + end + page(2)
    assert reasons(rows(data, path)) == [None, None]


def test_a_file_that_ends_inside_a_record_says_so(path: Path) -> None:
    """The last record of a cut file is dropped, unless its page is whole by its own end tag."""
    data = page(1) + page(2)
    found = rows(data[:-100], path)
    assert [(row.drop, row.url) for row in found] == [
        (None, "http://a.example/1"),
        ("truncated_record", "http://a.example/2"),
    ]
    lines = (page(1) + page(2)).replace(b"\r\n", b"\n")
    assert [salvage(row) for row in rows(lines, path)] == [["content_length"]] * 2


@pytest.mark.parametrize(
    "head",
    [
        b"WARC/1.0\r\nWARC-Type: response\r\n\r\n",
        b"WARC/1.0\r\nContent-Length: many\r\n\r\n",
        b"WARC/1.0 " + b"x" * 300_000,
    ],
)
def test_headers_that_cannot_be_read_are_rows(path: Path, head: bytes) -> None:
    """A header without a length, with a false one or without an end is a bad_warc_header row."""
    assert reasons(rows(page(1) + head + b"body\r\n\r\n" + page(2), path)) == [None, "bad_warc_header", None]


@pytest.mark.parametrize("start", [b"", b"WARC/1.0\r\nWARC-Type: resource\r\nContent-Length: 60000000\r\n\r\n"])
def test_frames_that_expand_greatly_take_little_memory(path: Path, start: bytes) -> None:
    """A small member that decodes to 64 MB, as a record or as garbage, is skipped in bounded memory."""
    packer = zlib.compressobj(9, wbits=31)
    bomb = packer.compress(start) + b"".join(packer.compress(bytes(1 << 20)) for _ in range(64)) + packer.flush()
    path.write_bytes(packed("gzip", page(1)) + bomb + packed("gzip", page(2)))
    config = warc.Config.model_validate({"max_record_bytes": "4MB"})
    tracemalloc.start()
    found = list(warc.read(Piece(str(path), "x"), config))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found[1].drop == ("body_too_large" if start else "unreadable_bytes")
    assert [found[0].drop, found[-1].drop] == [None, None]
    assert peak < 32 << 20


def test_more_records_than_bytes_have_unique_locators(path: Path) -> None:
    """Ten thousand equal records in one small frame: unique keys, positions that do not reach the next frame."""
    tiny = b"WARC/1.0\r\nWARC-Type: metadata\r\nContent-Length: 0\r\n\r\n\r\n\r\n"
    first = packed("gzip", tiny * 10_000)
    found = rows(first + packed("gzip", page(1)), path)
    assert len(first) < 10_000
    assert len({row.key or row.position for row in found}) == 10_001
    positions = [row.position for row in found]
    assert positions == sorted(positions)
    assert positions[-2] < positions[-1] == len(first)


@pytest.mark.parametrize("kind", FRAMED)
@pytest.mark.parametrize("cut", [0, 1, 9])
def test_more_records_than_bytes_before_damage_keep_the_order(path: Path, kind: str, cut: int) -> None:
    """A small frame of many records that breaks off: what is read after it has a later position than all of them."""
    tiny = b"WARC/1.0\r\nWARC-Type: metadata\r\nContent-Length: 0\r\n\r\n\r\n\r\n"
    first = packed(kind, tiny * 3000)
    found = rows(first[: len(first) - cut] + b"?" + packed(kind, page(1)), path)
    positions = [row.position for row in found]
    assert positions == sorted(positions)
    assert len({row.key or row.position for row in found}) == len(found) > 1
    assert positions[-1] == len(first) - cut + 1 > positions[-2]


Mutation = Callable[[random.Random, bytes], bytes]


def flip(chance: random.Random, data: bytes) -> bytes:
    broken = bytearray(data)
    for _ in range(chance.choice([1, 1, 4])):
        broken[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(broken)


def cut(chance: random.Random, data: bytes) -> bytes:
    at = chance.randrange(len(data))
    return chance.choice([data[:at], data[at:], data[:at] + data[at + chance.choice([1, 7, 200, 1500]) :]])


def insert(chance: random.Random, data: bytes) -> bytes:
    at = chance.randrange(len(data))
    noise = [
        chance.randbytes(chance.choice([1, 40, 700])),
        b"\r\n",
        bytes(60),
        b"WARC/1.0\r\n",
        b"\x1f\x8b\x08\0",
        b"HTTP/1.1 200",
    ]
    return data[:at] + chance.choice([*noise, b"\x28\xb5\x2f\xfd\x04", b"\x04\x22\x4d\x18\x60"]) + data[at:]


def overwrite(chance: random.Random, data: bytes) -> bytes:
    at, size = chance.randrange(len(data)), chance.choice([1, 10, 500])
    return data[:at] + bytes(len(data[at : at + size])) + data[at + size :]


def duplicate(chance: random.Random, data: bytes) -> bytes:
    at = chance.randrange(len(data))
    end = at + chance.choice([5, 300, 3000])
    return data[:end] + data[at:end] + data[end:]


def swap(chance: random.Random, data: bytes) -> bytes:
    a, b, c = sorted(chance.randrange(len(data)) for _ in range(3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


MUTATIONS: list[Mutation] = [flip, cut, insert, overwrite, duplicate, swap]


def damaged(chance: random.Random, path: Path) -> None:
    """Builds an archive, damages it, and checks the reader's laws."""
    kind = chance.choice(["plain", "gzip", "gzip", "zstd"])
    style = chance.choice(["a frame each", "a frame each", "one frame", "blocks"])
    parts = [page(chance.getrandbits(30), chance.choice([3, 40, 400])) for _ in range(5)]
    if style == "a frame each":
        frames = [packed(kind, part) for part in parts]
    else:
        plain = b"".join(parts)
        size = len(plain) if style == "one frame" else 700
        frames = [packed(kind, plain[at : at + size]) for at in range(0, len(plain), size)]
    data = b"".join(frames)
    for _ in range(chance.choice([1, 1, 2])):
        data = chance.choice(MUTATIONS)(chance, data) or b"\0"

    name = "x" + SUFFIX[kind]
    whole = rows(data, path, name)
    kept = {row.html for row in whole}
    if style == "a frame each":
        for part, frame in zip(parts, frames, strict=True):
            intact = part[:-4] if kind == "plain" else frame
            assert intact not in data or markup(part) in kept, "an undamaged record was lost"
    if kind != "plain" and style == "a frame each":
        assert kept <= {markup(part) for part in parts} | {None}, "damaged text was kept"
    assert whole, "the file vanished"
    assert [row.position for row in whole] == sorted(row.position for row in whole)
    assert len({row.key or row.position for row in whole}) == len(whole)
    edges = [0, *sorted(chance.choices(range(len(data) + 1), k=2)), None]
    pieces = [row for start, stop in pairwise(edges) for row in piece(path, name, start or 0, stop)]
    assert pieces == whole, "the pieces differ from the whole"
    if kind == "plain":
        with path.open("rb") as file:
            run, end = DecodedRun(file, "plain", 0), 0
            for found in walk(run, 1 << 26):
                assert not data[end : found.offset].strip(b"\r\n"), "bytes without a row"
                end = run.offset
            assert not data[end:].strip(b"\r\n"), "bytes without a row"


@pytest.mark.parametrize("batch", range(4))
def test_no_damage_breaks_the_laws(path: Path, batch: int) -> None:
    """In 200 damaged archives nothing intact is lost, nothing damaged is kept, and pieces equal the whole."""
    for case in range(50):
        damaged(random.Random(f"{batch} {case}"), path)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(100, 116))
def test_no_damage_breaks_the_laws_at_length(path: Path, batch: int) -> None:
    """The same for 800 more."""
    for case in range(50):
        damaged(random.Random(f"{batch} {case}"), path)


def test_any_noise_is_read_to_its_end(path: Path) -> None:
    """Files of random bytes with any magic number give rows, and reading ends."""
    chance = random.Random(7)
    starts = [
        b"",
        b"\x1f\x8b\x08\0",
        b"\x28\xb5\x2f\xfd\x04",
        b"\x04\x22\x4d\x18\x60\x40",
        b"WARC/1.0\r\n",
        b"\x5d\x2a\x4d\x18\xff\0\0\0",
    ]
    for start in starts:
        for size in (0, 1, 50, 5000, 70_000):
            noise = start + chance.randbytes(size)
            if noise:
                assert all(row.drop for row in rows(noise, path))
                assert rows(noise, path)


def test_many_gzip_headers_cost_little(path: Path) -> None:
    """A file of only the first bytes of members is searched once, not once for each of them."""
    found = rows(gzip.compress(b"")[:10] * 20_000, path, "x.warc.gz")
    assert len(found) == 1
    assert found[0].drop in ("corrupt_gzip", "truncated_gzip")

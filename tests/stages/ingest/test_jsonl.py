import bz2
import gzip
import io
import json
import lzma
import random
import tracemalloc
import zlib

import fsspec
import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from gristmill.stages.contract import Piece
from gristmill.stages.ingest import jsonl
from gristmill.stages.reading import decompress

PACK = {"plain": bytes, "gzip": gzip.compress, "zstd": zstd.compress, "bzip2": bz2.compress, "xz": lzma.compress}


def rows(tmp_path, data, start=0, stop=None, **config):
    path = tmp_path / "in.jsonl"
    path.write_bytes(data)
    return list(jsonl.read(Piece(str(path), "in.jsonl", start, stop), jsonl.Config(**config)))


def documents(count):
    return [{"text": f"text {n} \u2028 \u0085 é 𝄞" + "x" * (n % 50), "n": n} for n in range(count)]


def as_lines(objects):
    return b"".join(json.dumps(one, ensure_ascii=False).encode() + b"\n" for one in objects)


def one(tmp_path, line, **config):
    [found] = rows(tmp_path, line, **config)
    return found


@pytest.mark.parametrize("kind", PACK)
def test_every_compression_gives_the_same_rows(tmp_path, kind):
    """The first bytes decide how a file is decompressed, not its name, and positions refer to the plain text."""
    plain = as_lines(documents(300))
    found = rows(tmp_path, PACK[kind](plain))
    assert [row.text for row in found] == [document["text"] for document in documents(300)]
    assert found == rows(tmp_path, plain)
    for row in found:
        assert json.loads(plain[row.position :].split(b"\n")[0])["text"] == row.text


@pytest.mark.parametrize("kind", ["gzip", "zstd", "bzip2", "xz"])
def test_streams_that_follow_each_other_are_read_to_the_end(tmp_path, kind):
    """Consecutive gzip members, zstd frames and bzip2 or xz streams are one stream."""
    plain = as_lines(documents(90))
    cuts = [plain[:100], plain[100:1000], b"", plain[1000:]]
    padding = bytes(512) if kind in ("gzip", "xz") else b""
    assert rows(tmp_path, b"".join(map(PACK[kind], cuts)) + padding) == rows(tmp_path, plain)


def test_zstd_with_skippable_frames_checksum_and_unknown_size(tmp_path):
    """All parts of the zstd frame format are walked: skippable frames, checksums, sizes that are not stated."""
    plain = as_lines(documents(5000))
    skippable = b"\x53\x2a\x4d\x18" + (7).to_bytes(4, "little") + b"ignored"
    stream = zstd.ZstdCompressor(19)
    summed = zstd.compress(plain[:999], options={zstd.CompressionParameter.checksum_flag: 1})
    frames = [summed, stream.compress(plain[999:]) + stream.flush()]
    assert rows(tmp_path, skippable.join([b"", *frames, b""])) == rows(tmp_path, plain)


line_bytes = st.sampled_from(
    [
        b"",
        b"\r",
        b"  ",
        b'{"text": "a"}',
        b'{"text": "\xc3\xa9"}\r',
        b"{",
        b"[1]",
        b'{"text": "\xff"}',
        b'{"n": 1}',
        b"\0",
    ]
)


@given(st.lists(line_bytes, max_size=30), st.booleans(), st.data())
@settings(max_examples=80, deadline=None)
def test_pieces_of_a_file_are_together_the_file(tmp_path_factory, parts, ended, data):
    """Reading [0,a), [a,b) and [b,end) gives the rows of the whole, for every a and b, good rows and bad."""
    content = b"\n".join(parts) + (b"\n" if ended else b"")
    folder = tmp_path_factory.mktemp("pieces")
    a, b = sorted(data.draw(st.tuples(*[st.integers(0, len(content) + 2)] * 2)))
    whole = rows(folder, content)
    assert rows(folder, content, 0, a) + rows(folder, content, a, b) + rows(folder, content, b) == whole
    for row in whole:
        assert rows(folder, content, row.position, row.position + 1) == [row]
    positions = [row.position for row in whole]
    assert positions == sorted(set(positions))


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_pieces_of_a_compressed_file_are_together_the_file(tmp_path, kind):
    """A file whose name hides its compression may be cut by the planner without loss."""
    packed = PACK[kind](as_lines(documents(40)))
    whole = rows(tmp_path, packed)
    for cut in range(0, 3000, 97):
        assert rows(tmp_path, packed, 0, cut) + rows(tmp_path, packed, cut) == whole


@pytest.mark.parametrize("chunk_bytes", [1, 2, 7, 64, 4096])
def test_lines_do_not_depend_on_how_the_stream_is_cut(chunk_bytes):
    """Lines and positions equal a split of the whole text without its blank lines, for every chunk size."""
    content = b" \n\n  abc\n\n" + b"x" * 300 + b"\n" * 100 + b"y \n" + b" \t\r\n" * 40 + b"\r\nlast"
    chunks = [content[at : at + chunk_bytes] for at in range(0, len(content), chunk_bytes)]
    expected, position = [], 0
    for line in content.split(b"\n"):
        if line.strip():
            expected.append((position, line))
        position += len(line) + 1
    assert list(jsonl.lines(chunks, 0, 1000)) == expected


def test_record_over_the_limit_is_a_row_and_is_not_held(tmp_path):
    """A line longer than the limit is `record_too_large`; the lines before and after it are kept."""
    content = as_lines([{"text": "a"}, {"text": "b" * 5_000_000}, {"text": "c"}])
    found = rows(tmp_path, content, max_record_bytes="1KB")
    assert [(row.text, row.drop) for row in found] == [("a", None), (None, "record_too_large"), ("c", None)]
    assert "5000012 bytes" in found[1].detail
    assert rows(tmp_path, content, found[1].position, found[1].position + 1, max_record_bytes="1KB") == [found[1]]
    exact = as_lines([{"text": "a" * 88}])[:-1]
    assert one(tmp_path, exact, max_record_bytes=len(exact)).drop is None
    assert one(tmp_path, exact, max_record_bytes=len(exact) - 1).drop == "record_too_large"


def test_endless_line_takes_no_memory():
    """Thirty-two mebibytes of one line under a limit of one are never in memory together."""
    tracemalloc.start()
    try:
        [(_, fault)] = jsonl.lines((bytes(1 << 20) for _ in range(32)), 0, 1 << 20)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert fault.reason == "record_too_large"
    assert peak_bytes < 8 << 20


@pytest.mark.parametrize(
    ("line", "reason", "detail"),
    [
        (b'{"text": "a"', "invalid_json", "column"),
        (b'{"text": "\xff"}', "invalid_utf8", "byte 10"),
        (b'{"text": "\xed\xa0\x80"}', "invalid_utf8", "byte 10"),
        (b'["text"]', "not_an_object", "a list, and a record is an object"),
        (b"null", "not_an_object", "null, and a record is an object"),
        (b"true", "not_an_object", "a boolean, and"),
        (b"1.5", "not_an_object", "a number, and"),
        (b'"text"', "not_an_object", "a string, and"),
        (b'{"body": "a"}', "missing_text", ""),
        (b'{"text": null}', "missing_text", "text is null, nothing under html; there are no fields with a value"),
        (b'{"id": 1, "text": null}', "missing_text", 'text is null, nothing under html; there are ["id"]'),
        (b'{"text": null, "html": null}', "missing_text", "text and html are null; there are no"),
        (b'{"text": ""}', "empty_text", "0 characters"),
        (b'{"text": " \\n\\u3000"}', "empty_text", "3 characters"),
        (b'{"text": ["a"]}', "bad_field_type", "text is a list"),
        (b'{"html": 1.5}', "bad_field_type", "html is a number"),
        (b"[" * 5000, "invalid_json", "depth"),
        (b"", "empty_file", "0 bytes"),
        (b"\n \r\n\n", "empty_file", "no record"),
        (b" \n" * 100_000, "empty_file", "no record"),
        (b"\xef\xbb\xbf", "empty_file", ""),
        (gzip.compress(b"", mtime=0), "empty_file", ""),
    ],
)
def test_bad_line_is_a_row_that_names_its_fault(tmp_path, line, reason, detail):
    """Each fault of a line has its own reason, and the detail says where or what."""
    row = one(tmp_path, line)
    assert row.drop == reason
    assert detail in row.detail


@pytest.mark.parametrize("content", [random.Random(5).randbytes(300_000), b"some,table\n" * 90_000, b"[1]\n" * 9_000])
def test_a_file_that_is_not_jsonl_is_one_row(tmp_path, content):
    """An archive or a table among the inputs gives one row, not one per line, and its pieces agree."""
    [row] = rows(tmp_path, content)
    assert row.drop == "not_jsonl"
    assert rows(tmp_path, content, 0, 500) == [row]
    assert rows(tmp_path, content, 500) == []


def test_few_bad_lines_at_the_top_do_not_condemn_a_file(tmp_path):
    """One object among the first lines is enough for a file to be JSONL."""
    found = rows(tmp_path, b"junk\n" * 50 + b'{"text": "a"}\n')
    assert [row.drop for row in found] == ["invalid_json"] * 50 + [None]


@pytest.mark.parametrize("kind", ["gzip", "zstd", "bzip2", "xz"])
def test_a_cut_stream_keeps_its_lines_and_reports_the_cut(tmp_path, kind):
    """Cut anywhere, a compressed file gives the whole lines that a decoder can reach and one `truncated_` row."""
    plain = as_lines(documents(2000))
    whole = rows(tmp_path, plain)
    packed = PACK[kind](plain)
    for size in random.Random(1).sample(range(20, len(packed)), 25):
        *kept, last = rows(tmp_path, packed[:size])
        assert kept == whole[: len(kept)]
        assert last.drop == f"truncated_{kind}"
        assert last.position == (whole[len(kept)].position if len(kept) < len(whole) else len(plain))


def test_truncated_gzip_keeps_every_decodable_line(tmp_path):
    """Every line that zlib can decode of a cut file is kept: zlib itself is the oracle."""
    packed = gzip.compress(as_lines(documents(3000)))
    for size in (200, 5_000, len(packed) // 2, len(packed) - 9):
        reachable = zlib.decompressobj(31).decompress(packed[:size])
        assert len(rows(tmp_path, packed[:size])) == reachable.count(b"\n") + 1


def test_garbage_after_a_gzip_member_is_reported(tmp_path):
    """Bytes after the last member that are not gzip give one row, after all lines."""
    found = rows(tmp_path, gzip.compress(as_lines(documents(3))) + b"garbage")
    assert [row.drop for row in found] == [None] * 3 + ["corrupt_gzip"]


def test_truncated_gzip_gives_what_its_last_byte_held():
    """If a step's output is full at the cut, symbols remain in the decoder; they are yielded as well."""
    packed = gzip.compress(bytes(decompress.CHUNK_BYTES + 20_000), mtime=0)
    for size in range(len(packed) - 60, len(packed) - 8):
        chunks = []
        with pytest.raises(decompress.ReadFault, match="truncated_gzip"):
            chunks.extend(decompress.unpack("gzip", io.BytesIO(packed[:size])))
        assert b"".join(chunks) == zlib.decompressobj(31).decompress(packed[:size])


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_bomb_is_unpacked_in_bounded_steps(tmp_path, kind):
    """A file that unpacks to a thousand times its size never yields a chunk larger than the step."""
    path = tmp_path / "bomb"
    path.write_bytes(PACK[kind](bytes(50_000_000)))
    with path.open("rb") as file:
        sizes = list(map(len, decompress.unpack(kind, file)))
    assert sum(sizes) == 50_000_000
    assert max(sizes) <= decompress.CHUNK_BYTES


def damaged(data, rng):
    """Data with one kind of damage, and the first damaged byte."""
    at = rng.randrange(len(data))
    kind = rng.randrange(5)
    if kind == 0:
        return data[:at], at
    if kind == 1:
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :], at
    if kind == 2:
        return data[:at] + rng.randbytes(rng.randrange(1, 200)) + data[at:], at
    if kind == 3:
        return data[:at] + data[at + rng.randrange(1, 300) :], at
    return data[:at] + bytes(rng.randrange(1, 100)) + data[at + 50 :], at


def decodable(kind, data):
    if kind == "gzip":
        return zlib.decompressobj(31).decompress(data)
    return zstd.ZstdDecompressor().decompress(data) if kind == "zstd" else data


def fuzz(tmp_path, seeds):
    plain = as_lines(documents(150))
    whole = rows(tmp_path, plain)
    packed = [(kind, PACK[kind](plain)) for kind in ("plain", "gzip", "zstd")]
    for seed in seeds:
        rng = random.Random(seed)
        kind, data = packed[seed % 3]
        data, at = damaged(data, rng)
        if seed % 7 == 0:
            data, second = damaged(data + b"\n", rng)
            at = min(at, second)
        found = rows(tmp_path, data)
        safe = decodable(kind, data[:at]).count(b"\n")
        if [row.drop for row in found] == ["not_jsonl"]:
            assert safe == 0, seed
        else:
            assert found[:safe] == whole[:safe], seed
        positions = [row.position for row in found]
        assert positions == sorted(set(positions)), seed
        for row in found:
            assert row.text is not None or row.drop, seed
            (row.text or "").encode()


def test_damaged_files_keep_the_lines_before_the_damage(tmp_path):
    """For any damage to a plain, gzip or zstd file, reading ends, and the lines before the damage are kept."""
    fuzz(tmp_path, range(240))


@pytest.mark.slow
def test_many_damaged_files_keep_the_lines_before_the_damage(tmp_path):
    """The same for many more files."""
    fuzz(tmp_path, range(240, 1200))


def test_half_a_surrogate_pair_becomes_a_replacement_character(tmp_path):
    """A lone surrogate costs a character, not the record; pairs and escaped backslashes are left alone."""
    row = one(tmp_path, rb'{"text": "a\ud800b\udfffc \ud83d\ude00 \\ud800 \uD83D", "k": "\uDC00"}')
    assert row.text == "a\ufffdb\ufffdc 😀 \\ud800 \ufffd"
    assert json.loads(row.meta) == {"k": "\ufffd", "_mended": ["lone surrogates"]}


def test_not_a_number_becomes_null(tmp_path):
    """NaN and infinities as Python writes them become null; the same letters inside a string stay."""
    row = one(tmp_path, b'{"text": "NaN", "a": NaN, "b": [-Infinity, Infinity], "c": "\\"NaN"}')
    assert row.text == "NaN"
    assert json.loads(row.meta) == {"a": None, "b": [None, None], "c": '"NaN', "_mended": ["not a number"]}


def test_repairing_a_broken_line_takes_one_pass(tmp_path):
    """A line of a million escaped quotes that never ends is refused in linear work."""
    assert one(tmp_path, b'{"text": NaN, "a": "' + b'\\"' * 1_000_000).drop == "invalid_json"


def test_fields_are_found_by_path_and_the_rest_is_meta(tmp_path):
    """Dotted paths step into objects and lists, a key that holds the dots itself goes first; `meta` has the rest and
    the key.
    """
    fields = {"text": "body.parts.1", "url": "meta.url", "key": "id", "license": "a.b", "title": "head.title"}
    source = {
        "id": 17,
        "body": {"parts": ["x", "the text", "y"]},
        "meta": {"url": "https://a.example/", "lang": "en"},
        "a.b": "MIT",
        "a": {"b": "GPL-2.0"},
        "head": {},
    }
    row = one(tmp_path, as_lines([source]), fields=fields)
    assert (row.text, row.url, row.key, row.license, row.title) == ("the text", "https://a.example/", "17", "MIT", None)
    assert json.loads(row.meta) == {
        "id": 17,
        "body": {"parts": ["x", None, "y"]},
        "meta": {"lang": "en"},
        "a": {"b": "GPL-2.0"},
        "head": {},
    }
    assert one(tmp_path, as_lines([source]), fields=fields, keep_meta=False).meta is None


def test_two_columns_may_share_a_field(tmp_path):
    """A field that is mapped twice fills both columns and leaves `meta`."""
    row = one(tmp_path, b'{"text": "a", "u": "https://b.example/"}', fields={"url": "u", "key": "u"})
    assert (row.url, row.key, row.meta) == ("https://b.example/", "https://b.example/", None)


def test_value_that_a_mapping_cannot_use_stays_in_meta(tmp_path):
    """An unusable license or date: the row is kept, the column is null, the value is not lost."""
    row = one(tmp_path, b'{"text": "a", "license": ["MIT"], "timestamp": "soon", "url": 5}')
    assert (row.drop, row.license, row.timestamp_us, row.url) == (None, None, None, None)
    assert json.loads(row.meta) == {"license": ["MIT"], "timestamp": "soon", "url": 5}


def test_markup_is_enough(tmp_path):
    """A row with markup and no text is kept; bad text next to good markup is reported."""
    assert one(tmp_path, b'{"html": "<p>a", "text": null}').html == "<p>a"
    assert one(tmp_path, b'{"html": "<p>a", "text": ""}').drop is None
    assert one(tmp_path, b'{"html": "<p>a", "text": 3}').drop == "bad_field_type"


def test_nul_and_deep_nesting_are_kept(tmp_path):
    """NUL is a character; what orjson can read but not write costs `meta`, not the text."""
    row = one(tmp_path, b'{"text": "a\\u0000b", "deep": ' + b"[" * 400 + b"]" * 400 + b"}")
    assert row.text == "a\0b"
    assert "_unwritable" in row.meta


@pytest.mark.parametrize("fields", [{"txt": "a"}, {"text": None, "html": None}, {"url": ""}])
def test_config_refuses_what_cannot_work(fields):
    """An unknown column, no text at all, an empty path: errors before any work."""
    with pytest.raises(ValidationError):
        jsonl.Config(fields=fields)


def test_files_are_opened_through_fsspec():
    """A URL of any file system is read like a path."""
    with fsspec.open("memory://bucket/a.jsonl", "wb") as file:
        file.write(as_lines(documents(3)))
    found = jsonl.read(Piece("memory://bucket/a.jsonl", "a.jsonl", 10), jsonl.Config())
    assert [row.text for row in found] == [document["text"] for document in documents(3)][1:]

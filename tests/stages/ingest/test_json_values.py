"""Files with one JSON array, one object, or several concatenated objects."""

import bz2
import gzip
import json
import lzma
import random

import pytest
from backports import zstd

from gristmill.stages.contract import Piece
from gristmill.stages.ingest import json_values, jsonl
from gristmill.stages.reading.decompress import ReadFault

ROWS = [
    {"text": 'a "mill" \\ [x] {y}', "meta": {"a": [1, [2, {"z": "]}"}]]}},
    {"text": "Mühle 水車\u2028 ends with \\"},
    {"text": "b", "url": "http://a.example/"},
]


def rows(tmp_path, data, **config):
    (tmp_path / "x.json").write_bytes(data)
    return list(json_values.read(Piece(str(tmp_path / "x.json"), "x.json"), json_values.Config(**config)))


def cut(data, step, limit=1 << 20):
    return list(json_values.elements((data[at : at + step] for at in range(0, len(data), step)), limit))


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd.compress, bz2.compress, lzma.compress])
def test_every_element_of_an_array_is_a_record(tmp_path, indent, pack):
    """Indented or not, compressed or not; the position is the element's first byte."""
    data = json.dumps(ROWS, indent=indent, ensure_ascii=False).encode()
    found = rows(tmp_path, pack(data))
    assert [row.text for row in found] == [row["text"] for row in ROWS]
    assert all(data[row.position : row.position + 1] == b"{" for row in found)
    assert json.loads(found[0].meta) == {"meta": ROWS[0]["meta"]}
    assert found[2].url == "http://a.example/"


@pytest.mark.parametrize("between", [b"", b"\n", b" , "])
def test_objects_without_an_array_are_records(tmp_path, between):
    """One object per file, concatenated objects, concatenated arrays, with byte order marks."""
    objects = [json.dumps(row).encode() for row in ROWS]
    for data in (between.join(objects), b"\xef\xbb\xbf" + between.join(b"[" + one + b"]" for one in objects)):
        assert [row.text for row in rows(tmp_path, data)] == [row["text"] for row in ROWS]
    assert [row.text for row in rows(tmp_path, objects[0])] == [ROWS[0]["text"]]


def test_elements_do_not_depend_on_the_chunks_of_the_stream():
    """Any nesting, any strings, in chunks of any size: the elements are those that the library finds."""
    draw = random.Random(5)

    def value(depth):
        kind = draw.randrange(6 if depth else 4)
        if kind == 4:
            return [value(depth - 1) for _ in range(draw.randrange(4))]
        if kind == 5:
            return {draw.choice('ab"\\]}'): value(depth - 1) for _ in range(draw.randrange(4))}
        return (draw.randrange(99), None, True, "".join(draw.choices('x"\\[]{},: ü\n', k=6)))[kind]

    for _ in range(100):
        wanted = [value(3) for _ in range(5)]
        data = json.dumps(wanted, indent=draw.choice([None, 1]), ensure_ascii=False).encode()
        whole = cut(data, len(data))
        assert [json.loads(element) for _, element in whole] == wanted
        assert all(data[at : at + len(element)] == element for at, element in whole)
        assert cut(data, 1) == cut(data, 7) == whole


def test_a_bad_element_is_lost_alone(tmp_path):
    """Every element is a row: invalid JSON, not an object, not UTF-8, too long, or a lone surrogate."""
    data = b'[{"text": "a"}, {bad}, 1, "s", null, [{"text": "no"}], {"text": "\xff"}, bare, {"text": "%s"}' % (
        b"x" * 99
    )
    found = rows(tmp_path, data + b', {"text": "\\ud800"}, {"text": "z"}]', max_record_bytes=60)
    assert [row.drop for row in found] == [
        *(None, "invalid_json", "not_an_object", "not_an_object", "not_an_object", "not_an_object"),
        *("invalid_utf8", "invalid_json", "record_too_large", None, None),
    ]
    assert found[-1].text == "z"
    assert found[-2].text == "\ufffd"


def test_an_unclosed_element_is_one_row_that_says_how_much_is_lost(tmp_path):
    """The elements before it are kept."""
    found = rows(tmp_path, b'[{"text": "a"}, {"text": "b", {"text": "c"}, 1')
    assert [row.drop for row in found] == [None, "unclosed_json"]
    assert "30 bytes from here to the end" in found[1].detail
    cut_off = gzip.compress(json.dumps(ROWS * 500).encode())[:-40]
    found = rows(tmp_path, cut_off)
    assert found[-1].drop == "truncated_gzip"
    assert len(found) > 5


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"", "empty_file"), (b" \n", "empty_file"), (b"[ ]", "empty_file"), (b"id,text\n1,x\n", "not_json")],
)
def test_a_file_without_elements_is_one_row(tmp_path, data, reason):
    """No file is dropped silently."""
    assert [row.drop for row in rows(tmp_path, data)] == [reason]


def test_only_the_current_element_is_in_memory():
    """An array of a hundred megabytes in chunks of a megabyte: only one element is in memory, or none of a long one."""
    held = []

    def chunks():
        yield b"["
        for _ in range(100):
            yield b'{"text": "' + b"x" * (1 << 20) + b'"},'

    for _, element in json_values.elements(chunks(), 1 << 10):
        held.append(element)
    assert all(isinstance(element, ReadFault) for element in held)
    assert len(held) == 100


@pytest.mark.parametrize("indent", [None, 1])
def test_the_reader_of_lines_names_the_format_of_an_array(tmp_path, indent):
    """One row, whose detail is the fix."""
    (tmp_path / "x.jsonl").write_text(json.dumps(ROWS, indent=indent))
    found = list(jsonl.read(Piece(str(tmp_path / "x.jsonl"), "x.jsonl"), jsonl.Config()))
    assert [row.drop for row in found] == ["not_an_object" if indent is None else "not_jsonl"]
    assert "`format: json`" in found[0].detail


def test_lines_that_are_lists_are_not_an_array(tmp_path):
    """Each is a bad line, and an object among them is a record."""
    (tmp_path / "x.jsonl").write_text('[1]\n{"text": "a"}\n[2]\n')
    found = list(jsonl.read(Piece(str(tmp_path / "x.jsonl"), "x.jsonl"), jsonl.Config()))
    assert [row.drop for row in found] == ["not_an_object", None, "not_an_object"]

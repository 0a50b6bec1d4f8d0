"""CSV: quotes, line ends, faults, and the same rows for any chunks of the stream."""

import csv
import gzip
import io
import json
import random

import pytest

from gristmill.errors import UserError
from gristmill.stages.contract import Piece
from gristmill.stages.ingest import csv_rows
from gristmill.stages.reading.csv_cut import cut
from gristmill.stages.reading.fields import names_there


def rows(tmp_path, data, name="x.csv", **config):
    (tmp_path / name).write_bytes(data)
    return list(csv_rows.read(Piece(str(tmp_path / name), name), csv_rows.Config(**config)))


def cut_in(data, step, limit=1 << 20):
    chunks = (data[at : at + step] for at in range(0, len(data), step))
    return [
        (position, row if isinstance(row, list) else row.reason)
        for position, row in cut(chunks, ",", True, None, limit)
    ]


def test_a_table_is_read_by_its_header(tmp_path):
    """Quoted fields with delimiters, quotes and line ends; blank lines are skipped; key and rest are in meta."""
    data = b'id,text,url\r\n7,"a ""mill"", two\nlines",http://a.example/\r\n\r\n8,5" pipe,\r\n'
    first, second = rows(tmp_path, data, fields={"key": "id"})
    assert (first.text, first.key, first.url, first.position) == ('a "mill", two\nlines', "7", "http://a.example/", 13)
    assert (second.text, second.key, second.url) == ('5" pipe', "8", None)
    assert json.loads(second.meta) == {"id": "8", "url": ""}


def test_tabs_byte_order_marks_compression_and_own_names(tmp_path):
    """`.tsv` uses tabs; a byte order mark is not part of a name; the recipe may give the header."""
    assert [row.text for row in rows(tmp_path, b"id\ttext\n1\ta, b\n", "x.tsv")] == ["a, b"]
    assert [row.text for row in rows(tmp_path, gzip.compress(b"\xef\xbb\xbftext\na\n"), "x.csv.gz")] == ["a"]
    assert [row.text for row in rows(tmp_path, b"1;a\n2;b\n", delimiter=";", header=("id", "text"))] == ["a", "b"]
    assert [row.text for row in rows(tmp_path, b'text\n"a\n', quotes=False)] == ['"a']
    [row] = rows(tmp_path, b"text,text,\na,b,c\n")
    assert (row.text, json.loads(row.meta)) == ("a", {"text_2": "b", "field_3": "c"})


def test_rows_are_those_of_the_library():
    """Everything that `csv` writes is read back, in chunks of any size."""
    draw = random.Random(3)
    for _ in range(300):
        table = [["a", "b", "c"]]
        table += [["x" + "".join(draw.choices('x,"\n y;ü', k=draw.randrange(6))) for _ in range(3)] for _ in range(4)]
        sink = io.StringIO()
        csv.writer(sink, lineterminator=draw.choice(["\n", "\r\n"])).writerows(table)
        data = sink.getvalue().encode()
        whole = cut_in(data, len(data))
        assert [row for _, row in whole] == table
        assert cut_in(data, 1) == cut_in(data, 3) == whole


def test_rows_do_not_depend_on_the_chunks_of_the_stream():
    """Any bytes, with limits that they exceed."""
    draw = random.Random(4)
    for _ in range(400):
        data = bytes(draw.choices(b'a,"\n', k=60))
        for limit in (1 << 20, 10):
            assert cut_in(data, 1, limit) == cut_in(data, 3, limit) == cut_in(data, len(data), limit)


def test_a_bad_record_is_lost_alone(tmp_path):
    """The number of fields, the encoding, the length: a row with the reason, and the next one is read."""
    data = b"id,text\n1,a,b\n2\n3,\xff\n4,%s\n5,e\n6,\n" % (b"x" * 99)
    found = rows(tmp_path, data, max_record_bytes=50)
    assert [row.drop for row in found] == [
        *("wrong_field_count", "wrong_field_count", "invalid_utf8", "record_too_large", None, "empty_text"),
    ]
    assert found[0].detail == "line 2: 3 fields, and the header has 2"


def test_a_stray_quote_does_not_swallow_the_next_lines(tmp_path):
    """Its line is lost, and reading continues with the next."""
    found = rows(tmp_path, b'id,text\n1,a\n2,"stray\n3,c\n4,d\n')
    assert [(row.drop, row.text) for row in found] == [(None, "a"), ("unclosed_quote", None), (None, "c"), (None, "d")]
    found = rows(tmp_path, b'id,text\n1,"stray\n2,b\n3,"c" and more, and more\n4,d\n')
    assert [row.drop for row in found] == ["wrong_field_count", None, "wrong_field_count", None]


def test_many_stray_quotes_cost_their_own_lines(tmp_path):
    """In one chunk or in many: bytes after a fault that were not read do not count."""
    data = b"id,text\n" + b'1,"stray\n2,b\n3,"c" and more, and more\n' * 50 + b"4,%s\n" % (b"x" * (1 << 20))
    whole = cut_in(data, len(data), 1 << 21)
    assert [row for _, row in whole[1:-1]] == ["wrong_field_count", ["2", "b"], "wrong_field_count"] * 50
    assert cut_in(data, 1000, 1 << 21) == whole


@pytest.mark.parametrize("keep_meta", [True, False])
def test_a_quote_that_is_not_doubled_leaves_a_mark(tmp_path, keep_meta):
    """The text after it is kept, and `_mended` in meta says so, with any other content of meta."""
    data = b'id,text\n1,"the "old" mill"\n2,"the ""new"" mill"\n3,"a"\r\n'
    found = rows(tmp_path, data, keep_meta=keep_meta)
    assert [row.text for row in found] == ['the old" mill"', 'the "new" mill', "a"]
    metas = [json.loads(row.meta or "{}") for row in found]
    assert [meta.get("_mended") for meta in metas] == [["text behind a closing quote"], None, None]


def test_reading_a_file_of_only_faults_ends(tmp_path):
    """Quotes that always open another field: all lines are dropped at once when reading again would not end."""
    data = b"text,b\n" + b'"a","b\n' * 200_000
    found = rows(tmp_path, data)
    assert found[-1].drop == "unclosed_quote"
    assert len(found) < 100


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty_file"),
        (b"id,text\n", "empty_file"),
        (b"PK\3\4\0\0", "not_csv"),
        ("text\na".encode("utf-16"), "not_csv"),
    ],
)
def test_a_file_without_records_is_one_row(tmp_path, data, reason):
    """No file is dropped silently; a spreadsheet is not CSV."""
    assert [row.drop for row in rows(tmp_path, data)] == [reason]


def test_a_field_that_the_header_lacks_drops_the_file(tmp_path):
    """At once, with the names in the header."""
    for fields in ({"text": "content"}, {"title": "headline"}):
        [row] = rows(tmp_path, b"id,text\n1,a\n2,b\n", fields=fields)
        assert row.drop == "missing_column"
        assert next(iter(fields.values())) in row.detail
        assert names_there(row.detail) == ["id", "text"]
    [row] = rows(tmp_path, b"id;text\n1;a\n")
    assert row.detail.endswith('perhaps `delimiter: ";"` is meant')


def test_a_delimiter_is_one_character(tmp_path):
    """Anything else is a mistake in the recipe, reported with its line."""
    from gristmill.recipe.load import load

    (tmp_path / "r.yaml").write_text(
        "recipe: x\nsources:\n  a: {kind: text, read: {format: csv, paths: [in], delimiter: '::'}}\nsteps: []\n"
    )
    with pytest.raises(UserError, match=r"r\.yaml:3: .*'::' is not a delimiter"):
        load(tmp_path / "r.yaml")


def test_a_zero_byte_does_not_cost_a_file(tmp_path):
    """It is an ordinary character; a file with a zero in every second byte is not UTF-8."""
    assert [row.text for row in rows(tmp_path, b"id,text\n1,a\0b\n2,c\n")] == ["a\0b", "c"]
    assert [row.drop for row in rows(tmp_path, "id,text\n1,a\n".encode("utf-16"))] == ["not_csv"]


def test_a_fault_names_its_lines(tmp_path):
    """An unclosed quote is reported with the line of its record, and the lines below are read; so are joined rows."""
    data = b'id,text\n1,"a\nb"\n2,c,d\n3,"e\n4,f,g"\n\n5,"never\n6,last\n'
    found = [(row.drop, row.detail) for row in rows(tmp_path, data) if row.drop]
    assert found == [
        ("wrong_field_count", "line 4: 3 fields, and the header has 2"),
        ("unclosed_quote", "line 8 to 9: a quote of this record is not closed by the end of the file"),
    ]
    joined = rows(tmp_path, b'id,text\n1,"open\n2,plain\n3,"closed"\n4,a "b" c\n5,"x" y\n')
    assert [row.drop for row in joined] == [None] * 3
    assert ["_mended" in row.meta for row in joined] == [True, False, True]


def test_line_ends_of_cr_alone_are_refused(tmp_path):
    """The whole file would be its header, and no record would be missed."""
    [row] = rows(tmp_path, b"text,url\rone,u\rtwo,v\r")
    assert (row.drop, row.detail) == ("not_csv", "its lines end with CR alone; convert them to LF")

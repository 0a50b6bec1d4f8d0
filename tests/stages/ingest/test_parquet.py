import datetime
import io
import json
import random
from functools import cache

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.stages.contract import Piece
from gristmill.stages.ingest import parquet
from gristmill.stages.ingest.plain_types import selected
from gristmill.stages.reading.fields import names_there


def rows(tmp_path, data, start=0, stop=None, **config):
    path = tmp_path / "in.parquet"
    path.write_bytes(data)
    return list(parquet.read(Piece(str(path), "in.parquet", start, stop), parquet.Config(**config)))


def packed(table, **options):
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def documents(count):
    texts = [f"text {n} " + "é" * (n % 40) for n in range(count)]
    return pa.table({"text": texts, "url": [f"https://a.example/{n}" for n in range(count)], "n": list(range(count))})


def test_rows_are_documents_in_order():
    """Each row is a record whose position is its number, over all row groups, with unmapped columns in `meta`."""
    with fsspec.open("memory://parquet/a.parquet", "wb") as file:
        file.write(packed(documents(100), row_group_size=30))
    found = list(parquet.read(Piece("memory://parquet/a.parquet", "a.parquet"), parquet.Config()))
    assert [row.position for row in found] == list(range(100))
    assert [row.text for row in found] == documents(100)["text"].to_pylist()
    assert [json.loads(row.meta) for row in found] == [{"n": n} for n in range(100)]
    assert found[7].url == "https://a.example/7"


def test_nan_becomes_null_and_is_noted(tmp_path):
    """JSON has no NaN and no infinity: `_mended` names the rows that had one, at any depth."""
    nan, deep = float("nan"), [{"x": [1.0]}, {"x": [float("-inf")]}, {"x": None}]
    table = pa.table({"text": ["a", "b", "c"], "score": [nan, 0.5, None], "deep": deep, "n": [1, 2, 3]})
    found = [json.loads(row.meta) for row in rows(tmp_path, packed(table))]
    assert [meta.get("_mended") for meta in found] == [["not a number"], ["not a number"], None]
    assert [meta["score"] for meta in found] == [None, 0.5, None]


def test_bytes_that_are_not_utf8_are_noted(tmp_path):
    """In `meta` they become U+FFFD, so `_mended` names the rows, at any depth; bytes that are UTF-8 lose nothing."""
    raw = pa.array([b"\xff\x00", "\ufffd mill".encode(), None, b"ok"], pa.binary())
    deep = pa.array([None, None, None, {"x": [b"\xfe"]}], pa.struct([("x", pa.list_(pa.binary()))]))
    text = pa.array([b"a", b"b", b"c", b"d"], pa.binary())
    scores = [float("nan"), 0.5, 0.5, 0.5]
    found = rows(tmp_path, packed(pa.table({"text": text, "raw": raw, "deep": deep, "score": scores})))
    lost = "bytes that are not UTF-8"
    assert [row.text for row in found] == ["a", "b", "c", "d"]
    assert [json.loads(row.meta).get("_mended") for row in found] == [[lost, "not a number"], None, None, [lost]]


def test_pieces_of_a_file_are_together_the_file(tmp_path):
    """Reading [0,a) and [a,end) gives the rows of the whole, and [p,p+1) gives one, damage included."""
    data = bytearray(packed(documents(50), row_group_size=8))
    start = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(2).column(0).data_page_offset
    data[start : start + 40] = bytes(40)
    whole = rows(tmp_path, bytes(data))
    assert "corrupt_parquet" in [row.drop for row in whole]
    for cut in range(0, 52, 3):
        assert rows(tmp_path, bytes(data), 0, cut) + rows(tmp_path, bytes(data), cut) == whole
    for row in whole:
        assert rows(tmp_path, bytes(data), row.position, row.position + 1) == [row]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.dictionary(pa.int32(), pa.string())]
)
@pytest.mark.parametrize("keep_meta", [True, False])
def test_text_may_have_any_string_type(tmp_path, kind, keep_meta):
    """Strings, bytes and dictionaries of strings are all text."""
    texts = ["ä", "b", None, "ä", ""]
    table = pa.table({"body": pa.array(texts).cast(pa.binary()).cast(kind) if kind == pa.large_binary() else
                      pa.array(texts).cast(kind), "n": range(5)})  # fmt: skip
    found = rows(tmp_path, packed(table), fields={"text": "body"}, keep_meta=keep_meta)
    assert [row.text for row in found] == ["ä", "b", None, "ä", None]
    assert [row.drop for row in found] == [None, None, "missing_text", None, "empty_text"]
    assert (found[0].meta is None) != keep_meta


@pytest.mark.parametrize("keep_meta", [True, False])
def test_paths_step_into_structs_and_lists(tmp_path, keep_meta):
    """A dotted path finds a struct's field or a list's element, whether or not the rest of the row is read."""
    table = pa.table({"doc": [{"body": ["a", "b"], "info": {"id": 5, "url": "u"}}], "other": [1]})
    fields = {"text": "doc.body.1", "key": "doc.info.id", "url": "doc.info.url"}
    [row] = rows(tmp_path, packed(table), fields=fields, keep_meta=keep_meta)
    assert (row.text, row.key, row.url) == ("b", "5", "u")
    if keep_meta:
        assert json.loads(row.meta) == {"doc": {"body": ["a", None], "info": {"id": 5}}, "other": 1}


def test_only_needed_columns_are_read(tmp_path):
    """Without `keep_meta`, damage in a column that is not mapped does not matter."""
    data = bytearray(packed(documents(50)))
    start = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(2).dictionary_page_offset
    data[start : start + 40] = bytes(40)
    assert [row.drop for row in rows(tmp_path, bytes(data))] == ["corrupt_parquet"]
    assert [row.drop for row in rows(tmp_path, bytes(data), keep_meta=False)] == [None] * 50


def test_page_checksums_are_checked(tmp_path):
    """A flipped letter that any decoder would accept is detected if the file has checksums."""
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    for checked, reason in ((True, "corrupt_parquet"), (False, None)):
        data = packed(pa.table({"text": ["a letter"]}), write_page_checksum=checked, **options)
        assert data.count(b"a letter") == 1
        assert [row.drop for row in rows(tmp_path, data.replace(b"a letter", b"b letter"))] == [reason]


def test_one_leaf_of_a_struct_is_selected():
    """A path into a struct selects that leaf; into a list, the whole list; a wrong path, nothing."""
    info = pa.struct({"id": pa.int64(), "tags": pa.list_(pa.string())})
    schema = pa.schema({"a.b": pa.string(), "doc": pa.struct({"info": info, "body": pa.string()})})
    wanted = {"a.b": "a.b", "doc.info.id": "doc.info.id", "doc.info.tags.0": "doc.info.tags", "doc": "doc"}
    assert {path: selected(schema, path) for path in wanted} == wanted
    assert [selected(schema, path) for path in ("a", "doc.url", "doc.body.0", "doc.info.tags.x")] == [None] * 4


def test_file_without_a_named_column_is_one_row(tmp_path):
    """If the file lacks a column that the recipe names, it is dropped, and the detail lists its columns."""
    data = packed(documents(5))
    for fields in ({"text": "content"}, {"title": "headline"}, {"url": "url.host"}):
        [row] = rows(tmp_path, data, fields=fields)
        assert row.drop == "missing_column"
        assert next(iter(fields.values())) in row.detail
        assert names_there(row.detail) == ["text", "url", "n"]
    assert [row.drop for row in rows(tmp_path, data)] == [None] * 5


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty_file"),
        (packed(documents(0)), "empty_file"),
        (b"PAR1", "corrupt_parquet"),
        (packed(documents(9))[:-20], "corrupt_parquet"),
        (b'{"text": "a"}\n' * 9, "not_parquet"),
        (bytes(1000), "not_parquet"),
    ],
)
def test_file_that_cannot_be_read_is_one_row(tmp_path, data, reason):
    """An empty, cut or foreign file is one row with the reason."""
    assert [row.drop for row in rows(tmp_path, data)] == [reason]
    assert rows(tmp_path, data, 1) == []


def test_text_that_is_not_utf8_only_costs_its_row(tmp_path):
    """Parquet does not check strings, so we do: the rows around a bad one are kept."""
    bad = pa.array([b"a", b"\xff\xfe", b"c"])
    for column in (pa.Array.from_buffers(pa.string(), 3, bad.buffers()), bad):
        found = rows(tmp_path, packed(pa.table({"text": column})))
        assert [(row.text, row.drop) for row in found] == [("a", None), (None, "invalid_utf8"), ("c", None)]
    nested = pa.table({"text": ["a", "b", "c"], "m": pa.Array.from_buffers(pa.string(), 3, bad.buffers())})
    assert [row.drop for row in rows(tmp_path, packed(nested))] == [None, "invalid_utf8", None]


def test_record_over_the_limit_is_a_row(tmp_path):
    """The limit counts bytes of UTF-8, not characters."""
    found = rows(tmp_path, packed(pa.table({"text": ["é" * 50, "é" * 51]})), max_record_bytes=100)
    assert [row.drop for row in found] == [None, "record_too_large"]


def test_a_date_after_the_year_9999_keeps_its_document(tmp_path):
    """Python has no such date; databases write it for `never`. It is kept in `meta`, as in JSON lines."""
    never = pa.array([2_932_897, 0], pa.date32())
    later = pa.array([0, 253_402_300_800_000_000], pa.timestamp("us", "UTC"))
    found = rows(tmp_path, packed(pa.table({"text": ["a", "b"], "timestamp": never, "until": later})))
    assert [(row.text, row.drop, row.timestamp_us is None) for row in found] == [("a", None, True), ("b", None, False)]
    assert json.loads(found[0].meta)["timestamp"] == "10000-01-01"
    assert json.loads(found[1].meta)["until"].startswith("10000-01-01 00:00:00")


def test_the_first_of_two_columns_of_one_name_is_meant(tmp_path):
    """The other one is kept under its number, as in CSV files."""
    table = pa.table([pa.array(["first"]), pa.array(["second"])], names=["text", "text"])
    [row] = rows(tmp_path, packed(table))
    assert (row.text, json.loads(row.meta)) == ("first", {"text_2": "second"})


def test_wrong_type_of_text_is_named(tmp_path):
    """A text column of numbers gives rows that say so."""
    [row] = rows(tmp_path, packed(pa.table({"text": [3]})))
    assert (row.drop, row.detail) == ("bad_field_type", "text is a number, not a string")


def test_times_do_not_depend_on_installed_libraries(tmp_path):
    """Nanoseconds, zones, durations, decimals and bytes have one spelling in `meta`; a timestamp is a timestamp."""
    nanoseconds = pa.array([1_368_856_440_123_456_789], pa.timestamp("ns", "Europe/Berlin"))
    table = pa.table(
        {
            "text": ["a"],
            "timestamp": nanoseconds,
            "nested": [{"t": datetime.datetime(2013, 5, 18), "d": datetime.date(2013, 5, 18)}],
            "many": pa.array([[1, 2]], pa.list_(pa.duration("ns"))),
            "decimal": pa.array([123], pa.int64()).cast(pa.decimal128(30, 2)),
            "bytes": [b"x\xff"],
            "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
        }
    )
    [row] = rows(tmp_path, packed(table))
    assert row.timestamp_us == 1_368_856_440_123_456
    assert json.loads(row.meta) == {
        "nested": {"t": "2013-05-18T00:00:00", "d": "2013-05-18"},
        "many": ["0:00:00", "0:00:00"],
        "decimal": "123.00",
        "bytes": "x\ufffd",
        "_mended": ["bytes that are not UTF-8"],
        "map": [["k", 1]],
    }


def test_broken_connection_is_not_damage(tmp_path, monkeypatch):
    """An error of the file system is raised, so that the engine can retry; it never becomes a row of the output."""

    class Flaky(io.BytesIO):
        def read(self, size=-1):
            if self.tell() > 4:
                raise ConnectionResetError("gone")
            return super().read(size)

    monkeypatch.setattr(Piece, "open", lambda piece: Flaky(packed(documents(50))))
    with pytest.raises(ConnectionResetError):
        list(parquet.read(Piece("x", "x"), parquet.Config()))


def fuzz(tmp_path, seeds):
    table = documents(200)

    @cache
    def written(codec, with_dictionary, with_checksum):
        data = packed(
            table,
            row_group_size=25,
            compression=codec,
            use_dictionary=with_dictionary,
            write_page_checksum=with_checksum,
        )
        return data, rows(tmp_path, data)

    for seed in seeds:
        rng = random.Random(seed)
        codec = rng.choice(["zstd", "snappy", "gzip", "none"])
        data, expected = written(codec, rng.random() < 0.5, rng.random() < 0.3)
        meta = pq.ParquetFile(io.BytesIO(data)).metadata
        spans = []
        for group in map(meta.row_group, range(meta.num_row_groups)):
            chunks = [group.column(index) for index in range(3)]
            begin = min(chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks)
            spans.append((begin, begin + sum(chunk.total_compressed_size for chunk in chunks)))
        hit = bytearray(data)
        if seed % 4 == 0:
            hit[rng.randrange(len(data) - 2000, len(data))] ^= 1 << rng.randrange(8)
            kept = set()
        else:
            which = rng.randrange(len(spans))
            at = rng.randrange(*spans[which])
            for index in range(at, min(at + rng.randrange(1, 60), spans[which][1])):
                hit[index] = rng.randrange(256)
            kept = set(range(200)) - set(range(which * 25, which * 25 + 25))
        found = {row.position: row for row in rows(tmp_path, bytes(hit))}
        assert all(found[position] == expected[position] for position in kept), seed
        assert list(found) == sorted(found), seed
        for row in found.values():
            (row.text or "").encode()


@pytest.mark.slow
def test_a_damaged_row_group_is_lost_alone(tmp_path):
    """For any damage to the bytes of one row group, the rows of all others are kept, and nothing raises."""
    fuzz(tmp_path, range(120))


@pytest.mark.slow
def test_many_damaged_row_groups_are_lost_alone(tmp_path):
    """The same for many more files."""
    fuzz(tmp_path, range(120, 320))

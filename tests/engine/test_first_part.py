"""A source whose first part loses everything at reading stops the run, and the message names the fix."""

import gzip
import io
import json
import tarfile
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.errors import UserError

BYTES = r"The first bytes of a\.\S+ suggest"
ROWS = [{"id": n, "text": f"the mill number {n}", "data": {"lang": "en"}} for n in range(60)]


@pytest.fixture
def read(project):
    """Write a recipe that reads files with these settings, and run it."""

    def run(read, files=(), **more):
        for name, content in dict(files).items():
            (project.folder / name).write_bytes(content)
        project.recipe.write_text(
            "recipe: first\nstore: ./store\nsources:\n"
            "  other: {kind: text, read: {format: jsonl, paths: ['in/*.jsonl']}}\n"
            f"  notes: {{kind: text, read: {{{read}}}}}\nsteps: [stagebox.length]\n"
        )
        return project.run(**more)

    return run


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def record(kind, status="200 OK", url="http://a.example/"):
    block = f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\n\r\n<p>the mill".encode()
    head = f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nContent-Length: {len(block)}\r\n\r\n"
    return gzip.compress(head.encode() + block + b"\r\n\r\n")


def table():
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(ROWS), sink)
    return sink.getvalue().to_pybytes()


def archives():
    """A tar and a zip archive of one file of records."""
    tar, packed = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        member = tarfile.TarInfo("in.jsonl")
        member.size = len(lines(ROWS))
        archive.addfile(member, io.BytesIO(lines(ROWS)))
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("in.jsonl", lines(ROWS))
    return tar.getvalue(), packed.getvalue()


ARCHIVE, PARQUET = record("response"), table()
CHATS = lines([{"msg": [{"content": f"the mill number {n}"}]} for n in range(9)])
NESTED = lines([{"data": {"a": "en", "body": f"the mill number {n}", "n": 1}} for n in range(9)])
ROWS_OF_LINES = b'1,"a mill,\nof stone, and\nwater"\n'
BELOW = r"text is an object.*\[" r'"data\.a", "data\.body"' r"\].*did you mean `fields: \{text: data\.body\}`"
TAR, ZIP = archives()
UNPACK = r".*Unpack it and name the files\."
ICONV = r"by its first bytes.*`iconv -f utf-16 -t utf-8 OLD > NEW`.*Convert the files, and read those\."
STEPPED = r"`fields: \{text: msg\.0\.content\}`"


@pytest.mark.parametrize("workers", [None, 2])
def test_a_field_that_no_record_has_stops_the_run(read, project, workers):
    """The message has the source, line, reason, the wanted field, the existing ones, and the nearest; a broken line
    among them changes nothing; and the next run, which reads nothing again, stops as well.
    """
    wanted = (
        r"recipe\.yaml:5: sources\.notes: no record of its first part.*61 records.*: missing_text"
        r'.* a\.jsonl#0: nothing under content or html; there are \["id", "text", "data\.lang"\]\. '
        r".*did you mean `fields: \{text: text\}`"
    )
    for _ in range(2):
        with pytest.raises(UserError, match=wanted):
            read(
                "format: jsonl, paths: [a.jsonl], fields: {text: content}",
                {"a.jsonl": lines(ROWS) + b"{broken\n"},
                workers=workers,
            )


@pytest.mark.parametrize(
    ("setting", "name", "content", "wanted"),
    [
        ("format: jsonl, fields: {text: txt}", "a.jsonl", lines(ROWS), r"did you mean `fields: \{text: text\}`"),
        ("format: jsonl", "a.jsonl", json.dumps(ROWS).encode(), f"{BYTES} `format: json`"),
        ("format: jsonl", "a.jsonl", json.dumps(ROWS, indent=1).encode(), f"{BYTES} `format: json`"),
        ("format: jsonl", "a.jsonl", gzip.compress(json.dumps(ROWS, indent=1).encode()), f"{BYTES} `format: json`"),
        ("format: jsonl", "a.jsonl.gz", ARCHIVE, f"not_jsonl.*{BYTES} `format: warc`"),
        ("format: jsonl", "a.jsonl", PARQUET, f"not_jsonl.*{BYTES} `format: parquet`"),
        ("format: csv", "a.csv.gz", ARCHIVE, f"not_csv.*{BYTES} `format: warc`"),
        ("format: csv", "a.csv", PARQUET, f"not_csv.*{BYTES} `format: parquet`"),
        ("format: csv", "a.jsonl", json.dumps(ROWS).encode(), f"{BYTES} `format: json`"),
        ("format: csv", "a.csv", lines(ROWS), f"{BYTES} `format: jsonl`"),
        ("format: parquet", "a.parquet", ARCHIVE, f"{BYTES} `format: warc`"),
        ("format: jsonl", "a.wet", b"a mill\n" * 40, r"The name of a\.wet suggests `format: wet`"),
        ("format: csv, fields: {text: body}", "a.csv", b"id,text\n1,a\n", r'missing_column.*\["id", "text"\]'),
        ("format: json, fields: {text: body}", "a.json", json.dumps(ROWS).encode(), "missing_text"),
        ("format: text, suffixes: ['.txt']", "a.txt", b"\0\1\2" * 9, "binary_file.*exclude"),
        ("format: csv", "a.csv", b"id,text\n" + b"1,the m\xfchle\n" * 9, "invalid_utf8.*`iconv -f latin1 -t utf8"),
        ("format: jsonl", "a.jsonl", b'{"text": "the m\xfchle"}\n' * 9, "invalid_utf8.*`iconv -f latin1 -t utf8"),
        ("format: jsonl", "a.jsonl", lines(ROWS).decode().encode("utf-16"), f"not_jsonl.*is UTF-16 {ICONV}"),
        ("format: jsonl", "a.jsonl", lines(ROWS).decode().encode("utf-16-be"), "is UTF-16BE .*`iconv -f utf-16be"),
        ("format: csv", "a.csv", ("id,text\n" + "1,a\n" * 40).encode("utf-16"), f"not_csv.*is UTF-16 {ICONV}"),
        ("format: json", "a.json", json.dumps(ROWS).encode("utf-16"), f"not_json.*is UTF-16 {ICONV}"),
        ("format: jsonl", "a.jsonl", TAR, f"not_jsonl.*is a tar archive{UNPACK}"),
        ("format: jsonl", "a.jsonl.gz", gzip.compress(TAR), f"is a tar archive{UNPACK}"),
        ("format: jsonl", "a.jsonl", ZIP, f"is a zip archive{UNPACK}"),
        ("format: json", "a.json", TAR, f"not_json.*is a tar archive{UNPACK}"),
        ("format: csv", "a.csv", ZIP, f"not_csv.*is a zip archive{UNPACK}"),
        ("format: parquet", "a.parquet", gzip.compress(TAR), f"not_parquet.*is a tar archive{UNPACK}"),
        ("format: parquet", "a.parquet", gzip.compress(PARQUET), f"is compressed Parquet.*`gunzip`{UNPACK}"),
        ("format: jsonl", "a.jsonl", gzip.compress(PARQUET), f"is compressed Parquet.*`gunzip`{UNPACK}"),
        (
            "format: jsonl, fields: {text: data}",
            "a.jsonl",
            NESTED,
            BELOW,
        ),
        ("format: jsonl, fields: {text: msg}", "a.jsonl", CHATS, rf"text is a list.*did you mean {STEPPED}"),
        ("format: jsonl, fields: {text: msg.content}", "a.jsonl", CHATS, f"msg is a list.*{STEPPED}"),
        ("format: jsonl", "a.jsonl", b"", "found no record there: empty_file, so.*0 bytes"),
        ("format: warc", "a.jsonl", lines(ROWS), "not_an_archive.*`format: jsonl`"),
    ],
)
def test_other_mistakes_stop_it_too(read, setting, name, content, wanted):
    """For every reader; the message has the detail of the first row."""
    with pytest.raises(UserError, match=rf"sources\.notes: no record of its first part.*{wanted}"):
        read(f"{setting}, paths: [{name}]", {name: content})


def test_the_suggested_field_of_a_list_works(read):
    """A number indexes it."""
    run = read("format: jsonl, paths: [a.jsonl], fields: {text: msg.0.content}", {"a.jsonl": CHATS})
    assert run.states["notes/ingest"].metrics["dropped"] == {}


def test_a_missing_column_of_a_table_is_reported_at_once(read, project):
    """No row of a Parquet file is read: the schema is enough."""
    pq.write_table(pa.Table.from_pylist(ROWS), project.folder / "a.parquet")
    with pytest.raises(
        UserError, match=r'no record there: missing_column.*nothing under body.*\["id", "text", "data\.lang"\]'
    ):
        read("format: parquet, paths: [a.parquet], fields: {text: body}")


def test_an_archive_without_pages_stops_the_run(read):
    """Requests and metadata are not pages; if there are responses, only their reason counts."""
    beside = record("warcinfo") + record("request") * 9
    with pytest.raises(UserError, match="dropped all of them: request_record or warcinfo_record"):
        read("format: warc, paths: [a.warc.gz]", {"a.warc.gz": beside})
    with pytest.raises(UserError, match="dropped all of them: http_status"):
        read("format: warc, paths: [a.warc.gz]", {"a.warc.gz": beside + record("response", "404 Not Found")})
    read("format: warc, paths: [a.warc.gz]", {"a.warc.gz": beside + record("response")})


def test_records_that_later_steps_use_are_not_lost(read):
    """An archive of robots.txt files is a source like any other."""
    robots = record("response", url="http://a.example/robots.txt")
    run = read("format: warc, paths: [a.warc.gz]", {"a.warc.gz": record("warcinfo") + robots * 5})
    assert run.states["notes/ingest"].metrics["dropped"]["robots_txt"] == 5


def test_several_reasons_or_a_record_that_is_left_do_not_stop_it(read):
    """Bad records never stop a run."""
    bad = lines([{"no": 1}] * 5) + b"{broken\n" * 5
    read("format: jsonl, paths: [a.jsonl]", {"a.jsonl": bad})
    read("format: jsonl, paths: [a.jsonl]", {"a.jsonl": lines([{"no": 1}] * 50 + ROWS[:1])})


def test_only_the_first_part_decides(read):
    """A later file of another kind only loses its own rows; the first one stops the run, and can be excluded."""
    files = {"a.jsonl": lines(ROWS), "b.jsonl": lines([{"no": 1}] * 20)}
    run = read("format: jsonl, paths: ['?.jsonl'], part_bytes: 100B", files)
    assert run.states["notes/ingest"].metrics["dropped"] == {"missing_text": 20}
    files = {"a.jsonl": files["b.jsonl"], "b.jsonl": files["a.jsonl"]}
    with pytest.raises(UserError, match=r"a\.jsonl#0"):
        read("format: jsonl, paths: ['?.jsonl'], part_bytes: 100B", files)
    read("format: jsonl, paths: ['?.jsonl'], exclude: [a.jsonl]")

"""Only the records that a CDX index names are read, by byte ranges: the documents of the whole archive, filtered."""

import gzip
import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.stages.ingest.archives import http, packed, page, record

from gristmill import ranges
from gristmill.engine.files import cdx
from gristmill.errors import UserError
from gristmill.query.lineage import origin
from gristmill.store.parquet import PartReader

HOSTS = ("a.example", "www.a.example", "b.example", "nota.example")


def archive(seed, kind="gzip", count=60):
    """The bytes of an archive, and an entry of the index for each of its pages."""
    draw = random.Random(seed)
    data, entries = packed(kind, record(b"software: test\r\n", kind="warcinfo")), []
    for number in range(count):
        host, language = draw.choice(HOSTS), draw.choice(["eng", "deu,eng", "fra", None])
        url = f"http://{host}/{seed}/{number}"
        one = page(number + 1000 * seed).replace(f"http://a.example/{number + 1000 * seed}".encode(), url.encode())
        if number % 7 == 0:
            one = record(http(b"gone", status="404 Not Found"), url=url)
        frame = packed(kind, one)
        entry = {"url": url, "mime": "text/html", "status": "404" if number % 7 == 0 else "200"}
        entry |= {"mime-detected": "text/html"} | ({"languages": language} if language else {})
        entries.append({**entry, "offset": str(len(data)), "length": str(len(frame))})
        data += frame
    return data, entries


def cdxj(entries):
    lines = (f"example,{number})/ 20240101000000 {json.dumps(one)}\n" for number, one in enumerate(entries))
    return "".join(lines).encode()


def legacy(entries):
    keys = ("mime", "status", "length", "offset", "filename")
    rows = (" ".join(["key", "20240101", one["url"], *(one[key] for key in keys)]) for one in entries)
    return "\n".join([" CDX N b a m s S V g", *rows, ""]).encode()


def parquet(entries):
    table = {
        "url_host_name": [one["url"].split("/")[2] for one in entries],
        "content_mime_detected": [one["mime"] for one in entries],
        "fetch_status": pa.array([int(one["status"]) for one in entries], pa.int16()),
        "content_languages": [one.get("languages") for one in entries],
        "warc_filename": [one["filename"] for one in entries],
        "warc_record_offset": pa.array([int(one["offset"]) for one in entries], pa.int32()),
        "warc_record_length": pa.array([int(one["length"]) for one in entries], pa.int32()),
        "url_path": [one["url"] for one in entries],
    }
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(table), sink)
    return sink.getvalue().to_pybytes()


INDEXES = {
    "x.cdxj": cdxj,
    "x.cdxj.gz": lambda entries: gzip.compress(cdxj(entries)),
    "x.cdx": legacy,
    "api.json": lambda entries: b"".join(json.dumps(one).encode() + b"\n" for one in entries),
    "x.parquet": parquet,
}


def write(project, kind="gzip", files=3):
    entries = []
    for number in range(files):
        name = f"seg/{number}/x.warc" + (".gz" if kind == "gzip" else "")
        data, found = archive(number, kind)
        path = project.folder / "crawl" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        entries += [{**one, "filename": name} for one in found]
    return entries


def recipe(project, index="", paths="crawl", part_bytes="64KB"):
    project.recipe.write_text(
        f"recipe: cdx\nstore: ./store\nsteps: [extract]\nsources:\n  x: {{kind: web, read: {{format: warc, "
        f"paths: ['{paths}'], part_bytes: {part_bytes}{index}}}}}\n"
    )


def rows(project, run, *columns):
    found = []
    for document in run.documents["x"]:
        reader = PartReader(project.mill().store, document.part)
        for group in range(len(reader.groups)):
            table = reader.read_group(group, columns)
            found += zip(*(table.column(name).to_pylist() for name in columns), strict=True)
    return found


COLUMNS = ("doc_id", "locator", "url", "html", "drop", "meta")


@pytest.mark.parametrize("kind", ["gzip", "plain"])
@pytest.mark.parametrize("name", INDEXES)
def test_the_documents_are_those_of_the_whole_archives_that_pass_the_filter(project, kind, name):
    """With the same ids, locators and rows; tasks are cut without regard to what a worker reads."""
    entries = write(project, kind)
    (project.folder / name).write_bytes(INDEXES[name](entries))
    recipe(project)
    whole = {row[:2]: row for row in rows(project, project.run(), *COLUMNS)}
    languages = "" if name == "x.cdx" else ", languages: [eng]"
    recipe(project, f", index: {{files: [{name}], hosts: [A.example], statuses: [200]{languages}}}", part_bytes="4KB")
    run = project.run()
    found = rows(project, run, *COLUMNS)
    wanted = {
        f"{one['filename']}#{one['offset']}"
        for one in entries
        if one["status"] == "200"
        and one["url"].split("/")[2] in ("a.example", "www.a.example")
        and (not languages or "eng" in one.get("languages", ""))
    }
    assert {locator for _, locator, *_ in found} == wanted
    assert len(wanted) > 20
    assert [whole[row[:2]] for row in found] == found
    assert len(run.inputs["x"].groups) > 3
    document = run.documents["x"][0]
    first = PartReader(project.mill().store, document.part).read_group(0, ["doc_id", "locator"]).to_pylist()[0]
    assert f"{origin.origin_of(run, document, first, None).file}#" in first["locator"]


def test_a_second_run_reads_neither_the_index_nor_an_archive(project, monkeypatch):
    (project.folder / "x.cdxj").write_bytes(cdxj(write(project)))
    recipe(project, ", index: {files: [x.cdxj], statuses: [200]}")
    before = project.parts(project.run())
    monkeypatch.setattr(cdx, "_read", None)
    run = project.run()
    assert project.parts(run) == before
    assert not project.executed(run)


def test_other_ranges_of_an_unchanged_archive_are_other_work(project):
    entries = write(project, files=1)
    recipe(project, ", index: {files: [x.cdxj]}")
    for taken in (entries[:3], entries[3:9]):
        (project.folder / "x.cdxj").write_bytes(cdxj(taken))
        found = [locator for (locator,) in rows(project, project.run(), "locator")]
        assert found == [f"{one['filename']}#{one['offset']}" for one in taken]


def test_a_missing_file_and_a_range_without_a_record_are_rows_with_reasons(project):
    entries = write(project, files=1)
    good, cut, middle, far = (dict(entries[number]) for number in (3, 10, 20, 5))
    cut["length"] = str(int(cut["length"]) - 9)
    middle["offset"] = str(int(middle["offset"]) + 5)
    far["offset"] = str(10**12)
    lost = [{**good, "filename": name} for name in ("seg/none.warc.gz", "../out.warc.gz", "/etc/passwd")]
    lines = cdxj([good, good, cut, middle, far, *lost]) + b"com,x)/ 2024 {broken\n"
    (project.folder / "x.cdxj").write_bytes(lines)
    recipe(project, ", index: {files: [x.cdxj]}")
    run = project.run()
    name = good["filename"]
    assert dict(rows(project, run, "locator", "drop")) == {
        f"{name}#{good['offset']}": None,
        f"{name}#{cut['offset']}": "truncated_gzip",
        f"{name}#{middle['offset']}": "no_record",
        f"{name}#{far['offset']}": "no_record",
        "seg/none.warc.gz#0": "missing_file",
        "../out.warc.gz#0": "unsafe_name",
        "/etc/passwd#0": "unsafe_name",
    }
    assert run.inputs["x"].unread["lines of the index that are not records"].files == 1


def test_links_out_of_the_folder_are_rows_with_a_reason(project):
    """A link to a file, and one to a folder; a link that stays in the folder is read."""
    entries = write(project, files=1)
    crawl, name = project.folder / "crawl", entries[3]["filename"]
    outside = project.folder / "outside"
    outside.mkdir()
    (crawl / name).rename(outside / "x.warc.gz")
    (crawl / "inside.warc.gz").write_bytes((outside / "x.warc.gz").read_bytes())
    (crawl / "file.warc.gz").symlink_to(outside / "x.warc.gz")
    (crawl / "folder").symlink_to(outside)
    (crawl / "stays.warc.gz").symlink_to(crawl / "inside.warc.gz")
    named = ["file.warc.gz", "folder/x.warc.gz", "stays.warc.gz"]
    (project.folder / "x.cdxj").write_bytes(cdxj([{**entries[3], "filename": one} for one in named]))
    recipe(project, ", index: {files: [x.cdxj]}")
    found = dict(rows(project, project.run(), "locator", "drop"))
    assert found == {
        "file.warc.gz#0": "missing_file",
        "folder/x.warc.gz#0": "missing_file",
        f"stays.warc.gz#{entries[3]['offset']}": None,
    }


@pytest.mark.parametrize(
    ("index", "paths", "message"),
    [
        ("{files: [none.cdxj]}", "crawl", "matches no file"),
        ("{files: [x.cdxj], hosts: [other.example]}", "crawl", "no record that passes the filter"),
        ("{files: [x.cdxj]}", "crawl/seg", "none of the 1 file that its index names is below"),
        ("{files: [words.txt]}", "crawl", "is not a CDX index"),
        ("{files: [x.cdx], languages: [eng]}", "crawl", "has no field languages"),
        ("{files: [bad.parquet]}", "crawl", "has no column warc_filename"),
        ("{files: [x.cdxj]}", "crawl/*.gz", "must be one folder"),
    ],
)
def test_a_wrong_index_is_one_message_before_any_work(project, index, paths, message):
    entries = write(project, files=1)
    (project.folder / "x.cdxj").write_bytes(cdxj(entries))
    (project.folder / "x.cdx").write_bytes(legacy(entries))
    (project.folder / "words.txt").write_text("no index\nat all\n")
    pq.write_table(pa.table({"text": ["x"]}), project.folder / "bad.parquet")
    recipe(project, f", index: {index}", paths)
    with pytest.raises(UserError, match=message):
        project.run()


def test_an_object_store_gets_few_requests_for_ranges(project, s3_server, use_s3, monkeypatch):
    """Nearby records are fetched together, and no more than the gaps between them is fetched for nothing."""
    entries = write(project, files=1)
    bucket = use_s3(s3_server.address)
    name = entries[0]["filename"]
    data = (project.folder / "crawl" / name).read_bytes()
    from gristmill.places import system_of

    system, base = system_of(bucket)
    system.pipe_file(f"{base}/crawl/{name}", data)
    taken = [*entries[2:12:2], entries[50]]
    (project.folder / "x.cdxj").write_bytes(cdxj(taken))
    recipe(project, ", index: {files: [x.cdxj]}")
    expected = rows(project, project.run(), *COLUMNS)
    monkeypatch.setattr(ranges, "GAP_BYTES", 2000)
    recipe(project, ", index: {files: [x.cdxj]}", f"{bucket}/crawl")
    s3_server.requests.clear()
    assert rows(project, project.run(), *COLUMNS) == expected
    gets = [one for one in s3_server.requests if one[0] == "GET" and name in one[1]]
    assert len(gets) == 2 * 3  # two spans: for the preview, the hash and the reading

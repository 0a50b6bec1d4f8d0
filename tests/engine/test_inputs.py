"""Law 8: a task reads the bytes that were hashed, even if the files change meanwhile."""

import gzip
import json
import os

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill import checked
from gristmill.engine.plan import inputs
from gristmill.errors import UserError
from gristmill.store.parquet import PartReader

BLOCK = 1 << 14


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(checked, "BLOCK_BYTES", BLOCK)


def recipe(project, format_name, pattern, more=""):
    project.recipe.write_text(
        "recipe: inputs\nstore: ./store\nsteps: []\nsources:\n"
        f"  x: {{kind: text, read: {{format: {format_name}, paths: ['{pattern}'], part_bytes: 64KB{more}}}}}\n"
    )


def rewrite(path, data):
    """Other content of the same size, with the same times."""
    before = path.stat()
    assert len(data) == before.st_size
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def meanwhile(monkeypatch, act):
    """Do something after the inputs were hashed and before they are read."""
    real = inputs.find_inputs

    async def then_act(*arguments):
        found = await real(*arguments)
        act()
        return found

    monkeypatch.setattr("gristmill.engine.schedule.find_sources.find_inputs", then_act)


def texts(project, run):
    found = []
    for document in run.documents["x"]:
        reader = PartReader(project.mill().store, document.part)
        for group in range(len(reader.groups)):
            found += reader.read_group(group, ["text"]).column("text").to_pylist()
    return found


def jsonl(word, rows=2000):
    return b"".join(json.dumps({"text": f"{word} {n:06}"}).encode() + b"\n" for n in range(rows))


def parquet(word):
    sink = pa.BufferOutputStream()
    table = pa.table({"text": [f"{word} {n:06}" for n in range(2000)]})
    pq.write_table(table, sink, compression="none", use_dictionary=False)
    return sink.getvalue().to_pybytes()


def warc(word):
    records = []
    for number in range(300):
        body = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n{word} {number:06} {'x' * 300}".encode()
        head = (
            f"WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: https://example.org/{number}\r\n"
            f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        records.append(head.encode() + body + b"\r\n\r\n")
    return b"".join(records)


CASES = {
    "jsonl": ("in.jsonl", jsonl),
    "parquet": ("in.parquet", parquet),
    "warc": ("in.warc", warc),
    "text": ("in.txt", lambda word: f"{word} stands alone".encode()),
    "code": ("in.py", lambda word: f"# {word}\n".encode()),
}


@pytest.mark.parametrize("format_name", CASES)
def test_another_content_of_the_same_size_and_times_is_refused(project, monkeypatch, format_name):
    """No reader reads what was not hashed, and nothing is stored; the next run reads the new content."""
    name, make = CASES[format_name]
    path = project.folder / name
    path.write_bytes(make("mill"))
    recipe(project, format_name, name)
    meanwhile(monkeypatch, lambda: rewrite(path, make("dams")))
    with pytest.raises(UserError, match=rf"{name} changed since it was hashed.*None of it was stored.*run again"):
        project.run()
    assert not list(project.store.glob("tasks/*"))
    monkeypatch.undo()
    assert all("dams" in text for text in texts(project, project.run()) if text)


def test_a_stretch_in_the_middle_is_compared_too(project, monkeypatch):
    """A large file is read by many tasks; the one that reads the change fails."""
    path = project.folder / "in.jsonl"
    data = jsonl("mill", 20_000)
    path.write_bytes(data)
    recipe(project, "jsonl", "in.jsonl")
    at = data.index(b"mill 015000")
    meanwhile(monkeypatch, lambda: rewrite(path, data[:at] + b"dams" + data[at + 4 :]))
    with pytest.raises(UserError, match="changed since it was hashed"):
        project.run()
    stored = [json.loads(task.read_text()) for task in project.store.glob("tasks/*")]
    assert all(not start <= at < (stop or at + 1) for task in stored for _, _, start, stop in task["inputs"]["pieces"])


def test_a_companion_file_is_compared_too(project, monkeypatch):
    """A license that changes after it was hashed would be stored under the key of the old one."""
    tree = project.folder / "tree"
    tree.mkdir()
    (tree / "a.py").write_text("print(1)\n")
    (tree / "LICENSE").write_text("x" * 40)
    recipe(project, "code", "tree")
    meanwhile(monkeypatch, lambda: rewrite(tree / "LICENSE", b"SPDX-License-Identifier: MIT".ljust(40)))
    with pytest.raises(UserError, match="LICENSE changed since it was hashed"):
        project.run()


def test_an_object_that_changes_is_refused(project, monkeypatch):
    """Even if there are no file times."""
    system = fsspec.filesystem("memory")
    system.pipe_file("/inputs/in.jsonl", jsonl("mill"))
    recipe(project, "jsonl", "memory://inputs/in.jsonl")
    meanwhile(monkeypatch, lambda: system.pipe_file("/inputs/in.jsonl", jsonl("dams")))
    with pytest.raises(UserError, match=r"memory://.*in\.jsonl changed since it was hashed"):
        project.run()
    monkeypatch.undo()
    assert all("dams" in text for text in texts(project, project.run()))


def test_a_change_under_the_same_stamp_is_found_and_the_next_run_continues(project, monkeypatch):
    """The remembered hash of a file whose stamp did not change is wrong: it is forgotten when a reader notices."""
    monkeypatch.setattr("gristmill.engine.files.listing.stamp_of_path", lambda found: "always the same")
    path = project.folder / "in.jsonl"
    path.write_bytes(jsonl("mill"))
    recipe(project, "jsonl", "in.jsonl")
    project.run()
    rewrite(path, jsonl("dams"))
    recipe(project, "jsonl", "in.jsonl", ", keep_meta: false")
    with pytest.raises(UserError, match="changed since it was hashed"):
        project.run()
    assert all("dams" in text for text in texts(project, project.run()))


def test_an_unchanged_file_is_not_hashed_again(project, monkeypatch):
    """The digests of blocks are remembered, too."""
    (project.folder / "in.jsonl").write_bytes(jsonl("mill"))
    recipe(project, "jsonl", "in.jsonl")
    project.run()
    monkeypatch.setattr("gristmill.engine.work.perform.content_of", lambda *_: pytest.fail("hashed again"))
    recipe(project, "jsonl", "in.jsonl", ", keep_meta: false")
    assert project.executed(project.run())["x/ingest"] > 0


@pytest.mark.parametrize("damage", ["[]", "{", '{"a": 1}', "text"])
def test_a_damaged_cache_of_file_hashes_costs_a_hash(project, damage):
    """It only saves work."""
    (project.folder / "in.jsonl").write_bytes(jsonl("mill"))
    recipe(project, "jsonl", "in.jsonl")
    first = project.parts(project.run())
    (project.store / "inputs" / "inputs.json").write_text(damage)
    again = project.run()
    assert project.parts(again) == first
    assert project.executed(again) == {}


def test_a_file_that_is_gone_before_it_is_hashed_is_one_message(project, monkeypatch):
    """One message, no traceback."""
    path = project.folder / "in.jsonl"
    path.write_bytes(jsonl("mill"))
    recipe(project, "jsonl", "in.jsonl")
    real = inputs.list_files

    def then_remove(*arguments):
        found = real(*arguments)
        path.unlink()
        return found

    monkeypatch.setattr(inputs, "list_files", then_remove)
    with pytest.raises(UserError, match=r"in\.jsonl existed when the run began and is gone now"):
        project.run()


def test_gzip_that_changes_is_refused(project, monkeypatch):
    """The readers of compressed streams catch many errors, but not this one."""
    path = project.folder / "in.warc.gz"
    data = b"".join(gzip.compress(record + b"\r\n\r\n", mtime=0) for record in warc("mill").split(b"\r\n\r\n\r\n\r\n"))
    path.write_bytes(data)
    recipe(project, "warc", "in.warc.gz")
    middle = len(data) // 2
    meanwhile(monkeypatch, lambda: rewrite(path, data[:middle] + bytes(64) + data[middle + 64 :]))
    with pytest.raises(UserError, match="changed since it was hashed"):
        project.run()

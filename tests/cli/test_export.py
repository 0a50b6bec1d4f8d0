"""`gristmill export`: others read what is kept, any number of workers writes the same bytes, a folder that is there is
whole.
"""

import hashlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.export_readers import read

import gristmill
from gristmill.query.export import export as exporting
from gristmill.query.export.dataset_card import Exported, card

READERS = os.environ.get("EXPORT_READERS")
"""A Python that has the libraries that we do not need: make test-export."""
COLUMNS = ["doc_id", "text", "source", "signals.words", "title"]


@pytest.fixture(scope="module")
def exported(everything, tmp_path_factory):
    """In both formats, in several files and in one."""
    folder = tmp_path_factory.mktemp("exported")
    corpus = gristmill.open(everything.project.recipe)
    corpus.export(folder / "parquet", "parquet", COLUMNS, 4000)
    corpus.export(folder / "jsonl.zst", "jsonl.zst", COLUMNS, 4000)
    corpus.export(folder / "one", "parquet", COLUMNS)
    return folder


@pytest.fixture(scope="module")
def expected(everything):
    return list(gristmill.open(everything.project.recipe).documents(columns=COLUMNS).rows())


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


@pytest.mark.parametrize("form", ["parquet", "jsonl.zst"])
@pytest.mark.parametrize("reader", ["pyarrow", "duckdb", "pandas", "polars", "datasets"])
def test_others_read_what_is_kept(exported, expected, reader, form):
    """The same rows and values in the same order, in several files."""
    if reader == "pyarrow" and form != "parquet":
        pytest.skip("it reads no compressed lines")
    folder = exported / form
    assert len(list((folder / "data").iterdir())) > 2
    assert found_by(reader, folder) == expected


def test_croissant_is_valid_and_read(exported, expected):
    """By the library of those who made it."""
    assert found_by("mlcroissant", exported / "one") == expected
    found_by("mlcroissant", exported / "parquet")  # of several files it checks the metadata, and finds none to read


def found_by(reader, folder):
    if READERS is None:
        if importlib.util.find_spec(reader) is None:
            pytest.skip(f"{reader} is not installed: make test-export")
        return read(reader, folder)
    script = Path(__file__).with_name("export_readers.py")
    ended = subprocess.run([READERS, script, reader, folder], capture_output=True, text=True, cwd=folder)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.parametrize("form", exporting.FORMATS)
def test_workers_change_no_byte(everything, exported, form, tmp_path):
    """Nor does the way to the corpus: the recipe, or the store and a name."""
    run = gristmill.open(f"{everything.project.store}@v1")
    for workers in (1, 3):
        run.export(tmp_path / str(workers), form, COLUMNS, 4000, workers)
        assert contents(tmp_path / str(workers)) == contents(exported / form)


def test_files_have_their_size_and_their_hash(exported, expected):
    """Cut by the texts alone; Croissant names each file as it is."""
    made = json.loads((exported / "parquet" / "croissant.json").read_text())
    files = {one["@id"]: one["sha256"] for one in made["distribution"] if one["@type"] == "cr:FileObject"}
    assert sorted(files) == sorted(name for name in contents(exported / "parquet") if name.startswith("data/"))
    numbers = [int(name.split("-")[1]) for name in sorted(files)]
    assert numbers == list(range(len(files)))
    for name, digest in files.items():
        path = exported / "parquet" / name
        assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
        texts = pq.read_table(path)["text"].to_pylist()
        assert texts
        size = sum(len(text.encode()) + exporting.ROW_BYTES for text in texts)
        assert size <= 4000 or len(texts) == 1


@settings(max_examples=60)
@given(st.lists(st.lists(st.integers(0, 30), max_size=12), max_size=8), st.integers(1, 40))
def test_every_kept_row_is_in_one_file(parts, most):
    """Against a plain loop: rows in order, a file is full when the next would not fit."""

    class Read:
        view = None

    read_from = Read()
    read_from.parts = list(range(len(parts)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporting, "_sizes", lambda _, part: iter([np.array(parts[part], np.int64)]))
        files = list(exporting._cut(read_from, most))
    found = [[(p, at) for p, start, stop in file for at in range(start, stop) if parts[p][at]] for file in files]
    plain, held = [[]], 0
    for number, sizes in enumerate(parts):
        for at, size in enumerate(sizes):
            if size and plain[-1] and held + size > most:
                plain.append([])
                held = 0
            if size:
                plain[-1].append((number, at))
                held += size
    assert found == [file for file in plain if file]


def test_the_card_says_what_it_is(everything, exported, expected):
    """Metadata that YAML reads, and the numbers of the funnel."""
    text = (exported / "one" / "README.md").read_text()
    _, front, body = text.split("---\n", 2)
    meta = yaml.safe_load(front)
    assert meta["configs"][0]["data_files"] == [{"split": "train", "path": "data/train-*.parquet"}]
    assert meta["license"] == ["unknown"]
    assert meta["language"] == ["en"]
    assert meta["size_categories"] == ["n<1K"]
    for result in (
        f"{len(expected)} documents",
        "near_duplicate",
        "web/keep_language",
        '"keep": {"en": 0.5}',
    ):
        assert result in body
    assert str(everything.project.folder) not in text


def test_the_card_says_what_nobody_looked_for(everything, routes):
    """Personal data and benchmarks, where the recipe has no step for them."""
    counts = ({"crawl": 1}, {"crawl": 1}, {("crawl", "unknown"): 1}, {"unknown": 1})
    for run, scrubbed, is_told in ((routes.run, (), True), (everything.run, ("crawl",), False)):
        text = card(run, Exported("x", "parquet", pa.schema([]), {}, frozenset(scrubbed), *counts, {"url": 3}))
        assert ("Personal data was not removed in crawl" in text) == is_told
        assert ("changed values: url (3)" in text) != is_told
        assert ("No step searched the texts for benchmark items" in text) == is_told


def test_names_from_data_are_no_markup(everything):
    """A license or a reason may be anything."""
    hostile = "[a](javascript:x) <img src=x> `b` | c\n---\n# d"
    counts = ({"crawl": 1}, {"crawl": 1}, {("crawl", hostile): 1}, {hostile: 1})
    text = card(everything.run, Exported("x", "parquet", pa.schema([]), {}, frozenset(), *counts, {}))
    assert "<img" not in text
    assert "](javascript" not in text
    assert text.count("\n# ") == 1
    assert yaml.safe_load(text.split("---\n", 2)[1])["license"] == ["other"]


def test_a_failure_leaves_nothing_behind(everything, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(exporting, "_write_parquet", full)
    with pytest.raises(gristmill.UserError, match="No space left on device"):
        gristmill.open(everything.project.recipe).export(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_kill_leaves_nothing_that_looks_whole(everything, exported, tmp_path):
    """And the next export takes away what was left."""
    code = (
        "import os, signal, gristmill\n"
        "from gristmill.query.export import export\n"
        "export.croissant = lambda told: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"gristmill.open({f'{everything.project.store}@v1'!r}).export({str(tmp_path / 'out')!r}, columns={COLUMNS!r})\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert ended.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".out.")
    (tmp_path / "out").mkdir()  # an empty one will do
    gristmill.open(everything.project.recipe).export(tmp_path / "out", columns=COLUMNS)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert contents(tmp_path / "out") == contents(exported / "one")


def test_the_command_says_what_it_did(everything, exported, say, tmp_path):
    arguments = ("export", everything.project.recipe, "--out", tmp_path / "out", "--columns", ",".join(COLUMNS))
    said = say(*arguments)
    assert said.code == 0, said.err
    assert "in 1 file of" in said.out
    assert contents(tmp_path / "out") == contents(exported / "one")
    shutil.rmtree(tmp_path / "out")
    result = json.loads(say(*arguments, "--file-size", "4KB", "--json").out)
    assert [one["name"] for one in result["files"]] == [
        name for name in contents(exported / "parquet") if name.startswith("data/")
    ]


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        ((), "requires --out"),
        (("--out", "in"), "is not empty"),
        (("--out", "recipe.yaml"), "is a file"),
        (("--out", "no/such/folder"), "does not exist. Nothing was done. Create it first"),
        (("--out", "s3://bucket/a"), "needs a folder on this machine"),
        (("--out", "new", "--format", "csv"), "Formats: parquet, jsonl.zst"),
        (("--out", "new", "--columns", "txt"), "Did you mean text?"),
        (("--out", "new", "--columns", ","), "The list of columns is empty"),
        (("--out", "new", "--columns", "text,text"), "Columns are repeated"),
        (("--out", "new", "--file-size", "5mb"), "Did you mean 5MB?"),
        (("--out", "new", "--file-size", "5"), "too small"),
        (("--out", "new", "--workers", "0"), "--workers"),
        (("--out", "new", "--store", "{tmp_path}/empty"), "has not finished"),
    ],
)
def test_wrong_arguments_are_one_message(everything, say, monkeypatch, tmp_path, arguments, result):
    arguments = [word.format(tmp_path=tmp_path) for word in arguments]
    monkeypatch.chdir(everything.project.folder)
    said = say("export", "recipe.yaml", *arguments)
    assert said.code == 2
    assert result in said.err
    assert "Traceback" not in said.err
    assert not (everything.project.folder / "new").exists()


def test_keys_of_the_user_and_the_language_of_code_can_be_seen(project, say):
    """In `inspect`, in SQL and in an export without options."""
    (project.folder / "in" / "mine.jsonl").write_text('{"id": "mill-7", "text": "The mill grinds.", "author": "Ann"}\n')
    (project.folder / "in" / "mill.py").write_text("# grinds\nprint('the mill grinds grain')\n")
    project.recipe.write_text(
        "recipe: project\nstore: ./store\nsources:\n"
        "  notes: {kind: text, read: {format: jsonl, paths: [in/mine.jsonl], fields: {key: id}}}\n"
        "  files: {kind: code, read: {format: code, paths: [in/mill.py]}}\nsteps: []\n"
    )
    project.run()
    meta = {"id": "mill-7", "author": "Ann"}
    assert f"meta {json.dumps(meta, separators=(',', ':'))}" in say("inspect", project.recipe, "-n", "1").out
    corpus = gristmill.open(project.recipe)
    result = corpus.sql("select meta->>'id' as id, language_hint from documents order by id").to_pylist()
    assert result == [{"id": "mill-7", "language_hint": None}, {"id": None, "language_hint": "Python"}]
    corpus.export(project.folder / "out")
    (file,) = (project.folder / "out" / "data").iterdir()
    note, code = pq.read_table(file).to_pylist()
    assert (json.loads(note["meta"]), code["language_hint"]) == (meta, "Python")
    assert "language_hint" in (project.folder / "out" / "README.md").read_text()

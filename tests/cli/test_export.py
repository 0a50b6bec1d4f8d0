"""`gristmill export`: other libraries read the kept documents, the number of workers changes no byte, and an existing
export is complete.
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
"""The Python interpreter that has the optional reader libraries; `make test-export` sets it."""
COLUMNS = ["doc_id", "text", "source", "signals.words", "title"]


@pytest.fixture(scope="module")
def exported(everything, tmp_path_factory):
    """Exports in both formats, in several files and in one."""
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
def test_other_libraries_read_the_kept_documents(exported, expected, reader, form):
    """They read the same rows and values in the same order from several files."""
    if reader == "pyarrow" and form != "parquet":
        pytest.skip("it reads no compressed lines")
    folder = exported / form
    assert len(list((folder / "data").iterdir())) > 2
    assert read_with(reader, folder) == expected


def test_croissant_metadata_is_valid_and_readable(exported, expected):
    """The reference library validates and reads it."""
    assert read_with("mlcroissant", exported / "one") == expected
    read_with("mlcroissant", exported / "parquet")  # for several files it only checks the metadata


def read_with(reader, folder):
    if READERS is None:
        if importlib.util.find_spec(reader) is None:
            pytest.skip(f"{reader} is not installed: make test-export")
        return read(reader, folder)
    script = Path(__file__).with_name("export_readers.py")
    done = subprocess.run([READERS, script, reader, folder], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("form", exporting.FORMATS)
def test_workers_change_no_byte(everything, exported, form, tmp_path):
    """Opening the corpus by recipe or by store and name makes no difference either."""
    run = gristmill.open(f"{everything.project.store}@v1")
    for workers in (1, 3):
        run.export(tmp_path / str(workers), form, COLUMNS, 4000, workers)
        assert contents(tmp_path / str(workers)) == contents(exported / form)


def test_files_have_their_size_and_their_hash(exported, expected):
    """File boundaries depend on the texts alone; Croissant has the hash of each file."""
    metadata = json.loads((exported / "parquet" / "croissant.json").read_text())
    files = {entry["@id"]: entry["sha256"] for entry in metadata["distribution"] if entry["@type"] == "cr:FileObject"}
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
    """A plain loop agrees: rows are in order, and a file is full when the next row would not fit."""

    class FakeCorpus:
        view = None

    read_from = FakeCorpus()
    read_from.parts = list(range(len(parts)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporting, "_sizes", lambda _, part: iter([np.array(parts[part], np.int64)]))
        files = list(exporting._cut(read_from, most))
    result = [[(p, at) for p, start, stop in file for at in range(start, stop) if parts[p][at]] for file in files]
    expected_files, file_bytes = [[]], 0
    for number, sizes in enumerate(parts):
        for at, size in enumerate(sizes):
            if size and expected_files[-1] and file_bytes + size > most:
                expected_files.append([])
                file_bytes = 0
            if size:
                expected_files[-1].append((number, at))
                file_bytes += size
    assert result == [file for file in expected_files if file]


def test_the_card_describes_the_export(everything, exported, expected):
    """It has metadata that YAML parses, and the numbers of the funnel."""
    text = (exported / "one" / "README.md").read_text()
    _, front, body = text.split("---\n", 2)
    meta = yaml.safe_load(front)
    assert meta["configs"][0]["data_files"] == [{"split": "train", "path": "data/train-*.parquet"}]
    assert meta["license"] == ["unknown"]
    assert meta["language"] == ["en"]
    assert meta["size_categories"] == ["n<1K"]
    for phrase in (
        f"{len(expected)} documents",
        "near_duplicate",
        "web/keep_language",
        '"keep": {"en": 0.5}',
    ):
        assert phrase in body
    assert str(everything.project.folder) not in text


def test_the_card_states_what_was_not_checked(everything, routes):
    """It mentions personal data and benchmarks when the recipe has no step for them."""
    counts = ({"crawl": 1}, {"crawl": 1}, {("crawl", "unknown"): 1}, {"unknown": 1})
    for run, scrubbed, is_stated in ((routes.run, (), True), (everything.run, ("crawl",), False)):
        text = card(run, Exported("x", "parquet", pa.schema([]), {}, frozenset(scrubbed), *counts, {"url": 3}))
        assert ("Personal data was not removed in crawl" in text) == is_stated
        assert ("changed values: url (3)" in text) != is_stated
        assert (" for benchmark items." in text) == is_stated


def test_names_from_data_are_escaped(everything):
    """A license or a reason may be any string."""
    hostile = "[a](javascript:x) <img src=x> `b` | c\n---\n# d"
    counts = ({"crawl": 1}, {"crawl": 1}, {("crawl", hostile): 1}, {hostile: 1})
    text = card(everything.run, Exported("x", "parquet", pa.schema([]), {}, frozenset(), *counts, {}))
    assert "<img" not in text
    assert "](javascript" not in text
    assert text.count("\n# ") == 1
    assert yaml.safe_load(text.split("---\n", 2)[1])["license"] == ["other"]


def test_a_failed_export_leaves_no_files(everything, tmp_path, monkeypatch):
    """A full disk gives one message and no partial output."""

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(exporting, "_write_parquet", full)
    with pytest.raises(gristmill.UserError, match="No space left on device"):
        gristmill.open(everything.project.recipe).export(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_killed_export_leaves_nothing_that_looks_complete(everything, exported, tmp_path):
    """The next export removes the temporary folder."""
    code = (
        "import os, signal, gristmill\n"
        "from gristmill.query.export import export\n"
        "export.croissant = lambda told: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"gristmill.open({f'{everything.project.store}@v1'!r}).export({str(tmp_path / 'out')!r}, columns={COLUMNS!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert done.returncode == -signal.SIGKILL
    (leftover,) = tmp_path.iterdir()
    assert leftover.name.startswith(".out.")
    (tmp_path / "out").mkdir()  # an existing empty folder is accepted
    gristmill.open(everything.project.recipe).export(tmp_path / "out", columns=COLUMNS)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert contents(tmp_path / "out") == contents(exported / "one")


def test_the_command_reports_its_files(everything, exported, say, tmp_path):
    """It prints the number of files, or lists them as JSON."""
    arguments = ("export", everything.project.recipe, "--out", tmp_path / "out", "--columns", ",".join(COLUMNS))
    output = say(*arguments)
    assert output.code == 0, output.err
    assert "in 1 file of" in output.out
    assert contents(tmp_path / "out") == contents(exported / "one")
    shutil.rmtree(tmp_path / "out")
    result = json.loads(say(*arguments, "--file-size", "4KB", "--json").out)
    assert [file["name"] for file in result["files"]] == [
        name for name in contents(exported / "parquet") if name.startswith("data/")
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing option '--out'"),
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
def test_wrong_arguments_are_one_message(everything, say, monkeypatch, tmp_path, arguments, message):
    """The command exits with code 2, without a traceback, and writes nothing."""
    arguments = [word.format(tmp_path=tmp_path) for word in arguments]
    monkeypatch.chdir(everything.project.folder)
    output = say("export", "recipe.yaml", *arguments)
    assert output.code == 2
    assert message in output.err
    assert "Traceback" not in output.err
    assert not (everything.project.folder / "new").exists()


def test_user_metadata_and_the_language_of_code_are_available(project, say):
    """They are in `inspect`, in SQL and in an export without options."""
    (project.folder / "in" / "mine.jsonl").write_text('{"id": "mill-7", "text": "The mill grinds.", "author": "Ann"}\n')
    (project.folder / "in" / "mill.py").write_text("# grinds\nprint('the mill grinds grain')\n")
    project.recipe.write_text(
        "recipe: project\nstore: ./store\nsources:\n"
        "  notes: {kind: text, read: {format: jsonl, paths: [in/mine.jsonl], fields: {key: id}}}\n"
        "  files: {kind: code, read: {format: code, paths: [in/mill.py]}}\nsteps: []\n"
    )
    project.run()
    meta = {"id": "mill-7", "author": "Ann"}
    assert f"meta {json.dumps(meta, separators=(',', ':'))}" in say("inspect", project.recipe).out
    corpus = gristmill.open(project.recipe)
    result = corpus.sql("select meta->>'id' as id, language_hint from documents order by id").to_pylist()
    assert result == [{"id": "mill-7", "language_hint": None}, {"id": None, "language_hint": "Python"}]
    corpus.export(project.folder / "out")
    (file,) = (project.folder / "out" / "data").iterdir()
    note, code = pq.read_table(file).to_pylist()
    assert (json.loads(note["meta"]), code["language_hint"]) == (meta, "Python")
    assert "language_hint" in (project.folder / "out" / "README.md").read_text()

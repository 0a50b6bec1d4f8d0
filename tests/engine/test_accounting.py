"""Every file among the inputs is accounted for, and no two documents share an id, for any reader."""

import gzip
import json
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from demo.warc import Response, write
from gristmill.engine.mill import find_warnings
from gristmill.engine.publish.run_record import see
from gristmill.query.removal.funnel import unread_files
from gristmill.recipe.stage_module import known_formats
from gristmill.store.parquet import PartReader
from gristmill_pdf.layout.child import CONTROL
from stages.test_golden import input_bytes

ROWS = [{"id": key, "text": f"the {key} mill grinds the corn"} for key in ("same", "same", "other", "same")]
"""Records of a file: three of them have one key, and two are the same to the letter."""


def pages(path):
    url = "https://mill.example/page"
    found = [Response(url, f"<html><body><p>{row['text']}</p></body></html>".encode()) for row in ROWS]
    write(path, found, datetime(2026, 11, 1, tzinfo=UTC))


def extracts(path):
    """A WET file: the plain text of pages."""
    with gzip.open(path, "wb") as file:
        for row in ROWS:
            body = row["text"].encode()
            head = "WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: https://mill.example/page\r\n"
            ident = "WARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-000000000001>\r\n"
            file.write(f"{head}{ident}Content-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n".encode())
            file.write(body + b"\r\n\r\n")


KEYED = ", fields: {key: id}"
FILES = {
    "warc": ("a.warc.gz", pages, ""),
    "wet": ("a.warc.wet.gz", extracts, ""),
    "jsonl": ("a.jsonl", lambda path: path.write_text("".join(json.dumps(row) + "\n" for row in ROWS)), KEYED),
    "json": ("a.json", lambda path: path.write_text(json.dumps(ROWS)), KEYED),
    "csv": (
        "a.csv",
        lambda path: path.write_text("\n".join(["id,text", *(",".join(r.values()) for r in ROWS)])),
        KEYED,
    ),
    "parquet": ("a.parquet", lambda path: pq.write_table(pa.Table.from_pylist(ROWS), path, row_group_size=2), KEYED),
    "text": ("a.txt", lambda path: path.write_text(ROWS[0]["text"]), ""),
    "html": ("a.html", lambda path: path.write_text(f"<p>{ROWS[0]['text']}</p>"), ""),
    "pdf": ("a.pdf", lambda path: path.write_bytes(CONTROL), ""),
    "code": ("a.py", lambda path: path.write_text("print('mill')\n"), ""),
}
for kind in ("mediawiki", "epub", "jats", "office", "latex", "notebook", "subtitles", "stack_exchange", "mbox"):
    file_name, raw = input_bytes(kind)
    FILES[kind] = (file_name, partial(Path.write_bytes, data=raw), "")
"""Format -> the name of a file, what writes it, how its keys are named."""


def test_every_reader_is_tested():
    """A new reader must be added above."""
    assert FILES.keys() == known_formats().keys()


@pytest.mark.parametrize("kind", FILES)
def test_no_two_documents_share_an_id(project, kind):
    """One key again and again in a file, in two files and in two sources; a file that two patterns match is read once.
    The warning has the count of repeated keys, an example and a fix.
    """
    name, fill, read = FILES[kind]
    for folder in ("one", "two"):
        (project.folder / "tree" / folder).mkdir(parents=True)
        fill(project.folder / "tree" / folder / name)
    paths, steps = (
        f"[tree, 'tree/one/{name}', 'tree/*/{name}']",
        "[extract]" if kind in ("html", "stack_exchange") else "[]",
    )
    source = f"{{kind: text, read: {{format: {kind}, paths: {paths}, part_bytes: 100B{read}}}}}"
    project.recipe.write_text(
        f"recipe: ids\nstore: ./store\nsources:\n  x: {source}\n  y: {source}\nsteps: {{x: {steps}, y: {steps}}}\n"
    )
    run = project.run()
    ids = [
        doc_id
        for documents in run.documents.values()
        for document in documents
        for doc_id in PartReader(run.store, document.part).read(["doc_id"])["doc_id"].to_pylist()
    ]
    rows = len(ROWS) if read or kind in ("warc", "wet") else 1
    assert len(ids) >= 2 * 2 * rows
    assert len(set(ids)) == len(ids)
    for source in ("x", "y"):
        assert run.states[f"{source}/ingest"].metrics["rows"] == len(ids) // 2
    if read:
        notes = [line for line in find_warnings(run) if "same key as an earlier record" in line]
        assert [line.partition(":")[0] for line in notes] == ["x/ingest", "y/ingest"]
        repeated = run.states["x/ingest"].metrics["repeated_keys"]
        assert f"{repeated} records have" in notes[0]
        assert f"(such as one/{name}#same)" in notes[0]
        assert "Let `fields.key` name a unique field" in notes[0]


def test_files_that_a_source_does_not_read_are_counted_by_reason(project, say_files):
    """Folders that a reader skips, suffixes, what `exclude` names, links: each with an example, from the recipe and
    from the record of the run; together with the files that are read they are all files in the folder.
    """
    names = [
        *("a.py", "b/c.py", "b/node_modules/d.js", "node_modules/e.js", "b/vendor/f.go"),
        *(".git/config", "data.csv", "old/g.py", "old/h.py"),
    ]
    for name in names:
        path = project.folder / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("print('mill')\n")
    (project.folder / "tree" / "link.py").symlink_to(project.folder / "tree" / "a.py")
    project.recipe.write_text(
        "recipe: tree\nstore: ./store\nsources:\n"
        "  repos: {kind: code, read: {format: code, paths: [tree], exclude: ['tree/old/*']}}\nsteps: []\n"
    )
    run = project.run()
    notes = unread_files(run)["repos"]
    assert {why: one["files"] for why, one in notes.items()} == {
        "in node_modules": 2,
        "excluded": 2,
        "in vendor": 1,
        "in .git": 1,
        ".csv files": 1,
        "second names": 1,
    }
    assert notes["in node_modules"]["example"] == str(project.folder / "tree/b/node_modules/d.js")
    assert unread_files(see(run.store, "tree")) == unread_files(run)
    assert sum(one["files"] for one in notes.values()) + len(run.inputs["repos"].files) == len(names) + 1
    for command in ("funnel", "status"):
        for where in (str(project.recipe), f"{project.store}@tree"):
            assert "Files of repos that were left out: 2 excluded (such as " in say_files(command, where)


@pytest.fixture
def say_files(monkeypatch, capfd):
    """The output of a command."""
    import sys

    from gristmill.cli.main import main

    def typed(*arguments):
        monkeypatch.setattr(sys, "argv", ["gristmill", *arguments])
        with pytest.raises(SystemExit):
            main()
        return capfd.readouterr().out

    return typed

"""Any bytes that a file system accepts as a name are a name, from the listing to the last record."""

import glob
import json
import os
import sys

import fsspec
import pytest

from gristmill.cli.main import main
from gristmill.engine.mill import find_warnings
from gristmill.errors import UserError
from gristmill.query.documents.documents import rows
from gristmill.query.sizing.plan import make_plan
from gristmill.store.parquet import PartReader

LATIN = b"caf\xe9.jsonl".decode("utf-8", "surrogateescape")
OTHER = b"caf\xe8.jsonl".decode("utf-8", "surrogateescape")
ODD = ["a::b.jsonl", "memory::x.jsonl", "#1?.jsonl", "100%41.jsonl", "[x].jsonl", "~.jsonl", "-rf.jsonl", "a\nb.jsonl"]


def write(path, *texts):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(json.dumps({"text": text}) + "\n" for text in texts).encode())


def recipe(project, pattern, store="./store", part_bytes="64MB"):
    project.recipe.write_text(
        f"recipe: names\nstore: {json.dumps(store)}\nsteps: []\nsources:\n"
        f"  x: {{kind: text, read: {{format: jsonl, paths: [{json.dumps(pattern)}], part_bytes: {part_bytes}}}}}\n"
    )


def documents(project, run):
    found = []
    for document in run.documents["x"]:
        reader = PartReader(project.mill().store, document.part)
        table = reader.read_group(0, ["doc_id", "locator", "text"])
        found += zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True)
    return found


@pytest.mark.parametrize("folder", ["data", "da::ta", "s3:__data", "[data]", "~data"])
def test_odd_names_are_files_like_others(project, folder):
    """Found in a folder, by a glob and by name; hashed and read as the files that they are."""
    for name in ODD:
        write(project.folder / folder / name, f"the text of {name}")
    (project.folder / "x.jsonl").write_text('{"text": "another file"}\n')
    folder = glob.escape(folder)
    for pattern in (f"./{folder}", f"./{folder}/*.jsonl", f"./{folder}/**"):
        recipe(project, pattern)
        found = documents(project, project.run())
        assert sorted((locator, text) for _, locator, text in found) == sorted(
            (f"{name}#0", f"the text of {name}") for name in ODD
        )
    for name in ODD:
        recipe(project, f"./{folder}/{glob.escape(name)}")
        assert [text for _, _, text in documents(project, project.run())] == [f"the text of {name}"]


def test_keys_of_an_object_store_are_not_parsed_again(project):
    """`::` in a listed key is part of its name."""
    system = fsspec.filesystem("memory")
    for name in ("a::b.jsonl", "memory::c.jsonl"):
        system.pipe_file(f"/names-odd/{name}", json.dumps({"text": name}).encode())
    recipe(project, "memory://names-odd")
    assert sorted(text for _, _, text in documents(project, project.run())) == ["a::b.jsonl", "memory::c.jsonl"]


@pytest.mark.parametrize("store", ["a::b", "memory::x", "st[o]re", "sto#re"])
def test_a_store_may_have_any_name(project, store, monkeypatch):
    """It is a folder of that name, in the recipe and on the command line, for this process and for workers."""
    monkeypatch.chdir(project.folder)
    write(project.folder / "in.jsonl", "a text")
    recipe(project, "in.jsonl", store)
    project.run(workers=1)
    assert (project.folder / store / "tasks").is_dir()
    recipe(project, "in.jsonl")
    assert project.executed(project.run(store=store)) == {}
    assert not (project.folder / "store").exists()


def test_a_store_with_an_unknown_scheme_is_refused(project):
    """`nothing://x` is a mistake, not a folder."""
    with pytest.raises(UserError, match="unknown scheme"):
        project.run(store="a::nothing://b")


def test_file_addresses_are_paths(project):
    """They may contain any characters."""
    write(project.folder / "da::ta" / "in.jsonl", "a text")
    recipe(project, f"file://{project.folder}/da::ta/*.jsonl", f"file://{project.folder}/st::ore")
    assert [text for _, _, text in documents(project, project.run())] == ["a text"]
    assert (project.folder / "st::ore" / "tasks").is_dir()


@pytest.fixture
def latin(project):
    """Two files whose names are not UTF-8 and look the same to people, with the same content."""
    for name in (LATIN, OTHER):
        write(project.folder / "data" / name, "one", "two")
    return project


@pytest.mark.parametrize("part_bytes", ["64MB", "10B"])
def test_names_that_are_not_utf8_give_different_ids(latin, part_bytes):
    """People see the same locator; nothing else confuses the two, whether they share a task or not."""
    recipe(latin, "data", part_bytes=part_bytes)
    run = latin.run()
    found = documents(latin, run)
    assert len({doc_id for doc_id, _, _ in found}) == 4
    assert {locator for _, locator, _ in found} == {"caf\ufffd.jsonl#0", "caf\ufffd.jsonl#16"}
    marks = [document.rows_hash for document in run.documents["x"]]
    assert len(set(marks)) == len(marks)
    assert latin.executed(latin.run()) == {}


def test_the_plan_names_a_file_whose_name_is_no_utf8(latin):
    """New, changed and missing files are shown in a readable form."""
    recipe(latin, "data")
    latin.run()
    write(latin.folder / "data" / LATIN, "three")
    os.unlink(latin.folder / "data" / OTHER)
    mill = latin.mill()
    [stage] = [stage for stage in make_plan(mill, mill.dry_run()) if stage.id == "x/ingest"]
    assert stage.why == ("caf\ufffd.jsonl changed", "caf\ufffd.jsonl is gone")


def test_documents_of_such_files_can_be_shown(latin):
    """The locator is text."""
    recipe(latin, "data")
    run = latin.run()
    assert {row.fields["locator"] for row in rows(run, None, None, None)} == {
        "caf\ufffd.jsonl#0",
        "caf\ufffd.jsonl#16",
    }


@pytest.mark.parametrize(
    "command", [["run"], ["plan"], ["plan", "--json"], ["inspect"], ["inspect", "--json"], ["status"]]
)
def test_commands_work_in_a_folder_whose_name_is_no_utf8(project, command, capsys, monkeypatch):
    """The recipe, the inputs and the store are in it."""
    folder = project.folder / b"d\xe9p\xf4t".decode("utf-8", "surrogateescape")
    write(folder / "data" / LATIN, "one", "two")
    project.recipe = folder / "recipe.yaml"
    recipe(project, "data")
    project.run()
    monkeypatch.setattr(sys, "argv", ["gristmill", command[0], str(project.recipe), *command[1:]])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0, capsys.readouterr().err
    capsys.readouterr().out.encode()


def test_a_warning_about_such_a_file_is_text(latin):
    """It goes to terminals and logs."""
    os.unlink(latin.folder / "data" / LATIN)
    os.mkfifo(latin.folder / "data" / LATIN)
    recipe(latin, "data/caf?.jsonl")
    [warning] = find_warnings(latin.run())
    assert "caf\ufffd.jsonl" in warning

"""Garbage collection removes nothing that it does not understand."""

import errno
import os
import shutil

import pytest
from conftest import Project

from gristmill.engine.mill import Silent
from gristmill.engine.publish.catalog import refuse_no_store
from gristmill.engine.publish.garbage import alone, collect, find_garbage
from gristmill.engine.publish.run_record import task_names
from gristmill.errors import UserError
from gristmill.store import leases
from gristmill.store.faults import unwritable
from gristmill.store.leases import hold
from gristmill.store.store import Store

STEPS = "  - stagebox.length\n  - stagebox.longer_than: {{chars: {}}}\n"


@pytest.fixture(scope="module")
def tagged_once(tmp_path_factory):
    """A tagged version that the current recipe does not need."""
    project = Project(tmp_path_factory.mktemp("tagged"))
    project.write_inputs(records=80)
    project.write_inputs(files=1, records=20)
    project.write_recipe(STEPS.format(12))
    project.run()
    mill = project.mill()
    mill.store.write_json("versions/v1.json", mill.newest_whole())
    project.write_recipe(STEPS.format(14))
    project.run()
    return project


@pytest.fixture
def tagged(tagged_once, tmp_path):
    """The same in its own folder, to be damaged."""
    project = Project(tmp_path / "tagged")
    shutil.copytree(tagged_once.folder, project.folder, symlinks=True)
    assert not find_garbage(project.mill().store, project.dry_run()).files
    return project


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("kind", ["versions", "runs", "locks", "tasks", "stages", "datasets"])
@pytest.mark.parametrize(
    "damage",
    [
        flip,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"{}"),
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: (path.unlink(), os.mkfifo(path)),
    ],
)
def test_a_record_that_cannot_be_read_stops_it(tagged, kind, damage):
    """It is unknown what such a record keeps; the message names it, and nothing is removed."""
    mill = tagged.mill()
    run = mill.dry_run()
    if kind == "locks":
        mill.store.write_json("locks/0123.json", {"id": "0123"})
    path = tagged.store / _of_version(mill, kind)
    damage(path)
    before = set(mill.store.list_files(""))

    def clean():
        with alone(mill.store, lambda: find_garbage(mill.store, run)):
            collect(mill.store, find_garbage(mill.store, run))

    with pytest.raises(UserError, match=r"Nothing was removed") as reported:
        clean()
    assert path.name in str(reported.value)
    assert set(mill.store.list_files("")) == before


def _of_version(mill, kind):
    """A record of a kind that the version needs."""
    if kind not in ("tasks", "stages", "datasets"):
        return next(name for name, _ in mill.store.list_files(kind))
    node = mill.store.read_json("versions/v1.json")["nodes"]["all/longer_than"]
    names = task_names(mill.store, node) if kind == "tasks" else node["datasets"].values()
    key = node["stage"] if kind == "stages" else next(iter(names))
    return f"{kind}/{key}.json"


def test_a_run_waits_until_the_collection_is_over(project):
    """Otherwise it would rely on parts that are about to be removed."""
    project.write_inputs(files=1, records=20)
    project.write_recipe("  - stagebox.length\n")
    mill = project.mill()
    with hold(mill.store, "gc", "project") as lease:
        listener = Silent()

        def note(message, *_):
            listener.notes.append(message)
            mill.store.remove(f"locks/{lease.id}.json")

        listener.note = note
        mill.run(1, listener)
        mill.store.write_json(f"locks/{lease.id}.json", {})
    assert any("gristmill gc" in message for message in listener.notes)


def test_parts_of_a_dataset_stay_when_their_task_record_is_gone(tagged):
    """A version keeps its parts in two ways."""
    mill = tagged.mill()
    kept = {name for name, _ in mill.store.list_files("parts")}
    for name, _ in list(mill.store.list_files("tasks")):
        os.unlink(tagged.store / name)
    collect(mill.store, find_garbage(mill.store, mill.dry_run()))
    assert {name for name, _ in mill.store.list_files("parts")} == kept


def test_copies_of_config_files_stay_as_long_as_a_run_that_used_them(project):
    """The file itself may have changed; what the kept run used is only in the store."""
    project.write_inputs(files=1, records=5)
    listed = project.folder / "blocked.txt"
    project.write_recipe(f"  - gate: {{block_domains: {listed}}}\n")

    def copies():
        record = project.mill().newest_whole()
        return {part["hash"] for part in record["nodes"]["all/gate"]["config_files"]}

    def lying():
        return {name.rsplit("/", 1)[1].split(".")[0] for name, _ in project.mill().store.list_files("parts")}

    def clean():
        mill = project.mill()
        collect(mill.store, find_garbage(mill.store, mill.dry_run()))

    used = []
    for domain in ("a.org", "b.org", "c.org"):
        listed.write_text(f"{domain}\n")
        project.run()
        used.append(copies())
        if domain == "a.org":
            mill = project.mill()
            mill.store.write_json("versions/v1.json", mill.newest_whole())
    tagged, forgotten, newest = used
    assert all(found and found <= lying() for found in used)
    clean()
    assert tagged | newest <= lying()
    assert not forgotten & lying()
    os.unlink(project.store / "versions" / "v1.json")
    clean()
    assert newest <= lying()
    assert not tagged & lying()


def test_the_output_of_a_run_stays_when_its_stage_records_are_deleted(tagged):
    """They may be deleted at any time: the layers name their tasks, too."""
    shutil.rmtree(tagged.store / "stages")
    mill = tagged.mill()
    whole = tagged.parts(mill.dry_run())
    collect(mill.store, find_garbage(mill.store, None))
    assert tagged.parts(mill.dry_run()) == whole
    tagged.run()
    assert not [note for note in tagged.notes if "missing" in note]


def test_files_that_no_run_wrote_stay(project):
    """By their names: their owner is unknown."""
    project.run(until="length")
    names = ["tasks/mine.json", "parts/a.stl", "stages/notes.txt", "datasets/old/x.json"]
    for name in names:
        (project.store / name).parent.mkdir(exist_ok=True, parents=True)
        (project.store / name).write_text("precious")
    store = project.mill().store
    collect(store, find_garbage(store))
    assert all((project.store / name).read_text() == "precious" for name in names)


def test_a_folder_that_is_not_a_store_is_refused(tmp_path):
    """Nothing is written to it either."""
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "a.stl").write_text("precious")
    with pytest.raises(UserError, match=r"it is not a store\. Nothing was removed"):
        refuse_no_store(Store(str(tmp_path)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts"]


@pytest.mark.parametrize("kind", ["stages", "datasets", "tasks"])
def test_a_whole_record_of_another_shape_stops_it(tagged, kind):
    """Like one that cannot be read: it is unknown what it keeps."""
    mill = tagged.mill()
    name = _of_version(mill, kind)
    mill.store.write_json(name, {"of": "another version"})
    with pytest.raises(UserError, match=rf"{name} .*Nothing was removed"):
        find_garbage(mill.store)


@pytest.mark.parametrize(("kind", "key"), [("datasets", "task"), ("datasets", "hash"), ("tasks", "hash")])
def test_an_entry_that_lacks_a_key_is_damage(tagged, kind, key):
    """A record with a valid checksum that lacks a key in an entry of a part is named, and nothing is removed."""
    store = tagged.mill().store
    name = _of_version(tagged.mill(), kind)
    record = store.read_record(name)
    del record["parts"][0][key]
    store.write_json(name, record)
    with pytest.raises(UserError, match=f"{name}.* is damaged.* Nothing was removed"):
        find_garbage(store)


@pytest.mark.parametrize("is_in_use", [False, True])
def test_it_frees_a_full_disk(tagged, monkeypatch, is_in_use):
    """If a disk has no space for a lease, garbage is removed first; nothing is removed while others use the store."""
    store = tagged.mill().store
    store.remove("versions/v1.json")
    wanted = find_garbage(store, tagged.dry_run())
    assert len(wanted.files) > 2
    if is_in_use:
        store.write_json("locks/0123.json", vars(lease_of_another()))
    write = leases._write

    def full(store, lease):
        if all((tagged.store / path).exists() for path in wanted.files):
            raise unwritable(store.uri, OSError(errno.ENOSPC, "No space left on device"))
        write(store, lease)

    monkeypatch.setattr(leases, "_write", full)
    before = set(store.list_files("parts"))

    def clean():
        with alone(store, lambda: find_garbage(store, tagged.dry_run())):
            collect(store, find_garbage(store, tagged.dry_run()))

    if is_in_use:
        with pytest.raises(UserError, match="No space left"):
            clean()
        assert set(store.list_files("parts")) == before
    else:
        clean()
        assert not find_garbage(store, tagged.dry_run()).files
        assert not any((tagged.store / path).exists() for path in wanted.files)


def lease_of_another():
    return leases.Lease("0123", "run", "elsewhere", 1, "another machine", "demo")

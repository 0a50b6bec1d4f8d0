"""The store: writes are atomic, and a part is named by its content."""

import errno
import hashlib
import json
import os
import tempfile

import pyarrow as pa
import pytest

from gristmill.errors import UserError
from gristmill.processes import here
from gristmill.store.records import DamagedRecord
from gristmill.store.store import CorruptPart, Part, Store


@pytest.fixture(params=["disk", "memory"])
def store(request, tmp_path):
    return Store(str(tmp_path / "store") if request.param == "disk" else f"memory://{tmp_path}/store")


def test_a_part_is_named_by_its_sha256(store):
    """`sha256sum` agrees with the name, and the content comes back."""
    part = store.put_part(b"grain", "txt")
    assert part.hash == hashlib.sha256(b"grain").hexdigest()
    assert bytes(store.get_part(part)) == b"grain"
    assert store.has_part(part)
    assert list(store.list_files("parts")) == [(f"parts/{part.hash[:2]}/{part.hash}.txt", 5)]


def test_writing_the_same_content_again_changes_nothing(store):
    """Two tasks may make the same part."""
    assert store.put_part(b"grain", "txt") == store.put_part(b"grain", "txt")
    assert len(list(store.list_files("parts"))) == 1


def test_a_missing_part_is_reported_as_corrupt(store):
    """The engine treats both the same way: it makes the part again."""
    part = store.put_part(b"grain", "txt")
    store.remove_part(part)
    assert not store.has_part(part)
    with pytest.raises(CorruptPart, match="missing"):
        store.get_part(part)


def test_a_record_that_is_not_whole_counts_as_absent(store):
    """A power cut may truncate a file and a disk may change a digit; such a record is never trusted."""
    store.write_json("tasks/x.json", {"a": 1, "b": [0.1, None, "ü\n"]})
    assert store.read_json("tasks/x.json") == {"a": 1, "b": [0.1, None, "ü\n"]}
    assert store.read_json("tasks/none.json") is None
    path = f"{store.root}/tasks/x.json"
    whole = store.fs.cat_file(path)
    damages = [whole[:cut] for cut in range(len(whole))] + [whole + b" ", b"", b"{}", b"null"]
    damages += [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))]
    for damaged in damages:
        store.fs.pipe_file(path, damaged)
        assert store.read_json("tasks/x.json") is None
        with pytest.raises(DamagedRecord):
            store.read_record("tasks/x.json")


def test_a_record_under_another_name_counts_as_absent(store):
    """Two records that were swapped are both rejected."""
    store.write_json("tasks/x.json", {"a": 1})
    store.fs.pipe_file(f"{store.root}/tasks/y.json", store.fs.cat_file(f"{store.root}/tasks/x.json"))
    assert store.read_json("tasks/y.json") is None


def test_a_record_is_plain_json(store):
    """Other tools can read it."""
    store.write_json("tasks/x.json", {"a": 1})
    found = json.loads(store.fs.cat_file(f"{store.root}/tasks/x.json"))
    assert found["record"] == "tasks/x.json"
    assert found["body"] == {"a": 1}


def test_a_changed_part_is_found_without_reading_the_others(tmp_path):
    """Writing to a part breaks its seal; an untouched part is trusted by its seal alone."""
    store = Store(str(tmp_path))
    part = store.put_part(b"grain", "txt")
    path = store.part_path(part)
    assert oct(os.stat(path).st_mode & 0o777) == "0o444"
    os.chmod(path, 0o644)
    with open(path, "r+b") as file:
        file.write(b"G")
    assert not store.has_part(part)


def test_a_part_with_a_broken_seal_and_the_right_content_is_sealed_again(tmp_path):
    """A copy of a store with new time stamps is hashed once and then trusted."""
    store = Store(str(tmp_path))
    part = store.put_part(b"grain", "txt")
    sealed = os.stat(store.part_path(part)).st_mtime_ns
    os.utime(store.part_path(part), (1, 1))
    assert store.has_part(part)
    assert os.stat(store.part_path(part)).st_mtime_ns == sealed


def test_half_written_files_of_dead_writers_are_swept(tmp_path):
    """The temporary file of a killed process is removed; that of a live process stays."""
    store = Store(str(tmp_path))
    store.put_part(b"grain", "txt")
    ours = store.temporary("x")
    dead = ours.replace(f"-{os.getpid()}-", "-999999999-")
    for path in (ours, dead):
        open(path, "w").close()
    assert store.sweep_temporaries() == [f"tmp/{os.path.basename(dead)}"]
    assert os.path.exists(ours)


@pytest.mark.parametrize("linked", [False, True])
def test_files_of_others_in_tmp_are_not_swept(tmp_path, linked):
    """The folder of a store may have been in use before, or its tmp may be a link to another disk."""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "below").mkdir(parents=True)
    names = ("thesis.txt", "a.b.c", "below/deep.txt", "data.2024-01-02.backup01")
    for name in names:
        (elsewhere / name).write_text("precious")
    store = Store(str(tmp_path / "store"))
    (tmp_path / "store").mkdir()
    if linked:
        (tmp_path / "store" / "tmp").symlink_to(elsewhere)
    else:
        elsewhere.rename(tmp_path / "store" / "tmp")
    assert store.sweep_temporaries() == []
    assert [(tmp_path / "store" / "tmp" / name).read_text() for name in names] == ["precious"] * 4


def test_temporaries_of_a_process_on_another_machine_stay_for_a_day(tmp_path):
    """Another container or machine may be writing; a file older than a day was left by a dead process."""
    store = Store(str(tmp_path))
    foreign = store.temporary("x").replace(here(), "elsewher")
    open(foreign, "w").close()
    assert store.sweep_temporaries() == []
    os.utime(foreign, (0, 0))
    assert store.sweep_temporaries() == [f"tmp/{os.path.basename(foreign)}"]


@pytest.mark.parametrize("number", [errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES, errno.ENAMETOOLONG])
def test_a_failed_write_gives_one_message(tmp_path, monkeypatch, number):
    """Too large a file, a read-only disk or missing permissions are facts of the machine, not bugs."""
    store = Store(str(tmp_path))

    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(UserError, match=r"cannot be written.*Finished work is kept"):
        store.put_part(b"grain", "txt")
    assert os.listdir(tmp_path / "tmp") == []


def test_a_copy_without_times_can_be_read_where_nothing_can_be_written(tmp_path, monkeypatch):
    """A broken seal is restored if possible; otherwise the content is enough."""
    store = Store(str(tmp_path))
    part = store.put_part(b"grain", "txt")
    os.utime(store.part_path(part), (1, 1))

    def refuse(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "utime", refuse)
    assert store.has_part(part)


def test_too_few_open_files_do_not_mean_a_damaged_part(tmp_path, monkeypatch):
    """A part is made again if it is damaged, but not if the machine lacks a resource."""
    store = Store(str(tmp_path))
    part = store.put_part(b"grain", "txt")

    def full(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(pa, "memory_map", full)
    with pytest.raises(UserError, match="ulimit"):
        store.get_part(part)


def test_a_full_disk_gives_one_message(tmp_path, monkeypatch):
    """Finished work is kept, and the message says what to do."""
    store = Store(str(tmp_path))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UserError, match=r"is full.*gristmill gc"):
        store.put_part(b"grain", "txt")


def test_a_model_file_becomes_a_part_and_a_path_again(store, tmp_path):
    """A library that needs a path gets one from any store."""
    model = tmp_path / "model"
    model.write_bytes(b"weights")
    part = store.put_file(model, "bin")
    assert not model.exists()
    assert store.local_path(part).read_bytes() == b"weights"
    assert part == Part(hashlib.sha256(b"weights").hexdigest(), "bin", 7)


def test_a_cached_part_is_not_trusted_by_its_name(tmp_path, monkeypatch):
    """Every file in the cache is hashed before its first use in a process."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    store = Store(f"memory://{tmp_path}/far")
    part = store.put_part(b"weights", "bin")
    planted = tmp_path / "gristmill" / "parts" / f"{part.hash}.bin"
    planted.parent.mkdir(parents=True, mode=0o700)
    planted.write_bytes(b"poison!")
    assert store.local_path(part).read_bytes() == b"weights"
    planted.write_bytes(b"poison!")
    assert store.local_path(part).read_bytes() == b"weights", "a file that changed since is hashed again"
    planted.unlink()
    target = tmp_path / "elsewhere"
    target.write_bytes(b"weights")
    planted.symlink_to(target)
    assert not store.local_path(part).is_symlink()
    assert os.listdir(planted.parent) == [planted.name]


def test_a_cache_folder_that_others_can_write_is_refused(tmp_path, monkeypatch):
    """A symbolic link is refused, too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    store = Store(f"memory://{tmp_path}/far")
    part = store.put_part(b"weights", "bin")
    folder = tmp_path / "gristmill" / "parts"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    with pytest.raises(UserError, match="chmod 700"):
        store.local_path(part)
    folder.rmdir()
    (tmp_path / "other").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "other")
    with pytest.raises(UserError, match="only you can write"):
        store.local_path(part)


def test_fetched_parts_are_bounded(tmp_path, monkeypatch):
    """The least recently used parts are removed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("GRISTMILL_CACHE_BYTES", "250")
    store = Store(f"memory://{tmp_path}/far")
    parts = [store.put_part(bytes([n]) * 100, "bin") for n in range(3)]
    paths = [store.local_path(part) for part in parts[:2]]
    os.utime(paths[1], (1, 1))
    paths.append(store.local_path(parts[2]))
    assert [path.exists() for path in paths] == [True, False, True]
    assert store.local_path(parts[1]).read_bytes() == b"\1" * 100


def test_a_full_disk_in_a_scratch_folder_is_one_message_and_leaves_nothing(tmp_path):
    """A full disk while files are prepared gives one message with the fix, and the folder is removed."""
    store = Store(str(tmp_path / "store"))

    def fill() -> None:
        with store.scratch() as folder:
            (folder / "half.bin").write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(UserError, match="Free some space"):
        fill()
    assert list((tmp_path / "store" / "tmp").iterdir()) == []


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_a_pipe_or_folder_does_not_block_a_read(tmp_path, kind):
    """It counts as a damaged part or record."""
    store = Store(str(tmp_path))
    part = store.put_part(b"bytes", "bin")
    store.write_json("tasks/a.json", {})
    for path in (tmp_path / "parts" / part.hash[:2] / f"{part.hash}.bin", tmp_path / "tasks" / "a.json"):
        path.unlink()
        os.mkfifo(path) if kind == "pipe" else path.mkdir()
    assert not store.has_part(part)
    with pytest.raises(CorruptPart):
        store.get_part(part)
    with pytest.raises(CorruptPart):
        store.get_range(part, 0, 2, bytes)
    with pytest.raises(DamagedRecord):
        store.read_record("tasks/a.json")
    store.remove_part(part)
    store.put_part(b"bytes", "bin")
    assert store.has_part(part)


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_a_record_that_is_not_a_file_is_named_in_the_error(tmp_path, kind):
    """For reads and writes. A write replaces a pipe; the user must move a folder."""
    store = Store(str(tmp_path))
    (tmp_path / "tasks").mkdir()
    path = tmp_path / "tasks" / "a.json"
    os.mkfifo(path) if kind == "pipe" else path.mkdir()
    assert [name for name, _ in store.list_files("tasks")] == ["tasks/a.json"]
    with pytest.raises(UserError, match=rf"tasks/a.json is a {kind} where the store keeps a file, .*Restore it"):
        store.read_record("tasks/a.json")
    if kind == "pipe":
        store.write_json("tasks/a.json", {})
        assert store.read_record("tasks/a.json") == {}
    else:
        with pytest.raises(UserError, match=r"tasks/a.json is a folder .*Move it away"):
            store.write_json("tasks/a.json", {})
    assert not list((tmp_path / "tmp").iterdir())


def test_a_file_where_a_folder_belongs_is_named_in_the_error(tmp_path):
    """The message names the folder for any file below it."""
    store = Store(str(tmp_path))
    for folder in ("tmp", "tasks"):
        (tmp_path / folder).write_text("mine")
        with pytest.raises(UserError, match=rf"{folder} is a file where the store keeps a folder"):
            store.write_json("tasks/a.json", {})
        (tmp_path / folder).unlink()


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_a_claim_that_is_not_a_file_is_named_in_the_error(tmp_path, kind):
    """A run can neither wait for it nor take it over."""
    store = Store(str(tmp_path))
    (tmp_path / "claims").mkdir()
    path = tmp_path / "claims" / "key"
    os.mkfifo(path) if kind == "pipe" else path.mkdir()
    with pytest.raises(UserError, match=rf"claims/key is a {kind} .*Move it away"):
        store.mark("claims/key", "me")


def test_a_missing_file_outside_the_store_is_not_reported_as_a_store_error(tmp_path):
    """If a stage fails to open one of its own files, the error is not reported as a full disk."""
    store = Store(str(tmp_path / "store"))
    with pytest.raises(FileNotFoundError), store.scratch():
        (tmp_path / "nowhere").read_text()


def test_the_scratch_folder_of_a_killed_process_is_swept_for_a_remote_store(tmp_path, monkeypatch):
    """It is outside the store and may be as large as a shard; the folder of a live process stays."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store = Store(f"memory://{tmp_path}/store")
    dead = tmp_path / f"gristmill-{here()}-999999999-1-abcdefgh"
    dead.mkdir()
    (tmp_path / "gristmill-notes-of-my-own").mkdir()
    with store.scratch() as mine:
        store.sweep_temporaries()
        assert sorted(tmp_path.iterdir()) == sorted([mine, tmp_path / "gristmill-notes-of-my-own"])

"""The store: a file is there whole under the name of its content, or not at all."""

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
    """A power cut may leave a short file, a disk may change a digit: then nobody believes it."""
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
    """Two records that were exchanged do not speak for each other."""
    store.write_json("tasks/x.json", {"a": 1})
    store.fs.pipe_file(f"{store.root}/tasks/y.json", store.fs.cat_file(f"{store.root}/tasks/x.json"))
    assert store.read_json("tasks/y.json") is None


def test_a_record_is_plain_json(store):
    """Other tools read it too."""
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
    """A killed process leaves a temporary file; a living one's is left alone."""
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
    """A store may be a folder that somebody used before, or have its tmp on another disk."""
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


def test_temporaries_of_a_process_that_nobody_here_can_see_stay_for_a_day(tmp_path):
    """Another container or machine may be writing; a file that old was left by one that died."""
    store = Store(str(tmp_path))
    foreign = store.temporary("x").replace(here(), "elsewher")
    open(foreign, "w").close()
    assert store.sweep_temporaries() == []
    os.utime(foreign, (0, 0))
    assert store.sweep_temporaries() == [f"tmp/{os.path.basename(foreign)}"]


@pytest.mark.parametrize("number", [errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES, errno.ENAMETOOLONG])
def test_a_write_that_fails_is_one_message(tmp_path, monkeypatch, number):
    """A file too large, a disk that became read-only, rights: facts of the machine, not bugs."""
    store = Store(str(tmp_path))

    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(UserError, match=r"cannot be written.*What is finished is kept"):
        store.put_part(b"grain", "txt")
    assert os.listdir(tmp_path / "tmp") == []


def test_a_copy_without_times_can_be_read_where_nothing_can_be_written(tmp_path, monkeypatch):
    """A broken seal is mended where it can be; elsewhere the content is enough."""
    store = Store(str(tmp_path))
    part = store.put_part(b"grain", "txt")
    os.utime(store.part_path(part), (1, 1))

    def refuse(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "utime", refuse)
    assert store.has_part(part)


def test_too_few_open_files_are_no_fault_of_a_part(tmp_path, monkeypatch):
    """A part is made again when it is broken, and not when the machine is short of something."""
    store = Store(str(tmp_path))
    part = store.put_part(b"grain", "txt")

    def full(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(pa, "memory_map", full)
    with pytest.raises(UserError, match="ulimit"):
        store.get_part(part)


def test_a_full_disk_is_one_message(tmp_path, monkeypatch):
    """What is finished is kept, and the message says what to do."""
    store = Store(str(tmp_path))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UserError, match=r"is full.*gristmill gc"):
        store.put_part(b"grain", "txt")


def test_a_model_file_becomes_a_part_and_a_path_again(store, tmp_path):
    """A library that wants a path gets one, from any store."""
    model = tmp_path / "model"
    model.write_bytes(b"weights")
    part = store.put_file(model, "bin")
    assert not model.exists()
    assert store.local_path(part).read_bytes() == b"weights"
    assert part == Part(hashlib.sha256(b"weights").hexdigest(), "bin", 7)


def test_a_fetched_part_is_not_believed_by_its_name(tmp_path, monkeypatch):
    """Whatever lies in the folder of fetched parts is hashed on its first use in a process."""
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


def test_a_folder_that_others_can_write_is_not_used_for_fetched_parts(tmp_path, monkeypatch):
    """Nor a link in its place."""
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
    """Those that were not used for longest go."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("GRISTMILL_CACHE_BYTES", "250")
    store = Store(f"memory://{tmp_path}/far")
    parts = [store.put_part(bytes([n]) * 100, "bin") for n in range(3)]
    paths = [store.local_path(part) for part in parts[:2]]
    os.utime(paths[1], (1, 1))
    paths.append(store.local_path(parts[2]))
    assert [path.exists() for path in paths] == [True, False, True]
    assert store.local_path(parts[1]).read_bytes() == b"\1" * 100


def test_a_disk_that_fills_up_in_a_scratch_folder_is_told_and_leaves_nothing(tmp_path):
    """Files on their way to the store: one message with the fix, and the folder is gone."""
    store = Store(str(tmp_path / "store"))

    def fill() -> None:
        with store.scratch() as folder:
            (folder / "half.bin").write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(UserError, match="Free some space"):
        fill()
    assert list((tmp_path / "store" / "tmp").iterdir()) == []


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_is_no_file_is_not_waited_for(tmp_path, kind):
    """Under the name of a part or record it is a damaged one."""
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
def test_a_record_that_is_no_file_is_told_with_its_name(tmp_path, kind):
    """Where it is read and where it is written; a pipe is replaced, and a folder is the user's to move."""
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


def test_a_file_in_the_place_of_a_folder_is_told_with_its_name(tmp_path):
    """Whichever file below it was to be written."""
    store = Store(str(tmp_path))
    for folder in ("tmp", "tasks"):
        (tmp_path / folder).write_text("mine")
        with pytest.raises(UserError, match=rf"{folder} is a file where the store keeps a folder"):
            store.write_json("tasks/a.json", {})
        (tmp_path / folder).unlink()


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_a_claim_that_is_no_file_is_told_with_its_name(tmp_path, kind):
    """It cannot be waited for, nor taken over."""
    store = Store(str(tmp_path))
    (tmp_path / "claims").mkdir()
    path = tmp_path / "claims" / "key"
    os.mkfifo(path) if kind == "pipe" else path.mkdir()
    with pytest.raises(UserError, match=rf"claims/key is a {kind} .*Move it away"):
        store.mark("claims/key", "me")


def test_a_file_that_is_missing_elsewhere_is_no_fault_of_the_store(tmp_path):
    """A stage that opens a file of its own in vain is told as that, not as a disk that is full."""
    store = Store(str(tmp_path / "store"))
    with pytest.raises(FileNotFoundError), store.scratch():
        (tmp_path / "nowhere").read_text()


def test_the_scratch_of_a_killed_process_is_swept_where_the_store_is_elsewhere(tmp_path, monkeypatch):
    """It is outside of the store, and may be as large as a shard; that of a living process stays."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store = Store(f"memory://{tmp_path}/store")
    dead = tmp_path / f"gristmill-{here()}-999999999-1-abcdefgh"
    dead.mkdir()
    (tmp_path / "gristmill-notes-of-my-own").mkdir()
    with store.scratch() as mine:
        store.sweep_temporaries()
        assert sorted(tmp_path.iterdir()) == sorted([mine, tmp_path / "gristmill-notes-of-my-own"])

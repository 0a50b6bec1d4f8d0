"""The store: a file is there whole under the name of its content, or not at all."""

import errno
import hashlib
import os

import pyarrow as pa
import pytest

from gristmill.errors import UserError
from gristmill.store.segments import read_segment, write_segments
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


def test_a_record_that_does_not_parse_counts_as_absent(store):
    """A power cut may leave a short file; it is not an error."""
    store.write_json("tasks/x.json", {"a": 1})
    assert store.read_json("tasks/x.json") == {"a": 1}
    store.fs.pipe_file(f"{store.root}/tasks/x.json", b'{"a": ')
    assert store.read_json("tasks/x.json") is None
    assert store.read_json("tasks/none.json") is None


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
    ours = store._temporary("x")
    dead = ours.replace(f".{os.getpid()}.", ".999999999.")
    for path in (ours, dead):
        open(path, "w").close()
    assert store.sweep_temporaries() == [f"tmp/{os.path.basename(dead)}"]
    assert os.path.exists(ours)


def test_a_full_disk_is_one_message(tmp_path, monkeypatch):
    """What is finished is kept, and the message says what to do."""
    store = Store(str(tmp_path))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UserError, match=r"is full.*gristmill gc"):
        store.put_part(b"grain", "txt")


def test_segments_are_read_by_themselves_and_checked(store):
    """A reader takes its own stretch; damage in it is found, damage in another is none of its business."""
    tables = [(str(n), pa.table({"a": list(range(n * 10))})) for n in range(4)]
    file, segments = write_segments(store, tables)
    assert sorted(segments) == ["1", "2", "3"], "an empty segment is not written"
    assert read_segment(store, segments["2"]).column("a").to_pylist() == list(range(20))
    content = bytearray(bytes(store.get_part(file)))
    content[segments["3"].offset + 20] ^= 1
    store.remove_part(file)
    store.fs.pipe_file(store.part_path(file), bytes(content))
    assert read_segment(store, segments["2"]).num_rows == 20
    with pytest.raises(CorruptPart):
        read_segment(store, segments["3"])


def test_a_model_file_becomes_a_part_and_a_path_again(store, tmp_path):
    """A library that wants a path gets one, from any store."""
    model = tmp_path / "model"
    model.write_bytes(b"weights")
    part = store.put_file(model, "bin")
    assert not model.exists()
    assert store.local_path(part).read_bytes() == b"weights"
    assert part == Part(hashlib.sha256(b"weights").hexdigest(), "bin", 7)


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


def test_a_part_has_a_second_name_without_a_copy(tmp_path):
    """The name survives the first one, is sealed like it, and to give it again changes nothing."""
    store = Store(str(tmp_path / "store"))
    part = store.put_part(b"tokens", "bin")
    for _ in range(2):
        assert store.link_part(part, "shards/small/one.bin")
    link = tmp_path / "store" / "shards" / "small" / "one.bin"
    assert link.samefile(store.part_path(part))
    other = store.put_part(b"others", "bin")
    assert store.link_part(other, "shards/small/one.bin")
    assert link.read_bytes() == b"others"
    assert list((tmp_path / "store" / "tmp").iterdir()) == []
    assert not Store("memory://link").link_part(part, "shards/small/one.bin")

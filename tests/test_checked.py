"""Law 8 at its root: a reader gets bytes that match their hash, or an error."""

import io
import mmap
import os
import pickle
import random

import fsspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill import checked
from gristmill.checked import Content, InputChanged, content_of, open_checked
from gristmill.errors import UserError
from gristmill.places import FileLocation

BLOCK = 1 << 14  # more than Python reads ahead


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(checked, "BLOCK_BYTES", BLOCK)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "in.bin"


def hashed(path, data):
    path.write_bytes(data)
    with path.open("rb") as file:
        return content_of(file)


def opened(path, content):
    return open_checked(FileLocation(str(path)), content, str(path))


@settings(deadline=None)
@given(st.integers(0, 5 * BLOCK), st.lists(st.tuples(st.integers(0, 6 * BLOCK), st.integers(0, 3 * BLOCK)), max_size=8))
def test_it_reads_like_the_file_itself(tmp_path_factory, size, reads):
    """Any reads at any positions return what the plain file returns."""
    path = tmp_path_factory.mktemp("same") / "in.bin"
    data = random.Random(size).randbytes(size)
    oracle = io.BytesIO(data)
    with opened(path, hashed(path, data)) as file:
        for place, length in reads:
            assert file.seek(place) == oracle.seek(place)
            assert file.read(length) == oracle.read(length)
            assert file.tell() == oracle.tell()
        assert file.seek(0, 2) == size
        file.seek(0)
        assert file.read() == data


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_remembered_content_round_trips(path, size):
    """Content goes to JSON and back; any other value counts as nothing."""
    content = hashed(path, os.urandom(size))
    assert Content.from_json(content.as_json()) == content
    assert content.size == size
    for broken in (None, [], ["x"], [1, 2, 3], ["x", 5, ""], ["x", "y", "z"], "text", {"a": 1}):
        assert Content.from_json(broken) is None


def overwrite(path, at, data):
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def through_mapping(path, at, data):
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[at : at + len(data)] = data


@pytest.mark.parametrize("write", [overwrite, through_mapping])
@pytest.mark.parametrize("at", [0, BLOCK - 1, BLOCK, 2 * BLOCK + 7, 3 * BLOCK - 1])
def test_one_changed_byte_is_rejected_with_size_and_times_unchanged(path, write, at):
    """Setting the times back, or writing through a mapping, does not hide the change."""
    content = hashed(path, bytes(3 * BLOCK))
    before = path.stat()
    write(path, at, b"x")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    with opened(path, content) as file:
        file.seek(at)
        with pytest.raises(InputChanged, match="changed since it was hashed"):
            file.read(1)


def test_returned_bytes_were_compared_in_memory(path):
    """A write to a block that was already read changes nothing; a write to a later block is an error."""
    content = hashed(path, bytes(3 * BLOCK))
    with opened(path, content) as file:
        assert file.read(10) == bytes(10)
        overwrite(path, 0, b"x" * BLOCK)
        file.seek(0)
        assert file.read(BLOCK) == bytes(BLOCK)
        overwrite(path, 2 * BLOCK, b"x")
        file.seek(BLOCK)
        assert file.read(BLOCK) == bytes(BLOCK)
        with pytest.raises(InputChanged):
            file.read(1)


@pytest.mark.parametrize("size", [0, 1, BLOCK, 2 * BLOCK - 1, 2 * BLOCK + 1, 5 * BLOCK])
def test_a_longer_or_shorter_file_is_rejected(path, size):
    """The file is truncated, extended or emptied."""
    content = hashed(path, bytes(2 * BLOCK))
    path.write_bytes(bytes(size))
    with pytest.raises(InputChanged), opened(path, content) as file:
        file.read()


@pytest.mark.parametrize("size", [0, 10, BLOCK, 2 * BLOCK])
def test_an_object_store_gets_the_same_checks(size):
    """There is no size to check first; the end of the file shows it."""
    system = fsspec.filesystem("memory")
    system.pipe_file("/checked/x", bytes(size))
    place = FileLocation("/checked/x", system)
    with place.open() as file:
        content = content_of(file)
    with open_checked(place, content, "memory://checked/x") as file:
        assert file.read() == bytes(size)
    for other in (bytes(size) + b"x", b"x" * size, bytes(max(0, size - 1))):
        if other != bytes(size):
            system.pipe_file("/checked/x", other)
            with pytest.raises(InputChanged), open_checked(place, content, "memory://checked/x") as file:
                file.read()


def test_a_broken_connection_does_not_count_as_damage(path):
    """Readers treat OSError as damaged data: an external fault must not become a verdict about a document."""

    class Flaky:
        def open(self, path, mode):
            return Broken(bytes(2 * BLOCK))

    class Broken(io.BytesIO):
        def read(self, size=-1):
            if self.tell() >= BLOCK:
                raise ConnectionResetError("gone")
            return super().read(size)

    content = hashed(path, bytes(2 * BLOCK))
    with open_checked(FileLocation("x", Flaky()), content, "flaky://x") as file:
        assert file.read(BLOCK) == bytes(BLOCK)
        with pytest.raises(UserError, match="cannot be read: gone"):
            file.read(1)


def test_the_error_can_be_pickled():
    """It keeps the name of the file, so that the remembered content is discarded."""
    error = pickle.loads(pickle.dumps(InputChanged("/in/caf\udce9.jsonl")))
    assert error.uri == "/in/caf\udce9.jsonl"
    assert "caf\ufffd.jsonl changed since it was hashed" in str(error)

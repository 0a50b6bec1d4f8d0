"""The cache of fetched shards: no file is trusted for its name, and no other user can put files there."""

import hashlib
import os
import stat

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from gristmill.errors import UserError
from gristmill.loader import Loader, cache, checks
from gristmill.loader.cache import Cache
from loader.small import two_phases
from loader.test_store import tokens_of, upload

LOCATION = "memory://bucket/run"


@pytest.fixture(autouse=True)
def stored(tmp_path, monkeypatch):
    """A run on a store, with no waiting between attempts, in a process that has hashed nothing yet."""
    MemoryFileSystem.store.clear()
    monkeypatch.setattr(cache, "RETRY_SECONDS", ())
    monkeypatch.setattr(checks, "_right", {})
    upload(two_phases().write(tmp_path / "shards").parent, LOCATION)
    yield
    MemoryFileSystem.store.clear()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def expected(tmp_path):
    with Loader(tmp_path / "shards") as loader:
        return tokens_of(loader)


def read_all(folder, **options):
    with Loader(LOCATION, cache=folder, **options) as loader:
        return tokens_of(loader), loader.stats()


def files_of(folder):
    return [path for path in folder.iterdir() if not path.is_dir()]


def test_a_fetched_file_is_not_hashed_a_second_time(folder, expected):
    """A file is hashed once while it arrives, then never again in this process."""
    rows, stats = read_all(folder)
    assert rows == expected
    assert stats["hashed_files"] == stats["fetched_files"] == 12
    assert read_all(folder)[1]["hashed_files"] == 0


@pytest.mark.parametrize("threads", [0, 2])
def test_a_process_hashes_cached_files_before_the_first_use(folder, expected, monkeypatch, threads):
    """Each process reads each file once; all are intact, and nothing is fetched."""
    read_all(folder)
    monkeypatch.setattr(checks, "_right", {})
    rows, stats = read_all(folder, threads=threads)
    assert rows == expected
    assert (stats["hashed_files"], stats["fetched_files"]) == (12, 0)


def test_a_wrong_bit_under_the_right_name_size_and_time_is_fetched_again(folder, expected, monkeypatch):
    """The disk of a machine that trained before may have bit rot."""
    read_all(folder)
    for path in files_of(folder):
        before, data = path.stat(), path.read_bytes()
        path.write_bytes(data[:-3] + bytes([data[-3] ^ 1]) + data[-2:])
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    monkeypatch.setattr(checks, "_right", {})
    rows, stats = read_all(folder)
    assert rows == expected
    assert stats["fetched_files"] == 12


def test_only_the_user_can_access_the_folder(folder):
    """The permissions of the folder and its files are private."""
    read_all(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "locks").stat().st_mode) == 0o700
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o022 == 0 for path in folder.rglob("*"))


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
@pytest.mark.parametrize("inside", ["", "locks"])
def test_a_folder_that_others_may_write_is_rejected(folder, mode, inside):
    """The message gives the command that fixes it."""
    (folder / inside).mkdir(parents=True, mode=0o700)
    folder.chmod(0o700)
    (folder / inside).chmod(mode)
    with pytest.raises(UserError, match=r"is writable by other users \(mode 1?7\d\d\).*chmod go-w"):
        Loader(LOCATION, cache=folder)
    (folder / inside).chmod(mode & ~0o022)
    read_all(folder)


def test_a_folder_of_another_user_is_rejected(folder, monkeypatch):
    """The other user could put anything into it."""
    folder.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(UserError, match=r"belongs to another user.*cache="):
        Loader(LOCATION, cache=folder)


def test_links_to_files_are_not_followed(folder, tmp_path, expected):
    """A link is rejected even if its target has the right content now: its owner may change it."""
    read_all(folder)
    outside = tmp_path / "outside"
    outside.mkdir()
    for path in files_of(folder):
        path.rename(outside / path.name)
        path.symlink_to(outside / path.name)
    rows, stats = read_all(folder)
    assert rows == expected
    assert stats["fetched_files"] == 12
    assert not any(path.is_symlink() for path in folder.iterdir())
    assert len(files_of(outside)) == 12


def test_links_that_replace_locks_are_not_followed(folder, tmp_path):
    """A missing lock file is created in the folder, not at the target of a link."""
    read_all(folder)
    for path in [*files_of(folder), *(folder / "locks").iterdir()]:
        path.unlink()
    for number in range(256):
        (folder / "locks" / f"{number:02x}").symlink_to(tmp_path / "victim")
    with pytest.raises(UserError, match="cannot be used as a cache"):
        read_all(folder)
    assert not (tmp_path / "victim").exists()
    for path in (folder / "locks").iterdir():
        path.unlink()
    (folder / "locks").rmdir()
    (tmp_path / "elsewhere").mkdir()
    (folder / "locks").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="cannot be used as a cache"):
        read_all(folder)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_the_folder_itself_may_be_a_link(folder, tmp_path, expected):
    """Users may link it to a larger disk; the link is resolved once."""
    (tmp_path / "disk").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "disk")
    assert read_all(folder)[0] == expected
    assert len(files_of(tmp_path / "disk")) == 12


def test_a_pipe_or_a_folder_instead_of_a_file_does_not_block(folder, expected):
    """The file replaces a pipe; a folder is an error."""
    read_all(folder)
    names = [path.name for path in files_of(folder)]
    for name in names:
        (folder / name).unlink()
        os.mkfifo(folder / name)
    assert read_all(folder)[0] == expected
    for name in names:
        (folder / name).unlink()
        (folder / name).mkdir()
    with pytest.raises(UserError, match="cannot be fetched"):
        read_all(folder)


def test_freeing_space_removes_links_and_not_their_targets(tmp_path):
    """It does not wait for a pipe either."""
    shard_cache = Cache(tmp_path / "cache", 10)
    (tmp_path / "outside").write_bytes(bytes(1000))
    (shard_cache.folder / "link").symlink_to(tmp_path / "outside")
    os.mkfifo(shard_cache.folder / "pipe")
    (shard_cache.folder / "file").write_bytes(bytes(5))
    shard_cache.free_space(10)
    assert (tmp_path / "outside").stat().st_size == 1000
    assert files_of(shard_cache.folder) == []


def test_a_file_larger_than_the_whole_cache_is_not_fetched(tmp_path):
    """The manifest does not give the size of an index."""
    system = MemoryFileSystem()
    system.pipe_file("/b/large", bytes(1000))
    shard_cache = Cache(tmp_path / "cache", 999)
    with pytest.raises(UserError, match=r"has 1000 bytes, but the cache may only hold 999"):
        shard_cache.opened("ab" * 32, "memory://b/large")
    assert shard_cache.fetched_files == 0


def test_a_file_whose_size_differs_from_the_manifest_is_not_fetched(tmp_path):
    """This holds for any size."""
    system = MemoryFileSystem()
    system.pipe_file("/b/file", bytes(1000))
    shard_cache = Cache(tmp_path / "cache", 10**6)
    with pytest.raises(UserError, match=r"has 1000 bytes and should have 24"):
        shard_cache.opened("ab" * 32, "memory://b/file", 24)


def test_a_temporary_file_that_is_swept_before_it_is_locked_is_created_again(tmp_path, monkeypatch):
    """Freeing space removes files that no process has locked, and a new file is not locked for a moment."""
    content, swept = bytes(1000), []
    MemoryFileSystem().pipe_file("/b/file", content)
    shard_cache = Cache(tmp_path / "cache", 10**6)
    lock = cache.fcntl.flock

    def late(file, how):
        for path in shard_cache.folder.glob(".part.*") if not swept else ():
            path.unlink()
            swept.append(path)
        return lock(file, how)

    open_file = cache.OpenFile

    def after_others_made_room(path, **options):
        if path.name.startswith(".part"):
            shard_cache.free_space(0)
        return open_file(path, **options)

    monkeypatch.setattr(cache.fcntl, "flock", late)
    monkeypatch.setattr(cache, "OpenFile", after_others_made_room)
    digest = hashlib.sha256(content).hexdigest()
    assert shard_cache.ensure(digest, "memory://b/file").read_bytes() == content
    assert len(swept) == 1


def test_a_cache_that_becomes_read_only_is_an_error_message(folder, monkeypatch):
    """A disk becomes read-only in the middle of a run."""
    shard_cache = Cache(folder, 10**6)
    (folder / "locks").rmdir()
    with pytest.raises(UserError, match=r"cannot be used as a cache.*Give a writable folder"):
        shard_cache.opened("ab" * 32, "memory://b/file")

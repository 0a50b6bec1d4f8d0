"""Shards on an object store are fetched whole, ahead of need, into a bounded folder that processes share."""

import contextlib
import fcntl
import hashlib
import importlib
import os
import pickle
import subprocess
import sys
import threading
import types

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from gristmill.errors import UserError
from gristmill.install_command import install_extra, install_library
from gristmill.loader import Loader, cache
from gristmill.loader.ahead import needed_shards
from gristmill.loader.cache import Cache
from gristmill.loader.order import Order
from gristmill.shardformat.locations import file_system
from gristmill.shardformat.manifest import read_manifest
from gristmill.shardformat.open_file import OpenFile
from loader.small import Corpus, two_phases

SHARD_BYTES = 10 * 12 * 2


class Unsteady(MemoryFileSystem):
    """A store that fails, returns wrong bytes or is slow on demand, and that records the requests."""

    protocol = "unsteady"
    cachable = False
    failures: list[BaseException]
    cut: int
    fetched: list[str]
    gate: threading.Event | None = None

    def get_file(self, rpath, lpath, **options):
        type(self).fetched.append(rpath)
        if self.gate is not None:
            assert self.gate.wait(30)
        if self.failures:
            raise self.failures.pop()
        super().get_file(rpath, lpath, **options)
        if self.cut:
            type(self).cut -= 1
            os.truncate(lpath, os.path.getsize(lpath) // 2)


@pytest.fixture(autouse=True)
def store(monkeypatch):
    """A clean store, and no waiting between attempts."""
    fsspec.register_implementation("unsteady", Unsteady, clobber=True)
    Unsteady.failures, Unsteady.cut, Unsteady.fetched, Unsteady.gate = [], 0, [], None
    MemoryFileSystem.store.clear()
    monkeypatch.setattr(cache, "RETRY_SECONDS", (0.0, 0.0))
    yield Unsteady
    MemoryFileSystem.store.clear()


def upload(folder, location):
    system, root = fsspec.url_to_fs(location)
    for path in folder.rglob("*"):
        if path.is_file():
            system.pipe_file(f"{root}/{path.relative_to(folder)}", path.read_bytes())


def many_shards(folder):
    """Two groups with shards of equal size."""
    return Corpus({"a": [10] * 12, "b": [10] * 6}, [(200, {"a": 150, "b": 50})]).write(folder)


def size_of(entry):
    """The size of a file, 0 if it is removed at this moment."""
    with contextlib.suppress(FileNotFoundError):
        return entry.stat().st_size if entry.is_file() and not entry.name.startswith(".room") else 0
    return 0


def tokens_of(loader):
    return [row.tobytes() for batch in loader for row in batch.tokens]


@pytest.mark.parametrize("protocol", ["memory", "unsteady"])
def test_a_run_from_a_store_equals_the_run_from_a_disk(tmp_path, protocol):
    """It is opened by its manifest or its folder; a second run fetches nothing."""
    local = two_phases().write(tmp_path / "shards")
    upload(local.parent, f"{protocol}://bucket/run")
    with Loader(local, batch_samples=7) as loader:
        expected = tokens_of(loader)
    for name in ("", "/", "/manifest.json"):
        options = {"batch_samples": 7, "cache": tmp_path / "cache", "threads": 2}
        with Loader(f"{protocol}://bucket/run{name}", **options) as loader:
            assert tokens_of(loader) == expected
            assert (loader.stats()["fetched_files"] == 0) == (name != "")


def test_a_local_manifest_may_name_shards_on_a_store(tmp_path):
    """`files` gives the locations."""
    local = two_phases().write(tmp_path / "shards")
    upload(local.parent, "memory://bucket/run")
    with Loader(local) as loader:
        expected = tokens_of(loader)
    text = local.read_text()
    for group in ("crawl-B", "wiki-A", "code"):
        text = text.replace(f'"{group}/', f'"memory://bucket/run/{group}/')
    (tmp_path / "manifest.json").write_text(text)
    with Loader(tmp_path, cache=tmp_path / "cache") as loader:
        assert tokens_of(loader) == expected


@pytest.mark.parametrize("fault", ["fails once", "is cut short once"])
def test_a_failed_fetch_is_retried(tmp_path, store, fault):
    """A connection breaks with an error, or without one."""
    upload(two_phases().write(tmp_path / "shards").parent, "unsteady://bucket/run")
    if fault == "fails once":
        store.failures = [OSError("connection reset")]
    else:
        store.cut = 1
    with Loader("unsteady://bucket/run", cache=tmp_path / "cache", batch_samples=10) as loader:
        assert len(tokens_of(loader)) == 450


def test_a_store_that_keeps_failing_is_an_error(tmp_path, store):
    """It is raised after the last attempt, and no partial file is left."""
    upload(two_phases().write(tmp_path / "shards").parent, "unsteady://bucket/run")
    store.failures = [OSError("connection reset") for _ in range(1000)]
    with Loader("unsteady://bucket/run", cache=tmp_path / "cache") as loader:
        with pytest.raises(UserError, match=r"cannot be fetched: connection reset.*Check the store"):
            next(iter(loader))
        assert loader.state_dict() == {"sample": 0}
    assert [path for path in (tmp_path / "cache").iterdir() if path.is_file()] == []


def test_content_that_does_not_match_the_manifest_is_rejected(tmp_path, store):
    """A shard on the store was replaced by one of the same size."""
    folder = two_phases().write(tmp_path / "shards").parent
    for path in folder.rglob("*.bin"):
        path.write_bytes(bytes(path.stat().st_size))
    upload(folder, "unsteady://bucket/run")
    with (
        Loader("unsteady://bucket/run", cache=tmp_path / "cache") as loader,
        pytest.raises(UserError, match="does not have the hash"),
    ):
        next(iter(loader))


def test_a_shard_that_is_missing_on_the_store_is_named(tmp_path):
    """The error is immediate, without new attempts."""
    folder = two_phases().write(tmp_path / "shards").parent
    for path in folder.rglob("*.index"):
        path.unlink()
    upload(folder, "memory://bucket/run")
    with (
        Loader("memory://bucket/run", cache=tmp_path / "cache") as loader,
        pytest.raises(UserError, match=r"\.index cannot be fetched: there is no such file"),
    ):
        next(iter(loader))


@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_a_damaged_file_in_the_cache_is_fetched_again(tmp_path, store, damage):
    """This holds whether or not its size changed."""
    upload(two_phases().write(tmp_path / "shards").parent, "unsteady://bucket/run")
    folder = tmp_path / "cache"
    with Loader("unsteady://bucket/run", cache=folder) as loader:
        expected = tokens_of(loader)
    for path in folder.iterdir():
        if path.is_file():
            data = path.read_bytes()
            path.write_bytes({"cut": data[:-3], "changed": data[:-1] + b"\xff", "empty": b""}[damage])
    with Loader("unsteady://bucket/run", cache=folder) as loader:
        assert tokens_of(loader) == expected
    for path in folder.iterdir():
        assert not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() == path.name


def test_a_copied_cache_is_hashed_once_and_not_fetched(tmp_path, store):
    """A different modification time alone is not damage."""
    upload(two_phases().write(tmp_path / "shards").parent, "unsteady://bucket/run")
    with Loader("unsteady://bucket/run", cache=tmp_path / "cache") as loader:
        expected = tokens_of(loader)
    for path in (tmp_path / "cache").iterdir():
        os.utime(path)
    with Loader("unsteady://bucket/run", cache=tmp_path / "cache") as loader:
        assert tokens_of(loader) == expected
        assert loader.stats()["fetched_files"] == 0


def closed_bytes_in(folder):
    """Bytes of the files that no process has open; open files are never removed."""
    total = 0
    for entry in os.scandir(folder):
        with contextlib.suppress(OSError), open(entry.path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            total += size_of(entry)
    return total


def test_the_cache_stays_within_its_size_limit(tmp_path, store):
    """This is checked after every batch; the samples equal those on the store."""
    local = many_shards(tmp_path / "shards")
    upload(local.parent, "unsteady://bucket/run")
    with Loader(local, batch_samples=5) as loader:
        expected = tokens_of(loader)
    index_bytes = max(path.stat().st_size for path in local.parent.rglob("*.index"))
    limit = 8 * (SHARD_BYTES + index_bytes)
    folder = tmp_path / "cache"
    rows, used = [], []
    with Loader("unsteady://bucket/run", cache=folder, cache_bytes=limit, batch_samples=5) as loader:
        for batch in loader:
            rows += [row.tobytes() for row in batch.tokens]
            used.append(closed_bytes_in(folder))
        removed = loader.stats()["removed_files"]
    assert rows == expected
    assert max(used) <= limit
    assert removed > 0
    assert len(set(store.fetched)) == 2 * (12 + 5)
    Cache(folder, limit // 2).free_space(0)
    assert sum(map(size_of, os.scandir(folder))) <= limit // 2


def test_an_open_file_is_never_removed(tmp_path):
    """The lock of an open file shows it to this process and others; the oldest of the other files is removed first."""
    shard_cache = Cache(tmp_path, 10)
    for number, name in enumerate("abcd"):
        (tmp_path / name).write_bytes(bytes(4))
        os.utime(tmp_path / name, ns=(number + 1, 0))
    held = OpenFile(tmp_path / "a", lock=True)
    view = held.mapped()[0]
    shard_cache.free_space(2)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["a", "d"]
    del held
    shard_cache.free_space(4)
    assert (tmp_path / "a").exists()
    script = f"from gristmill.loader.cache import Cache; Cache({str(tmp_path)!r}, 10).free_space(10)"
    subprocess.run([sys.executable, "-c", script], check=True)
    assert (tmp_path / "a").exists()
    del view
    subprocess.run([sys.executable, "-c", script], check=True)
    assert not (tmp_path / "a").exists()


def test_the_files_of_a_killed_process_are_removed(tmp_path):
    """Partial files count, and are removed before any complete file."""
    shard_cache = Cache(tmp_path, 100)
    (tmp_path / ".part.abcd").write_bytes(bytes(50))
    (tmp_path / ".room.abcd").write_bytes(bytes(90))
    (tmp_path / "whole").write_bytes(bytes(20))
    shard_cache.free_space(1)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["whole"]


def test_only_one_of_many_readers_fetches_a_file(tmp_path, store):
    """The ranks of one machine share the folder."""
    content = b"tokens" * 1000
    digest = hashlib.sha256(content).hexdigest()
    system, path = fsspec.url_to_fs("unsteady://b/file")
    system.pipe_file(path, content)
    store.gate = threading.Event()
    caches = [Cache(tmp_path, 10**6) for _ in range(6)]
    found = []

    def open_file(shard_cache):
        found.append(shard_cache.opened(digest, "unsteady://b/file", len(content)).size)

    threads = [threading.Thread(target=open_file, args=(shard_cache,)) for shard_cache in caches]
    for thread in threads:
        thread.start()
    store.gate.set()
    for thread in threads:
        thread.join(30)
    assert found == [len(content)] * 6
    assert len(store.fetched) == 1
    assert sum(shard_cache.fetched_files for shard_cache in caches) == 1


def test_the_next_shards_are_known_in_the_order_of_their_use(tmp_path):
    """At any sample, these are the shards in use and the next one of each group, within a few samples."""
    order = Order(read_manifest(two_phases().write(tmp_path)))
    places = [order.place(sample) for sample in range(order.samples)]
    for sample in range(0, order.samples, 7):
        found = needed_shards(order, sample)
        assert found == sorted(found)
        in_use = {(item.group, item.shard) for item in found if item.now}
        assert (places[sample].group, places[sample].shard) in in_use
        for item in found:
            following = places[max(sample, item.sample - 8) : item.sample + 9]
            assert (item.group, item.shard) in {(place.group, place.shard) for place in following}, item


def test_shards_are_fetched_before_they_are_needed(tmp_path, store):
    """While the first batch is used, the second shard of each group arrives."""
    local = many_shards(tmp_path / "shards")
    upload(local.parent, "unsteady://bucket/run")
    folder = tmp_path / "cache"
    with Loader("unsteady://bucket/run", cache=folder, threads=0) as loader:
        soon = [loader.manifest.groups[item.group].shards[item.shard].bin for item in needed_shards(loader.order, 0)]
        assert len(soon) == 4
        next(iter(loader))
        loader._reader.ahead.idle.wait(30)
        assert all((folder / digest).exists() for digest in soon)


def test_a_cache_that_is_too_small_for_one_shard_of_each_group_is_rejected(tmp_path):
    """It would fetch every shard for every batch; the message says how much space is needed."""
    upload(many_shards(tmp_path / "shards").parent, "memory://bucket/run")
    with pytest.raises(UserError, match=f"takes {2 * SHARD_BYTES}.*Give at least {2 * SHARD_BYTES}"):
        Loader("memory://bucket/run", cache=tmp_path / "cache", cache_bytes=2 * SHARD_BYTES - 1)


def test_a_missing_library_is_named():
    """The message names fsspec, or the file system of a location."""
    script = (
        "import sys; sys.modules['fsspec'] = None\n"
        "from gristmill.loader import Loader\n"
        "try: Loader('s3://bucket/run')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("UserError s3://bucket/run")
    assert f"{install_library('fsspec')}; for s3:// and gs://: {install_extra('s3')}" in done.stdout
    with pytest.raises(UserError, match="nowhere://"):
        file_system("nowhere://bucket/run")


@pytest.fixture
def latest(tmp_path):
    """A link to a corpus, and a function that publishes another one, as a takedown does."""
    two_phases().write(tmp_path / "old")
    Corpus({"crawl/B": [3], "wiki/A": [2], "code": [1]}, [(9, {"crawl/B": 1})]).write(tmp_path / "new")
    link = tmp_path / "latest"
    link.symlink_to("old")

    def publish():
        link.unlink()
        link.symlink_to("new")

    return link, publish


def test_a_link_is_resolved_when_the_loader_is_opened(latest, tmp_path):
    """`latest` moves to another folder while a trainer runs, and the trainer continues with the folder it opened."""
    link, publish = latest
    with Loader(link) as loader, Loader(tmp_path / "old") as expected:
        publish()
        with pickle.loads(pickle.dumps(loader)) as again:  # in another process that starts later
            for number in range(0, loader.samples, 7):
                assert (loader[number].tokens == expected[number].tokens).all()
                assert (again[number].tokens == expected[number].tokens).all()


def test_workers_that_start_after_a_takedown_read_the_same_shards_as_the_first(latest, tmp_path, monkeypatch):
    """Each worker of a DataLoader opens the shards separately: together they return every sample of one manifest."""
    data = types.SimpleNamespace(IterableDataset=object, Dataset=object, get_worker_info=lambda: info)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(from_numpy=lambda array: array))
    monkeypatch.setitem(sys.modules, "torch.utils.data", data)
    monkeypatch.delitem(sys.modules, "gristmill.loader.torch", raising=False)
    link, publish = latest
    with Loader(tmp_path / "old", batch_samples=10) as loader:
        expected = [batch.tokens.tolist() for batch in loader]
    dataset = importlib.import_module("gristmill.loader.torch").StreamDataset(link, batch_samples=10)
    monkeypatch.delitem(sys.modules, "gristmill.loader.torch")
    info = types.SimpleNamespace(id=0, num_workers=2)
    first = [batch.tokens.tolist() for batch in dataset]
    publish()
    info = types.SimpleNamespace(id=1, num_workers=2)
    second = [batch.tokens.tolist() for batch in dataset]
    assert [*first, *second] == [*expected[::2], *expected[1::2]]
    assert len(second) > 1

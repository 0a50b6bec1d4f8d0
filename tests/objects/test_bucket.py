"""Objects by key on every installed S3 server: the same answers as from a disk."""

import json
import os

import pytest
from tests.objects.faulty_proxy import FaultyProxy

from gristmill.objects import bucket as bucket_module
from gristmill.objects import requests
from gristmill.places import FileLocation, place_of, system_of
from gristmill.store.store import Part, Store


def test_what_is_written_is_read(s3):
    """As a whole, by range, beyond its end, under any name; a removed object is gone."""
    system, root = system_of(f"{s3}/some where/ü#?%20x")
    path = f"{root}/a.json"
    system.pipe_file(path, b"hello")
    assert system.cat_file(path) == b"hello"
    assert system.cat_file(path, start=1, end=3) == b"el"
    assert system.cat_file(path, start=3, end=99) == b"lo"
    assert system.cat_file(path, start=7, end=9) == b""
    assert system.cat_file(path, start=-2) == b"lo"
    assert system.info(path)["size"] == 5
    system.rm_file(path)
    system.rm_file(path)
    with pytest.raises(FileNotFoundError):
        system.cat_file(path)
    assert not system.exists(path)


def test_folders_and_patterns_are_found_as_on_a_disk(s3):
    """Sources are listed this way."""
    system, root = system_of(s3)
    for name in ("in/a.jsonl", "in/b.jsonl.gz", "in/deep/c.jsonl", "in2/d.jsonl"):
        system.pipe_file(f"{root}/{name}", b"{}")
    assert system.find(f"{root}/in") == [f"{root}/in/a.jsonl", f"{root}/in/b.jsonl.gz", f"{root}/in/deep/c.jsonl"]
    assert system.glob(f"{root}/in/*.jsonl*") == [f"{root}/in/a.jsonl", f"{root}/in/b.jsonl.gz"]
    assert system.glob(f"{root}/**/*.jsonl") == [f"{root}/in/a.jsonl", f"{root}/in/deep/c.jsonl", f"{root}/in2/d.jsonl"]
    assert system.isdir(f"{root}/in")
    assert not system.isdir(f"{root}/in/a.jsonl")
    assert not system.isdir(f"{root}/nothing")


def test_a_large_object_is_written_and_read_in_pieces(s3, monkeypatch, tmp_path):
    """It is uploaded in parts and read in parallel ranges, and the bytes are the same."""
    monkeypatch.setattr(bucket_module, "SINGLE_BYTES", 1 << 20)
    store = Store(f"{s3}/store")
    data = os.urandom(9 << 20)  # two parts: all but the last need at least 5 MiB
    before = requests.counted()
    part = store.put_part(data, "bin")
    assert requests.since(before) == {"puts": 4, "bytes_sent": len(data)}
    (tmp_path / "file").write_bytes(data)
    assert store.put_file(tmp_path / "file", "bin") == part
    monkeypatch.setattr(bucket_module, "PIECE_BYTES", 3 << 20)
    before = requests.counted()
    assert store.get_part(part) == data
    assert requests.since(before) == {"gets": 3, "bytes_fetched": len(data)}
    system, path = system_of(store.location(part))
    system.get_file(path, str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == data


def test_an_object_is_read_as_a_file(s3, monkeypatch):
    """Sequentially with read-ahead, and at any position."""
    monkeypatch.setattr("gristmill.objects.reader.BLOCK_BYTES", 1000)
    data = os.urandom(4500)
    system, path = system_of(f"{s3}/file")
    system.pipe_file(path, data)
    with FileLocation(path, system).open() as file:
        assert b"".join(iter(lambda: file.read(700), b"")) == data
        file.seek(3210)
        assert file.read(20) == data[3210:3230]
        assert file.seek(0, os.SEEK_END) == 4500
        assert file.read(1) == b""
    with place_of(f"{s3}/file").open() as file:
        assert file.read(5) == data[:5]


def test_a_mark_is_created_once(s3, s3_address, request):
    """The second writer learns who was first. s3rver ignores the condition and overwrites: there both writers succeed,
    and two simultaneous runs may do a task twice, with the same result.
    """
    store = Store(f"{s3}/store")
    assert store.mark("claims/x", "first") is None
    knows_conditions = "s3rver" not in request.node.name
    assert store.mark("claims/x", "second") == ("first" if knows_conditions else None)
    store.unmark("claims/x")
    assert store.mark("claims/x", "third") is None


def test_a_listing_has_all_pages_even_if_one_is_lost(s3_server, use_s3, monkeypatch):
    """A retry continues after the last key."""
    monkeypatch.setattr("gristmill.objects.patience.WAIT_SECONDS", 0)
    monkeypatch.setattr(bucket_module, "PAGE_KEYS", 10)
    s3_server.page_keys = 10
    uri = use_s3(s3_server.address)
    bucket = s3_server.buckets[uri.removeprefix("s3://")]
    for number in range(95):
        bucket[f"store/tasks/{number:03}.json"] = (b"{}", "0", 0)
    names = [f"tasks/{number:03}.json" for number in range(95)]
    assert [name for name, _ in Store(f"{uri}/store").list_files("tasks")] == names
    proxy = FaultyProxy(s3_server.server_port, busy=0.2, cut=0.2)
    try:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.address)
        system_of(uri)[0].clear_instance_cache()
        assert [name for name, _ in Store(f"{uri}/store").list_files("tasks")] == names
        assert proxy.met["cut"]
        assert proxy.met["busy"]
    finally:
        proxy.close()


def test_a_forked_process_gets_an_error_at_once(s3_server, use_s3):
    """A fork has no connections, so without this check it would hang."""
    uri = use_s3(s3_server.address)
    system, root = system_of(uri)
    system.pipe_file(f"{root}/a", b"x")
    read, write = os.pipe()
    if not (child := os.fork()):
        try:
            system_of(uri)[0].cat_file(f"{root}/a")
        except Exception as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as message:
        assert "forkserver" in message.read()
    os.waitpid(child, 0)


def test_many_parts_are_found_by_listing(s3_server, use_s3):
    """A page has a thousand keys, a lookup one: for thousands of parts a few requests give the same answer. A part that
    the listing did not show is looked up individually.
    """
    uri = use_s3(s3_server.address)
    bucket = s3_server.buckets[uri.removeprefix("s3://")]
    parts = [Part(f"ab{number:014x}{0:048x}", "parquet", 3) for number in range(2500)]
    for part in parts:
        bucket[f"store/{part.name}"] = (b"abc", "0", 0)
    named = [(part.name, part.file_bytes) for part in parts]
    before = requests.counted()
    assert Store(f"{uri}/store").has_all(named)
    assert requests.since(before) == {"lists": 3}
    before = requests.counted()
    assert Store(f"{uri}/store").has_all(named[:5])
    assert requests.since(before) == {"heads": 5}
    store = Store(f"{uri}/store")
    assert store.has_all(named)
    store.remove_part(parts[7])
    assert not store.has_part(parts[7])
    assert not Store(f"{uri}/store").has_all(named)
    bucket[f"store/{parts[8].name}"] = (b"ab", "0", 0)
    assert not Store(f"{uri}/store").has_part(parts[8])
    new = store.put_part(b"written later", "bin")
    assert store.has_part(new)


def test_google_uses_the_same_code(s3_server, use_s3, monkeypatch, tmp_path):
    """`gs://` has nearly the same protocol, with another condition for marks."""
    use_s3(s3_server.address)
    s3_server.requires_keys = False
    s3_server.buckets["there"] = {}
    key = {"gcs_base_url": s3_server.address, "disable_oauth": True, "client_email": "", "private_key": ""}
    (tmp_path / "key.json").write_text(json.dumps({**key, "private_key_id": ""}))
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(tmp_path / "key.json"))
    store = Store("gs://there/store")
    part = store.put_part(b"some bytes", "bin")
    assert bytes(store.get_part(part)) == b"some bytes"
    assert store.has_part(part)
    assert [store.mark("claims/x", name) for name in ("first", "second")] == [None, "first"]
    store.unmark("claims/x")
    assert [name for name, _ in store.list_files("")] == [part.name]
    assert store.location(part) == f"gs://there/store/{part.name}"

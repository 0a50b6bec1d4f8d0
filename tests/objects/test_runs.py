"""Complete runs on an object store: the same bytes as on a disk, even with network faults."""

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest
from tests.objects.conftest import point_at
from tests.objects.faulty_proxy import FaultyProxy

from gristmill.engine.publish.run_record import see
from gristmill.loader import Loader
from gristmill.objects import patience, requests
from gristmill.places import system_of
from gristmill.store.store import Store
from sharded import Corpus


@pytest.fixture
def corpus(project):
    made = Corpus(project)
    made.recipe()
    return made


def shards_of(manifest):
    return [(group.name, [(shard.bin, shard.index) for shard in group.shards]) for group in manifest.groups]


def test_a_run_on_an_object_store_has_the_same_bytes(corpus, s3, tmp_path):
    """Parts, shards and manifest; a second run does nothing; a loader streams them."""
    run, manifest = corpus.run()
    on_disk = corpus.project.parts(run)
    run, found = corpus.run(store=f"{s3}/store")
    assert corpus.project.parts(run) == on_disk
    assert (found.hash, shards_of(found)) == (manifest.hash, shards_of(manifest))
    again, _ = corpus.run(store=f"{s3}/store")
    assert corpus.project.executed(again) == {}
    cached = Loader(run.shards, batch_samples=4, cache=tmp_path / "cache")
    assert (next(iter(Loader(manifest.location, batch_samples=4))).tokens == next(iter(cached)).tokens).all()


def test_requests_are_counted_and_priced(corpus, s3_server, use_s3):
    """Requests are in the cost of each task and its step, and those of the coordinator are separate; all are
    counted.
    """
    uri = use_s3(s3_server.address)
    sent = len(s3_server.requests)
    before = requests.counted()
    corpus.run(store=f"{uri}/store")
    counted = requests.since(before)
    assert requests.requests_of(counted) == len(s3_server.requests) - sent
    view = see(Store(f"{uri}/store"), "small")
    costs = Counter()
    for made in view.states.values():
        costs.update({kind: made.cost.get(kind, 0) for kind in requests.KINDS})
    assert costs["puts"] > 0
    assert costs["gets"] > 0
    assert requests.usd_of(costs) > 0
    assert view.record["cost"]["lists"] > 0


@pytest.mark.parametrize("workers", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_a_bad_network_changes_nothing(corpus, s3_server, use_s3, monkeypatch, workers):
    """5% of requests are refused, 1% cut off, 0.1% answered with wrong bytes: the same hashes, and each task once."""
    run, manifest = corpus.run()
    tasks = {key for made in run.states.values() for key in made.tasks}
    uri = use_s3(s3_server.address)
    monkeypatch.setattr(patience, "WAIT_SECONDS", 0.001)
    proxy = FaultyProxy(s3_server.server_port, busy=0.05, cut=0.01, wrong=0.001)
    try:
        point_at(monkeypatch, proxy.address)
        run, found = corpus.run(store=f"{uri}/store", workers=workers)
    finally:
        proxy.close()
    assert (found.hash, shards_of(found)) == (manifest.hash, shards_of(manifest))
    assert proxy.met["busy"] > 10
    assert {key for made in run.states.values() for key in made.executed} == tasks
    written = Counter(path for method, path in s3_server.requests if method == "PUT" and "/tasks/" in path)
    assert sum(written.values()) <= len(tasks) + proxy.met["cut"]  # a request is sent again if its answer was lost
    assert not corpus.project.notes


def test_sources_are_read_from_an_object_store(project, s3):
    """Patterns and compression work, and ids do not depend on the location of the files."""
    lines = {name: (project.folder / "in" / f"{name}.jsonl").read_bytes() for name in ("00", "01")}
    (project.folder / "zipped").mkdir()
    system, root = system_of(f"{s3}/raw")
    for name, data in lines.items():
        zipped = gzip.compress(data, mtime=0)
        (project.folder / "zipped" / f"{name}.jsonl.gz").write_bytes(zipped)
        system.pipe_file(f"{root}/{name}.jsonl.gz", zipped)
    project.write_recipe(pattern="zipped/*.jsonl.gz")
    on_disk = project.parts(project.run())
    project.write_recipe(pattern=f"{s3}/raw/*.jsonl.gz")
    project.store = Path(project.folder, "other")
    run = project.run(store=str(project.folder / "other"))
    assert project.parts(run) == on_disk
    assert project.executed(project.run(store=str(project.folder / "other"))) == {}
    record = json.dumps(project.mill(store=str(project.folder / "other")).last_run())
    assert f"{s3}/raw/00.jsonl.gz" in record or "00.jsonl.gz" in record

"""Leases show the users of a store across processes, containers and machines; one run at a time has a task."""

import multiprocessing
import os
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from gristmill import processes
from gristmill.errors import UserError
from gristmill.store import leases
from gristmill.store.leases import DEAD_SECONDS, Lease, claim, find, hold, holders
from gristmill.store.records import DamagedRecord
from gristmill.store.store import Store


@pytest.fixture(params=["disk", "memory"])
def store(request, tmp_path):
    return Store(str(tmp_path / "store") if request.param == "disk" else f"memory://{tmp_path}/store")


def foreign(store: Store, lease: Lease, age: float) -> Lease:
    """A lease of this age from another machine."""
    other = replace(lease, id="f" * 32, process=f"elsewher-{os.getpid()}-1")
    leases._write(store, other)
    if store.is_local and age:
        path = f"{store.root}/locks/{other.id}.json"
        written = os.stat(path).st_mtime - age
        os.utime(path, (written, written))
    return other


def test_a_lease_is_seen_while_it_is_held(store):
    """After that, no file is left."""
    with hold(store, "run", "web") as mine, hold(store, "gc", "web") as other:
        assert holders(store, but=mine) == [other]
        assert holders(store, but=other) == [mine]
        assert "run of web" in str(mine)
    assert list(store.list_files("locks")) == []


def test_a_lease_of_another_container_does_not_count_as_dead(tmp_path):
    """Its process id means nothing here; it ends only when it is no longer renewed."""
    store = Store(str(tmp_path))
    with hold(store, "run", "web") as mine:
        other = foreign(store, mine, age=DEAD_SECONDS / 2)
        assert holders(store, but=mine) == [other]
        foreign(store, mine, age=DEAD_SECONDS + 1)
        assert holders(store, but=mine) == []
        assert [name for name, _ in store.list_files("locks")] == [f"locks/{mine.id}.json"]


def test_a_lease_ends_with_its_process_where_that_can_be_seen(tmp_path):
    """It ends at once, even if the process id is in use again."""
    store = Store(str(tmp_path))
    with hold(store, "run", "web") as mine:
        place, pid, start = mine.process.split("-")
        for process in (f"{place}-999999999-{start}", f"{place}-{pid}-{int(start) + 1}"):
            leases._write(store, replace(mine, id="e" * 32, process=process))
            assert holders(store, but=mine) == []


def test_a_lease_is_renewed(tmp_path, monkeypatch):
    """Its file stays fresh while the run continues, and is written again after it was removed."""
    beats = threading.Semaphore(0)
    write = leases._write

    def counted(store, lease):
        write(store, lease)
        beats.release()

    monkeypatch.setattr(leases, "_write", counted)
    monkeypatch.setattr(leases, "BEAT_SECONDS", 0.001)
    store = Store(str(tmp_path))
    with hold(store, "run", "web") as lease:
        beats.acquire()
        beats.acquire()
        store.unmark(f"locks/{lease.id}.json")
        while beats.acquire(blocking=False):  # beats from before
            pass
        beats.acquire()  # this one may have started before
        beats.acquire()
        assert find(store, lease.id) == lease


def test_an_unreadable_lease_is_an_error(store):
    """Its run may be alive, so guessing would be unsafe."""
    with hold(store, "run", "web") as mine:
        store.write_file("locks/abc.json", b"{")
        with pytest.raises(DamagedRecord, match=r"locks/abc\.json"):
            holders(store, but=mine)
        store.write_json("locks/abc.json", {"pid": 1})
        with pytest.raises(DamagedRecord):
            holders(store, but=mine)


def test_an_unwritable_store_is_an_error_before_any_work(tmp_path):
    """The message includes the fix."""
    (tmp_path / "file").write_text("no folder")
    with (
        pytest.raises(UserError, match=r"cannot be written.*Nothing was run"),
        hold(Store(str(tmp_path / "file" / "store")), "run", "web"),
    ):
        pass


def test_a_task_is_claimed_by_one_run(store):
    """Until that run releases it or dies."""
    with hold(store, "run", "one") as one, hold(store, "run", "two") as two:
        assert claim(store, "k", one) is None
        assert claim(store, "k", one) is None
        assert claim(store, "k", two) == one
        store.unmark("claims/k")
        assert claim(store, "k", two) is None
        store.remove(f"locks/{two.id}.json")
        assert claim(store, "k", one) is None


def _take(uri: str, keys: list[str], start: object, taken: object) -> None:
    store = Store(uri)
    with hold(store, "run", "many") as lease:
        start.wait()  # type: ignore[attr-defined]
        taken.put([key for key in keys if claim(store, key, lease) is None])  # type: ignore[attr-defined]
        start.wait()  # type: ignore[attr-defined]


def test_simultaneous_runs_share_the_tasks_and_start_side_by_side(tmp_path):
    """Four runs start at the same moment: none fails because of another's files, and each task has one owner."""
    context = multiprocessing.get_context("forkserver")
    keys = [f"{n:032x}" for n in range(300)]
    start, taken = context.Barrier(4), context.Queue()
    runs = [context.Process(target=_take, args=(str(tmp_path), keys, start, taken)) for _ in range(4)]
    for run in runs:
        run.start()
    found = [key for _ in runs for key in taken.get()]
    for run in runs:
        run.join()
    assert sorted(found) == keys


def test_a_process_id_without_a_start_time_is_not_trusted(tmp_path, monkeypatch):
    """Another process may have the id by now, and then the lease would never end, so its age decides."""
    monkeypatch.setattr(processes, "started", lambda pid: "0")
    store = Store(str(tmp_path))
    with hold(store, "run", "web") as mine:
        other = replace(mine, id="f" * 32, process=f"{processes.here()}-{os.getpid()}-0")
        leases._write(store, other)
        assert holders(store, but=mine) == [other]
        path = tmp_path / "locks" / f"{other.id}.json"
        os.utime(path, (0, 0))
        assert holders(store, but=mine) == []


def test_a_process_is_named_by_place_id_and_start():
    """For a process on another machine the answer is None."""
    name = processes.name_of_self()
    assert processes.runs(name) is True
    assert processes.runs("elsewher-1-1") is None
    assert processes.runs(f"{processes.here()}-x-1") is False
    assert processes.runs("") is None


def test_a_zombie_process_does_not_count_as_running(tmp_path):
    """In a container, zombies may never be reaped; runs used to wait forever for their tasks."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    name = processes.name_of(child.pid)
    assert processes.runs(name)
    store = Store(str(tmp_path))
    with hold(store, "run", "web") as mine:
        other = replace(mine, id="e" * 32, process=name)
        leases._write(store, other)
        assert claim(store, "key", other) is None
        assert claim(store, "key", mine) == other
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert processes.runs(name) is False
        assert claim(store, "key", mine) is None
    child.communicate()


@pytest.mark.parametrize(("age", "alive"), [(0.0, True), (-1.0, True), (-DEAD_SECONDS - 1, False)])
def test_a_lease_may_be_just_written_and_not_long_in_the_future(tmp_path, monkeypatch, age, alive):
    """Some stores have times in whole seconds; a clock that was set back must not keep a dead run's tasks forever."""
    store = Store(str(tmp_path))
    monkeypatch.setattr(Store, "age_seconds", lambda *_: age)
    with hold(store, "run", "web") as mine:
        other = foreign(store, mine, age=0)
        assert holders(store, but=mine) == ([other] if alive else [])


def test_a_claim_in_a_copy_of_a_store_without_links_is_free(tmp_path):
    """Links have become files there."""
    store = Store(str(tmp_path))
    with hold(store, "run", "web") as mine:
        (tmp_path / "claims").mkdir()
        (tmp_path / "claims" / "key").write_text("e" * 32)
        assert claim(store, "key", mine) is None

"""The newest run is the one recorded last, whatever the clocks say, and never a partial run."""

import json
import threading
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from conftest import Project

from gristmill.engine import mill as mill_module
from gristmill.engine.publish import catalog
from gristmill.engine.publish.garbage import alone, collect, find_garbage
from gristmill.engine.publish.run_record import newest_run, next_name, see
from gristmill.store.leases import hold
from gristmill.store.store import Store

STEPS = "  - stagebox.length\n  - stagebox.longer_than: {chars: CHARS}\n"
CLOCKS = (0, -3600, 73 * 365 * 86400, -3600)
"""How many seconds the clock of each machine is ahead, in the order of the runs."""


@pytest.fixture
def notes(tmp_path, in_this_process):
    project = Project(tmp_path)
    project.write_inputs(files=1, records=30)
    project.write_recipe(STEPS.replace("CHARS", "12"))
    return project


def run_with(project, chars, monkeypatch=None, ahead_s=0):
    """Run with the given threshold on a machine whose clock is wrong."""
    if monkeypatch is not None:
        now = datetime.now(UTC) + timedelta(seconds=ahead_s)
        monkeypatch.setattr(mill_module, "datetime", SimpleNamespace(now=lambda _: now))
    project.write_recipe(STEPS.replace("CHARS", str(chars)))
    return project.run().ended


def numbers(store):
    """Return the sorted numbers of all run records."""
    return sorted(int(path.split("/")[2].split("-")[1]) for path, _ in store.list_files("runs"))


def rename(store, name):
    """Rename the record of the last run and return it."""
    *_, (path, _) = store.list_files("runs")
    record = store.read_record(path)
    store.remove(path)
    store.write_json(f"runs/project/{name}.json", record)
    return record


def test_the_newest_run_does_not_depend_on_clocks(notes, say, monkeypatch):
    """Every command agrees on it, its parent is the run before it, and gc keeps it complete."""
    store, before = Store(str(notes.store)), None
    for number, ahead_s in enumerate(CLOCKS, 1):
        record = run_with(notes, 10 + number, monkeypatch, ahead_s)
        newest = record["version"]
        assert record["parent"] == before
        before = newest
        version = catalog.find_version(store, "project")
        assert (version.hash, version.is_newest, version.names) == (newest, True, ())
        assert see(store, "project").record["version"] == newest
        assert newest_run(store, "project")["version"] == newest
        assert catalog.list_versions(store)[0].hash == newest
        with alone(store):
            collect(store, find_garbage(store))
        assert not catalog.missing_parts(store, version)
    assert numbers(store) == [1, 2, 3, 4]
    listed = [json.loads(line) for line in say("versions", notes.store, "--json").out.splitlines()]
    assert [entry["newest"] for entry in listed] == [True, False, False, False]
    assert newest in say("funnel", f"{notes.store}@project").err
    assert json.loads(say("versions", "show", notes.recipe, "--json").out)["version"] == newest


def test_runs_of_earlier_versions_come_before_numbered_ones(notes, monkeypatch):
    """Their records are named by time and ordered by it, even one dated 2099."""
    store, hashes = Store(str(notes.store)), []
    for chars, name in ((12, "2026-11-17T09-00-00.000000Z"), (14, "2099-01-01T00-00-00.000000Z")):
        run_with(notes, chars)
        hashes.append(rename(store, name)["version"])
    assert newest_run(store, "project")["version"] == hashes[1]
    assert [version.hash for version in catalog.list_versions(store)] == hashes[::-1]
    now = run_with(notes, 16, monkeypatch)
    assert (now["parent"], newest_run(store, "project")["version"]) == (hashes[1], now["version"])
    assert [version.hash for version in catalog.list_versions(store)] == [now["version"], *hashes[::-1]]


def test_two_runs_that_end_together_are_recorded_in_sequence(notes, monkeypatch):
    """While the first has its number but no record yet, the second waits; it gets the next number and the first as its
    parent.
    """
    records, second_waits = {}, threading.Event()
    other = Project(notes.folder)
    first = run_with(notes, 11)["version"]

    def run_other():
        try:
            records["second"] = run_with(other, 14)
        finally:
            second_waits.set()

    def named(store, writer):
        name = next_name(store, writer)
        if not records:
            records["first"] = None
            thread.start()
            second_waits.wait()
        return name

    def claimed(*about):
        holder = claim(*about)
        if holder is not None:
            second_waits.set()
        return holder

    claim, thread = catalog.claim, threading.Thread(target=run_other)
    monkeypatch.setattr(catalog, "claim", claimed)
    monkeypatch.setattr(mill_module, "next_name", named)
    records["first"] = run_with(notes, 12)
    thread.join()
    assert (records["first"]["parent"], records["second"]["parent"]) == (first, records["first"]["version"])
    assert numbers(Store(str(notes.store))) == [1, 2, 3]


def test_two_runs_with_one_number_are_both_kept(notes):
    """Each has its own record, and every command picks the same one as the newest."""
    store = Store(str(notes.store))
    records = []
    for chars, writer in ((14, "a"), (12, "b")):
        run_with(notes, chars)
        records.insert(0, rename(store, f"run-{7:012}-{writer}"))
    assert newest_run(store, "project")["version"] == records[0]["version"]
    assert [entry.hash for entry in catalog.list_versions(store)] == [entry["version"] for entry in records]
    assert next_name(store, "c") == "run-000000000008-c"


def test_run_numbers_are_shared_by_all_recipes_of_a_store(notes):
    """Runs of several recipes are therefore in order too."""
    run_with(notes, 12)
    notes.recipe.write_text(notes.recipe.read_text().replace("recipe: project", "recipe: another"))
    notes.run()
    run_with(notes, 14)
    store = Store(str(notes.store))
    assert numbers(store) == [1, 2, 3]
    assert [version.recipe for version in catalog.list_versions(store)] == ["project", "another", "project"]


def test_a_partial_run_is_never_the_newest_and_never_a_parent(notes, say):
    """All commands show the complete run before it; it is listed as partial, and gc keeps both."""
    complete = run_with(notes, 12)["version"]
    partial = notes.run(until="length").ended
    assert partial["parent"] == complete
    for command in ("versions show", "status", "diff", "funnel"):
        output = say(*command.split(), f"{notes.store}@project")
        assert partial["version"] not in output.out + output.err, command
    shown = json.loads(say("versions", "show", notes.recipe, "--json").out)
    assert (shown["version"], shown["newest"], shown["until"]) == (complete, True, None)
    state = {
        json.loads(line)["version"]: json.loads(line)
        for line in say("versions", notes.recipe, "--json").out.splitlines()
    }
    assert state[partial["version"]]["state"] == "partial, up to length; kept: the last partial run"
    assert (state[partial["version"]]["newest"], state[partial["version"]]["not_run"]) == (False, ["all/longer_than"])
    assert not find_garbage(Store(str(notes.store))).files
    assert run_with(notes, 14)["parent"] == complete


def test_reproduce_says_where_a_partial_run_stopped(notes, say):
    """A recipe that only has partial runs is reproduced in part, and the output says so."""
    partial = notes.run(until="length").ended["version"]
    output = say("versions", "reproduce", notes.recipe, "--into", notes.folder / "again")
    assert output.code == 0, output.err
    assert f"The same, as far as that run went: {partial} of project, " in output.out
    assert "That run is partial, up to length. It did not run: all/longer_than." in output.out
    result = json.loads(say("versions", "reproduce", notes.recipe, "--into", notes.folder / "2", "--json").out)
    assert (result["same"], result["until"], result["not_run"]) == (True, "length", ["all/longer_than"])
    assert "all/longer_than" in say("versions", "show", notes.recipe).out


def test_a_version_made_by_a_complete_and_a_partial_run_is_complete(notes, say):
    """After a step is added, a run up to the step before it gives the old version, which stays complete."""
    complete = run_with(notes, 12)["version"]
    notes.recipe.write_text(f"{notes.recipe.read_text()}  - stagebox.exact\n")
    partial = notes.run(until="longer_than").ended
    assert (partial["version"], partial["until"]) == (complete, "longer_than")
    store = Store(str(notes.store))
    for record in (
        newest_run(store, "project"),
        see(store, complete).record,
        catalog.find_version(store, complete).record,
    ):
        assert (record["version"], record["until"]) == (complete, None)


def test_a_dead_writer_does_not_block_others(notes):
    """Its claim ends with its process."""
    store = Store(str(notes.store))
    store.mark("claims/versions", "0" * 32)
    run_with(notes, 12)
    with hold(store, "catalog", "") as lease:
        assert catalog.claim(store, "versions", lease) is None

"""Which run is the newest: the one that was recorded last, whatever clocks say, and never a part of a run."""

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
"""Seconds by which the clocks of the machines that run in turn are ahead."""


@pytest.fixture
def notes(tmp_path, in_this_process):
    made = Project(tmp_path)
    made.write_inputs(files=1, records=30)
    made.write_recipe(STEPS.replace("CHARS", "12"))
    return made


def run_with(project, chars, monkeypatch=None, ahead_s=0):
    """A run with a threshold of its own, on a machine whose clock is wrong."""
    if monkeypatch is not None:
        now = datetime.now(UTC) + timedelta(seconds=ahead_s)
        monkeypatch.setattr(mill_module, "datetime", SimpleNamespace(now=lambda _: now))
    project.write_recipe(STEPS.replace("CHARS", str(chars)))
    return project.run().ended


def numbers(store):
    """Of the records of all runs, in the order of their names."""
    return sorted(int(path.split("/")[2].split("-")[1]) for path, _ in store.list_files("runs"))


def rename(store, name):
    """Give the record of the last run another name; what it says."""
    *_, (path, _) = store.list_files("runs")
    record = store.read_record(path)
    store.remove(path)
    store.write_json(f"runs/project/{name}.json", record)
    return record


def test_the_newest_run_is_the_last_one_whatever_the_clocks_say(notes, say, monkeypatch):
    """Every command agrees on it, its parent is the run before it, and gc leaves it whole."""
    store, before = Store(str(notes.store)), None
    for number, ahead_s in enumerate(CLOCKS, 1):
        made = run_with(notes, 10 + number, monkeypatch, ahead_s)
        newest = made["version"]
        assert made["parent"] == before
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
    assert [one["newest"] for one in listed] == [True, False, False, False]
    assert newest in say("funnel", f"{notes.store}@project").err
    assert json.loads(say("versions", "show", notes.recipe, "--json").out)["version"] == newest


def test_runs_of_earlier_versions_of_gristmill_come_before_all_numbered_ones(notes, monkeypatch):
    """Their records have times for names, and these order them, also one that is dated 2099."""
    store, hashes = Store(str(notes.store)), []
    for chars, name in ((12, "2026-11-17T09-00-00.000000Z"), (14, "2099-01-01T00-00-00.000000Z")):
        run_with(notes, chars)
        hashes.append(rename(store, name)["version"])
    assert newest_run(store, "project")["version"] == hashes[1]
    assert [one.hash for one in catalog.list_versions(store)] == hashes[::-1]
    now = run_with(notes, 16, monkeypatch)
    assert (now["parent"], newest_run(store, "project")["version"]) == (hashes[1], now["version"])
    assert [one.hash for one in catalog.list_versions(store)] == [now["version"], *hashes[::-1]]


def test_two_runs_that_end_at_once_are_recorded_one_after_the_other(notes, monkeypatch):
    """While the first has its number and is not recorded yet, the second waits: it gets the next one, and the first
    for a parent.
    """
    ended, second_waits = {}, threading.Event()
    other = Project(notes.folder)
    first = run_with(notes, 11)["version"]

    def run_other():
        try:
            ended["second"] = run_with(other, 14)
        finally:
            second_waits.set()

    def named(store, writer):
        name = next_name(store, writer)
        if not ended:
            ended["first"] = None
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
    ended["first"] = run_with(notes, 12)
    thread.join()
    assert (ended["first"]["parent"], ended["second"]["parent"]) == (first, ended["first"]["version"])
    assert numbers(Store(str(notes.store))) == [1, 2, 3]


def test_a_store_that_cannot_keep_writers_apart_keeps_both_runs(notes):
    """They have one number, each its own record, and every command takes the same one for the newest."""
    store = Store(str(notes.store))
    found = []
    for chars, writer in ((14, "a"), (12, "b")):
        run_with(notes, chars)
        found.insert(0, rename(store, f"run-{7:012}-{writer}"))
    assert newest_run(store, "project")["version"] == found[0]["version"]
    assert [one.hash for one in catalog.list_versions(store)] == [one["version"] for one in found]
    assert next_name(store, "c") == "run-000000000008-c"


def test_numbers_are_counted_over_all_recipes_of_a_store(notes):
    """So runs of several recipes are in order, too."""
    run_with(notes, 12)
    notes.recipe.write_text(notes.recipe.read_text().replace("recipe: project", "recipe: another"))
    notes.run()
    run_with(notes, 14)
    store = Store(str(notes.store))
    assert numbers(store) == [1, 2, 3]
    assert [one.recipe for one in catalog.list_versions(store)] == ["project", "another", "project"]


def test_a_part_of_a_run_is_never_the_newest_and_never_a_parent(notes, say):
    """All commands show the whole run before it; it is listed as partial, and gc keeps both."""
    whole = run_with(notes, 12)["version"]
    part = notes.run(until="length").ended
    assert part["parent"] == whole
    for command in ("versions show", "status", "diff", "funnel"):
        said = say(*command.split(), f"{notes.store}@project")
        assert part["version"] not in said.out + said.err, command
    shown = json.loads(say("versions", "show", notes.recipe, "--json").out)
    assert (shown["version"], shown["newest"], shown["until"]) == (whole, True, None)
    state = {
        json.loads(line)["version"]: json.loads(line)
        for line in say("versions", notes.recipe, "--json").out.splitlines()
    }
    assert state[part["version"]]["state"] == "partial, up to length; kept: the last partial run"
    assert (state[part["version"]]["newest"], state[part["version"]]["not_run"]) == (False, ["all/longer_than"])
    assert not find_garbage(Store(str(notes.store))).files
    assert run_with(notes, 14)["parent"] == whole


def test_reproduce_says_how_far_a_part_of_a_run_goes(notes, say):
    """A recipe that has only been run in part is shown in part, and nobody takes that for the whole."""
    part = notes.run(until="length").ended["version"]
    said = say("versions", "reproduce", notes.recipe, "--into", notes.folder / "again")
    assert said.code == 0, said.err
    assert f"The same, as far as that run went: {part} of project, " in said.out
    assert "That run is partial, up to length. It did not run: all/longer_than." in said.out
    found = json.loads(say("versions", "reproduce", notes.recipe, "--into", notes.folder / "2", "--json").out)
    assert (found["same"], found["until"], found["not_run"]) == (True, "length", ["all/longer_than"])
    assert "all/longer_than" in say("versions", "show", notes.recipe).out


def test_what_was_made_whole_and_in_part_is_whole(notes, say):
    """A step is added, and the recipe is run up to the step before it: what the old recipe made stays the newest."""
    whole = run_with(notes, 12)["version"]
    notes.recipe.write_text(f"{notes.recipe.read_text()}  - stagebox.exact\n")
    part = notes.run(until="longer_than").ended
    assert (part["version"], part["until"]) == (whole, "longer_than")
    store = Store(str(notes.store))
    for record in (newest_run(store, "project"), see(store, whole).record, catalog.find_version(store, whole).record):
        assert (record["version"], record["until"]) == (whole, None)


def test_a_writer_that_died_does_not_hold_up_others(notes):
    """Its turn is over with its process."""
    store = Store(str(notes.store))
    store.mark("claims/versions", "0" * 32)
    run_with(notes, 12)
    with hold(store, "catalog", "") as lease:
        assert catalog.claim(store, "versions", lease) is None

"""Law 2: a task with the same key never runs again; a task with a different key is never reused."""

import json
import os
from dataclasses import replace

import pytest

import stagebox.upper
from gristmill.engine.executors.executor import InlineExecutor
from gristmill.engine.mill import Silent
from gristmill.stages import contract
from gristmill.stages.contract import version_of
from gristmill.store.leases import claim, hold


def test_a_second_run_executes_nothing_and_gives_the_same_parts(project):
    """Running twice does the work once."""
    first, second = project.run(), project.run()
    assert project.executed(second) == {}
    assert project.parts(second) == project.parts(first)


@pytest.mark.slow
def test_one_changed_file_runs_only_what_depends_on_it(project):
    """One of four input files changes: the parts of the other three are not read or mapped again."""
    before = project.run()
    (project.folder / "in" / "02.jsonl").write_text(
        json.dumps({"text": "a new grain of wheat in the mill race"}) + "\n"
    )
    after = project.run()
    executed = project.executed(after)
    read_tasks = len(before.states["notes/ingest"].tasks)
    assert executed["notes/ingest"] == 1 < read_tasks
    assert executed["all/upper"] == 1
    assert executed["all/length"] == 1


@pytest.mark.slow
def test_a_touched_but_equal_file_runs_nothing(project):
    """The content counts, not the timestamp."""
    project.run()
    os.utime(project.folder / "in" / "01.jsonl", (1, 1))
    assert project.executed(project.run()) == {}


@pytest.mark.slow
def test_a_moved_folder_runs_nothing(project):
    """Paths are not in the key."""
    first = project.run()
    (project.folder / "in").rename(project.folder / "moved")
    project.write_recipe(pattern="moved/*.jsonl")
    second = project.run()
    assert project.executed(second) == {}
    assert project.parts(second) == project.parts(first)


def test_a_changed_threshold_runs_the_decision_and_not_the_measurement(project, edit):
    """Law 3: a new threshold re-runs a cheap selection, not the measurement before it."""
    project.run()
    edit(project.recipe, "chars: 12", "chars: 13")
    executed = project.executed(project.run())
    assert "all/length" not in executed
    assert "notes/ingest" not in executed
    assert "all/upper" not in executed
    assert executed["all/longer_than"] > 0


@pytest.mark.slow
def test_a_raised_version_runs_the_stage_again(project, monkeypatch):
    """VERSION is in the key."""
    project.run()
    monkeypatch.setattr(stagebox.upper, "STAGE", replace(stagebox.upper.STAGE, version=2))
    dry_run = project.dry_run()
    assert dry_run.states["all/upper"].missing
    assert not dry_run.states["all/length"].missing


@pytest.mark.slow
def test_another_library_version_runs_the_stage_again(project, monkeypatch):
    """The versions of declared libraries are in the key; those of other libraries are not."""
    project.run()
    monkeypatch.setattr(contract, "version_of", lambda name: "99" if name == "pyarrow" else version_of(name))
    dry_run = project.dry_run()
    assert dry_run.states["all/upper"].missing
    assert not dry_run.states["all/length"].missing


@pytest.mark.slow
def test_another_seed_runs_only_the_stages_that_use_it(project, edit):
    """The recipe's seed is only in the keys of stages with a `seed` field."""
    project.run()
    edit(project.recipe, "seed: 3", "seed: 4")
    dry_run = project.dry_run()
    assert dry_run.states["all/vocabulary"].missing
    assert not any(dry_run.states[name].missing for name in ("notes/ingest", "all/upper", "all/exact"))


@pytest.mark.slow
def test_a_new_file_leaves_the_parts_of_the_others_alone(project):
    """New inputs are the only inputs to process; an exchange re-runs the reducers whose segments changed."""
    project.run()
    (project.folder / "in" / "99.jsonl").write_text(json.dumps({"text": "the last sack of flour is ground"}) + "\n")
    executed = project.executed(project.run())
    assert executed["notes/ingest"] == 1
    assert executed["all/upper"] == 1
    emit_and_reduce_and_collect = executed["all/exact"]
    assert emit_and_reduce_and_collect <= 3, "one emit, one partition, one collect"


@pytest.mark.parametrize("broken", ["flip", "cut", "delete"])
@pytest.mark.slow
def test_a_damaged_part_is_noticed_and_repaired(project, broken):
    """Every stored part is damaged in turn; the next run finds it and repairs only that part."""
    first = project.run()
    paths = sorted(project.store.glob("parts/*/*"))
    for path in paths[:: 7 if broken == "flip" else 23]:
        content = path.read_bytes()
        path.chmod(0o644)
        if broken == "flip":
            path.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
        elif broken == "cut":
            path.write_bytes(content[:-1])
        else:
            path.unlink()
        second = project.run(workers=1)
        notes = [note for note in project.notes if path.name[:12] in note]
        assert len(notes) == 1, f"{len(notes)} times said of {path.name}"
        assert path.read_bytes() == content
        assert project.parts(second) == project.parts(first)


def test_damage_that_keeps_the_seal_is_noticed_when_the_part_is_read(project):
    """A reader of the part finds a flipped bit under an intact timestamp, and the run repairs it."""
    project.run(until="length")
    parts = [part for part, _ in project.dry_run().states["notes/ingest"].layers.values()]
    path = project.store / "parts" / parts[0].hash[:2] / f"{parts[0].hash}.parquet"
    content, stat = path.read_bytes(), path.stat()
    path.chmod(0o644)
    path.write_bytes(content[:50] + bytes([content[50] ^ 4]) + content[51:])
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    run = project.run()
    assert any("does not match its hash" in note for note in project.notes)
    assert path.read_bytes() == content
    assert len(run.states["notes/ingest"].executed) == 1


@pytest.mark.slow
def test_two_concurrent_runs_do_no_task_twice(project):
    """Two runs share the work through the store and end with the same bytes."""
    project.write_inputs(files=8)
    whole = project.run(store=str(project.folder / "undisturbed"))
    runs = [project.start("--json", "--workers", "1") for _ in range(2)]
    outputs = [process.communicate() for process in runs]
    assert [process.returncode for process in runs] == [0, 0], outputs
    ended = [json.loads(out.splitlines()[-1]) for out, _ in outputs]
    executed = sum(stage["executed"] for one in ended for stage in one["stages"])
    assert executed == sum(len(state.tasks) for state in whole.states.values())
    assert len({one["version"] for one in ended}) == 1
    assert project.parts(project.dry_run()) == project.parts(whole)
    assert not list((project.store / "claims").iterdir())


@pytest.mark.slow
def test_a_run_waits_for_a_task_that_another_run_is_doing(project):
    """It says so, and takes the task over when the other run releases it."""
    mill = project.mill()
    key = next(iter(mill.dry_run().states["notes/ingest"].missing))
    listener = Silent()
    with hold(mill.store, "run", "other") as other:
        assert claim(mill.store, key, other) is None

        def note(message, *_):
            listener.notes.append(message)
            mill.store.unmark(f"claims/{key}")

        listener.note = note
        mill.executor = lambda *_: InlineExecutor(mill.store)
        run = mill.run(1, listener)
    assert ["a run of other" in message for message in listener.notes] == [True]
    assert key in run.states["notes/ingest"].executed

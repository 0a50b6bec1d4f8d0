"""A run reports input files that are gone, changed or new since the last whole run, with their numbers of documents."""

import json

import pytest
from conftest import Project

from gristmill.engine.publish import input_changes
from gristmill.store.store import Store

STEPS = "  - stagebox.length\n  - stagebox.longer_than: {chars: 12}\n"
SINCE = "since the last whole run:"


@pytest.fixture
def notes(tmp_path, in_this_process):
    """A project with six input files, two per task, after a run."""
    project = Project(tmp_path)
    for number in range(6):
        write(project, number, records=number + 1)
    project.write_recipe(STEPS)
    project.run()
    return project


def write(project, number, records):
    path = project.folder / "in" / f"{number:02}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f'{{"text": "grain {number} {record} {"water " * 120}"}}\n' for record in range(records)))
    return path


def changes(project):
    """Return what a run reports about its inputs."""
    return [note for note in project.notes if "whole run" in note]


def test_gone_changed_and_new_files_have_a_line_each(notes, say):
    """Each line has the number of documents; `plan` and the next run report them, the run after that does not."""
    write(notes, 2, records=0).unlink()
    write(notes, 3, records=7)
    write(notes, 8, records=5)
    planned = [
        f"input gone {SINCE} 02.jsonl of notes, 3 documents then",
        f"input changed {SINCE} 03.jsonl of notes, 4 documents then",
        f"input new {SINCE} 08.jsonl of notes",
    ]
    assert "\n".join(planned) in say("plan", notes.recipe).out
    assert json.loads(say("plan", notes.recipe, "--json").out)["inputs"] == planned
    notes.run()
    assert changes(notes) == [planned[0], f"{planned[1]}, 7 documents now", f"{planned[2]}, 5 documents now"]
    notes.run()
    assert changes(notes) == []


def test_a_missing_file_is_reported_when_nothing_is_left_to_run(notes, say):
    """When every file is its own task, the rest is cached and nothing else shows the change."""
    for number in range(6):
        write(notes, number, records=8)
    notes.run()
    write(notes, 5, records=0).unlink()
    line = f"input gone {SINCE} 05.jsonl of notes, 8 documents then"
    plan = json.loads(say("plan", notes.recipe, "--json").out)
    assert plan["inputs"] == [line]
    assert not sum(stage["to_run"] for stage in plan["stages"] if stage["stage"] == "notes/ingest")
    assert line in json.loads(say("run", notes.recipe, "--json").out)["notes"]


def test_changes_are_relative_to_the_last_whole_run(notes):
    """A partial run that read the new files does not reset them."""
    write(notes, 5, records=0).unlink()
    for until in ("length", "length", None):
        notes.run(until=until)
        assert changes(notes) == [f"input gone {SINCE} 05.jsonl of notes, 6 documents then"]


def test_many_files_do_not_flood_the_terminal(notes, monkeypatch):
    """A few files of each kind have a line, followed by the total."""
    monkeypatch.setattr(input_changes, "MOST_NAMED", 2)
    for number in range(4):
        write(notes, number, records=0).unlink()
    write(notes, 9, records=3)
    notes.run()
    assert changes(notes) == [
        f"input gone {SINCE} 00.jsonl of notes, 1 document then",
        f"input gone {SINCE} 01.jsonl of notes, 2 documents then",
        f"input gone {SINCE} 4 files in all, 10 documents then",
        f"input new {SINCE} 09.jsonl of notes, 3 documents now",
    ]


def test_a_file_in_several_tasks_is_counted_once(notes):
    """The documents in all slices of a large file are added up."""
    path = write(notes, 7, records=60)
    assert path.stat().st_size > 4 * 4096
    notes.run()
    assert changes(notes) == [f"input new {SINCE} 07.jsonl of notes, 60 documents now"]


def changes_without(project, number):
    """Remove a file and return the input changes, using the records of the tasks that read it."""
    (project.folder / "in" / f"{number:02}.jsonl").unlink()
    return list(input_changes.input_changes(project.dry_run(), project.mill().newest_whole()))


def ingest_records(store):
    """Return the records of the ingest tasks."""
    records = {path: store.read_record(path) for path, _ in store.list_files("tasks")}
    return {path: record for path, record in records.items() if record["node"].endswith("/ingest")}


def test_a_missing_task_record_leaves_the_count_out(notes):
    """When the record of one task is missing, the number of documents in the file is unknown."""
    write(notes, 7, records=60)
    notes.run()
    store = Store(str(notes.store))
    store.remove(
        next(path for path, record in ingest_records(store).items() if record["label"].startswith("07.jsonl 2/"))
    )
    assert changes_without(notes, 7) == [f"input gone {SINCE} 07.jsonl of notes"]


def test_a_file_excluded_by_a_limit_is_not_gone(notes):
    """The file still exists; the run did not need it."""
    notes.write_recipe(STEPS, read=", limit: 3")
    notes.run()
    assert not [line for line in changes(notes) if "gone" in line]

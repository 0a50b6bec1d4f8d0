"""A run says which input files are gone, changed or new since the last whole run, and how many documents each had."""

import json

import pytest

from conftest import Project
from gristmill.engine.publish import input_changes
from gristmill.store.store import Store

STEPS = "  - stagebox.length\n  - stagebox.longer_than: {chars: 12}\n"
SINCE = "since the last whole run:"


@pytest.fixture
def notes(tmp_path, in_this_process):
    """Six files, two to a task, all run."""
    made = Project(tmp_path)
    for number in range(6):
        write(made, number, records=number + 1)
    made.write_recipe(STEPS)
    made.run()
    return made


def write(project, number, records):
    path = project.folder / "in" / f"{number:02}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f'{{"text": "grain {number} {one} {"water " * 120}"}}\n' for one in range(records)))
    return path


def changes(project):
    """What a run says about its inputs."""
    return [note for note in project.notes if "whole run" in note]


def test_files_that_are_gone_changed_or_new_have_a_line_each(notes, say):
    """With the documents that they held; `plan` says so before, the run once, and the next run nothing."""
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


def test_a_file_that_is_gone_is_told_when_nothing_is_left_to_run(notes, say):
    """Where every file is a task, the others are in the store: there is no other sign of it."""
    for number in range(6):
        write(notes, number, records=8)
    notes.run()
    write(notes, 5, records=0).unlink()
    line = f"input gone {SINCE} 05.jsonl of notes, 8 documents then"
    plan = json.loads(say("plan", notes.recipe, "--json").out)
    assert plan["inputs"] == [line]
    assert not sum(stage["to_run"] for stage in plan["stages"] if stage["stage"] == "notes/ingest")
    assert line in json.loads(say("run", notes.recipe, "--json").out)["notes"]


def test_changes_are_told_against_the_last_whole_run(notes):
    """Also by a run after a partial one that read the new files."""
    write(notes, 5, records=0).unlink()
    for until in ("length", "length", None):
        notes.run(until=until)
        assert changes(notes) == [f"input gone {SINCE} 05.jsonl of notes, 6 documents then"]


def test_many_files_do_not_flood_the_terminal(notes, monkeypatch):
    """Some of a kind have a line, and then there is the total of the kind."""
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
    """The documents of all stretches of a large file are added up."""
    path = write(notes, 7, records=60)
    assert path.stat().st_size > 4 * 4096
    notes.run()
    assert changes(notes) == [f"input new {SINCE} 07.jsonl of notes, 60 documents now"]


def gone_now(project, number):
    """What a plan says when a file is gone, of what is on record of the tasks that read it."""
    (project.folder / "in" / f"{number:02}.jsonl").unlink()
    return list(input_changes.input_changes(project.dry_run(), project.mill().newest_whole()))


def reading(store):
    """The records of the tasks that read."""
    records = {path: store.read_record(path) for path, _ in store.list_files("tasks")}
    return {path: record for path, record in records.items() if record["node"].endswith("/ingest")}


def test_documents_that_were_not_counted_are_not_made_up(notes):
    """Earlier versions of Gristmill did not count by file: they are known of tasks that read one file alone."""
    write(notes, 7, records=60)
    notes.run()
    store = Store(str(notes.store))
    for path, record in reading(store).items():
        del record["files"]
        store.write_json(path, record)
    assert gone_now(notes, 0) == [f"input gone {SINCE} 00.jsonl of notes"]
    assert f"input gone {SINCE} 07.jsonl of notes, 60 documents then" in gone_now(notes, 7)


def test_a_damaged_record_makes_no_smaller_count(notes):
    """Where one of the tasks that read a file is not on record, its documents are not known."""
    write(notes, 7, records=60)
    notes.run()
    store = Store(str(notes.store))
    store.remove(next(path for path, record in reading(store).items() if record["label"].startswith("07.jsonl 2/")))
    assert gone_now(notes, 7) == [f"input gone {SINCE} 07.jsonl of notes"]


def test_a_file_that_a_limit_leaves_out_is_not_gone(notes):
    """It is there, and was not asked for."""
    notes.write_recipe(STEPS, read=", limit: 3")
    notes.run()
    assert not [line for line in changes(notes) if "gone" in line]

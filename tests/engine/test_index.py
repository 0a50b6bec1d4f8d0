"""The index of a corpus is a layer like any other: made once, from what changed, with the same bytes everywhere."""

import json

from gristmill.engine.publish.run_record import see
from gristmill.query.documents.documents import rows
from gristmill.query.documents.lookup import find
from gristmill.stages.select import index

STEPS = "  - stagebox.length\n  - stagebox.longer_than: {chars: 12}"
NODE = "notes/index"


def files_of(run):
    """The hashes of the sets, by their content."""
    catalogue = json.loads(bytes(memoryview(run.store.get_part(run.states[NODE].model))))
    sets = {one["entry"]["set"]: one["files"][index.FILE]["hash"] for one in catalogue["outputs"]}
    return sets, catalogue["parts"]


def test_a_recipe_says_whether_there_is_one_and_it_runs_nothing_else(project):
    project.write_recipe(STEPS)
    without = project.run()
    assert NODE not in without.states
    project.write_recipe(STEPS, top="index: true")
    first = project.run()
    assert set(project.executed(first)) == {NODE}
    assert project.executed(project.run()) == {}
    project.write_recipe(STEPS, top="index: false")
    assert project.executed(project.run()) == {}


def test_another_store_and_a_stopped_run_give_the_same_bytes(project):
    project.write_recipe(STEPS, top="index: true")
    disk = project.run()
    memory = project.run(store=f"memory://{project.folder}")
    assert files_of(memory) == files_of(disk)
    for path in [*project.store.glob("stages/*"), *list(project.store.glob("tasks/*"))[::2]]:
        path.unlink()  # as a run leaves it that was killed: what is there is found, the rest is made again
    assert files_of(project.run()) == files_of(disk)


def test_a_new_file_sends_its_own_keys_alone_and_every_document_is_found(project, monkeypatch):
    monkeypatch.setattr(index, "SET_ENTRIES", 1 << 11)
    project.write_recipe(STEPS, top="index: true")
    first = project.run()
    assert len(files_of(first)[0]) == 4
    before = {label for _, label in first.states[NODE].tasks.items() if label.endswith(" emit")}
    (project.folder / "in" / "04.jsonl").write_text(json.dumps({"text": "a new note of some words " * 400}))
    run = project.run()
    emitted = {dict(run.states[NODE].tasks.items())[key] for key in run.states[NODE].executed}
    assert len([label for label in emitted if label.endswith(" emit")]) == 1
    assert len(before) == len(files_of(first)[1]) == len(files_of(run)[1]) - 1
    for observed in (run, see(run.store, "project")):
        every = [row.fields["doc_id"] for row in rows(observed, None, None, None)]
        notes = []
        places = find(observed, doc_id=[one.hex() for one in every], note=notes.append)
        assert [place.doc_id for place in places] == every
        assert notes == []


def test_the_number_of_workers_changes_no_byte(project):
    project.write_inputs(files=2, records=30)
    project.write_recipe(STEPS, top="index: true")
    inline = project.run(store=str(project.folder / "inline"))
    two = project.run(workers=2, store=str(project.folder / "two"))
    assert files_of(inline) == files_of(two)

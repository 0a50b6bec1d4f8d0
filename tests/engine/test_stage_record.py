"""Records of whole stages: a shortcut that only changes how many records are read."""

import json
import shutil

import pytest

from gristmill.engine import mill
from gristmill.engine.executors.executor import InlineExecutor
from gristmill.store.store import Store


@pytest.fixture
def reads(monkeypatch):
    """How many records of each kind are read."""
    counts: dict[str, int] = {}
    read = Store.read_record

    def counted(self, name):
        kind = name.split("/")[0]
        counts[kind] = counts.get(kind, 0) + 1
        return read(self, name)

    monkeypatch.setattr(Store, "read_record", counted)
    return counts


def test_a_run_that_finds_everything_done_reads_no_task_record(project, reads):
    """Nor does a plan."""
    first = project.run()
    reads.clear()
    second = project.run()
    assert "tasks" not in reads
    assert project.executed(second) == {}
    assert project.parts(second) == project.parts(first)
    for node_id, made in first.states.items():
        again = second.states[node_id]
        assert (dict(again.tasks.items()), again.metrics) == (dict(made.tasks.items()), made.metrics)
        assert again.stored_bytes == made.stored_bytes
    reads.clear()
    state = project.dry_run()
    assert "tasks" not in reads
    assert not state.unfinished()


def test_only_tasks_below_a_changed_stage_are_looked_up(project, edit, reads):
    """Earlier stages are found at once."""
    project.run()
    edit(project.recipe, "upper: {min_chars: 20}", "upper: {min_chars: 21}")
    reads.clear()
    run = project.run()
    below = [run.states[f"all/{name}"].tasks for name in ("upper", "exact", "two_rounds", "vocabulary")]
    assert reads["tasks"] >= sum(map(len, below))
    assert not run.states["all/length"].executed
    before = [run.states[name].tasks for name in ("notes/ingest", "all/length")]
    every = sum(len(made.tasks) for made in run.states.values())
    assert reads["tasks"] <= 2 * (every - sum(map(len, before)))


@pytest.mark.parametrize("lost", ["stages", "datasets", "both"])
def test_without_them_every_task_is_found_and_they_are_written_again(project, lost):
    """The bytes are the same: a record says nothing that the records of tasks do not say."""
    first = project.run()
    written = {path.name: path.read_bytes() for path in project.store.glob("stages/*.json")}
    assert written
    for folder in ("stages", "datasets") if lost == "both" else (lost,):
        shutil.rmtree(project.store / folder)
    second = project.run()
    assert project.executed(second) == {}
    assert project.parts(second) == project.parts(first)
    assert {path.name for path in project.store.glob("stages/*.json")} == set(written)
    assert project.run().ended["version"] == first.ended["version"]


@pytest.mark.parametrize("damage", ["flip", "cut", "other"])
def test_a_damaged_record_is_not_used(project, damage):
    """It counts as missing."""
    first = project.run()
    paths = sorted(project.store.glob("stages/*.json"))
    contents = [path.read_bytes() for path in paths]
    for place, (path, content) in enumerate(zip(paths, contents, strict=True)):
        if damage == "flip":
            path.write_bytes(content[:200] + bytes([content[200] ^ 1]) + content[201:])
        elif damage == "cut":
            path.write_bytes(content[:-20])
        else:
            path.write_bytes(contents[place - 1])
    second = project.run()
    assert project.executed(second) == {}
    assert project.parts(second) == project.parts(first)
    assert [path.read_bytes() for path in paths] == contents


def test_a_part_that_is_gone_is_made_again(project):
    """Whether it is a layer, a file of an exchange or one of a sink."""
    first = project.run()
    for path in sorted(project.store.glob("parts/*/*"))[::25]:
        path.unlink()
        second = project.run()
        assert path.exists()
        assert project.parts(second) == project.parts(first)
        assert any(path.name[:12] in note for note in project.notes)


def test_a_limited_source_has_no_record(project):
    """How many of its files are read is only known during the run."""
    project.write_recipe(read=", limit: 30")
    project.run()
    assert not list(project.store.glob("stages/*"))
    assert project.executed(project.run()) == {}


def test_a_version_is_whole_or_it_is_not_there(project, monkeypatch):
    """It is named last: a run that is stopped before that has no such version, and the next one may use its name."""

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(mill, "make_executor", lambda store, *_, **__: InlineExecutor(store))
    with monkeypatch.context() as patched:
        patched.setattr(mill, "publish", stop)
        with pytest.raises(KeyboardInterrupt):
            project.mill().run(1, mill.Silent(), tag="v1")
    assert not (project.store / "versions").exists()
    assert project.mill().last_run()["status"].startswith("stopped")
    run = project.mill().run(1, mill.Silent(), tag="v1")
    record = json.loads((project.store / "versions" / "v1.json").read_text())["body"]
    assert record["version"] == run.ended["version"]


def test_a_record_of_another_step_is_not_used(project):
    """Sealed again by hand, unlike damage."""
    first = project.run()
    store = project.mill().store
    keys = first.stages.keys
    datasets = store.read_json(f"stages/{keys['all/length']}.json")["datasets"]
    name = f"stages/{keys['notes/corpus']}.json"
    store.write_json(name, {**store.read_json(name), "datasets": datasets})
    one, two = list(first.states["all/upper"].tasks)[:2]
    store.write_json(f"tasks/{one}.json", store.read_json(f"tasks/{two}.json"))
    store.unmark(f"stages/{keys['all/upper']}.json")
    second = project.run()
    assert project.executed(second) == {"all/upper": 1}
    assert project.parts(second) == project.parts(first)
    assert second.ended["version"] == first.ended["version"]

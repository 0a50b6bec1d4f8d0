"""What later stages need from earlier ones is in small parts: fetched alone, keyed alone, and made again when lost."""

import json
import os
import random
import shutil
from dataclasses import replace

import pyarrow.compute as pc
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import stagebox.exact
import stagebox.longer_than
import stagebox.upper
from gristmill.engine.executors.executor import InlineExecutor
from gristmill.engine.mill import Silent
from gristmill.engine.publish.garbage import collect, find_garbage
from gristmill.engine.publish.run_record import see
from gristmill.engine.work.perform import perform
from gristmill.engine.work.task import Collect, MapWork, Task
from gristmill.query.documents.documents import count_unjudged
from gristmill.query.versions.verify import verify
from gristmill.store.segments import SegmentTable
from gristmill.store.store import with_verdicts

GATED = "  - stagebox.length\n  - stagebox.upper: {min_chars: 20}\n  - stagebox.longer_than: {chars: 30}\n"


@pytest.fixture
def gated(project, monkeypatch):
    """A recipe whose last step reads one number of the survivors of the earlier steps."""
    monkeypatch.setattr(stagebox.longer_than, "STAGE", replace(stagebox.longer_than.STAGE, only_kept=True))
    project.write_recipe(GATED)
    return project


def layers_of(run):
    """The small parts of all layers, by node and in order."""
    return {
        node_id: [part.verdicts for _, (part, _) in sorted(made.layers.items())] for node_id, made in run.states.items()
    }


def write_long_texts(project):
    draw = random.Random(5)
    for path in (project.folder / "in").glob("*.jsonl"):
        path.write_text("".join(json.dumps({"text": draw.randbytes(3000).hex()}) + "\n" for _ in range(40)))


def test_a_step_that_reads_a_number_of_survivors_fetches_little(gated, edit, monkeypatch):
    """Texts that it does not read are not fetched, for a map step and for an exchange that collects."""
    write_long_texts(gated)
    edit(gated.recipe, "part_bytes: 4KB", "part_bytes: 1MB")
    run = gated.run(store=f"memory://{gated.folder}")
    node, document = run.graph.nodes["all/longer_than"], run.documents["notes"][0]
    layers, view = run.view(document, node), node.views["notes"]
    assert {*view.layers} == {"ingest", "all/length", "all/upper"}
    whole = sum(part.file_bytes for part in layers)
    fetched = []
    cat_file = MemoryFileSystem.cat_file

    def counted(self, path, start=None, end=None, **more):
        data = cat_file(self, path, start=start, end=end, **more)
        fetched.append(len(data))
        return data

    monkeypatch.setattr(MemoryFileSystem, "cat_file", counted)
    maps = MapWork(node.module, node.config, layers, view.columns, view.gates, {})
    collects = Collect("stagebox.exact", stagebox.exact.Config(), document.part, SegmentTable([], []).to(0))
    for work in (maps, collects):
        fetched.clear()
        result = perform(Task("k", node.id, "again", work), run.store)
        assert result.metrics["rows"] == document.part.rows
        assert 0 < sum(fetched) < whole / 50
    fetched.clear()
    assert count_unjudged(run, None, ()) == 0
    assert sum(fetched) < whole / 10


def lower(batch, config):
    """The answers of `upper` for a text, and another text."""
    answers = _upper(batch, config)
    return answers.set_column(0, "text", pc.utf8_lower(pc.binary_join_element_wise(answers["text"], "more", " ")))


_upper = stagebox.upper.apply


def test_new_texts_with_equal_verdicts_run_nothing_that_only_gates(gated, monkeypatch):
    """Nor is any of its tasks looked up: the step is found as a whole."""
    first = gated.run()
    monkeypatch.setattr(stagebox.upper, "STAGE", replace(stagebox.upper.STAGE, version=2, apply=lower))
    second = gated.run()
    assert gated.parts(second)["all/upper"] != gated.parts(first)["all/upper"]
    assert set(gated.executed(second)) == {"all/upper", "notes/corpus"}
    assert second.stages.keys["all/longer_than"] == first.stages.keys["all/longer_than"]
    assert gated.parts(second)["all/longer_than"] == gated.parts(first)["all/longer_than"]
    assert all(gated.executed(second)[name] == len(second.states[name].tasks) for name in gated.executed(second))


def test_new_verdicts_run_what_gates(gated, edit):
    """Otherwise a step would be kept that has not processed the documents that survive now."""
    first = gated.run()
    edit(gated.recipe, "min_chars: 20", "min_chars: 25")
    second = gated.run()
    assert gated.executed(second)["all/longer_than"] == len(second.states["all/longer_than"].tasks)
    assert gated.parts(second)["all/longer_than"] != gated.parts(first)["all/longer_than"]


@pytest.mark.parametrize("damage", ["gone", "flip", "flip under its seal"])
def test_lost_verdicts_are_made_again(project, damage):
    """Of documents, of a map and of an exchange; the run says so."""
    first = project.run()
    project.run()
    for node_id in ("notes/ingest", "all/upper", "all/exact"):
        part = layers_of(first)[node_id][0].part
        path = project.store / "parts" / part.hash[:2] / f"{part.hash}.verdicts"
        whole, times = path.read_bytes(), path.stat()
        path.chmod(0o644)
        if damage == "gone":
            path.unlink()
        else:
            path.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
        if damage == "flip under its seal":
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            for name in ("tasks", "stages"):  # so that somebody has to read it
                for record in (project.store / name).glob("*.json"):
                    if json.loads(record.read_text())["body"]["node"] not in ("notes/ingest", node_id):
                        record.unlink()
        second = project.run()
        assert path.read_bytes() == whole
        assert any(part.hash[:12] in note for note in project.notes)
        assert project.parts(second) == project.parts(first)
        assert layers_of(second) == layers_of(first)


def test_damage_far_away_is_repaired_where_it_is_read(gated, edit):
    """A chunk differs from what was hashed: the part is made again."""
    far = f"memory://{gated.folder}"
    first = gated.run(store=far)
    store, (part, _) = first.store, next(iter(first.states["all/length"].layers.values()))
    path = store.part_path(part)
    whole = store.fs.cat_file(path)
    store.fs.pipe_file(path, whole[:20] + bytes([whole[20] ^ 1]) + whole[21:])  # in its first column
    assert gated.executed(gated.run(store=far)) == {}
    edit(gated.recipe, "chars: 30", "chars: 31")
    second = gated.run(store=far)
    assert store.fs.cat_file(path) == whole
    assert gated.executed(second)["all/length"] == 1
    assert any(part.hash[:12] in note and "hash of a column chunk" in note for note in gated.notes)


def test_verify_knows_verdicts(project):
    """A lost one has a maker, and its task makes it again with the same bytes."""
    run = project.run()
    lost = layers_of(run)["all/upper"][0].part
    (project.store / "parts" / lost.hash[:2] / f"{lost.hash}.verdicts").unlink()
    view = project.mill().dry_run(keep=lambda *_: True)
    found = verify(view, 1.0, InlineExecutor(view.store), Silent())
    assert {part.hash: fact for part, fact in found.broken.items()} == {lost.hash: "is missing"}
    assert found.made_by[lost.hash].startswith("all/upper, ")
    assert (found.recomputed > 0, found.different) == (True, [])
    shutil.rmtree(project.store / "tasks")
    view = see(view.store, "project")
    assert lost in verify(view, 0, InlineExecutor(view.store), Silent()).broken, "a dataset names it too"


def test_verdicts_of_needed_parts_are_kept(project):
    run = project.run()
    store = project.mill().store
    assert not find_garbage(store).files
    project.write_recipe("  - stagebox.length\n")
    short = project.run()
    collect(store, find_garbage(store))
    kept = {name.rsplit("/", 1)[1].split(".")[0] for name, _ in store.list_files("parts")}
    needed = {part.hash for made in short.states.values() for part in with_verdicts(p for p, _ in made.layers.values())}
    assert needed == kept
    assert not {one.hash for one in layers_of(run)["all/exact"]} & kept

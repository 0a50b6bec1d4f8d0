"""Assets are made from files: they read no documents, wait for none, and only their files are in their keys."""

import pytest

from gristmill.cli.corpus.verify import make_executor
from gristmill.engine.mill import Silent
from gristmill.engine.publish.garbage import collect, find_garbage
from gristmill.engine.publish.run_record import see
from gristmill.errors import UserError
from gristmill.query.documents.documents import rows
from gristmill.query.removal.funnel import documents_by_step
from gristmill.query.sizing.disk import estimate
from gristmill.query.sizing.plan import make_plan
from gristmill.query.versions.verify import verify
from stages.shards.made import tokenizer_file

pytestmark = pytest.mark.usefixtures("forgotten")

STEPS = "  - stagebox.word_list: {words: words.txt}\n  - stagebox.listed\n"
BROKEN_READER = """
from gristmill.stages.contract import Reader, StageConfig
class Config(StageConfig): pass
def read(piece, config): raise RuntimeError("the disk is gone")
STAGE = Reader(config=Config, read=read)
"""


class Order(Silent):
    """A listener that records the order in which tasks are done."""

    def begin(self, nodes, before):
        self.done_of = []

    def done(self, node, task, result, cached):
        self.done_of.append(node.id)


@pytest.fixture
def listed(project):
    """A project whose documents must have a word of a list."""
    (project.folder / "words.txt").write_text("mill grain\n")
    project.write_inputs(files=2, records=30)
    project.write_recipe(STEPS)
    return project


def test_a_step_uses_what_an_asset_made_of_a_file(listed):
    run = listed.run()
    kept, dropped = ([row.text for row in rows(run, "listed", gone, None)] for gone in (False, True))
    assert kept
    assert dropped
    assert all({"mill", "grain"}.intersection(text.split()) for text in kept)
    assert not any({"mill", "grain"}.intersection(text.split()) for text in dropped)
    assert run.states["all/word_list"].metrics == {"words": 2}


def test_an_asset_is_made_before_any_source_is_read(listed):
    """Its task is the first of all, although its step is not the first of the recipe."""
    listed.write_recipe("  - stagebox.length\n" + STEPS)
    listener = Order()
    mill = listed.mill()
    mill.executor_name = "inline"
    mill.run(None, listener)
    assert listener.done_of[0] == "all/word_list"
    assert listener.done_of.count("all/word_list") == 1
    assert "notes/ingest" in listener.done_of


def test_an_asset_is_made_though_reading_fails(listed, edit):
    """And it is not made again when reading succeeds."""
    (listed.folder / "broken.py").write_text(BROKEN_READER)
    edit(listed.recipe, "format: jsonl", "format: broken")
    with pytest.raises(UserError, match="the disk is gone"):
        listed.run()
    state = listed.dry_run()
    assert len(state.states["all/word_list"].tasks) == 1
    assert not state.states["all/word_list"].missing
    edit(listed.recipe, "format: broken", "format: jsonl")
    assert "all/word_list" not in listed.executed(listed.run())


def test_no_source_runs_an_asset_again_and_its_file_does(listed):
    """More files, other documents: no. Another word: the asset runs, and what uses it."""
    first = listed.run().states["all/word_list"].tasks
    listed.write_inputs(files=5, records=40, seed=8)
    changed = listed.run()
    assert "notes/ingest" in listed.executed(changed)
    assert changed.states["all/word_list"].executed == set()
    assert dict(changed.states["all/word_list"].tasks.items()) == dict(first.items())
    (listed.folder / "words.txt").write_text("mill grain stone\n")
    executed = listed.executed(listed.run())
    assert executed["all/word_list"] == 1
    assert executed["all/listed"] == executed["notes/corpus"]
    assert "notes/ingest" not in executed


def test_another_file_with_the_same_words_runs_only_the_asset(listed):
    """Its output has the same bytes, so the steps that read it do not run again."""
    listed.run()
    (listed.folder / "words.txt").write_text("grain mill mill\n")
    assert listed.executed(listed.run()) == {"all/word_list": 1}
    assert listed.executed(listed.run()) == {}


def test_an_asset_belongs_to_no_source(listed, edit):
    """Another recipe on the same store, with other sources and steps around it, finds it."""
    listed.run()
    edit(listed.recipe, "recipe: project", "recipe: other")
    edit(listed.recipe, "  notes: {", "  letters: {")
    edit(listed.recipe, "steps:\n", "steps:\n  - stagebox.length\n")
    run = listed.run()
    assert run.states["all/word_list"].executed == set()
    assert run.nodes["all/word_list"].sources == ()


def test_a_limit_on_documents_does_not_limit_assets(listed):
    """The record of the whole stage is written, and found."""
    listed.write_recipe(STEPS, read=", limit: 5")
    assert listed.run().stages.keys.keys() == {"all/word_list"}
    assert listed.executed(listed.run()) == {}


def test_a_plan_knows_an_asset_before_anything_is_read(listed):
    """One task, which waits for nothing; its size is that of its file."""
    mill = listed.mill()
    run = mill.dry_run()
    line = next(line for line in make_plan(mill, run) if line.id == "all/word_list")
    assert (line.cached, line.to_run, line.waiting, line.why) == (0, 1, 0, ("first run",))
    assert estimate(run, mill.store, mill.known_before()).added_bytes > 0
    listed.run()
    (listed.folder / "words.txt").write_text("sieve\n")
    mill = listed.mill()
    run = mill.dry_run()
    lines = {line.id: line for line in make_plan(mill, run)}
    assert lines["all/word_list"].to_run == 1
    assert lines["all/listed"].why == ("waits for all/word_list",)
    assert not lines["notes/ingest"].to_run


def test_each_route_may_have_an_asset_of_the_same_name(listed):
    """Its documents are checked against its own list."""
    (listed.folder / "more.txt").write_text("wheel\n")
    listed.recipe.write_text(
        "recipe: project\nsources:\n"
        "  notes: {kind: text, read: {format: jsonl, paths: ['in/00.jsonl']}}\n"
        "  pages: {kind: web, read: {format: jsonl, paths: ['in/01.jsonl']}}\n"
        "steps:\n  text:\n  - stagebox.word_list: {words: words.txt}\n"
        "  web:\n  - stagebox.word_list: {words: more.txt}\n  all:\n  - stagebox.listed\n"
    )
    run = listed.run()
    for source, words in (("notes", {"mill", "grain"}), ("pages", {"wheel"})):
        kept = [row.text for row in rows(run, "listed", False, None, (source,), records=False)]
        assert kept
        assert all(words.intersection(text.split()) for text in kept)


def test_an_asset_of_an_asset_only_waits_for_that_one(listed, edit):
    """It runs again when the file of the first changes."""
    (listed.folder / "longest.py").write_text(
        "from gristmill.stages.contract import Asset, StageConfig\n"
        "class Config(StageConfig): pass\n"
        "def make(config, path, models):\n"
        "    path.write_text(max(models['word_list'].read_text().split(), key=len))\n"
        "STAGE = Asset(config=Config, uses=('word_list',), make=make)\n"
    )
    (listed.folder / "broken.py").write_text(BROKEN_READER)
    listed.write_recipe(STEPS + "  - longest\n")
    edit(listed.recipe, "format: jsonl", "format: broken")
    with pytest.raises(UserError, match="the disk is gone"):
        listed.run()
    edit(listed.recipe, "format: broken", "format: jsonl")
    assert not {"all/word_list", "all/longest"} & listed.executed(listed.run()).keys()
    (listed.folder / "words.txt").write_text("mill grain millstone\n")
    run = listed.run()
    assert listed.executed(run)["all/longest"] == 1
    assert run.store.local_path(run.states["all/longest"].model).read_text() == "millstone"


def test_an_edited_custom_asset_is_made_again(listed, edit):
    """Its code is in its key, as for any step."""
    source = listed.folder / "mine.py"
    source.write_text(
        "from pathlib import Path\nfrom gristmill.stages.contract import Asset, File, StageConfig\n"
        "class Config(StageConfig):\n    words: File\n"
        "def make(config, path): path.write_text(Path(config.words).read_text().upper())\n"
        "STAGE = Asset(config=Config, make=make)\n"
    )
    listed.write_recipe("  - mine: {words: words.txt}\n")
    run = listed.run()
    assert run.store.local_path(run.states["all/mine"].model).read_text() == "MILL GRAIN\n"
    assert listed.executed(listed.run()) == {}
    edit(source, ".upper()", ".title()")
    mill = listed.mill()
    assert [line.why for line in make_plan(mill, mill.dry_run()) if line.id == "all/mine"] == [("mine.py changed",)]
    assert listed.executed(listed.run()) == {"all/mine": 1}


def test_an_asset_that_writes_nothing_is_reported(listed):
    head = "from gristmill.stages.contract import Asset, StageConfig\n"
    declared = "STAGE = Asset(config=StageConfig, make=lambda config, path: None)\n"
    (listed.folder / "mine.py").write_text(head + declared)
    listed.write_recipe("  - mine\n")
    with pytest.raises(UserError, match=r"all/mine, model: mine\.make did not write model"):
        listed.run()


def test_an_asset_is_shown_verified_kept_and_made_again(listed):
    """By commands that show, verify and collect, and by a run after its file is lost."""
    run = listed.run()
    model = run.states["all/word_list"].model
    view = see(run.store, "project")
    assert view.states["all/word_list"].model == model
    assert view.nodes["all/word_list"].kind == "asset"
    assert documents_by_step(view)["all/word_list"] == (None, 0)
    everything = listed.mill().dry_run(keep=lambda *_: True)
    assert "all/word_list" in {task.node for task, _ in everything.tasks.kept}
    found = verify(everything, 1.0, make_executor(run.store, None, name="inline"), Silent())
    assert (found.broken, found.different) == ({}, [])
    assert found.recomputed == sum(len(made.tasks) for made in run.states.values())
    (listed.folder / "words.txt").write_text("wheel\n")
    other = listed.run().states["all/word_list"].model
    (listed.folder / "words.txt").write_text("mill grain\n")
    assert listed.executed(listed.run()) == {}
    garbage = find_garbage(run.store)
    collect(run.store, garbage)
    assert not run.store.has_part(other)
    assert run.store.has_part(model)
    path = run.store.local_path(model)
    path.chmod(0o600)
    path.unlink()
    assert listed.executed(listed.run()) == {"all/word_list": 1}


def test_until_a_step_before_it_makes_no_asset(listed):
    listed.write_recipe("  - stagebox.length\n" + STEPS)
    run = listed.run(until="length")
    assert "all/word_list" not in run.nodes
    assert run.graph.beyond == ["all/word_list", "all/listed"]


def test_a_tokenizer_that_is_a_file_and_a_mixture_are_assets(listed):
    """The first is read before any document, and more documents do not run it again; the second reads the catalogue of
    the shards, and another weight runs it alone.
    """
    tokenizer_file(listed.folder)
    last = "tokenizer: {file: tokenizer.json}\nshards: {seq_len_tokens: 64}\nmix: {max_epochs: 4}\n"
    listed.write_recipe("  - stagebox.length\n" + last)
    first = listed.run()
    assert [node.id for node in first.graph.nodes.values() if node.kind == "asset"] == ["all/tokenizer", "all/mix"]
    listed.write_inputs(files=5, records=30, seed=9)
    executed = listed.executed(listed.run())
    assert "all/tokenizer" not in executed
    assert executed["all/mix"] == 1
    listed.write_recipe("  - stagebox.length\n" + last.replace("epochs: 4", "epochs: 3"))
    assert listed.executed(listed.run()) == {"all/mix": 1}
    assert listed.executed(listed.run()) == {}

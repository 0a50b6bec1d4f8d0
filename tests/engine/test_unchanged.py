"""The record of a recipe's last run is used only while everything that the run depends on is unchanged."""

import pytest

import gristmill
from gristmill.engine.publish import unchanged
from gristmill.query.opening import open_unchanged

RECIPE = """
recipe: few
store: ./store  # a remark
sources: {lines: {kind: web, read: {format: jsonl, paths: ["in/*.jsonl"]}}}
steps: [exact_dedup, {gate: {block_domains: lists}}]
"""


@pytest.fixture
def few(project):
    """A recipe with an input folder and a folder of lists that was run."""
    for name, text in (("in/a.jsonl", '{"text": "a mill grinds"}\n'), ("lists/bad.txt", "bad.example\n")):
        (project.folder / name).parent.mkdir(exist_ok=True)
        (project.folder / name).write_text(text)
    project.recipe.write_text(RECIPE)
    project.run()
    return project


def test_an_unchanged_recipe_is_answered_by_the_record_of_its_last_run(few):
    """Under its own name, with everything that a full evaluation finds."""
    view, full = open_unchanged(str(few.recipe)), few.mill().dry_run()
    assert view is not None
    assert (view.label, view.name) == (str(few.recipe), "few")
    assert {one: view.states[one].metrics for one in view.nodes} == {
        one: full.states[one].metrics for one in full.nodes
    }
    assert {one: set(view.states[one].tasks) for one in view.nodes} == {
        one: set(full.states[one].tasks) for one in full.nodes
    }


def _rewrite(folder, name, text):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(text)


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: _rewrite(folder, "in/a.jsonl", '{"text": "a mill grumps"}\n'),
        lambda folder: _rewrite(folder, "in/b.jsonl", '{"text": "another"}\n'),
        lambda folder: (folder / "in/a.jsonl").rename(folder / "in/c.jsonl"),
        lambda folder: _rewrite(folder, "lists/bad.txt", "bed.example\n"),
        lambda folder: _rewrite(folder, "lists/more.txt", "more.example\n"),
        lambda folder: _rewrite(folder, "lists/below/more.txt", "more.example\n"),
        lambda folder: (folder / "store/runs/few/run-000000000009-ab.json").write_text("{}"),
        lambda folder: [path.unlink() for path in (folder / "store/stages").iterdir()],
    ],
    ids=["input", "new input", "renamed", "list", "new list", "list below", "another run", "store"],
)
def test_after_any_change_the_recipe_is_evaluated_in_full(few, change):
    change(few.folder)
    assert open_unchanged(str(few.recipe)) is None


def test_another_text_or_file_of_a_recipe_is_evaluated_in_full(few):
    """Relative paths of a copy mean other files."""
    copy = few.folder / "copy.yaml"
    copy.write_text(RECIPE)
    assert open_unchanged(str(copy)) is None
    few.recipe.write_text(RECIPE + "# changed\n")
    assert open_unchanged(str(few.recipe)) is None


@pytest.mark.parametrize(("old", "new"), [("./store", "${STORE:-./store}"), ("exact_dedup", "stagebox.length")])
def test_variables_and_own_steps_are_evaluated_in_full(few, old, new):
    """What they depend on has no stamp."""
    few.recipe.write_text(RECIPE.replace(old, new))
    few.run()
    assert open_unchanged(str(few.recipe)) is None


def test_a_change_of_any_file_of_gristmill_is_noticed(tmp_path, monkeypatch):
    """Also of an installed package."""
    monkeypatch.setattr(gristmill, "__path__", [str(tmp_path)])
    monkeypatch.setattr("sys.path", [str(tmp_path / "site-packages")])
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "stage.py").write_text("VERSION = 1")
    codes = [unchanged._code()]
    (tmp_path / "stage.py").write_text("VERSION = 23")
    codes.append(unchanged._code())
    (tmp_path / "site-packages/a-1.dist-info").mkdir()
    codes.append(unchanged._code())
    assert len(set(codes)) == 3


def test_a_run_of_other_code_is_evaluated_in_full(few, monkeypatch):
    """Another version of a step would make something else."""
    monkeypatch.setattr(unchanged, "_code", lambda: "other")
    assert open_unchanged(str(few.recipe)) is None


def test_a_dropped_version_is_evaluated_in_full(few, monkeypatch):
    """Its parts may be gone."""
    record = few.mill().last_run()
    monkeypatch.setattr(unchanged, "dropped_versions", lambda _: {("few", record["version"])})
    assert open_unchanged(str(few.recipe)) is None


def test_a_recipe_of_many_files_is_evaluated_in_full(few, monkeypatch):
    """So the check stays quick."""
    monkeypatch.setattr(unchanged, "MOST_PATHS", 1)
    few.run()
    assert open_unchanged(str(few.recipe)) is None

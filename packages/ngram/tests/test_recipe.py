"""The field `quality: {language_models: ...}`: where models are trained, what runs again, and the commands."""

import json
import random
import shutil
from types import SimpleNamespace

import pytest
from conftest import Project

from gristmill.errors import UserError
from gristmill.recipe.load import load
from gristmill.recipe.settings import entry
from gristmill.stages.quality import sample
from gristmill_ngram import language_model

SOURCES = """recipe: demo
seed: 9
sources:
  crawl: {kind: web, read: {format: jsonl, paths: [a.jsonl]}}
  books: {kind: text, read: {format: jsonl, paths: [b.jsonl]}}
  other: {kind: code, read: {format: jsonl, paths: [c.jsonl]}}
"""
"""Six lines: what a case adds begins on line 7."""
EDU = "edu: {positives: {sources: [books]}, negatives: {sources: [crawl]}}"
ADDED = ["quality/edu_sample", "quality/edu_text", "quality/edu"]
CLEAN = ["quality/clean_sample", "quality/clean_text", "quality/clean"]
CLASSIFY, SCORE = "quality: {models: {edu: {trained: edu}}}", "perplexity: {models: {clean: {trained: clean}}}"


def loaded(folder, text):
    (folder / "r.yaml").write_text(text)
    return load(folder / "r.yaml")


def ids(steps):
    return [step.id for step in steps]


def test_a_language_model_samples_with_the_seed_of_the_recipe(tmp_path):
    """It has no seed setting."""
    steps = f"steps: {{web: [{SCORE}], all: [exact_dedup]}}\n"
    recipe = loaded(tmp_path, SOURCES + steps + "quality: {language_models: {clean: {sources: [books]}}}\n")
    assert ids(recipe.routes["crawl"]) == [*CLEAN, "web/perplexity", "all/exact_dedup"]
    assert recipe.routes["books"][0].config == sample.Config(sample_bytes=100_000_000, sides={"books": "text"}, seed=9)
    assert recipe.routes["books"][2].module == language_model.__name__


def test_models_of_one_place_are_trained_in_the_order_in_which_others_use_them(tmp_path):
    """Reference text that two models learn from waits for neither, and must not reverse their order."""
    steps = f"steps: {{web: [{SCORE}, {CLASSIFY}], text: [], code: []}}\n"
    field = f"quality:\n  classifiers: {{{EDU}}}\n  language_models: {{clean: {{sources: [books]}}}}\n"
    recipe = loaded(tmp_path, SOURCES + steps + field)
    assert ids(recipe.routes["crawl"]) == [*CLEAN, "web/perplexity", *ADDED, "web/quality"]
    assert ids(recipe.routes["books"]) == [*CLEAN, *ADDED]


CASES = {
    "different orders": (
        f"steps:\n  web: [{CLASSIFY}, {SCORE}]\n  text: [{SCORE}, {CLASSIFY}]\n  code: []\nquality:\n"
        f"  classifiers: {{{EDU}}}\n  language_models: {{clean: {{sources: [books, crawl]}}}}\n",
        11,
        "different orders. Use them in the same order",
    ),
    "an unknown source": (
        "steps: []\nquality:\n  language_models: {clean: {sources: [craw]}}\n",
        9,
        "names 'craw', which is not a source of the recipe",
    ),
    "one name twice": (
        f"steps: []\nquality:\n  classifiers:\n    {EDU}\n  language_models:\n    edu: {{sources: [books]}}\n",
        12,
        "quality.language_models.edu has the name of another model",
    ),
    "a model of another kind": (
        f"steps: {{web: [{CLASSIFY}], all: []}}\nquality: {{language_models: {{edu: {{sources: [books]}}}}}}\n",
        7,
        "uses the model edu of quality.language_models, but it needs a model of quality.classifiers",
    ),
    "a field of it": (
        "steps: []\nquality:\n  language_models: {clean: {sources: [books], odrer: 3}}\n",
        9,
        "quality.language_models.clean.odrer is not a field. Did you mean order",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_is_reported_with_its_line(case, tmp_path):
    text, line, message = CASES[case]
    with pytest.raises(UserError) as refused:
        loaded(tmp_path, SOURCES + text)
    assert str(refused.value).startswith(f"{tmp_path}/r.yaml:{line}: ")
    assert message in str(refused.value)


RECIPE = """
recipe: small
seed: 5
store: ./store
sources:
  crawl: {kind: web, read: {format: jsonl, paths: ["crawl.jsonl"], fields: {key: id}}}
  books: {kind: text, read: {format: jsonl, paths: ["books.jsonl"], fields: {key: id}, part_bytes: 20KB}}
quality:
  language_models:
    clean: {sources: [books], order: 2, min_documents: 10}
    files: {files: [books.jsonl], order: 3, min_documents: 10}
steps:
  web:
    - perplexity: {models: {clean: {trained: clean}, files: {trained: files}}}
    - keep_quality: {score: -perplexity.clean, min_score: -10000}
  text: []
"""
WORDS = [f"{a}{b}" for a in "bcdfghklmnprst" for b in ("amo", "iru", "ole", "unt", "ery")]
TRAINING = {"quality/clean_sample", "quality/clean_text", "quality/clean", "quality/files"}


def prose(number):
    draw = random.Random(number)
    return " ".join(draw.choices(WORDS, k=60))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The project after a full run, with its models."""
    project = Project(tmp_path_factory.mktemp("small"))
    for name, first in (("crawl", 1000), ("books", 0)):
        rows = [{"id": n, "text": f"{prose(first + n)}."} for n in range(64)]
        (project.folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    project.recipe.write_text(RECIPE)
    run = project.run()
    return SimpleNamespace(project=project, folder=project.folder, recipe=project.recipe, models=models_of(run))


def models_of(run):
    return {name: run.states[f"quality/{name}"].model.hash for name in ("clean", "files")}


@pytest.fixture
def changed(small, tmp_path, edit):
    """Return a function that changes a setting in a copy, runs it and returns the executed steps and the run."""

    def change(old, new):
        project = Project(tmp_path / "copy")
        shutil.copytree(small.folder, project.folder)
        edit(project.recipe, old, new)
        run = project.run()
        return set(project.executed(run)), run

    return change


def test_train_writes_and_describes_every_model(small, say):
    """Those of the run; nothing is trained again, and an ARPA file has every n-gram."""
    out = small.folder / "models"
    done = say("quality", "train", small.recipe, "--out", out, "--json")
    assert done.code == 0, done.err
    entries = {entry["model"]: entry for entry in map(json.loads, done.out.splitlines())}
    assert {name: entry["hash"] for name, entry in entries.items()} == small.models
    assert entries["clean"]["file"] == str(out / "clean.ngrams")
    assert all(entry["metrics"]["languages"]["all"]["words"] > 1000 for entry in entries.values())
    shown = say("quality", "train", small.recipe, "clean")
    for part in (small.models["clean"][:16], "vocabulary", "held-out texts"):
        assert part in shown.out
    done = say("quality", "arpa", out / "files.ngrams", "--out", small.folder / "files.arpa")
    assert done.code == 0, done.err
    text = (small.folder / "files.arpa").read_text()
    assert text.startswith("\\data\\\nngram 1=")
    assert ("\\3-grams:" in text, "\\4-grams:" in text) == (True, False)
    assert text.endswith("\\end\\\n")


MISTAKES = {
    "no file to write": (("no.ngrams", "--out", "x"), "no.ngrams is not a file"),
    "no language model": (("books.jsonl", "--out", "x"), "is not a file of language models, or is damaged"),
    "a language that it does not have": (("m.ngrams", "--language", "de", "--out", "x"), "has no model of de"),
    "a folder that is not there": (("m.ngrams", "--out", "no/x"), "the folder no does not exist"),
    "a folder in place of a file": (("m.ngrams", "--out", "store"), "Name another"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_message_with_its_fix(case, small, say, monkeypatch):
    """The exit code is 2, and no file is written."""
    monkeypatch.chdir(small.folder)
    config = language_model.Config(name="m", files=("books.jsonl",), min_documents=1, order=1)
    language_model.fit((), config, small.folder / "m.ngrams")
    arguments, message = MISTAKES[case]
    output = say("quality", "arpa", *arguments)
    assert output.code == 2
    assert message in " ".join(output.err.split())
    assert not (small.folder / "x").exists()


def test_a_new_threshold_neither_scores_nor_trains(changed):
    executed, _ = changed("min_score: -10000", "min_score: -20")
    assert "web/keep_quality" in executed
    assert executed.isdisjoint(TRAINING | {"web/perplexity"})


def test_a_new_setting_trains_one_model_and_scores(changed, small):
    """The sample, the texts and the other model are the same."""
    executed, run = changed("order: 2", "order: 1")
    assert executed & TRAINING == {"quality/clean"}
    assert "web/perplexity" in executed
    assert models_of(run)["files"] == small.models["files"]


def test_other_training_texts_in_a_file_train_its_model_again(changed, small):
    """A model of files reads no document, so other documents do not train it again."""
    executed, run = changed('paths: ["books.jsonl"], fields: {key: id}, part_bytes: 20KB', 'paths: ["crawl.jsonl"]')
    assert {"quality/clean", "quality/clean_text"} <= executed
    assert "quality/files" not in executed
    assert models_of(run)["clean"] != small.models["clean"]


def test_the_part_size_does_not_change_the_models(changed, small):
    _, run = changed("part_bytes: 20KB", "part_bytes: 7KB")
    assert models_of(run) == small.models


def test_its_settings_are_listed(say):
    """With the meaning of each."""
    assert "order" in [setting.name for setting in entry("language_models").settings]
    assert "Words of the longest n-grams" in " ".join(say("steps", "language_models").out.split())

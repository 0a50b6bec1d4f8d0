"""gristmill quality: training and writing the models of a recipe, and what runs again when a setting changes."""

import json
import random
import shutil
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from conftest import Project

from demo.warc import Response, write
from gristmill.stages.shared import fasttext_model

RECIPE = """
recipe: small
seed: 5
store: ./store
sources:
  crawl: {kind: web, read: {format: warc, paths: ["in/*.warc.gz"]}}
  books: {kind: text, read: {format: jsonl, paths: ["in/*.jsonl"], fields: {key: id}, part_bytes: 20KB}}
quality:
  classifiers:
    edu:
      positives: {sources: [books]}
      negatives: {sources: [crawl]}
      held_out_share: 0.3
      min_count: 1
      buckets: 1000
      epochs: 2
    clean:
      positives: {sources: [books]}
      negatives: {sources: [crawl]}
      min_count: 1
      word_ngrams: 1
steps:
  web:
    - extract
    - quality: {models: {edu: {trained: edu}, clean: {trained: clean}}}
    - keep_quality: {score: quality.edu, min_score: 0.01}
  text: []
"""
COMMON = [f"word{n}" for n in range(200)]
TRAINING = {f"quality/{name}" for name in ("edu_sample", "edu_text", "edu", "clean_sample", "clean_text", "clean")}
SCORING = {"web/quality"}


def prose(side, number):
    draw = random.Random(f"{side} {number}")
    return " ".join(draw.choice(COMMON) if draw.random() < 0.8 else f"{side}{draw.randrange(60)}" for _ in range(60))


def write_project(folder):
    """Write the recipe and its inputs: 64 pages from eight sites in two files, and 64 books from eight publishers."""
    project = Project(folder)
    (folder / "in").mkdir(parents=True)
    for file in range(2):
        pages = [
            Response(
                f"https://www.site{n % 8}.example/{n}", f"<html><body><p>{prose('bad', n)}.</p></body></html>".encode()
            )
            for n in range(file * 32, file * 32 + 32)
        ]
        write(folder / "in" / f"{file}.warc.gz", pages, datetime(2026, 11, 1, tzinfo=UTC))
    books = [{"id": n, "url": f"https://press{n % 8}.example/{n}", "text": f"{prose('good', n)}."} for n in range(64)]
    (folder / "in" / "books.jsonl").write_text("\n".join(map(json.dumps, books)))
    project.recipe.write_text(RECIPE)
    return project


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The project after a full run, with the hashes of its models."""
    project = write_project(tmp_path_factory.mktemp("small"))
    run = project.run()
    return SimpleNamespace(
        project=project, recipe=project.recipe, folder=project.folder, run=run, models=models_of(run)
    )


def models_of(run):
    return {name: run.states[f"quality/{name}"].model.hash for name in ("edu", "clean")}


@pytest.fixture
def files(small, say):
    """The models as `train --out` writes them."""
    out = small.folder / "models"
    if not out.exists():
        done = say("quality", "train", small.recipe, "--out", out, "--json")
        assert done.code == 0, done.err
        (small.folder / "said.jsonl").write_text(done.out)
    return out


@pytest.fixture
def run_changed(small, tmp_path, edit):
    """Return a function that changes a setting in a copy, runs it and returns the executed steps and the run."""

    def change(old, new):
        project = Project(tmp_path / "copy")
        shutil.copytree(small.folder, project.folder)
        edit(project.recipe, old, new)
        run = project.run()
        return set(project.executed(run)), run

    return change


def test_the_command_has_help_with_an_example(say):
    """The example is a complete command."""
    assert "Example: gristmill quality train" in " ".join(say("quality", "train", "--help").out.split())


def test_train_writes_and_describes_every_model(small, files):
    """There is one JSON object per model; the files equal the stored models, and nothing is trained again."""
    entries = [json.loads(line) for line in (small.folder / "said.jsonl").read_text().splitlines()]
    assert [entry["model"] for entry in entries] == ["edu", "clean"]
    assert {entry["model"]: entry["hash"] for entry in entries} == small.models
    assert sorted(file.name for file in files.iterdir()) == ["clean.bin", "edu.bin"]
    assert [entry["file"] for entry in entries] == [str(files / "edu.bin"), str(files / "clean.bin")]
    assert fasttext_model.load(str(files / "edu.bin")).labels == ("high", "low")
    texts = entries[0]["metrics"]["texts"]
    assert sum(side["documents"] for split in texts.values() for side in split.values()) == 128
    assert entries[0]["metrics"]["auc"] > 0.9


def test_train_shows_the_scores_on_held_out_sites(small, say):
    """Only the named model is shown."""
    shown = say("quality", "train", small.recipe, "edu")
    assert shown.code == 0, shown.err
    for part in (small.models["edu"][:16], "held out", "AUC", "precision", "high", "low"):
        assert part in shown.out
    assert "clean" not in shown.out


def test_train_runs_only_what_the_models_need(small, say, tmp_path):
    """In an empty store it computes no score and no verdict."""
    done = say("quality", "train", small.recipe, "edu", "--store", tmp_path / "store", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["hash"] == small.models["edu"]
    nodes = small.project.mill(store=str(tmp_path / "store")).last_run()["nodes"]
    assert {"web/extract", "quality/edu"} < nodes.keys()
    assert nodes.keys().isdisjoint(SCORING | {"quality/clean", "web/keep_quality"})


MISTAKES = {
    "no model in the recipe": (("train", "plain.yaml"), "trains no quality model. Add quality:"),
    "a wrong name": (("train", "recipe.yaml", "edv"), "trains no model edv. Did you mean edu?"),
    "a file in place of a folder": (
        ("train", "recipe.yaml", "--out", "recipe.yaml"),
        "is a file, but models are",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_message_with_its_fix(case, small, files, say, monkeypatch):
    """The exit code is 2."""
    monkeypatch.chdir(small.folder)
    plain = RECIPE.partition("quality:\n")[0] + "steps: {web: [extract], text: []}\n"
    (small.folder / "plain.yaml").write_text(plain)
    arguments, message = MISTAKES[case]
    output = say("quality", *arguments)
    assert output.code == 2
    assert message in " ".join(output.err.split())
    assert "Traceback" not in output.err


def test_strict_turns_a_warning_into_an_error_and_keeps_the_model(tmp_path, say, edit):
    """All books come from one publisher, so the held-out texts are too similar to the training texts."""
    project = write_project(tmp_path / "strict")
    books = project.folder / "in" / "books.jsonl"
    lines = [json.loads(line) | {"url": "https://one.example/"} for line in books.read_text().splitlines()]
    books.write_text("\n".join(map(json.dumps, lines)))
    edit(project.recipe, "seed: 5", "seed: 5\nstrict: true")
    result = say("quality", "train", project.recipe, "edu")
    assert result.code == 2
    assert "strict is true and the run has" in " ".join(result.err.split())
    assert "texts of other sites" in result.err
    assert "The model is stored" in " ".join(result.err.split())
    edit(project.recipe, "strict: true", "strict: false")
    loose = say("quality", "train", project.recipe, "edu", "--json")
    assert loose.code == 0, loose.err
    assert any("texts of other sites" in line["text"] for line in json.loads(loose.out)["warnings"])
    assert not any(line.endswith("new)") for line in loose.err.splitlines())


def test_a_new_threshold_neither_scores_nor_trains(run_changed):
    """Law 3: a verdict is a selection over stored columns."""
    executed, _ = run_changed("min_score: 0.01", "min_score: 0.6")
    assert "web/keep_quality" in executed
    assert executed.isdisjoint(TRAINING | SCORING | {"web/extract"})


def test_a_new_percentile_neither_scores_nor_trains_nor_ranks(small, tmp_path, edit):
    """Only the verdicts are computed again."""
    project = Project(tmp_path / "copy")
    shutil.copytree(small.folder, project.folder)
    edit(project.recipe, "min_score: 0.01", "keep_best: 0.75, per: [source]")
    first = project.executed(project.run())
    assert set(first).isdisjoint(TRAINING | SCORING)
    edit(project.recipe, "keep_best: 0.75", "keep_best: 0.5")
    second = set(project.executed(project.run()))
    assert "web/keep_quality" in second
    assert not [name for name in second if "ranks" in name]
    assert second.isdisjoint(TRAINING | SCORING | {"web/extract", "crawl/ingest"})


def test_a_new_classifier_setting_trains_and_scores_but_extracts_nothing(run_changed, small):
    """The sample, the texts and the other model are the same."""
    executed, run = run_changed("epochs: 2", "epochs: 3")
    assert {"quality/edu", "web/quality", "web/keep_quality"} <= executed
    assert executed.isdisjoint({"crawl/ingest", "books/ingest", "web/extract"})
    assert executed & TRAINING == {"quality/edu"}
    assert models_of(run)["edu"] != small.models["edu"]
    assert models_of(run)["clean"] == small.models["clean"]


def test_the_part_size_does_not_change_the_models(run_changed, small):
    """The models do not depend on how documents are split into parts."""
    _, run = run_changed("part_bytes: 20KB", "part_bytes: 7KB")
    assert len(run.states["books/ingest"].tasks) > len(small.run.states["books/ingest"].tasks) > 1
    assert models_of(run) == small.models


@pytest.mark.slow
def test_the_number_of_workers_does_not_change_the_models(small, tmp_path):
    """This process and two worker processes train the same models."""
    run = small.project.run(workers=2, store=str(tmp_path / "store"))
    assert models_of(run) == small.models


def test_a_model_file_appears_only_when_it_is_complete(small, say, tmp_path):
    """A failed write is one message and leaves no partial file."""
    (tmp_path / "out" / "edu.bin").mkdir(parents=True)
    done = say("quality", "train", small.recipe, "edu", "--out", tmp_path / "out")
    assert done.code == 2
    assert "cannot be written" in done.err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["edu.bin"]

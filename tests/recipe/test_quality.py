"""The field `quality`: where the steps that train a model are, in which order, and its mistakes."""

import json

import pytest

from gristmill import installed
from gristmill.engine.files.content import ContentHashes
from gristmill.engine.plan.graph import build
from gristmill.errors import UserError
from gristmill.recipe.load import load
from gristmill.recipe.sections.quality import unused_models
from gristmill.stages.quality import classifier, sample, texts
from gristmill.store.store import Store

SOURCES = """recipe: demo
seed: 9
sources:
  crawl: {kind: web, read: {format: jsonl, paths: [a.jsonl]}}
  books: {kind: text, read: {format: jsonl, paths: [b.jsonl]}}
  other: {kind: code, read: {format: jsonl, paths: [c.jsonl]}}
"""
STEPS = "steps: {web: [extract, language, quality: {models: {edu: {trained: edu}}}, signals], all: [exact_dedup]}\n"
TOP = SOURCES + STEPS
"""Seven lines: what a case adds begins on line 8."""
EDU = "edu: {positives: {sources: [books]}, negatives: {sources: [crawl]}}"
FIELD = f"quality: {{classifiers: {{{EDU}}}}}\n"
ADDED = ["quality/edu_sample", "quality/edu_text", "quality/edu"]
CLEAN = ["quality/clean_sample", "quality/clean_text", "quality/clean"]
TRAINED = "clean: {positives: {sources: [books]}, negatives: {sources: [crawl]}}"
TWO = f"quality: {{classifiers: {{{EDU}, {TRAINED}}}}}\n"
"""With a second model."""


def loaded(folder, text):
    path = folder / "r.yaml"
    path.write_text(text)
    return load(path)


def ids(steps):
    return [step.id for step in steps]


def used(list_name, model, stage="quality"):
    return f"steps: {{{list_name}: [{stage}: {{models: {{x: {{trained: {model}}}}}}}], all: [exact_dedup]}}\n"


def test_a_model_is_trained_just_before_the_first_step_that_uses_it(tmp_path):
    """A source that only provides text is sampled after its own steps; one that does neither has no additional step."""
    recipe = loaded(tmp_path, TOP + FIELD)
    own = ["web/extract", "web/language"]
    last = ["web/quality", "web/signals", "all/exact_dedup"]
    assert ids(recipe.routes["crawl"]) == [*own, *ADDED, *last]
    assert ids(recipe.routes["books"]) == [*ADDED, "all/exact_dedup"]
    assert ids(recipe.routes["other"]) == ["all/exact_dedup"]


def test_text_is_sampled_after_the_own_steps_of_a_source(tmp_path):
    recipe = loaded(tmp_path, SOURCES + STEPS.replace("all:", "text: [signals], all:") + FIELD)
    assert ids(recipe.routes["books"]) == ["text/signals", *ADDED, "all/exact_dedup"]


def test_an_unused_model_is_trained(tmp_path):
    """A user inspects a classifier first, and uses it later."""
    recipe = loaded(tmp_path, SOURCES + "steps: {web: [extract], all: [exact_dedup]}\n" + FIELD)
    assert ids(recipe.routes["crawl"]) == ["web/extract", *ADDED, "all/exact_dedup"]
    assert ids(recipe.routes["other"]) == ["all/exact_dedup"]


def test_a_user_under_all_puts_the_training_on_every_route(tmp_path):
    """After the steps that all sources have before it, so that every source passes the steps in one order."""
    steps = "steps: {web: [extract], all: [exact_dedup, quality: {models: {edu: {trained: edu}}}]}\n"
    recipe = loaded(tmp_path, SOURCES + steps + FIELD)
    for name, own in (("crawl", ["web/extract"]), ("books", []), ("other", [])):
        assert ids(recipe.routes[name]) == [*own, "all/exact_dedup", *ADDED, "all/quality"]


def test_a_second_user_trains_nothing_again(tmp_path):
    steps = "steps:\n  web:\n    - quality: {models: {edu: {trained: edu}, again: {trained: edu}}}\n  all:\n"
    more = "    - quality: {models: {clean: {trained: clean}}}\n"
    recipe = loaded(tmp_path, SOURCES + steps + more + TWO)
    assert ids(recipe.routes["crawl"]) == [*ADDED, "web/quality", *CLEAN, "all/quality"]
    assert ids(recipe.routes["books"]) == [*ADDED, *CLEAN, "all/quality"]


def test_steps_are_in_an_order_that_agrees_with_every_route(tmp_path):
    """A run goes through the steps in the order of the recipe."""
    steps = (
        "steps:\n  text: [extract, language]\n  code: [signals, quality: {models: {edu: {trained: edu}}}]\n"
        "  web: [quality: {models: {clean: {trained: clean}}}]\n  all: [exact_dedup]\n"
    )
    recipe = loaded(tmp_path, SOURCES + steps + TWO)
    place = {step.id: at for at, step in enumerate(recipe.steps)}
    assert len(place) == len(recipe.steps)
    for route in recipe.routes.values():
        assert [place[step.id] for step in route] == sorted(place[step.id] for step in route)


def test_the_steps_have_their_sides_their_budget_and_the_seed(tmp_path):
    """Missing settings come from the recipe; a model may set its own seed."""
    field = FIELD.replace("}}}}", "}, sample_bytes: 2KB, buckets: 1k}}}", 1)
    assert field != FIELD
    recipe = loaded(tmp_path, TOP + field)
    taken, texts_of, fit = (step.config for step in recipe.routes["books"][:3])
    sides = {"books": "positive", "crawl": "negative"}
    assert taken == sample.Config(sample_bytes=2000, sides=sides, seed=9)
    assert texts_of == texts.Config(name="edu", sides=sides)
    assert (fit.name, fit.seed, fit.buckets, fit.sample_bytes) == ("edu", 9, 1000, 2000)
    assert [step.name for step in recipe.routes["books"][:3]] == [
        "quality_edu_sample",
        "quality_edu_text",
        "quality_edu",
    ]
    assert [step.module for step in recipe.routes["books"][:3]] == [m.__name__ for m in (sample, texts, classifier)]
    own = loaded(tmp_path, TOP + field.replace("buckets", "seed: 4, buckets"))
    assert [own.routes["books"][at].config.seed for at in (0, 2)] == [4, 4]


def test_a_model_of_files_alone_reads_no_document(tmp_path):
    """One step, an asset, before the step that uses it; an unused one is trained, too, wherever it is."""
    record = json.dumps({"text": "the mill", "score": 4})
    for name in ("good.jsonl", "bad.jsonl", "judged.jsonl"):
        (tmp_path / name).write_text(record + "\n")
    field = (
        "quality:\n  classifiers:\n    edu: {positives: {files: [good.jsonl]}, negatives: {files: [bad.jsonl]}}\n"
        "    judged: {labels: [{file: judged.jsonl}]}\n"
    )
    recipe = loaded(tmp_path, TOP + field)
    assert ids(recipe.routes["crawl"])[2:4] == ["quality/edu", "web/quality"]
    assert ids(recipe.routes["books"]) == ["quality/judged", "all/exact_dedup"]
    made = {step.name: step for step in recipe.steps}
    assert made["quality_edu"].config.positives.files == (str(tmp_path / "good.jsonl"),)
    assert made["quality_edu"].module == made["quality_judged"].module == classifier.__name__
    graph = build(recipe, ContentHashes(Store(str(tmp_path / "store")), recipe.name))
    assert {graph.nodes[name].kind for name in ("quality/edu", "quality/judged")} == {"asset"}
    assert graph.nodes["quality/edu"].sources == ()
    assert made["quality_edu"].config.seed == 9


CASES = {
    "not a mapping": ("quality: 5\n", 8, ["quality", "mapping"]),
    "typo": (
        f"quality: {{clasifiers: {{{EDU}}}}}\n",
        8,
        ["quality.clasifiers is not a field", "Did you mean classifiers"],
    ),
    "typo inside": (
        "quality:\n  classifiers:\n    edu:\n      positives: {sources: [books]}\n"
        "      negatives: {sources: [crawl]}\n      bucket: 3\n",
        13,
        ["quality.classifiers.edu.bucket is not a field", "Did you mean buckets"],
    ),
    "a kind of models that a package adds": (
        "quality:\n  classifiers: {}\n  language_models: {clean: {sources: [books]}}\n",
        10,
        ["quality.language_models: language_models needs the package gristmill-ngram", "pip install", "/ngram"],
    ),
    "a model that is no mapping": (
        "quality:\n  classifiers:\n    edu: books\n",
        10,
        ["quality.classifiers.edu must be a mapping"],
    ),
    "nothing on one side": (
        "quality:\n  classifiers:\n    edu: {positives: {sources: [books]}}\n",
        10,
        ["there are no negatives", "Add sources or files"],
    ),
    "a source on both sides": (
        "quality:\n  classifiers:\n    edu: {positives: {sources: [books]}, negatives: {sources: [books]}}\n",
        10,
        ["has the source books as positive and as negative", "Remove it from one"],
    ),
    "an unknown source": (
        "quality:\n  classifiers:\n    edu:\n      positives: {sources: [boks]}\n      negatives: {sources: [crawl]}\n",
        11,
        ["names 'boks', which is not a source of the recipe", "Did you mean books"],
    ),
    "a bad name": (
        f"quality:\n  classifiers:\n    {EDU}\n    Edu-2: {{}}\n",
        11,
        ["'Edu-2' cannot be the name of a model", "begin with a letter"],
    ),
    "the loader's own field": (
        "quality:\n  classifiers:\n    edu:\n      name: edu\n      positives: {sources: [books]}\n",
        11,
        ["quality.classifiers.edu.name is not a field"],
    ),
    "a file that is not there": (
        "quality:\n  classifiers:\n    edu: {positives: {files: [no.jsonl]}, negatives: {sources: [crawl]}}\n",
        10,
        ["no.jsonl", "does not exist"],
    ),
    "a variable that is not set": (
        'quality:\n  classifiers:\n    edu: {positives: {files: ["${NO_FILE}"]}, negatives: {sources: [crawl]}}\n',
        10,
        ["the environment variable NO_FILE is not set"],
    ),
    "a number out of range": (
        f"quality:\n  classifiers:\n    {EDU.replace('}}', '}, buckets: 0}')}\n",
        10,
        ["quality.classifiers.edu.buckets"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_is_reported_once_with_its_line_and_its_fix(case, tmp_path, monkeypatch):
    """And no other mistake follows from it: the step that uses the missing model is not reported."""
    monkeypatch.setattr(installed, "_installed", lambda group, path: {})
    text, line, fragments = CASES[case]
    with pytest.raises(UserError) as text_shown:
        loaded(tmp_path, TOP + text)
    message = str(text_shown.value)
    assert message.startswith(f"{tmp_path}/r.yaml:{line}: "), message
    assert "\n" not in message, message
    for fragment in fragments:
        assert fragment in message


def test_a_model_that_the_recipe_does_not_train_is_reported_at_the_step_that_uses_it(tmp_path):
    """With the name that was probably meant, and what to write for an existing model."""
    text_shown = (
        r"r\.yaml:7: web/quality uses the model edv, which the recipe does not train\. Did you mean edu\?.*write file"
    )
    with pytest.raises(UserError, match=text_shown):
        loaded(tmp_path, TOP.replace("trained: edu", "trained: edv") + FIELD)
    with pytest.raises(UserError, match=r"r\.yaml:7: web/quality uses the model edu.*The recipe has no field quality"):
        loaded(tmp_path, TOP)


def test_a_step_needs_a_model_of_the_right_kind(tmp_path):
    """A classifier has no perplexity."""
    with pytest.raises(UserError, match=r"r\.yaml:7: web/perplexity uses the model edu of quality\.classifiers, but"):
        loaded(tmp_path, SOURCES + used("web", "edu", "perplexity") + FIELD)


def test_a_step_of_the_users_own_may_not_have_the_name_of_a_training(tmp_path, monkeypatch):
    """Two steps with one name could not be distinguished."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").touch()
    (tmp_path / "mine" / "quality_edu.py").write_text(
        "from gristmill.stages.contract import Fit, StageConfig\n"
        "STAGE = Fit(config=StageConfig, reads=(), fit=lambda batches, config, path: {})\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UserError, match="web/quality_edu has the name of a step that trains the model edu"):
        loaded(tmp_path, TOP.replace("signals", "mine.quality_edu") + FIELD)


def test_no_model_learns_the_words_of_withheld_documents(tmp_path):
    """A list of digests after the training is refused, with where it belongs; before it, it is fine."""
    (tmp_path / "hashes.txt").write_text("0" * 64 + "\n")
    late = STEPS.replace("exact_dedup", "safety: {hashes: hashes.txt}")
    with pytest.raises(UserError, match="all/safety withholds documents, but the model edu would learn"):
        loaded(tmp_path, SOURCES + late + FIELD)
    early = STEPS.replace("language,", "language, safety: {hashes: hashes.txt},").replace(
        "all:", "text: [safety: {hashes: hashes.txt}], all:"
    )
    assert loaded(tmp_path, SOURCES + early + FIELD).routes


def test_a_model_that_no_step_uses_gives_a_warning(tmp_path):
    recipe = loaded(tmp_path, SOURCES + "steps: {web: [extract]}\n" + FIELD)
    assert "edu is trained, but no step uses it" in (unused_models(recipe) or "")
    assert unused_models(loaded(tmp_path, TOP + FIELD)) is None

"""The field `tokenizer`: the steps that it adds, and its mistakes."""

import pytest

from gristmill.errors import UserError
from gristmill.recipe.load import load
from gristmill.stages.tokenizer import tokenizer, tokenizer_file, tokenizer_sample, tokenizer_text

TOP = """recipe: demo
seed: 9
sources:
  a: {kind: web, domain: web, read: {format: jsonl, paths: [a.jsonl]}}
  b: {kind: text, domain: books, read: {format: jsonl, paths: [b.jsonl]}}
steps: {web: [extract], all: [exact_dedup]}
"""
"""Six lines: what a case adds begins on line 7."""

CASES = {
    "neither": ("tokenizer: {}\n", 7, ["train", "file", "one of the two"]),
    "both": ("tokenizer: {train: {}, file: x.json}\n", 7, ["one of the two"]),
    "not a mapping": ("tokenizer: 128000\n", 7, ["tokenizer", "mapping"]),
    "typo": ("tokenizer: {trian: {}}\n", 7, ["tokenizer.trian is not a field", "Did you mean train"]),
    "typo inside": (
        "tokenizer:\n  train:\n    sample_bytes: {web: 1GB, books: 1GB}\n    vocabs: 3\n",
        10,
        ["tokenizer.train.vocabs is not a field", "Did you mean vocab"],
    ),
    "the loader's own field": (
        "tokenizer: {train: {sample_bytes: {web: 1, books: 1}, domains: {a: web}}}\n",
        7,
        ["tokenizer.train.domains is not a field"],
    ),
    "no budgets": ("tokenizer:\n  train: {vocab: 1000}\n", 8, ["tokenizer.train.sample_bytes is missing"]),
    "a domain of no source": (
        "tokenizer:\n  train:\n    sample_bytes:\n      web: 1GB\n      books: 1GB\n      bokos: 1GB\n",
        12,
        ["sample_bytes.bokos is the domain of no source", "Did you mean books", "Domains: web, books"],
    ),
    "a domain without a budget": (
        "tokenizer:\n  train:\n    sample_bytes: {web: 1GB}\n",
        9,
        ["no budget for the domain 'books'", "books: ", "0 leaves it out"],
    ),
    "nothing at all": (
        "tokenizer:\n  train:\n    sample_bytes: {web: 0, books: 0}\n",
        9,
        ["takes no text"],
    ),
    "a size that is none": (
        "tokenizer:\n  train:\n    sample_bytes: {web: 1XB, books: 0}\n",
        9,
        ["'1XB' is not a size"],
    ),
    "too small a vocabulary": (
        "tokenizer: {train: {vocab: 100, sample_bytes: {web: 1GB, books: 0}}}\n",
        7,
        ["tokenizer.train.vocab", "512"],
    ),
    "an unknown pattern": (
        "tokenizer: {train: {pattern: llama2, sample_bytes: {web: 1GB, books: 0}}}\n",
        7,
        ["tokenizer.train.pattern", "llama3"],
    ),
    "a file that is not there": ("tokenizer: {file: no.json}\n", 7, ["tokenizer.file", "does not exist"]),
}


def written(folder, text):
    path = folder / "r.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_is_reported_once_with_its_line_and_its_fix(case, tmp_path):
    """Every mistake in the field, in one message."""
    text, line, fragments = CASES[case]
    with pytest.raises(UserError) as text_shown:
        load(written(tmp_path, TOP + text))
    message = str(text_shown.value)
    assert message.startswith(f"{tmp_path}/r.yaml:{line}: "), message
    assert "\n" not in message, message
    for fragment in fragments:
        assert fragment in message


def test_a_source_without_a_domain_cannot_be_sampled(tmp_path):
    """The mistake is reported at the source."""
    text = TOP.replace("domain: books, ", "") + "tokenizer: {train: {sample_bytes: {web: 1GB}}}\n"
    with pytest.raises(UserError, match=r"r\.yaml:5: sources\.b has no domain.*Add domain:"):
        load(written(tmp_path, text))


def test_a_source_with_a_mistake_gives_no_second_one_about_its_domain(tmp_path):
    """Its domain is unknown."""
    text = TOP.replace("kind: text, ", "") + "tokenizer: {train: {sample_bytes: {web: 1GB, books: 1GB}}}\n"
    with pytest.raises(UserError) as text_shown:
        load(written(tmp_path, text))
    assert "\n" not in str(text_shown.value)


def test_the_steps_come_after_all_others_of_every_source(tmp_path):
    """Sample, texts, training: one step each for all sources, with the recipe's seed and the domains of its sources."""
    field = "tokenizer: {train: {vocab: 700, sample_bytes: {web: 1MB, books: 2KB}, held_out_share: 0.2}}\n"
    recipe = load(written(tmp_path, TOP + field))
    added = ["all/tokenizer_sample", "all/tokenizer_text", "all/tokenizer"]
    assert [step.id for step in recipe.routes["a"]] == ["web/extract", "all/exact_dedup", *added]
    assert [step.id for step in recipe.routes["b"]] == ["all/exact_dedup", *added]
    assert [step.id for step in recipe.steps[-3:]] == added
    sample, text, train = (step.config for step in recipe.steps[-3:])
    domains = {"a": "web", "b": "books"}
    budgets = {"web": 10**6, "books": 2000}
    assert sample == tokenizer_sample.Config(sample_bytes=budgets, held_out_share=0.2, seed=9, domains=domains)
    assert text == tokenizer_text.Config(domains=domains)
    assert train == tokenizer.Config(vocab=700)


def test_a_recipe_without_the_field_has_no_step_more(tmp_path):
    """Existing recipes are unchanged."""
    recipe = load(written(tmp_path, TOP))
    assert [step.id for step in recipe.steps] == ["web/extract", "all/exact_dedup"]


def test_a_given_file_is_one_step(tmp_path):
    """Its path is relative to the recipe, and sources need no domain."""
    (tmp_path / "t.json").write_text('{"model": {}}')
    recipe = load(written(tmp_path, TOP.replace("domain: books, ", "") + "tokenizer: {file: t.json}\n"))
    assert [(step.id, step.module) for step in recipe.steps[2:]] == [("all/tokenizer", tokenizer_file.__name__)]
    assert recipe.steps[-1].config == tokenizer_file.Config(file=str(tmp_path / "t.json"))


def test_a_step_of_the_users_own_may_not_have_the_name(tmp_path, monkeypatch):
    """Two steps with one name could not be distinguished."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").touch()
    (tmp_path / "mine" / "tokenizer.py").write_text(
        "from gristmill.stages.contract import Fit, StageConfig\n"
        "STAGE = Fit(config=StageConfig, reads=(), fit=lambda batches, config, path: {})\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    text = TOP.replace("[exact_dedup]", "[mine.tokenizer]")
    with pytest.raises(UserError, match="all/tokenizer has the name of a step that the field tokenizer adds"):
        load(written(tmp_path, text + "tokenizer: {train: {sample_bytes: {web: 1GB, books: 1GB}}}\n"))

"""The diversity of generated text: what counts as collapse, and what does not."""

import json
import random

import pytest
from conftest import Project

import gristmill
from gristmill_generate.diversity import MEASURES, GeneratedPair, compare_blocks, diversity, is_collapse, page

WORDS = [f"word{number}" for number in range(3000)]
RNG = random.Random(0)
PARENTS = [RNG.choices(WORDS, k=60) for _ in range(120)]


def warned(texts):
    found = compare_blocks([GeneratedPair(text, parent) for text, parent in zip(texts, PARENTS, strict=True)])
    return [
        error is not None and is_collapse(measure, own, parents, error)
        for measure, (own, parents, error) in zip(MEASURES, found, strict=True)
    ]


def test_texts_that_resemble_each_other_are_warned_about():
    """One text for all parents fails every measure, a shared opening only that of openings, and shuffling none."""
    assert warned([PARENTS[0]] * len(PARENTS)) == [True] * 4
    assert warned([["in", "this", "article", *text[3:]] for text in PARENTS]) == [False, False, False, True]
    assert warned([RNG.sample(text, len(text)) for text in PARENTS]) == [False] * 4


def test_few_documents_have_no_error():
    """Below ten documents for each block the measures are shown without an error."""
    found = compare_blocks([GeneratedPair(text, text) for text in PARENTS[:99]])
    assert [error for _, _, error in found] == [None] * 4
    assert all(own == parents for own, parents, _ in found)
    assert compare_blocks([GeneratedPair(text, text) for text in PARENTS[:100]])[0][2] == pytest.approx(0)


RECIPE = """
recipe: generated
seed: 1
store: ./store
sources:
  rephrased: {kind: text, read: {format: jsonl, paths: [in.jsonl]}}
steps:
  text: [{faithful: {}}]
"""


def test_the_page_is_by_prompt_and_model(tmp_path):
    """Each prompt and model has a row for each measure; documents without a parent do not count."""
    project = Project(tmp_path)
    rows = [
        {"text": " ".join(PARENTS[0]), "parent_text": " ".join(parent), "prompt": "wiki", "model": "m1"}
        for parent in PARENTS
    ]
    rows += [{"text": "x y", "parent_text": "x y", "prompt": "list", "model": "m1"}, {"text": "not generated"}]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, rows)))
    project.recipe.write_text(RECIPE)
    lines, note = diversity(project.run())
    assert [(line["prompt"], line["model"]) for line in lines] == [("list", "m1")] * 4 + [("wiki", "m1")] * 4
    assert [line["warning"] for line in lines[:4]] == ["too few documents"] * 4
    assert all(line["warning"].startswith("less diverse than the parents") for line in lines[4:])
    opening = " ".join(PARENTS[0][:3])
    assert lines[-1]["warning"] == f"less diverse than the parents: 120 begin with “{opening}”"
    assert "121 documents read" in note
    assert "4 warnings" in note
    shown = page(gristmill.open(project.recipe))
    assert f"120 begin with “{opening}”" in shown
    assert note in shown

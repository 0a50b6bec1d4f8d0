"""Training a classifier: the same bytes for any order of texts, cleaning, held-out texts, and warnings."""

import random
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from gristmill.errors import UserError
from gristmill.stages.quality import classifier
from gristmill.stages.quality.classifier import warnings
from gristmill.stages.quality.classifier_settings import ClassTexts, Config, Options
from gristmill.stages.quality.classifier_texts import SCHEMA, clean, hold_out
from gristmill.stages.quality.classifier_train import area, train
from gristmill.stages.shared import fasttext_model

SMALL = {"buckets": 20_000, "min_count": 1, "held_out_share": 0.25, "epochs": 3}
OPTIONS = Options(**SMALL)
COMMON = [f"word{n}" for n in range(300)]


def prose(side, seed, words=120):
    """A text whose words are mostly common to both classes, with a tenth of words that are rare and specific to its
    class.
    """
    draw = random.Random(f"{side} {seed}")
    return " ".join(
        draw.choice(COMMON) if draw.random() < 0.9 else f"{side}{draw.randrange(100)}" for _ in range(words)
    )


def table(high, low, sites=20):
    rows = [(text, True, 1.0, n % sites) for n, text in enumerate(high)]
    rows += [(text, False, 0.0, 100 + n % sites) for n, text in enumerate(low)]
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


HIGH, LOW = ([prose(side, n) for n in range(160)] for side in ("good", "bad"))


@pytest.fixture(scope="module")
def trained():
    return train(table(HIGH, LOW), OPTIONS)


def batches(found, cuts):
    """As the engine passes them: in pieces, with rows that are not in the sample."""
    sides = pa.array(["positive" if high else "negative" for high in found["high"].to_pylist()])
    text = found["text"].combine_chunks().cast(pa.string())
    columns = [text, sides, found["target"].combine_chunks(), found["group"].combine_chunks(), sides]
    none = pa.RecordBatch.from_arrays([pa.nulls(2, column.type) for column in columns], names=list("abcde"))
    whole = pa.RecordBatch.from_arrays(columns, names=list("abcde"))
    bounds = [0, *cuts, len(text)]
    return [none, *(whole.slice(at, to - at) for at, to in pairwise(bounds))]


def test_the_order_and_the_cut_of_batches_change_no_byte(tmp_path):
    config = Config(name="edu", positives=ClassTexts(sources=("a",)), negatives=ClassTexts(sources=("b",)), **SMALL)
    whole = table(HIGH[:40], LOW[:40])
    mixed = whole.take(np.random.default_rng(1).permutation(80))
    classifier.fit(batches(whole, []), config, tmp_path / "one")
    classifier.fit(batches(mixed, [3, 3, 50])[::-1], config, tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert classifier.reads(config)[0] == "quality_edu_text.sampled"


def test_the_file_is_a_model_that_our_reader_scores_as_it_was_measured(trained, tmp_path):
    """The AUC on held-out texts is the same."""
    (tmp_path / "model.bin").write_bytes(trained.model)
    model = fasttext_model.load(str(tmp_path / "model.bin"))
    assert model.labels == ("high", "low")
    found, _ = clean(table(HIGH, LOW), OPTIONS.min_words)
    held = found.take(hold_out(found, OPTIONS.held_out_share, OPTIONS.seed)[0])
    texts = [held.data[a:b].tobytes().decode() for a, b in zip(held.starts, held.ends, strict=True)]
    labels, chances = fasttext_model.predict(model, pa.array(texts), k=2)
    scores = np.where(labels == 0, chances, 0).sum(axis=1)
    assert trained.metrics["auc"] == pytest.approx(area(scores, held.high), abs=1e-6)
    assert trained.metrics["auc"] > 0.9


def test_the_area_counts_ties_half():
    draw = np.random.default_rng(0)
    scores, high = draw.integers(0, 5, 60), draw.random(60) < 0.4
    pairs = [(a > b) + (a == b) / 2 for a in scores[high] for b in scores[~high]]
    assert area(scores, high) == pytest.approx(sum(pairs) / len(pairs))


def test_short_texts_copies_and_those_of_both_sides_go():
    found, removed = clean(table([HIGH[0], HIGH[0].replace(" ", "\n"), HIGH[1], "too short"], [LOW[0], HIGH[1]]), 20)
    assert removed == {"too_short": 1, "on_both_sides": 2, "copies": 1}
    assert sorted(found.high.tolist()) == [False, True]


def test_no_site_is_on_both_sides_of_the_split(trained):
    found, _ = clean(table(HIGH, LOW, sites=9), 20)
    held, apart = hold_out(found, 0.25, 0)
    assert apart
    assert not set(found.groups[held].tolist()) & set(found.groups[~held].tolist())
    assert len(set(found.high[held].tolist())) == 2


def test_a_run_warns_about_a_class_of_one_site():
    found = train(table(HIGH, LOW, sites=1), OPTIONS).metrics
    assert any("one site" in line for line in warnings(found, OPTIONS))


def test_honest_classes_bring_no_warning(trained):
    assert warnings(trained.metrics, OPTIONS) == []


def test_scores_of_a_judge_are_learned_from_a_file(tmp_path):
    lines = ["text,score,url"] + [
        f"{text},{4 if n % 2 else 1},http://s{n % 9}.org/" for n, text in enumerate(HIGH[:40])
    ]
    (tmp_path / "scores.csv").write_text("\n".join(lines))
    config = Config(name="j", labels=({"file": str(tmp_path / "scores.csv")},), **SMALL)
    found = classifier.fit((), config, tmp_path / "model.bin")
    assert classifier.reads(config) == ()
    assert found["texts"]["training"]["high"]["documents"] + found["texts"]["held_out"]["high"]["documents"] == 20
    (tmp_path / "scores.csv").write_text("text,score\nsome text,7\n")
    with pytest.raises(UserError, match="Set best_score"):
        classifier.fit((), config, tmp_path / "model.bin")


def test_a_missing_side_is_refused():
    with pytest.raises(ValidationError, match="there are no negatives"):
        Config(name="edu", positives=ClassTexts(sources=("a",)))
    with pytest.raises(UserError, match="no negatives are left to train on"):
        train(table(HIGH[:3], ["short"]), OPTIONS)


def test_a_run_warns_about_classes_of_different_languages():
    """English against a crawl of many languages; no warning if both have the same."""
    apart = {"languages": {"positive": {"en": 90}, "negative": {"en": 50, "de": 30, "fr": 10}}}
    (messages,) = warnings(apart | {"auc": 0.9}, OPTIONS)
    assert "high: en 100%; low: en 56%, de 33%, fr 11%" in messages
    same = {"languages": {"positive": {"en": 80, "de": 10}, "negative": {"en": 90, "de": 5}}, "auc": 0.9}
    assert not warnings(same, OPTIONS)


def test_a_run_warns_about_held_out_texts_of_one_site():
    sites = {"high": {"sites": 1, "documents": 12}, "low": {"sites": 40, "documents": 300}}
    found = {"auc": 0.96, "held_out_by_site": 1, "texts": {"held_out": sites}}
    assert ["of the class high come from one site" in messages for messages in warnings(found, OPTIONS)] == [True]


def test_scores_of_another_scale_are_reported():
    """Labels 0 and 1 while the best score is 5: none reaches half of it."""
    rows = table([prose("good", n) for n in range(9)], [prose("bad", n) for n in range(9)]).to_pydict()
    rows["target"] = [0.2] * 9 + [0.0] * 9
    rows[SCHEMA.names[1]] = [False] * 18
    with pytest.raises(UserError, match="the best text has 20% of it"):
        train(pa.table(rows, schema=SCHEMA), OPTIONS)

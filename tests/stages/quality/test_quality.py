"""Scores of classifiers: which label is the score, several models, how much of a text is read, and warnings."""

import json
import math
import random
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from gristmill.errors import UserError, WrongSetting
from gristmill.stages.quality import quality
from gristmill.stages.quality.quality import Config, apply, check, explain, metrics, schema, uses, warnings
from gristmill.stages.shared import fasttext_model
from lent_arrays import lent

WORDS = {"fine": (2.0, 0.0, -1.0), "poor": (-2.0, 1.0, 0.5), "é": (0.5, -3.0, 0.0)}
"""The score of each word for the labels."""
TEXTS = ["fine", "poor poor fine", "é fine\npoor", "none of these", "", None, "fine unknown poor"]


def write_model(path, labels, softmax=3):
    """A fastText model of these words: rows are scores of labels, and a text has the mean of its words' rows."""
    count = len(labels)
    file = struct.pack("<ii", 793712314, 12) + struct.pack(
        "<12id", count, 5, 5, 1, 5, 1, softmax, 3, 0, 0, 0, 100, 1e-4
    )
    file += struct.pack("<iiiqq", len(WORDS) + count, len(WORDS), count, 99, -1)
    for entry in (*WORDS, *(f"__label__{label}" for label in labels)):
        file += entry.encode() + b"\0" + struct.pack("<qb", 3, entry.startswith("__label__"))
    rows = np.array([row[:count] for row in WORDS.values()], "<f4")
    for matrix in (rows, np.eye(count, dtype="<f4")):
        file += struct.pack("<?qq", False, *matrix.shape) + matrix.tobytes()
    path.write_bytes(file)
    return str(path)


def chances(text, count=3):
    """The probability of each label by the definition; None for a text without a known word."""
    rows = [WORDS[word][:count] for word in (text or "").split() if word in WORDS]
    if not rows:
        return None
    powers = [math.exp(sum(column) / len(rows)) for column in zip(*rows, strict=True)]
    return [power / sum(powers) + 1e-5 for power in powers]  # which the library adds before it takes a logarithm


def scored(config, texts=TEXTS, models=None):
    batch = pa.record_batch({"text": pa.array(texts, pa.string())})
    return apply(batch, config) if models is None else apply(batch, config, models)


def assert_scores(found, wanted):
    assert [value is None for value in found] == [value is None for value in wanted]
    assert [value for value in found if value is not None] == pytest.approx(
        [value for value in wanted if value is not None], abs=1e-6
    )


@pytest.mark.parametrize("label", ["hq", "__label__hq", "junk"])
def test_the_score_is_the_probability_of_the_label(label, tmp_path):
    """With or without fastText's prefix; null if no word is known."""
    labels = ("cc", "hq", "junk")
    config = Config(models={"dclm": {"file": write_model(tmp_path / "m.bin", labels), "label": label}})
    place = labels.index(label.removeprefix("__label__"))
    found = scored(config)
    assert found.schema == schema(config) == pa.schema([("dclm", pa.float32())])
    assert_scores(found["dclm"].to_pylist(), [None if (p := chances(t)) is None else p[place] for t in TEXTS])


def test_labels_that_are_numbers_give_their_mean(tmp_path):
    """By their probabilities, as for a judge that gives 0 to 5."""
    path = write_model(tmp_path / "judge.bin", ("0", "3", "5"))
    wanted = [None if (p := chances(t)) is None else 3 * p[1] + 5 * p[2] for t in TEXTS]
    assert_scores(scored(Config(models={"judge": path}))["judge"].to_pylist(), wanted)
    one = Config(models={"judge": {"file": path, "label": "3"}})
    assert_scores(scored(one)["judge"].to_pylist(), [None if (p := chances(t)) is None else p[1] for t in TEXTS])


def test_without_a_label_ours_is_high(tmp_path):
    path = write_model(tmp_path / "m.bin", ("low", "high"))
    wanted = [None if (p := chances(t, 2)) is None else p[1] for t in TEXTS]
    assert_scores(scored(Config(models={"own": path}))["own"].to_pylist(), wanted)


def test_several_models_do_not_affect_each_other(tmp_path):
    """In the order of the recipe; a trained one is a file of the run."""
    three, two = write_model(tmp_path / "3.bin", ("a", "b", "c")), write_model(tmp_path / "2.bin", ("high", "low"))
    given = {"b": {"trained": "edu"}, "a": {"file": three, "label": "a"}, "again": {"trained": "edu"}}
    config = Config(models=given)
    assert uses(config) == ("quality_edu",)
    found = scored(config, models={"quality_edu": tmp_path / "2.bin"})
    assert found.schema.names == ["b", "a", "again"]
    assert found["b"].equals(found["again"])
    assert found["a"].equals(scored(Config(models={"x": given["a"]}))["x"])
    assert found["b"].equals(scored(Config(models={"x": two}))["x"])
    assert uses(Config(models={"x": two})) == ()


def test_a_label_that_a_tree_cuts_off_counts_nothing(tmp_path):
    """Hierarchical models only name labels with a chance."""
    path = write_model(tmp_path / "tree.bin", ("0", "1", "2"), softmax=1)
    model = fasttext_model.load(path)
    labels, found = fasttext_model.predict(model, pa.array(TEXTS), k=3)
    wanted = [
        None if row[0] < 0 else sum(p * int(model.labels[at]) for at, p in zip(row, chance, strict=True) if at >= 0)
        for row, chance in zip(labels.tolist(), found.tolist(), strict=True)
    ]
    assert_scores(scored(Config(models={"t": path}))["t"].to_pylist(), wanted)


def test_only_the_first_bytes_are_read(tmp_path):
    """Cut between characters: an é that is cut off does not become a word or part of another."""
    path = write_model(tmp_path / "m.bin", ("high", "low"))
    texts = ["fine poor poor", "fine é", "poor", None, "é"]
    assert len("fine é".encode()) == 7
    cut = scored(Config(models={"m": path}, max_bytes=6), texts)["m"]
    assert cut.equals(scored(Config(models={"m": path}), ["fine p", "fine ", "poor", None, "é"])["m"])
    whole = scored(Config(models={"m": path}, max_bytes=10**9), texts)["m"]
    assert whole.equals(scored(Config(models={"m": path}), texts)["m"])
    assert not whole.equals(cut)


def test_a_slice_is_scored_as_a_part_of_the_whole(tmp_path):
    """The engine may call a map stage with any slice of a part."""
    config = Config(models={"m": write_model(tmp_path / "m.bin", ("0", "1", "2"))})
    batch = pa.record_batch({"text": pa.array(TEXTS * 3)})
    whole = apply(batch, config)["m"]
    for at in range(0, len(batch), 4):
        assert apply(batch.slice(at, 4), config)["m"].equals(whole.slice(at, 4))
    assert len(apply(batch.slice(0, 0), config)) == 0


MISTAKES = {
    "a label that it does not have": ({"label": "hi"}, ("high", "low"), "models.m.label", "has no label hi.*high, low"),
    "no label that is ours": (
        {},
        ("cc", "hq"),
        "models.m.label",
        "has no label high, and its labels are not scores.*cc, hq",
    ),
    "numbers with a name among them": ({}, ("0", "x"), "models.m.label", "its labels are not scores"),
    "numbers that are too long": ({}, ("0", "1000"), "models.m.label", "its labels are not scores"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_model_without_a_score_is_refused_when_the_recipe_is_loaded(case, tmp_path):
    given, labels, field, message = MISTAKES[case]
    path = write_model(tmp_path / "m.bin", labels)
    with pytest.raises(WrongSetting, match=message) as raised:
        check(Config(models={"m": {"file": path, **given}}))
    assert raised.value.field == field
    assert "Write {file: ..., label: NAME}" in str(raised.value)
    if not given:
        with pytest.raises(WrongSetting) as raised:
            check(Config(models={"m": path}))
        assert raised.value.field == "models.m"


def test_a_language_classifier_is_not_a_quality_classifier(tmp_path, monkeypatch):
    monkeypatch.setattr(quality, "MOST_LABELS", 2)
    with pytest.raises(WrongSetting, match="has 3 labels, but a quality classifier has at most 2"):
        check(Config(models={"m": write_model(tmp_path / "m.bin", ("0", "1", "2"))}))


def test_a_file_that_is_not_a_model_is_refused(tmp_path):
    (tmp_path / "m.bin").write_bytes(b"not a model at all")
    with pytest.raises(UserError, match="this is not a fastText model"):
        check(Config(models={"m": str(tmp_path / "m.bin")}))
    check(Config(models={"m": {"trained": "edu"}}))  # made later


@pytest.mark.parametrize("models", [{}, {"m": {}}, {"m": {"file": "a", "trained": "b"}}, {"Bad": "a"}, {"a.b": "a"}])
def test_a_config_names_models_that_can_be_columns(models):
    """And each is either a file or trained."""
    with pytest.raises(ValidationError):
        Config(models=models)


def test_a_run_warns_about_a_model_that_scores_nothing(tmp_path):
    """The metrics count documents with and without a score, summed over batches."""
    path = write_model(tmp_path / "m.bin", ("high", "low"))
    config = Config(models={"a": path, "b": path})
    batch = pa.record_batch({"text": pa.array(["fine", "nothing"])})
    found = metrics(batch, apply(batch, config), config)
    assert found == {"scored": {"a": 1, "b": 1}, "unscored": {"a": 1, "b": 1}}
    assert not warnings(found, config)
    silent = {"scored": {"a": 0, "b": 1}, "unscored": {"a": 2, "b": 1}}
    assert warnings(silent, config) == ["a scored no documents: the model knows none of their words"]
    assert not warnings({"scored": {"a": 0, "b": 0}, "unscored": {"a": 0, "b": 0}}, config)  # there was none
    assert not warnings({}, config)


def test_a_plan_says_where_scores_come_from():
    message = explain(Config(models={"a": {"trained": "edu"}, "b": {"file": "x.bin", "label": "hq"}, "c": "y.bin"}))
    assert message == ["a: trained on this corpus: quality.classifiers.edu", "b: x.bin, label hq", "c: y.bin"]


TOXIC = Path(__file__).parent / "toxic.bin"
SCORES = [(text, score) for text, score in json.loads(TOXIC.with_suffix(".json").read_text())]


def test_scores_equal_those_of_the_library():
    """A model of words, character n-grams and word n-grams that the library trained, against its own probabilities."""
    config = Config(models={"toxic": {"file": str(TOXIC), "label": "toxic"}})
    found = scored(config, [text for text, _ in SCORES])["toxic"].to_pylist()
    assert found == pytest.approx([score for _, score in SCORES], abs=1e-5)
    assert max(found) - min(found) > 0.5


def test_a_damaged_model_is_refused_or_does_no_harm():
    """For any changed byte: a clear message, or valid probabilities."""
    draw = random.Random(7)
    whole = TOXIC.read_bytes()
    texts = pa.array([text for text, _ in SCORES[:5]])
    refused = 0
    for _ in range(150):
        data = np.frombuffer(bytearray(whole), np.uint8)
        for place in draw.choices(range(len(whole)), k=draw.choice([1, 1, 4])):
            data[place] = draw.randrange(256)
        try:
            model = fasttext_model.parse(*lent(data), "damaged.bin")
            _, chances = fasttext_model.predict(model, texts, k=len(model.labels))
        except UserError:
            refused += 1
            continue
        assert ((chances >= 0) & (chances <= 1)).all()
    assert 0 < refused < 150

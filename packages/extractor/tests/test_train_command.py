"""gristmill extractor train: the same gold gives the same bytes, and the output describes the training data."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest

from gold_pages import page, text_of, write_archive, write_gold, write_rows
from gristmill.kernels.html.features import FEATURES
from gristmill.kernels.html.trees import Trees
from gristmill.stages.extract.main_text import read_model, write_model
from gristmill_extractor import train_command
from gristmill_extractor import training as extractor_training
from gristmill_extractor.boosting import TrainedTrees
from gristmill_extractor.gold import read_gold, read_golds
from gristmill_extractor.training import learn


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    """Train few trees, so that the tests are fast."""
    for name in ("FIRST", "SECOND"):
        settings = getattr(extractor_training, name)
        monkeypatch.setattr(extractor_training, name, settings._replace(trees=5, learning_rate=0.5))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    gold = tmp_path_factory.mktemp("gold")
    write_gold(gold)
    return gold


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A second gold folder, whose set has pages of one more domain."""
    folder = tmp_path_factory.mktemp("other")
    (folder / "gold").mkdir()
    urls = {f"https://www.dam.example/{number}": page(text_of(number)) for number in range(2)}
    ids = write_archive(folder / "pages.warc.gz", urls)
    write_rows(
        folder, [{"warc_record_id": ids[url], "set": "manuals", "text": text_of(at)} for at, url in enumerate(urls)]
    )
    return folder


def test_a_model_is_written_and_described(say, folder, other, tmp_path):
    """The output has the sets, the hash and the recipe line; the extractor accepts the model."""
    out = tmp_path / "own.model"
    done = say("extractor", "train", folder, other, "--out", out)
    assert done.code == 0, done.err
    data = out.read_bytes()
    assert hashlib.sha256(data).hexdigest() in done.out
    rows = [line.split() for line in done.out.splitlines()]
    assert ["manuals", "2", "1", "10", "80.0%"] in rows
    assert ["marked", "3", "3", "6", "50.0%"] in rows
    assert ["all", "14", "13", "61", "77.0%"] in rows
    assert f"extract: {{model: {out}}}" in done.out
    assert done.err.count("the first model without fold") == 5
    assert [path.name for path in tmp_path.iterdir()] == ["own.model"]
    assert write_model(read_model(out)) == data
    (tmp_path / "a.html").write_text(page(text_of(77)))
    shown = json.loads(say("extractor", "show", tmp_path / "a.html", "--model", out, "--json").out)
    assert shown["text"] == text_of(77).replace("\n", "\n\n")


def test_json_has_the_same_numbers(say, folder, tmp_path):
    """The output is one object, with the gain of every feature."""
    out = tmp_path / "own.model"
    done = say("extractor", "train", folder, "--out", out, "--json")
    result = json.loads(done.out)
    assert result["sha256"] == hashlib.sha256(out.read_bytes()).hexdigest()
    assert (result["bytes"], result["pages"], result["domains"], result["left_out"]) == (out.stat().st_size, 12, 12, 0)
    assert result["sets"]["news"] == {"pages": 3, "domains": 3, "blocks": 15, "content": 12}
    for gains in result["gains"].values():
        assert sum(gains.values()) == pytest.approx(1)
        assert list(gains.values()) == sorted(gains.values(), reverse=True)
    assert len(result["gains"]["second"]) > len(result["gains"]["first"])


def test_page_order_and_core_count_do_not_change_the_model(folder, other, monkeypatch):
    """Other pages give another model."""
    pages = read_golds([folder, other])
    assert pages == read_golds([other, folder])
    model = write_model(learn(pages).model)
    monkeypatch.setattr(extractor_training.os, "cpu_count", lambda: 3)
    assert write_model(learn(pages[::-1]).model) == model
    assert write_model(learn(pages[2:]).model) != model


def test_a_page_without_most_of_its_gold_is_left_out(folder):
    """The gold may be a note or the text of another page; gold without words says that the page has no main text."""
    one = next(page for page in read_gold(folder) if page.text)
    extractor = extractor_training.Extractor(extractor_training._nothing())
    found = [
        extractor_training.labelled(replace(one, text=text), extractor)
        for text in (one.text, f"{one.text} {one.text} of another page", "THE LAST LINE OF THE MILL IS MISSED", "")
    ]
    assert [result is not None for result in found] == [True, False, False, True]
    assert not found[3].content.any()


def test_gain_is_summed_by_feature_over_all_trees():
    """A feature used by several levels has the sum of their gains; unused features have none and come last."""
    features = np.array([[1, 0], [1, 2]], np.uint16)
    trees = Trees(features, np.zeros((2, 2), np.uint8), np.zeros((2, 4), np.int16), 0, len(FEATURES))
    gains = extractor_training._gains(TrainedTrees(trees, np.array([[1.0, 2.0], [4.0, 1.0]])))
    assert list(gains) == [FEATURES[1], FEATURES[0], *FEATURES[2:]]
    assert list(gains.values())[:4] == [5 / 8, 2 / 8, 1 / 8, 0]


def test_few_domains_are_trained_with_fewer_folds(folder):
    """Three domains are trained with three folds."""
    messages = []
    learned = learn(read_gold(folder)[:3], messages.append)
    assert sum("without fold" in line for line in messages) == learned.domains == 3
    assert len(messages) == extractor_training.STEPS - 2


def test_mistakes_are_reported_before_training(say, folder, tmp_path, monkeypatch):
    """A wrong path is reported at once, not after minutes; existing files are unchanged."""
    monkeypatch.setattr("gristmill_extractor.train_command.learn", lambda *_: pytest.fail("it was trained"))
    (tmp_path / "there").write_bytes(b"as it was")
    for arguments, message in (
        ((folder,), "Missing option '--out'"),
        ((folder, "--out", tmp_path), "is a folder"),
        ((folder, "--out", tmp_path / "none" / "m"), "there is no folder"),
        ((folder, "--out", tmp_path / "there"), "exists and may contain another model"),
        ((tmp_path / "none", "--out", tmp_path / "m"), "is not a folder"),
        ((folder, folder, "--out", tmp_path / "m"), "it is not clear which is right"),
        ((folder, "--out", tmp_path / "m", "--sets", "nosuch"), "--sets: no page has the set nosuch"),
    ):
        done = say("extractor", "train", *arguments)
        assert (done.code, done.out) == (2, ""), arguments
        assert message in done.err
        assert "Traceback" not in done.err
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("there", b"as it was")]


def test_sets_choose_the_pages(folder, other):
    """A model may be trained on the sets whose license allows it."""
    pages = read_golds([folder, other])
    assert [page.set for page in train_command._chosen(pages, "manuals")] == ["manuals", "manuals"]
    assert train_command._chosen(pages, None) == pages


def test_force_overwrites_a_file_unless_training_fails(say, folder, tmp_path):
    """Pages of one domain cannot be split, so no model is trained."""
    out = tmp_path / "own.model"
    out.write_bytes(b"as it was")
    alone = tmp_path / "alone"
    write_gold(alone, sets=("news", "marked"), pages=1)
    done = say("extractor", "train", alone, "--out", out, "--force")
    assert (done.code, out.read_bytes()) == (2, b"as it was")
    assert "No model can be trained on 1 page: pages of at least two domains are needed" in done.err
    assert "of 1 domain had it" in done.err
    assert say("extractor", "train", folder, "--out", out, "--force").code == 0
    assert read_model(out)

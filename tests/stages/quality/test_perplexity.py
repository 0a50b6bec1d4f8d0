"""Models that others trained: ARPA files and model files, and the step that scores with them."""

import gzip
import random

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from gristmill.errors import UserError, WrongSetting
from gristmill.stages.natural_languages import LABEL
from gristmill.stages.quality import ngram_arpa, ngram_file, perplexity
from gristmill.stages.reading import archive, stream
from gristmill.stages.shared.arrow_file import write_arrays


def logs(model, sentences):
    """The sum of the logarithms of each sentence."""
    column = pa.array([" ".join(words) for words in sentences])
    return -ngram_file.score_texts(model, column)[:, 0] / 4096


def arpa(*lines):
    return "\n".join(["\\data\\", "ngram 1=4", "ngram 2=1", "", "\\1-grams:", *lines, "", "\\end\\", ""])


GOOD = ["-1\t<unk>", "-99 <s> -0.5", "-1e0\t</s>", "-0.25\ta\t0.5", "", "\\2-grams:", "-0.125\t<s> a"]


def test_an_arpa_file_of_others_is_read(tmp_path):
    """Backoffs above 0, exponents, gaps of any kind; <s> a </s>, and <unk> after a backoff."""
    path = tmp_path / "other.arpa"
    path.write_text(arpa(*GOOD))
    language = ngram_arpa.read_arpa(path)
    assert logs(language, [["a"], ["b"]]).tolist() == [-0.125 - 1 + 0.5, -0.5 - 1 - 1]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("-1\t<unk> b\t-1 -1", ":6: it has more words"),
        ("x\t<unk>", ":6: a line must have a number"),
        ("-1", ":6: it has fewer words"),
        ("0.5\t<unk>", ":6: the logarithm of a probability is above 0"),
        ("-1\tb", "the word <unk> is missing"),
        ("-0.25\ta\t0.5", "appears twice|the word <unk> is missing"),
        ("-1\t<unk>\n-1\tc", "announces 4 n-grams of order 1, but there are 5"),
        ("-1\t<unk>\n\\end\\", "announces 4 n-grams of order 1, but there are 1"),
    ],
)
def test_a_broken_arpa_file_is_one_message_with_its_line(tmp_path, line, message):
    path = tmp_path / "broken.arpa"
    path.write_text(arpa(line, *GOOD[1:]))
    with pytest.raises(UserError, match=message):
        ngram_arpa.read_arpa(path)


@pytest.mark.parametrize(
    "text", ["", "\\data\\", "no model\n", "\\data\\\nngram 2=1\n", "\\data\\\n" + "x" * (1 << 17)]
)
def test_a_file_that_is_not_arpa_is_refused(tmp_path, text):
    path = tmp_path / "no.arpa"
    path.write_text(text)
    with pytest.raises(UserError, match=r"no\.arpa:\d"):
        ngram_arpa.read_arpa(path)


@pytest.mark.parametrize(
    "shape", [[[0, 4, 2]], [[1, 4, 2]], [[0, 0, 8]], [[0, 4, 0]], [[0, 1 << 33, 2]], [[0, 2, 4]] * 2]
)
def test_tables_whose_look_ups_could_leave_them_are_refused(shape):
    with pytest.raises(ValueError, match="tables"):
        ngram_file.check_shape(np.array(shape, np.int64), 8)
    ngram_file.check_shape(np.array([[0, 4, 4]]), 8)


def test_a_file_that_expands_more_than_its_size_allows_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "FREE_UNPACKED_BYTES", 0)
    (tmp_path / "bomb.arpa.gz").write_bytes(gzip.compress(b"\\data\\\n" + (b" " * 1000 + b"\n") * 3000))
    with pytest.raises(UserError, match="far more than its size allows"):
        ngram_arpa.read_arpa(tmp_path / "bomb.arpa.gz")


@pytest.fixture
def english(tmp_path):
    """An ARPA file of a few words."""
    path = tmp_path / "en.arpa"
    path.write_text(arpa(*GOOD))
    return path


def model_file(path, *languages, bands=(1.5, 60.0)):
    """A file with the model of the words above for each language."""
    (path.parent / "few.arpa").write_text(arpa(*GOOD))
    tables = ngram_arpa.read_arpa(path.parent / "few.arpa").tables
    entry = {"shape": tables.shape.tolist(), "bands": bands}
    write_arrays(
        path, {"languages": dict.fromkeys(languages, entry)}, {f"{name}/slots": tables.slots for name in languages}
    )
    return path


def documents(texts, languages=None):
    columns = {"text": pa.array(texts, pa.string())}
    if languages is not None:
        columns[LABEL] = pa.array(languages, pa.string())
    return pa.record_batch(columns)


def scored(batch, **model):
    config = perplexity.Config(models={"m": model})
    perplexity.check(config)
    return perplexity.apply(batch, config), config


def test_a_model_file_is_read_as_it_was_written(tmp_path):
    """Its tables, mapped into memory, its bands, and what is not in it."""
    path = model_file(tmp_path / "m.ngrams", "en", "de")
    models = ngram_file.load(path)
    assert sorted(models) == ["de", "en"]
    assert models["en"].bands == (1.5, 60.0)
    assert logs(models["en"], [["a"], ["b"]]).tolist() == [-0.125 - 1 + 0.5, -0.5 - 1 - 1]
    (tmp_path / "empty").write_bytes(b"")
    for damaged in (path.read_bytes()[:-40], path.read_bytes()[:300], b"ARROW1", b"no model"):
        (tmp_path / "damaged").write_bytes(damaged)
        with pytest.raises(UserError, match="is not a file of language models, or is damaged"):
            ngram_file.load(tmp_path / "damaged")


@pytest.mark.parametrize(
    ("slots", "entry"),
    [
        (np.zeros(8, np.uint64), {"shape": [[0, 4, 9]], "bands": None}),
        (np.zeros(8, np.int64), {"shape": [[0, 4, 4]], "bands": None}),
        (np.zeros((2, 4), np.uint64), {"shape": [[0, 4, 4]], "bands": None}),
        (np.zeros(8, np.uint64), {"shape": [[0, 4.0, 4]], "bands": None}),
        (np.zeros(8, np.uint64), {"shape": [], "bands": None}),
        (np.zeros(8, np.uint64), {"shape": 3, "bands": None}),
        (np.zeros(8, np.uint64), {"bands": None}),
        (np.zeros(8, np.uint64), {"shape": [[0, 4, 4]], "bands": [2.0, 1.0]}),
        (np.zeros(8, np.uint64), {"shape": [[0, 4, 4]], "bands": [2.0]}),
    ],
)
def test_a_model_file_that_a_look_up_could_leave_is_refused(tmp_path, slots, entry):
    """Whoever wrote it; the same file with parts that fit is read."""
    write_arrays(tmp_path / "bad", {"languages": {"en": entry}}, {"en/slots": slots})
    with pytest.raises(UserError, match="is not a file of language models, or is damaged"):
        ngram_file.load(tmp_path / "bad")
    write_arrays(
        tmp_path / "good",
        {"languages": {"en": {"shape": [[0, 4, 4]], "bands": None}}},
        {"en/slots": np.zeros(8, np.uint64)},
    )
    assert list(ngram_file.load(tmp_path / "good")) == ["en"]


def test_documents_without_a_score_are_null_and_counted(tmp_path):
    """A language without a model, a null, a text without a word; a document alone scores as in a batch."""
    path = str(model_file(tmp_path / "m.ngrams", "en", "de"))
    batch = documents(["a a", "le moulin", None, "... !", "a a"], ["en", "fr", "en", "en", "EN"])
    answers, config = scored(batch, file=path)
    values = answers["m"].to_pylist()
    assert [value is None for value in values] == [False, True, True, True, False]
    assert values[0] == values[4]
    assert answers["m_band"].is_null().to_pylist() == [False, True, True, True, False]
    alone, _ = scored(batch.slice(4, 1), file=path)
    assert alone["m"].to_pylist() == values[4:]
    found = perplexity.metrics(batch, answers, config)
    assert found["scored"] == {"m": 2}
    assert any("fr (1)" in message for message in perplexity.warnings(found, config))
    nothing = {"scored": {"m": 0}, "unscored": {"m": {"fr": 3}}}
    assert "scored no document" in perplexity.warnings(nothing, config)[0]


def test_an_arpa_file_scores_the_language_that_it_is_for(english):
    """Without a language it scores all; it has no bands."""
    batch = documents(["a", "a"], ["en", "de"])
    answers, _ = scored(batch, file=str(english), language="en")
    assert answers["m"].to_pylist() == [pytest.approx(10 ** (0.625 / 2)), None]
    assert answers["m_band"].null_count == 2
    every, _ = scored(batch, file=str(english))
    assert every["m"].null_count == 0


def test_a_language_that_the_file_does_not_have_is_refused(tmp_path):
    path = model_file(tmp_path / "m.ngrams", "en", "de")
    with pytest.raises(WrongSetting, match=r"has no model for pl.* It has: de, en"):
        scored(documents(["a"]), file=str(path), language="pl")


def test_a_file_that_is_no_model_is_refused_when_a_recipe_is_loaded(tmp_path):
    (tmp_path / "no.arpa").write_text("hello\n")
    for name, message in (("no.arpa", r"begins with \\data\\"), ("missing", "Check the path")):
        with pytest.raises(UserError, match=message):
            perplexity.check(perplexity.Config(models={"m": str(tmp_path / name)}))
    for given in ({}, {"trained": "a", "file": "b"}):
        with pytest.raises(ValidationError, match="either trained"):
            perplexity.Config(models={"m": given})
    with pytest.raises(ValidationError, match="Rename one of the models"):
        perplexity.Config(models={"m": "a", "m_band": "b"})


def test_numbers_of_any_form_are_read_exactly(tmp_path):
    """With exponents, signs, gaps and carriage returns, in several blocks: to the step that is stored."""
    draw = random.Random(5)
    words = [f"{a}{b}{c}" for a in "abcdefghij" for b in "klmnopqrst" for c in "uvwxyz"]
    values = [-draw.random() * 10 ** draw.randint(-6, 1) for _ in words]
    lines = ["-1\t<UNK>", "-99 <s>", "-1e0 </s>\r"]
    lines += [f"{draw.choice(('', ' '))}{value!r}\t {word}  " for value, word in zip(values, words, strict=True)]
    text = ["", "\\data\\", f"ngram 1={len(lines)}", "", "", "\\1-grams:", *lines, "", "\\end\\"]
    (tmp_path / "many.arpa").write_text("\n".join(text))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "CHUNK_BYTES", 1000)
        model = ngram_arpa.read_arpa(tmp_path / "many.arpa")
    expected = [round(value * 4096) / 4096 - 1 for value in values]
    assert logs(model, [[word] for word in words]).tolist() == expected

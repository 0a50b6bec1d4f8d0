"""Language models of n-grams: estimated by the formulas, for any memory limit, and read as they were written."""

import math
import random

import numpy as np
import pyarrow as pa
import pytest
from oracle_ngrams import BEGIN, END, UNKNOWN, log10_of, probabilities

from gristmill.errors import UserError
from gristmill.stages.quality.ngram_arpa import read_arpa
from gristmill.stages.quality.ngram_file import load, score_texts
from gristmill.stages.shared.arrow_file import ArrowFile, write_arrays
from gristmill_ngram import runs
from gristmill_ngram.arpa import write_arpa
from gristmill_ngram.estimate import NgramSettings, estimate, log10
from gristmill_ngram.model_file import write_models

MEMORY = 1 << 26


def made_up(seed=1, lines=300):
    """Lines of words, some frequent and some rare, with patterns."""
    draw = random.Random(seed)
    words = [f"w{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(60)]
    weights = [1 / (n + 1) for n in range(60)]
    made = []
    for _ in range(lines):
        line = draw.choices(words, weights, k=draw.randint(1, 9))
        made.append(line + ["and", "so", "on"] * draw.randint(0, 1))
    return made


def batched(values, size):
    return [values[at : at + size] for at in range(0, len(values), size)]


def chunked(sentences, per_text=7, per_chunk=3):
    texts = ["\n".join(map(" ".join, some)).encode() for some in batched(sentences, per_text)]

    def chunks():
        for some in batched(texts, per_chunk):
            yield np.frombuffer(b"".join(some), np.uint8), np.cumsum([0, *map(len, some)])

    return chunks


def trained(folder, sentences, order, least, memory=MEMORY, vocab=1000, **cut):
    folder.mkdir(exist_ok=True)
    found = estimate(chunked(sentences, **cut), NgramSettings(order, least, vocab, memory), folder)
    write_models(folder / "model", {"all": (found, (2.0, 3.5))})
    return folder / "model"


def logs(model, sentences):
    """The sum of the logarithms of each sentence."""
    column = pa.array([" ".join(one) for one in sentences])
    return -score_texts(model, column)[:, 0] / 4096


@pytest.mark.parametrize(
    ("order", "least"), [(1, (1,)), (2, (1, 1)), (3, (2, 2, 3)), (5, (1, 1, 2, 2, 2)), (4, (3,) * 4)]
)
def test_probabilities_are_those_of_the_formulas(tmp_path, order, least):
    """For every word of known and unknown sentences, to the step in which logarithms are stored."""
    sentences = made_up()
    path = trained(tmp_path / "m", sentences, order, least)
    model, ngrams = load(path)["all"], ArrowFile(path).header["languages"]["all"]["ngrams"]
    found, left, known = probabilities(sentences, order, least, 1000)
    assert ngrams[0] == len(known) + 3
    assert sum(ngrams) == len(found) + 1  # <s> has no probability
    others = [*sentences[:40], *made_up(seed=2, lines=60), ["never", "waa", "seen"], ["waa"] * 12]
    for sentence, ours in zip(others, logs(model, others), strict=True):
        tokens = [word if word in known else UNKNOWN for word in sentence]
        context, theirs = (BEGIN,), 0.0
        for word in [*tokens, END]:
            theirs += log10_of(word, context, found, left, order)
            context = (*context, word)
        assert ours == pytest.approx(theirs, abs=1.3e-4 * order * (len(tokens) + 1))


def test_what_follows_a_context_sums_to_one():
    """The oracle itself, over all words: for contexts that were seen, that were not, and that are unknown."""
    sentences = made_up()
    for least in ((1, 1, 1), (2, 2, 3)):
        found, left, known = probabilities(sentences, 3, least, 1000)
        for context in [(BEGIN,), ("waa", "wab"), ("and", "so"), (UNKNOWN, "waa"), ("on", "waj")]:
            total = sum(10 ** log10_of(word, context, found, left, 3) for word in [*known, UNKNOWN, END])
            assert total == pytest.approx(1.0, abs=1e-9)


def test_memory_and_cuts_change_no_byte(tmp_path, monkeypatch):
    """Runs in files or everything in memory, texts in another order and other pieces: the same file."""
    sentences = made_up(lines=700)
    whole = trained(tmp_path / "whole", sentences, 4, (1, 1, 2, 2)).read_bytes()
    monkeypatch.setattr(runs, "_LEAST_ROWS", 16)
    monkeypatch.setattr(runs, "_RUNS", 3)
    turned = [one for some in reversed(batched(sentences, 7)) for one in some]
    assert trained(tmp_path / "small", turned, 4, (1, 1, 2, 2), memory=1 << 12, per_chunk=1).read_bytes() == whole


def test_an_arpa_file_has_the_numbers_that_we_score_with(tmp_path):
    """Written and read again, it gives the same sums to the last step, and its tables are the same."""
    sentences = made_up()
    path = trained(tmp_path / "m", sentences, 3, (1, 1, 2))
    model = load(path)["all"]
    write_arpa(path, "all", tmp_path / "m.arpa")
    again = read_arpa(tmp_path / "m.arpa")
    assert np.array_equal(again.tables.slots, model.tables.slots)
    others = [*made_up(seed=5, lines=50), ["not", "known"]]
    assert np.array_equal(logs(again, others), logs(model, others))


@pytest.mark.parametrize("name", ["words", "offsets", "grams2", "grams3"])
def test_lists_that_do_not_fit_together_give_no_arpa_file(tmp_path, name):
    """An index out of range, or a list that is too short."""
    path = trained(tmp_path / "m", made_up(lines=30), 3, (1, 1, 1))
    file = ArrowFile(path)
    names = [f"all/{part}" for part in ("slots", "words", "offsets", "grams2", "grams3")]
    arrays = {key: file.array(key).copy() for key in names}
    for change in (lambda values: values[:-1], lambda values: np.full_like(values, 1 << 30)):
        changed = change(arrays[f"all/{name}"]) if name != "words" else arrays["all/words"][:-1]
        write_arrays(tmp_path / "bad", file.header, {**arrays, f"all/{name}": changed})
        with pytest.raises(UserError, match="is damaged, so no ARPA file was written"):
            write_arpa(tmp_path / "bad", "all", tmp_path / "bad.arpa")


def test_logarithms_are_right():
    values = np.concatenate([np.geomspace(1e-30, 1, 1001), 2.0 ** -np.arange(0.0, 60)])
    assert np.allclose(log10(values), np.array([math.log10(one) for one in values]), rtol=1e-14, atol=1e-16)


def test_a_sentence_continues_from_block_to_block(tmp_path):
    """More words in a line than are cut at once: the same as in a single piece."""
    sentences = made_up()
    model = load(trained(tmp_path / "m", sentences, 3, (1, 1, 1)))["all"]
    found, left, _ = probabilities(sentences, 3, (1, 1, 1), 1000)
    words = [word for line in sentences for word in line][:1400]
    context, theirs = (BEGIN,), 0.0
    for word in [*words, END]:
        theirs += log10_of(word, context, found, left, 3)
        context = (*context[-2:], word)
    assert logs(model, [words])[0] == pytest.approx(theirs, rel=1e-4)

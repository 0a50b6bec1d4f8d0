"""Language models of n-grams: estimated by the formulas, for any memory limit, and read as they were written."""

import gzip
import hashlib
import json
import math
import random

import numpy as np
import pyarrow as pa
import pytest
from tests.stages.quality.oracle_ngrams import BEGIN, END, UNKNOWN, log10_of, probabilities

from gristmill.errors import UserError
from gristmill.kernels.ngram.tables import log10
from gristmill.stages.quality import ngram_arpa, ngram_file, ngram_runs
from gristmill.stages.quality.ngram_train import NgramSettings, estimate

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
    ngram_file.write(folder / "model", {"all": (found, (2.0, 3.5))})
    return folder / "model"


def logs(language, sentences):
    """The sum of the logarithms of each sentence."""
    column = pa.array([" ".join(one) for one in sentences])
    return -ngram_file.score_texts(language, column)[:, 0] / 4096


@pytest.mark.parametrize(
    ("order", "least"), [(1, (1,)), (2, (1, 1)), (3, (2, 2, 3)), (5, (1, 1, 2, 2, 2)), (4, (3,) * 4)]
)
def test_probabilities_are_those_of_the_formulas(tmp_path, order, least):
    """For every word of known and unknown sentences, to the step in which logarithms are stored."""
    sentences = made_up()
    language = ngram_file.load(trained(tmp_path / "m", sentences, order, least)).languages["all"]
    found, left, known = probabilities(sentences, order, least, 1000)
    assert language.ngrams[0] == len(known) + 3
    assert sum(language.ngrams) == len(found) + 1  # <s> has no probability
    others = [*sentences[:40], *made_up(seed=2, lines=60), ["never", "waa", "seen"], ["waa"] * 12]
    for sentence, ours in zip(others, logs(language, others), strict=True):
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
    monkeypatch.setattr(ngram_runs, "_LEAST_ROWS", 16)
    monkeypatch.setattr(ngram_runs, "_RUNS", 3)
    turned = [one for some in reversed(batched(sentences, 7)) for one in some]
    assert trained(tmp_path / "small", turned, 4, (1, 1, 2, 2), memory=1 << 12, per_chunk=1).read_bytes() == whole


def test_an_arpa_file_has_the_numbers_that_we_score_with(tmp_path):
    """Written and read again, it gives the same sums to the last step, and its tables are the same."""
    sentences = made_up()
    language = ngram_file.load(trained(tmp_path / "m", sentences, 3, (1, 1, 2))).languages["all"]
    ngram_arpa.write_arpa(ngram_file.NgramModel("m", {"all": language}), "all", tmp_path / "m.arpa")
    read = ngram_arpa.read_arpa(tmp_path / "m.arpa")
    assert read.ngrams == language.ngrams
    assert np.array_equal(read.tables.slots, language.tables.slots)
    others = [*made_up(seed=5, lines=50), ["not", "known"]]
    assert np.array_equal(logs(read, others), logs(language, others))
    with pytest.raises(UserError, match="was made from an ARPA file"):
        ngram_arpa.write_arpa(ngram_file.NgramModel("m", {"en": read}), "en", tmp_path / "again.arpa")


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


def test_a_damaged_file_is_refused_whichever_byte_it_is(tmp_path):
    """Header, tables, words or the rest: one message; bytes between sections carry nothing."""
    path = trained(tmp_path / "m", made_up(lines=30), 2, (1, 1))
    good = path.read_bytes()
    draw = random.Random(3)
    refused = 0
    for at in [*range(60), *draw.sample(range(len(good)), 60)]:
        bad = tmp_path / f"bad{at}"
        bad.write_bytes(good[:at] + bytes([good[at] ^ 16]) + good[at + 1 :])
        try:
            ngram_file.load(bad)
        except UserError:
            refused += 1
    assert refused > 100
    for size in (0, 7, 47, 200, len(good) // 2):
        (tmp_path / "short").write_bytes(good[:size])
        with pytest.raises(UserError):
            ngram_file.load(tmp_path / "short")


@pytest.mark.parametrize(
    "shape", [[[0, 4, 2]], [[1, 4, 2]], [[0, 0, 8]], [[0, 4, 0]], [[0, 1 << 33, 2]], [[0, 2, 4]] * 2]
)
def test_tables_whose_look_ups_could_leave_them_are_refused(shape):
    with pytest.raises(ValueError, match="tables"):
        ngram_file.check_shape(np.array(shape, np.int64), 1, 8)
    ngram_file.check_shape(np.array([[0, 4, 4]]), 1, 8)


def test_logarithms_are_right():
    values = np.concatenate([np.geomspace(1e-30, 1, 1001), 2.0 ** -np.arange(0.0, 60)])
    assert np.allclose(log10(values), np.array([math.log10(one) for one in values]), rtol=1e-14, atol=1e-16)


def test_a_sentence_continues_from_block_to_block(tmp_path):
    """More words in a line than are cut at once: the same as in a single piece."""
    sentences = made_up()
    language = ngram_file.load(trained(tmp_path / "m", sentences, 3, (1, 1, 1))).languages["all"]
    found, left, _ = probabilities(sentences, 3, (1, 1, 1), 1000)
    words = [word for line in sentences for word in line][:1400]
    context, theirs = (BEGIN,), 0.0
    for word in [*words, END]:
        theirs += log10_of(word, context, found, left, 3)
        context = (*context[-2:], word)
    assert logs(language, [words])[0] == pytest.approx(theirs, rel=1e-4)


def test_sections_that_share_bytes_are_refused(tmp_path):
    """Each is hashed: a header that names the same bytes a thousand times would take a thousand times as long."""
    path = trained(tmp_path / "m", made_up(lines=30), 2, (1, 1))
    data = path.read_bytes()
    length = int.from_bytes(data[8:16], "little")
    header = json.loads(data[48 : 48 + length])
    entry = next(iter(header["languages"].values()))
    for change in ({"again": next(iter(entry["sections"].values()))}, None):
        wrong = json.loads(json.dumps(header))
        only = next(iter(wrong["languages"].values()))
        only["sections"] = None if change is None else {**only["sections"], **change}
        message = json.dumps(wrong).encode()
        begin, now = (-(-(48 + size) // 64) * 64 for size in (length, len(message)))
        bad = data[:8] + len(message).to_bytes(8, "little") + hashlib.sha256(message).digest() + message
        path.write_bytes(bad + bytes(now - len(bad)) + data[begin:])
        with pytest.raises(UserError, match="sections overlap" if change else "do not fit together"):
            ngram_file.load(path)


@pytest.mark.parametrize(
    ("line", "message"), [(b" " * 1000 + b"\n", "more than 2 times its size"), (b"\n", "more than 10,000 empty lines")]
)
def test_a_file_that_expands_more_than_arpa_is_refused(tmp_path, monkeypatch, line, message):
    monkeypatch.setattr(ngram_arpa, "_MOST_UNPACKED", 2)
    (tmp_path / "bomb.arpa.gz").write_bytes(gzip.compress(b"\\data\\\n" + line * (3_000_000 // len(line))))
    with pytest.raises(UserError, match=message):
        ngram_arpa.read_arpa(tmp_path / "bomb.arpa.gz")

"""fastText inference against a slow oracle, written from the model's definition, and against the library."""

import itertools
import math
import random
import re
import struct
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.errors import UserError
from gristmill.kernels.text import fasttext as kernel
from gristmill.kernels.text.fasttext_output import exponential
from gristmill.stages.shared import fasttext_model
from gristmill.stages.shared.fasttext_model import FastText, parse, predict

LOSSES = {"hs": 1, "ns": 2, "softmax": 3, "ova": 4}
SPACES = " \n\r\t\v\f\0"


@dataclass
class Tiny:
    """A model with random weights, as its file stores it; `rows` and `output` are the values of the matrices."""

    loss: str = "softmax"
    word_ngrams: int = 1
    minn: int = 2
    maxn: int = 4
    buckets: int = 300
    dim: int = 7
    storage: str = "dense"
    """dense, or a mix of: pq (product quantisation), norm (of rows), qout (output too), pruned (dictionary)"""
    words: tuple[str, ...] = ("</s>", "the", "naïve", "wheel", "мельница", "水車", "a")
    labels: tuple[str, ...] = ("en", "fr", "RU", "zh", "de", "nl")
    version: int = 12
    seed: int = 1
    kept: dict[int, int] | None = field(init=False, default=None)
    matrices: tuple[bytes, bytes] = field(init=False)
    rows: Any = field(init=False)
    output: Any = field(init=False)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        buckets = self.buckets
        if "pruned" in self.storage:
            chosen = self.random.permutation(self.buckets)[: self.buckets // 3]
            self.kept = {int(bucket): row for row, bucket in enumerate(chosen)}
            buckets = len(chosen)
        counts = sorted((int(n) for n in self.random.integers(1, 1000, len(self.labels))), reverse=True)
        self.counts = [9] * len(self.words) + counts
        head = struct.pack("<ii", 793712314, self.version)
        numbers = (
            self.dim,
            5,
            5,
            1,
            5,
            self.word_ngrams,
            LOSSES[self.loss],
            3,
            self.buckets,
            self.minn,
            self.maxn,
            100,
        )
        head += struct.pack("<12id", *numbers, 1e-4)
        entries = [*self.words, *("__label__" + label for label in self.labels)]
        pruned = -1 if self.kept is None else len(self.kept)
        head += struct.pack("<iiiqq", len(entries), len(self.words), len(self.labels), 999, pruned)
        for number, entry in enumerate(entries):
            head += entry.encode() + b"\0" + struct.pack("<qb", self.counts[number], number >= len(self.words))
        head += b"".join(struct.pack("<ii", *pair) for pair in (self.kept or {}).items())
        quantised = "pq" in self.storage
        self.rows, source = self._matrix(len(self.words) + buckets, quantised, 2.0)
        self.output, sink = self._matrix(len(self.labels), "qout" in self.storage, 3.0)
        self.file = head + struct.pack("?", quantised) + source + struct.pack("?", "qout" in self.storage) + sink
        self.matrices = source, sink

    def _matrix(self, rows: int, quantised: bool, scale: float) -> tuple[Any, bytes]:
        if not quantised:
            values = self.random.normal(0, scale, (rows, self.dim)).astype(np.float32)
            return values.astype(float), struct.pack("<qq", rows, self.dim) + values.tobytes()
        width = 2
        parts = -(-self.dim // width)
        last = self.dim - (parts - 1) * width
        codes = self.random.integers(0, 256, (rows, parts)).astype(np.uint8)
        centroids = [
            self.random.normal(0, scale, (256, width if part < parts - 1 else last)).astype(np.float32)
            for part in range(parts)
        ]
        norm = "norm" in self.storage
        out = struct.pack("<?qqi", norm, rows, self.dim, codes.size) + codes.tobytes()
        out += struct.pack("<4i", self.dim, parts, width, last) + b"".join(part.tobytes() for part in centroids)
        values = np.concatenate([centroids[part][codes[:, part]] for part in range(parts)], axis=1)
        if norm:
            factors = self.random.uniform(0.5, 2, 256).astype(np.float32)
            picked = self.random.integers(0, 256, rows).astype(np.uint8)
            out += picked.tobytes() + struct.pack("<4i", 1, 1, 1, 1) + factors.tobytes()
            values = values * factors[picked][:, None]
        return values.astype(float), out


def fnv(data: bytes) -> int:
    h = 2166136261
    for byte in data:
        h = ((h ^ (byte if byte < 128 else byte | 0xFFFFFF00)) * 16777619) & 0xFFFFFFFF
    return h


def features(model: Tiny, text: str) -> list[int]:
    """The rows whose mean is the hidden vector; none for a text without a word."""
    rows: list[int] = []
    hashes: list[int] = []

    def push(bucket: int) -> None:
        if model.kept is None:
            rows.append(len(model.words) + bucket)
        elif bucket in model.kept:
            rows.append(len(model.words) + model.kept[bucket])

    tokens = [token for token in re.split(f"[{SPACES}]", text) if token]
    tokens = [*itertools.takewhile(lambda token: token != "</s>", tokens), "</s>"]
    tokens = [token for token in tokens if not token.startswith("__label__")]
    if len(tokens) == 1:
        return []
    for token in tokens:
        hashes.append(fnv(token.encode()))
        if token in model.words:
            rows.append(model.words.index(token))
        wrapped = f"<{token}>"
        for start in range(len(wrapped) if token != "</s>" and model.version > 11 else 0):
            for n in range(max(model.minn, 1), model.maxn + 1):
                ngram = wrapped[start : start + n]
                if len(ngram) == n and not (n == 1 and start in (0, len(wrapped) - 1)):
                    push(fnv(ngram.encode()) % model.buckets)
    signed = [h - 2**32 if h >= 2**31 else h for h in hashes]
    for first in range(len(signed)):
        h = signed[first] % 2**64
        for second in signed[first + 1 : first + model.word_ngrams]:
            h = (h * 116049371 + second) % 2**64
            push(h % model.buckets)
    return rows


def huffman(counts: list[int]) -> dict[int, tuple[int, int]]:
    """The children of the inner nodes: the two lightest are joined, inner nodes before leaves of the same weight."""
    waiting = [(count, 1, -leaf, leaf) for leaf, count in enumerate(counts)]
    tree = {}
    for node in range(len(counts), 2 * len(counts) - 1):
        waiting.sort()
        (left, *_, left_node), (right, *_, right_node) = waiting[:2]
        tree[node] = (left_node, right_node)
        waiting[:2] = [(left + right, 0, node, node)]
    return tree


def oracle(model: Tiny, text: str) -> list[tuple[float, str]]:
    """All labels, the most probable first."""
    rows = features(model, text)
    if not rows:
        return []
    hidden = model.rows[rows].mean(axis=0)
    scores = [float(np.dot(row, hidden)) for row in model.output]
    if model.loss == "softmax":
        z = sum(math.exp(score) for score in scores)
        found = [math.exp(score) / z + 1e-5 for score in scores]
    elif model.loss == "hs":
        found = [0.0] * len(scores)
        tree = huffman(model.counts[len(model.words) :])

        def walk(node: int, p: float) -> None:
            if node < len(scores):
                found[node] = p
                return
            right = 1 / (1 + math.exp(-scores[node - len(scores)]))
            walk(tree[node][0], p * (1 - right + 1e-5))
            walk(tree[node][1], p * (right + 1e-5))

        walk(2 * len(scores) - 2, 1.0)
    else:
        steps = [math.floor((min(max(score, -8), 8) + 8) * 32) for score in scores]
        found = [1 / (1 + math.exp(8 - step / 32)) + 1e-5 for step in steps]
        found = [1e-5 if score < -8 else 1 + 1e-5 if score > 8 else p for p, score in zip(found, scores, strict=True)]
    both = [(min(p, 1.0), label) for p, label in zip(found, model.labels, strict=True)]
    # the walk through the tree does not go on below 1e-5
    return sorted((pair for pair in both if model.loss != "hs" or pair[0] >= 1e-5), reverse=True)


@cache
def loaded(model_key: tuple[tuple[str, Any], ...]) -> tuple[Tiny, FastText]:
    tiny = Tiny(**dict(model_key))
    return tiny, parse(np.frombuffer(tiny.file, np.uint8), "tiny.ftz")


def make(**settings: Any) -> tuple[Tiny, FastText]:
    return loaded(tuple(settings.items()))


def ours(model: FastText, texts: list[str | None], k: int = 1) -> list[list[tuple[float, str]]]:
    labels, probabilities = predict(model, pa.array(texts, pa.string()), k)
    return [
        [(float(p), model.labels[label]) for p, label in zip(row_p, row, strict=True) if label >= 0]
        for row, row_p in zip(labels, probabilities, strict=True)
    ]


def assert_same(found: list[tuple[float, str]], wanted: list[tuple[float, str]], within: float = 2e-6) -> None:
    """The first of the wanted labels, in their order, except for labels whose probabilities are nearly equal."""
    for (p, label), (wanted_p, wanted_label) in zip(found, wanted, strict=False):
        assert p == pytest.approx(wanted_p, abs=within)
        assert label == wanted_label or any(q == pytest.approx(p, abs=within) for q, name in wanted if name == label)


TEXTS = [
    "the wheel",
    "a naïve мельница 水車 the the the wheel",
    "x",
    "é",
    "水",
    "🎉🎉 👩‍👩‍👧",
    "unseen words only, with punctuation!",
    "tab\tnew\nline\rreturn\vfeed\fform\0nul",
    "  leading and trailing \n\n ",
    "control\x01\x08\x0e\x1fcharacters stay\x7f inside",
    "no\u00a0break\u2028separators\u3000are no spaces",
    "__label__en counts for nothing __label__unknown __label_ __labelx",
    "read </s> not this: wheel мельница",
    "eightbyt ninebytes sixteenbytesword seventeenbytewrd twentyfourbytesinaword2 twentyfivebytesinaword234",
    " ".join(["the quick wheel"] * 40),
    "длинноесловобезпробелов" * 30,
    "水車小屋の粉" * 100,
    "a" * 255 + " " + "b" * 256 + " " + "c" * 257 + " " + "d" * 600,
    "é" * 253 + "水" * 6 + "x" * 300,
]

TWO = ("hq", "cc")
STORAGES = ["dense", "pq", "pq norm", "pq norm qout", "pq norm pruned", "pq qout pruned"]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("word_ngrams", [1, 2, 3])
@pytest.mark.parametrize("storage", STORAGES)
def test_every_kind_of_model_gives_what_the_oracle_gives(loss: str, word_ngrams: int, storage: str) -> None:
    """Every loss, n-gram length and way of storing matrices yields the labels and probabilities of the definition."""
    tiny, model = make(loss=loss, word_ngrams=word_ngrams, storage=storage)
    for found, text in zip(ours(model, [*TEXTS], 3), TEXTS, strict=True):
        wanted = oracle(tiny, text)
        assert len(found) == min(3, len(wanted))
        assert_same(found, wanted)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("word_ngrams", [1, 3])
@pytest.mark.parametrize("storage", STORAGES)
def test_every_kind_of_model_gives_what_the_library_gives(
    loss: str, word_ngrams: int, storage: str, tmp_path: Path
) -> None:
    """The fastText library reads the same file and says the same, newlines being spaces to it."""
    library = pytest.importorskip("fasttext")
    tiny, model = make(loss=loss, word_ngrams=word_ngrams, storage=storage)
    path = tmp_path / "tiny.ftz"
    path.write_bytes(tiny.file)
    peer = library.load_model(str(path))
    for found, text in zip(ours(model, [*TEXTS], 2), TEXTS, strict=True):
        labels, probabilities = peer.predict(text.replace("\n", " "), k=2)
        names = [label.removeprefix("__label__") for label in labels]
        assert len(found) == len(names)
        # the library sums in float32: it is the one that is off, on long words of one letter
        assert_same(found, [(min(p, 1.0), name) for p, name in zip(probabilities, names, strict=True)], 5e-5)


@pytest.mark.parametrize("word_ngrams", [1, 2, 3])
@pytest.mark.parametrize("storage", STORAGES)
def test_of_two_labels_one_number_a_row_says_the_same(word_ngrams: int, storage: str, tmp_path: Path) -> None:
    """A softmax of two labels depends on the difference of their scores alone: definition and library agree."""
    library = pytest.importorskip("fasttext")
    tiny, model = make(labels=TWO, word_ngrams=word_ngrams, storage=storage)
    (tmp_path / "tiny.ftz").write_bytes(tiny.file)
    peer = library.load_model(str(tmp_path / "tiny.ftz"))
    for found, text in zip(ours(model, [*TEXTS], 2), TEXTS, strict=True):
        assert len(found) == len(oracle(tiny, text))
        assert_same(found, oracle(tiny, text))
        labels, probabilities = peer.predict(text.replace("\n", " "), k=2)
        names = [label.removeprefix("__label__") for label in labels]
        assert_same(found, [(min(p, 1.0), name) for p, name in zip(probabilities, names, strict=True)], 5e-5)


@pytest.mark.parametrize(
    "settings",
    [
        {"minn": 0, "maxn": 0},
        {"minn": 1, "maxn": 1},
        {"minn": 1, "maxn": 6, "buckets": 64},
        {"minn": 3, "maxn": 3, "buckets": 1},
        {"minn": 5, "maxn": 2},
        {"maxn": 0, "minn": 0, "word_ngrams": 5},
        {"version": 11},
        {"words": ("the", "wheel")},
        {"words": ()},
        {"labels": ("one",), "loss": "hs"},
        {"labels": ("one", "two"), "loss": "hs"},
        {"labels": ("one", "two"), "maxn": 0, "minn": 0, "word_ngrams": 5},
        {"labels": ("one", "two"), "words": (), "buckets": 1},
        {"labels": tuple(f"l{n}" for n in range(9))},
        {"labels": tuple(f"l{n}" for n in range(300)), "loss": "hs"},
        {"dim": 16},
        {"dim": 1, "storage": "pq norm qout pruned"},
    ],
    ids=str,
)
def test_unusual_settings_give_what_the_oracle_gives(settings: dict[str, Any]) -> None:
    """No n-grams, single characters, one bucket, no `</s>` in the dictionary, one label: all by the definition."""
    tiny, model = make(**settings)
    if tiny.version == 11:
        tiny = replace(tiny, maxn=0)
    for found, text in zip(ours(model, [*TEXTS], 1), TEXTS, strict=True):
        wanted = oracle(tiny, text)
        assert len(found) == min(1, len(wanted))
        assert_same(found, wanted)


@given(st.lists(st.text("ab<>é水🎉 \n\0\x01_", max_size=60), min_size=1, max_size=8), st.randoms())
@settings(max_examples=60, deadline=None)
def test_any_text_gives_what_the_oracle_gives(texts: list[str], draw: random.Random) -> None:
    """Texts of brackets, spaces and characters of every length are split and hashed as the definition says."""
    tiny, model = make(word_ngrams=2, storage=draw.choice(STORAGES), labels=draw.choice([TWO, Tiny.labels]))
    for found, text in zip(ours(model, [*texts]), texts, strict=True):
        wanted = oracle(tiny, text)
        assert len(found) == min(1, len(wanted))
        assert_same(found, wanted)


@pytest.mark.parametrize("labels", [TWO, Tiny.labels])
@pytest.mark.parametrize("word_ngrams", [1, 2])
def test_a_document_does_not_depend_on_its_neighbours(word_ngrams: int, labels: tuple[str, ...]) -> None:
    """Any slice and any order of a batch gives the same bits, though words are remembered within a call."""
    _, model = make(word_ngrams=word_ngrams, labels=labels)
    draw = random.Random(5)
    words = ["".join(draw.choices("abcdeé水", k=draw.randint(1, 12))) for _ in range(900)]  # more than the 256 slots
    texts = [" ".join(draw.choices(words, k=draw.randint(0, 40))) for _ in range(300)]
    column = pa.array(texts)
    labels, probabilities = predict(model, column, 2)
    alone = [predict(model, column.slice(row, 1), 2) for row in range(len(texts))]
    assert np.array_equal(labels, np.concatenate([pair[0] for pair in alone]))
    assert np.array_equal(probabilities, np.concatenate([pair[1] for pair in alone]))
    order = draw.sample(range(len(texts)), len(texts))
    shuffled = predict(model, column.take(pa.array(order)), 2)
    assert np.array_equal(probabilities[order], shuffled[1])


@pytest.mark.parametrize("labels", [TWO, Tiny.labels, tuple(f"l{n}" for n in range(9))], ids=len)
def test_quantised_rows_read_in_place_give_the_same_bits(
    labels: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a quantised matrix is decoded beforehand or row by row is a matter of memory alone."""
    tiny, decoded = make(storage="pq norm pruned", word_ngrams=2, labels=labels)
    monkeypatch.setattr(fasttext_model, "_DECODED_BYTES", 0)
    in_place = parse(np.frombuffer(tiny.file, np.uint8), "tiny.ftz")
    assert in_place.arrays.table.shape[0] == 0 < decoded.arrays.table.shape[0]
    for mine, other in zip(predict(in_place, pa.array(TEXTS), 3), predict(decoded, pa.array(TEXTS), 3), strict=True):
        assert np.array_equal(mine, other)


def test_the_exponential_is_that_of_the_standard_library() -> None:
    """It is within 2e-11 of math.exp over all of float64, 0 below that and for NaN."""
    for x in [*np.linspace(-707, 709, 20_001).tolist(), 0.0, -1e-300, math.log(2) / 2, -math.log(2) / 2]:
        assert exponential(x) == pytest.approx(math.exp(x), rel=2e-11)
    assert [exponential(x) for x in (-1e9, -math.inf, math.nan)] == [0.0] * 3


def test_a_text_without_a_word_has_no_label() -> None:
    """Nulls, empty texts, spaces and labels alone say nothing of a language, and nothing is made up for them."""
    _, model = make()
    texts: list[str | None] = [None, "", " \n\t\0 ", "__label__en", "</s> the", "the"]
    assert [len(found) for found in ours(model, texts)] == [0, 0, 0, 0, 0, 1]


def test_bytes_that_are_no_text_do_no_harm() -> None:
    """Stray continuation bytes, which a valid string column cannot hold, are read within bounds."""
    _, model = make()
    data = np.frombuffer(b"\x80" * 5000 + b" a" + b"\xbf" * 3000 + b" \xff\xfe\xf0", np.uint8)
    bounds = np.array([0, 1, 700, 5000, data.size])
    labels, probabilities = kernel.predict(model.arrays, data, bounds[:-1], bounds[1:], 1)
    assert np.isfinite(probabilities).all()
    assert (labels < len(model.labels)).all()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 3e38])
@pytest.mark.parametrize(("storage", "labels"), [("dense", TWO), ("dense", Tiny.labels), ("pq norm qout", Tiny.labels)])
def test_weights_that_are_no_numbers_are_refused(storage: str, labels: tuple[str, ...], value: float) -> None:
    """A text with such a row would have no score without any explanation. The message names file and matrix."""
    tiny = Tiny(labels=labels, storage=storage)
    # The last values of the input matrix and of the output matrix: weights, or the factors of rows.
    output = len(tiny.matrices[1])
    for end, matrix in ((len(tiny.file) - output - 1, "input"), (len(tiny.file), "output")):
        damaged = tiny.file[: end - 4] + np.float32(value).tobytes() + tiny.file[end:]
        with pytest.raises(
            UserError, match=rf"tiny\.bin: the {matrix} matrix holds NaN, infinity or a number beyond 1e\+15"
        ):
            parse(np.frombuffer(damaged, np.uint8), "tiny.bin")

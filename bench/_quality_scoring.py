"""Scoring documents with two-label fastText models: the step `quality` against the fastText library, on the same texts
and one core, in CPU time. The models have random weights, because neither speed nor equality depends on the scores.
"""

import struct
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.inputs import measurement, texts
from gristmill.stages.quality.quality import Config, apply

ROUNDS = 3
DOCUMENT_CHARACTERS = 4000
SHAPES = {"words": (100, 1), "word_pairs": (100, 2), "word_pairs_dim_16": (16, 2)}
"""Dimensions and length of word n-grams; all have the library's default of 2 million buckets."""


def scoring(data: Path | None, limit_bytes: int = 8_000_000, buckets: int = 2_000_000) -> Iterator[dict[str, Any]]:
    """The speed of each shape next to the library's, and the largest difference of any score."""
    found = _cut(texts(data, limit_bytes), DOCUMENT_CHARACTERS)
    many = _cut(found, 80)  # a hundred thousand documents, if there is enough text
    with tempfile.TemporaryDirectory() as folder:
        for name, (dim, word_ngrams) in SHAPES.items():
            path = str(Path(folder) / f"{name}.bin")
            write_model(path, found, dim, buckets, word_ngrams)
            yield from _beside_library(name, path, found, many[:100_000])
            Path(path).unlink()


def _beside_library(name: str, path: str, found: list[str], many: list[str]) -> Iterable[dict[str, Any]]:
    import fasttext

    config = Config(models={"q": {"file": path, "label": "hq"}})
    library: Any = fasttext.load_model(path)
    batch, lines = _batch(found), [text.replace("\n", " ") for text in found]
    apply(batch.slice(0, 2), config)
    taken: dict[str, list[float]] = {"ours": [], "library": []}
    for _ in range(ROUNDS):
        begun = time.process_time()
        apply(batch, config)
        taken["ours"].append(time.process_time() - begun)
        begun = time.process_time()
        for line in lines:
            library.predict(line, 2)
        taken["library"].append(time.process_time() - begun)
    size = sum(len(text.encode()) for text in found)
    ours, peer = (size / min(times) / 1e6 for times in taken.values())
    yield measurement(f"quality.scoring.{name}", ours, "MB/s", "fasttext", peer)
    scores = apply(_batch(many), config)["q"].to_pylist()
    worst = 0.0
    for text, score in zip(many, scores, strict=True):
        labels, chances = library.predict(text.replace("\n", " "), 2)
        chance = dict(zip(labels, chances, strict=True)).get("__label__hq")
        if score is None:  # the library labels a text without words by its end-of-line token
            worst = max(worst, float(bool(text.split())))
        elif chance is not None:
            worst = max(worst, abs(min(float(chance), 1.0) - score))
    yield measurement(f"quality.scoring.{name}.largest_difference", worst, f"of {len(many):,} documents")


def write_model(path: str, found: list[str], dim: int, buckets: int, word_ngrams: int) -> None:
    """Writes a supervised model file with random weights and the words of these texts."""
    counts = Counter(word for text in found for word in text.split() if "\0" not in word)
    entries = [("</s>", len(found), 0), *((word, n, 0) for word, n in counts.most_common() if n >= 5)]
    labels = [("__label__hq", 2, 1), ("__label__cc", 1, 1)]
    rows = len(entries) + buckets * (word_ngrams > 1)
    draw = np.random.default_rng(0)
    with open(path, "wb") as file:
        file.write(struct.pack("<ii12id", 793712314, 12, dim, 5, 5, 1, 5, word_ngrams, 3, 3, buckets, 0, 0, 100, 1e-4))
        file.write(struct.pack("<iiiqq", len(entries) + 2, len(entries), 2, counts.total(), -1))
        for word, count, kind in [*entries, *labels]:
            file.write(word.encode() + b"\0" + struct.pack("<qb", count, kind))
        file.write(struct.pack("<?qq", False, rows, dim))
        for first in range(0, rows, 100_000):
            file.write(draw.normal(0, 1, (min(100_000, rows - first), dim)).astype("<f4").tobytes())
        file.write(struct.pack("<?qq", False, 2, dim) + draw.normal(0, 1, (2, dim)).astype("<f4").tobytes())


def _cut(found: list[str], characters: int) -> list[str]:
    return [text[at : at + characters] for text in found for at in range(0, len(text), characters)]


def _batch(found: list[str]) -> pa.RecordBatch:
    return pa.record_batch({"text": pa.array(found, pa.string())})

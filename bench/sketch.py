"""Near-duplicate sketches of word 5-grams, 14 bands of 8 rows, against rensa and datatrove: same texts, one core.

Ours goes from a column of texts to band hashes. rensa (its R-MinHash with 112 numbers, all documents in one call) takes
lists of 5-grams, which its user makes in Python. It is timed with and without that, and without bands. datatrove's
MinhashDedupSignature runs as in a pipeline, with its own tokenizer, and writes its signatures to a folder. Peers get a
sample of the texts. All times are CPU time of all threads; ours and rensa's are the best of five rounds, datatrove's is
one.
"""

import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from bench.inputs import measurement, scratch, texts
from bench.signals import first, size_of
from gristmill.kernels.dedup.shingles import word_tables
from gristmill.kernels.dedup.sketch import band_hashes_of

LIMIT_BYTES = 64_000_000
RENSA_BYTES = 8_000_000
DATATROVE_BYTES = 1_500_000
NGRAM, BANDS, ROWS = 5, 14, 8
ROUNDS = 5
SMALL: dict[str, object] = {"LIMIT_BYTES": 100_000, "RENSA_BYTES": 10_000, "DATATROVE_BYTES": 10_000, "ROUNDS": 1}
"""The constants that set its size, for its test."""


def run(data: Path | None) -> Iterable[dict]:
    found = texts(data, LIMIT_BYTES)
    some, few = spread(found, RENSA_BYTES), spread(found, DATATROVE_BYTES)
    for method in ("fast", "minhash"):
        yield measurement(f"sketch.{method}", rate_of(found, method), "MB/s, all texts")

    shingling, sketching = rensa_seconds(some) or (None, None)
    megabytes = size_of(some) / 1e6
    whole = megabytes / (shingling + sketching) if shingling else None
    sketch = megabytes / sketching if sketching else None
    for method in ("fast", "minhash"):
        ours = rate_of(some, method)
        yield measurement(f"sketch.{method}_against_rensa", ours, "MB/s", "rensa with its shingling", whole)
        yield measurement(f"sketch.{method}_against_rensa_bare", ours, "MB/s", "rensa given its shingles", sketch)

    taken = datatrove_seconds(few)
    theirs = size_of(few) / 1e6 / taken if taken else None
    for method in ("fast", "minhash"):
        ours = rate_of(few, method)
        yield measurement(f"sketch.{method}_against_datatrove", ours, "MB/s", "datatrove MinhashDedupSignature", theirs)


def spread(found: list[str], limit_bytes: int) -> list[str]:
    """Texts taken evenly from the whole list, up to about a size: the first file alone would be one kind of text."""
    step = max(1, size_of(found) // limit_bytes)
    return first(found[::step], limit_bytes)


def rate_of(found: list[str], method: str) -> float:
    encoded = [text.encode() for text in found]
    data = np.frombuffer(b"".join(encoded), np.uint8)
    offsets = np.cumsum([0, *map(len, encoded)])
    salt, tables = np.zeros(len(found), np.uint64), word_tables()

    def call(rows: int = len(found)) -> object:
        return band_hashes_of(data, offsets[: rows + 1], NGRAM, BANDS, ROWS, method, 1, salt[:rows], tables)

    call(1)
    return len(data) / min(seconds(call) for _ in range(ROUNDS)) / 1e6


def five_grams(text: str) -> list[str]:
    words = re.findall(r"\w+", text.lower())
    return [" ".join(words[at : at + NGRAM]) for at in range(max(len(words) - NGRAM + 1, 1))]


def rensa_seconds(found: list[str]) -> tuple[float, float] | None:
    """Seconds for the shingles in Python and for the sketches; None if rensa is not installed."""
    try:
        from rensa import RMinHash
    except ImportError:
        return None
    shingles = list(map(five_grams, found))
    shingling = min(seconds(lambda: list(map(five_grams, found))) for _ in range(ROUNDS))

    def sketch() -> object:
        return RMinHash.digest_matrix_from_token_sets(shingles, num_perm=BANDS * ROWS, seed=1)

    return shingling, min(seconds(sketch) for _ in range(ROUNDS))


def datatrove_seconds(found: list[str]) -> float | None:
    """Seconds of the first of its four steps; None if datatrove or its tokenizer is not installed."""
    try:
        import spacy  # noqa: F401
        from datatrove.data import Document
        from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupSignature
    except ImportError:
        return None
    config = MinhashConfig(n_grams=NGRAM, num_buckets=BANDS, hashes_per_bucket=ROWS)
    with scratch() as folder:
        step: Any = MinhashDedupSignature(str(folder), config)
        step.run(iter([Document(text=found[0], id="")]))  # loads the tokenizer
        documents = [Document(text=text, id=str(number)) for number, text in enumerate(found)]
        return seconds(lambda: step.run(iter(documents), rank=1))


def seconds(call: Callable[[], object]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun

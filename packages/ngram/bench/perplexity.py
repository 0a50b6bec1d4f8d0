"""N-gram language models: the speed of training and scoring, against KenLM on the same text and the same model.

    train     MB/s of text, wall time, and the peak memory of a process that does nothing else (`memory` is 256 MB)
    score     MB/s of text, CPU time of one core, best of alternating rounds. KenLM gets an ARPA file of ours and lines
              that are already split and lower-cased, which for ours is part of the time. Then it gets plain text, which
              Python splits for it by a regular expression
    equal     the largest difference between the two in the sum of a document

KenLM's Python package is the peer: `pip install kenlm`.
"""

import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from bench.inputs import measurement, scratch, texts

from gristmill.stages.quality.ngram_file import NgramModel, load, score_texts
from gristmill.stages.shared.arrow_file import ArrowFile
from gristmill_ngram import language_model
from gristmill_ngram.arpa import normal_form, write_arpa

TRAIN_BYTES = 100_000_000
SCORE_BYTES = 10_000_000
ROUNDS = 5
MEMORY = 256_000_000
WORD, DIGIT = re.compile(r"\w+"), re.compile(r"\d")
DOCUMENT_CHARS = 20_000
"""Longer texts are cut, so that there are enough documents to hold some out."""
SMALL: dict[str, object] = {"TRAIN_BYTES": 150_000, "SCORE_BYTES": 30_000, "ROUNDS": 1, "DOCUMENT_CHARS": 1000}
"""The constants that set its size, for its test."""


def run(data: Path | None) -> Iterable[dict]:
    whole = texts(data, TRAIN_BYTES + SCORE_BYTES)
    random.Random(1).shuffle(whole)
    apart = up_to(whole, SCORE_BYTES)  # whole texts, because the pieces of a book resemble each other
    held, learned = ([part for text in some for part in cut(text)] for some in (apart, whole[len(apart) :]))
    with scratch() as folder:
        yield from training(learned, folder)
        model = load(folder / "model")["all"]
        counts = ArrowFile(folder / "model").header["languages"]["all"]["ngrams"]
        yield measurement("perplexity.ngrams", sum(counts), "n-grams")
        yield measurement("perplexity.model", (folder / "model").stat().st_size / 1e6, "MB")
        write_arpa(folder / "model", "all", folder / "model.arpa")
        yield from scoring(model, held, folder / "model.arpa")


def cut(text: str) -> Iterator[str]:
    return (text[at : at + DOCUMENT_CHARS] for at in range(0, len(text), DOCUMENT_CHARS))


def up_to(found: list[str], size: int) -> list[str]:
    sizes = np.cumsum([len(text.encode()) for text in found])
    return found[: int(np.searchsorted(sizes, min(size, sizes[-1] // 4))) + 1]


def bytes_of(found: list[str]) -> int:
    return sum(len(text.encode()) for text in found)


CHILD = """
import resource, sys
import pyarrow as pa
from pathlib import Path
from gristmill_ngram import language_model
path, memory = Path(sys.argv[1]), int(sys.argv[2])
def batches():
    with pa.ipc.open_file(str(path / "texts")) as file:
        for at in range(file.num_record_batches):
            yield file.get_batch(at)
config = language_model.Config(name="bench", sources=("bench",), memory=memory, min_documents=1)
language_model.fit(batches(), config, path / "model")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def training(found: list[str], folder: Path) -> Iterator[dict]:
    rows = [pa.array(found[at : at + 200]) for at in range(0, len(found), 200)]
    with pa.OSFile(str(folder / "texts"), "wb") as sink:
        batches = [pa.RecordBatch.from_arrays([one, *[pa.nulls(len(one))] * 3, pa.nulls(len(one), pa.string())],
                                              names=list(language_model.COLUMNS)) for one in rows]  # fmt: skip
        with pa.ipc.new_file(sink, batches[0].schema) as writer:
            for batch in batches:
                writer.write(batch)
    begun = time.perf_counter()
    arguments = [sys.executable, "-c", CHILD, str(folder), str(MEMORY)]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    taken = time.perf_counter() - begun
    yield measurement("perplexity.train", bytes_of(found) / taken / 1e6, "MB/s")
    yield measurement("perplexity.train_memory", int(done.stdout) / 1e6, f"MB at a memory of {MEMORY / 1e6:.0f} MB")


def scoring(model: NgramModel, held: list[str], arpa: Path) -> Iterator[dict]:
    column, prepared = pa.array(held), normal_form(held)
    score_texts(model, column.slice(0, 1))
    peer = kenlm_of(arpa)
    theirs: list[float] = []
    times: dict[str, list[float]] = {"ours": [], "peer": [], "raw": []}

    def score_all() -> None:
        theirs[:] = [sum(peer.score(line) for line in text.split("\n")) if text else 0.0 for text in prepared]

    def cut_and_score_all() -> None:
        for text in held:
            for line in text.lower().split("\n"):
                peer.score(" ".join(WORD.findall(DIGIT.sub("0", line))))

    for _ in range(ROUNDS):
        times["ours"].append(seconds(lambda: score_texts(model, column)))
        if peer is not None:
            times["peer"].append(seconds(score_all))
            times["raw"].append(seconds(cut_and_score_all))
    size = bytes_of(held) / 1e6
    rate = size / min(times["peer"]) if peer is not None else None
    yield measurement("perplexity.score", size / min(times["ours"]), "MB/s", "KenLM, text prepared", rate)
    if peer is not None:
        raw = size / min(times["raw"])
        yield measurement("perplexity.score", size / min(times["ours"]), "MB/s", "KenLM, text cut by Python", raw)
        ours = -score_texts(model, column)[:, 0] / 4096
        worst = float(np.abs(ours - np.array(theirs)).max())
        yield measurement(f"perplexity.difference, {len(held)} documents", worst, "log10, at most")


def kenlm_of(arpa: Path) -> Any:
    """The KenLM model; None if KenLM is not installed."""
    try:
        import kenlm
    except ImportError:
        return None
    return kenlm.Model(str(arpa))


def seconds(call: Callable[[], object]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun

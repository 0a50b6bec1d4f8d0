"""Packing 10 million documents on one core, against best fit in plain Python and in OLMo-core; and what others lose.

Lengths are those of the texts of --data at 4 bytes a token with an end-of-document token, resampled; without data they
are lognormal (median 500 tokens, sigma 1.2, mean about 1000), an assumption. The peers pack the first 100,000
documents, and ours does too, to compare the number of samples, but its rate is that of all. OLMo-core's packer runs in
the Python that BENCH_READERS_PYTHON names. All in CPU time.
"""

import json
import os
import subprocess
import sys
import time
from bisect import bisect_left, insort
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from bench.inputs import measurement, scratch, texts
from gristmill.kernels.pack import Pieces, best_fit, concat

DOCUMENTS = 10_000_000
FEW = 100_000
READ_BYTES = 200_000_000
BYTES_A_TOKEN = 4

OLMO = """
import json, sys, time
import numpy
from olmo_core.data.utils import InstancePacker
lengths = numpy.load(sys.argv[1])
ends = numpy.cumsum(lengths)
spans = numpy.stack([ends - lengths, ends], 1)
begun = time.process_time()
instances = InstancePacker(int(sys.argv[2])).pack_documents(spans)[0]
print(json.dumps([time.process_time() - begun, len(instances)]))
"""


def run(data: Path | None) -> Iterable[dict]:
    lengths = lengths_of(data)
    whose = "the texts of --data, resampled" if data else "made up, lognormal"
    yield measurement("pack.documents", len(lengths), f"documents ({whose}), mean {lengths.mean():.0f} tokens")
    best_fit(lengths[:10], 64), concat(lengths[:10], 64)  # compiles
    for seq_len in (2048, 8192):
        name = f"pack.{seq_len}"
        begun = time.process_time()
        pieces = best_fit(lengths, seq_len)
        taken = time.process_time() - begun
        samples = int(pieces.sample[-1]) + 1
        padding = 1 - int(lengths.sum()) / (samples * seq_len)
        assert np.array_equal(np.bincount(pieces.document, pieces.length, len(lengths)).astype(np.int64), lengths)
        yield measurement(f"{name}.seconds", taken, "s for all (asked: under 20)")
        yield measurement(f"{name}.padding", 100 * padding, "% of tokens (asked: at most 0.5)")
        yield from against(name, lengths[:FEW], seq_len, len(lengths) / taken)
        fitting = lengths <= seq_len
        cut = share_cut(concat(lengths, seq_len), fitting)
        ours = share_cut(pieces, fitting)
        yield measurement(
            f"{name}.cut", 100 * ours, "% of documents that fit (asked: 0)", "concat", 100 * cut, less=True
        )
        lost = 100 * cropped(lengths[: 10 * FEW].tolist(), seq_len)
        yield measurement(f"{name}.lost", 0.0, "% of tokens", "documents in order, cropped at a sample's end", lost)


def lengths_of(data: Path | None) -> np.ndarray:
    draw = np.random.default_rng(0)
    if data is None:
        return np.exp(draw.normal(np.log(500), 1.2, DOCUMENTS)).astype(np.int64) + 1
    sizes = np.array([len(text.encode()) for text in texts(data, READ_BYTES)], np.int64)
    return draw.choice(sizes, DOCUMENTS) // BYTES_A_TOKEN + 1


def against(name: str, lengths: np.ndarray, seq_len: int, rate: float) -> Iterable[dict]:
    """The same rests, long to short, by two others."""
    samples = int(best_fit(lengths, seq_len).sample[-1]) + 1
    rests = lengths % seq_len
    full = int((lengths // seq_len).sum())
    begun = time.process_time()
    found = plain(rests[rests > 0].tolist(), seq_len) + full
    theirs = len(lengths) / (time.process_time() - begun)
    assert found == samples, f"plain Python needs {found} samples and ours {samples}"
    unit = f"documents/s; the peer on {FEW}, same number of samples"
    yield measurement(f"{name}.against_plain_python", rate, unit, "best fit with bisect, plain Python", theirs)
    answer = by_olmo(rests[rests > 0], seq_len)
    if answer is not None:
        assert answer[1] + full == samples, f"OLMo-core needs {answer[1] + full} samples and ours {samples}"
    yield measurement(
        f"{name}.against_olmo", rate, unit, "olmo-core", None if answer is None else len(lengths) / answer[0]
    )


def plain(rests: list[int], seq_len: int) -> int:
    """Samples of best fit, long to short, with a sorted list of open samples by space."""
    spaces: list[tuple[int, int]] = []
    samples: list[list[int]] = []
    for document in sorted(range(len(rests)), key=rests.__getitem__, reverse=True):
        length = rests[document]
        at = bisect_left(spaces, (length, 0))
        if at == len(spaces):
            space, mine = seq_len, len(samples)
            samples.append([])
        else:
            space, mine = spaces.pop(at)
        samples[mine].append(document)
        if space > length:
            insort(spaces, (space - length, mine))
    return len(samples)


def by_olmo(rests: np.ndarray, seq_len: int) -> tuple[float, int] | None:
    python = os.environ.get("BENCH_READERS_PYTHON", sys.executable)
    with scratch() as folder:
        np.save(folder / "lengths.npy", rests)
        command = [python, "-c", OLMO, str(folder / "lengths.npy"), str(seq_len)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return None if done.returncode else tuple(json.loads(done.stdout))


def share_cut(pieces: Pieces, fitting: np.ndarray) -> float:
    """Of the documents that would fit into a sample, those that lie in two."""
    cut = np.unique(pieces.document[pieces.doc_offset > 0])
    return float(fitting[cut].sum() / fitting.sum())


def cropped(lengths: list[int], seq_len: int) -> float:
    """Share of tokens that are thrown away where a sample that is full ends the document too."""
    used = lost = 0
    for length in lengths:
        taken = min(length, seq_len - used)
        lost += length - taken
        used = (used + taken) % seq_len
    return lost / sum(lengths)

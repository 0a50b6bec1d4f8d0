"""Packing 10 million documents on one core, against best fit from long to short in plain Python and in OLMo-core.

The bench measures padding, and how much lengths differ within a sample: the standard deviation of their logarithms,
averaged over samples with two pieces or more. It compares this with random packing, which has the same number of pieces
per sample regardless of their lengths. It also measures how many documents end-to-end packing cuts, and the tokens lost
when samples crop documents.

Lengths are those of the texts of --data at 4 bytes per token with an end-of-document token, resampled. Without data
they are assumed to be lognormal (median 500 tokens, sigma 1.2, mean about 1000). Padding and lengths are compared on
shards of one, 4 and 64 million tokens, 16 of them or one; each file of --data is also one shard. The peers' rate is
measured on the first 100,000 documents, ours on all. OLMo-core's packer runs in the Python that BENCH_READERS_PYTHON
names. All times are CPU time.
"""

import json
import os
import subprocess
import sys
import time
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from bench.inputs import measurement, scratch, texts
from gristmill.kernels.pack import Pieces, best_fit, concat

DOCUMENTS = 10_000_000
FEW = 100_000
SHARDS = {"1M": (1 << 20, 16), "4M": (1 << 22, 16), "64M": (1 << 26, 1)}
"""Tokens of a shard, and how many shards are packed."""
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
    best_fit(np.full(10, 33), 64), concat(lengths[:10], 64)  # compiles the kernels
    for seq_len in (512, 2048, 8192):
        yield from of_files(f"pack.{seq_len}.files", data, seq_len)
        name = f"pack.{seq_len}"
        begun = time.process_time()
        pieces = best_fit(lengths, seq_len)
        taken = time.process_time() - begun
        assert np.array_equal(np.bincount(pieces.document, pieces.length, len(lengths)).astype(np.int64), lengths)
        yield measurement(f"{name}.seconds", taken, "s for all (goal: under 20)")
        yield measurement(f"{name}.padding", padding(pieces, seq_len), "% of tokens (goal: at most 0.2)")
        chance = by_chance(pieces, seq_len)
        yield measurement(f"{name}.spread", spread(pieces), "of log lengths in a sample", "by chance", spread(chance))
        yield from against(name, lengths[:FEW], seq_len, len(lengths) / taken)
        for size, (tokens, count) in SHARDS.items():
            cuts = np.searchsorted(np.cumsum(lengths[: 10 * FEW]), tokens * np.arange(1, count + 1))
            shards = [shard for shard in np.split(lengths[: cuts[-1]], cuts[:-1]) if len(shard)]
            yield from beside(f"{name}.shards_of_{size}", shards, seq_len)
        cut, ours = (100 * split(one, lengths, seq_len) / len(lengths) for one in (concat(lengths, seq_len), pieces))
        yield measurement(f"{name}.cut", ours, "% of documents fit and are split", "concat", cut, less=True)
        lost = 100 * cropped(lengths[: 10 * FEW].tolist(), seq_len)
        yield measurement(f"{name}.lost", 0.0, "% of tokens", "documents in order, cropped at a sample's end", lost)


def of_files(name: str, data: Path | None, seq_len: int) -> Iterable[dict]:
    """The padding of all files, each in a shard, and the documents that are split to fill samples."""
    if data is None:
        return
    draw = np.random.default_rng(0)
    files = [draw.permutation(sizes_of(file)) // BYTES_A_TOKEN + 1 for file in sorted(data.iterdir())]
    for label, whole in (("whole", True), ("best_fit", False)):
        packed = [best_fit(lengths, seq_len, split=not whole) for lengths in files]
        number = sum(split(pieces, lengths, seq_len) for pieces, lengths in zip(packed, files, strict=True))
        most = max(padding(pieces, seq_len) for pieces in packed if pieces.sample[-1] >= 49)
        yield measurement(
            f"{name}.{label}.padding", padding(together(packed), seq_len), "% of tokens, one shard a file"
        )
        yield measurement(f"{name}.{label}.most", most, "% of tokens of a file with 50 samples or more (goal: 2)")
        yield measurement(f"{name}.{label}.split", number, f"of {sum(map(len, files))} documents fit and are split")


def lengths_of(data: Path | None) -> np.ndarray:
    draw = np.random.default_rng(0)
    if data is None:
        return np.exp(draw.normal(np.log(500), 1.2, DOCUMENTS)).astype(np.int64) + 1
    return draw.choice(sizes_of(data), DOCUMENTS) // BYTES_A_TOKEN + 1


def sizes_of(data: Path) -> np.ndarray:
    return np.array([len(text.encode()) for text in texts(data, READ_BYTES)], np.int64)


def against(name: str, lengths: np.ndarray, seq_len: int, rate: float) -> Iterable[dict]:
    """Packs the same remainders from long to short with two peers."""
    begun = time.process_time()
    samples = int(long_to_short(lengths, seq_len).sample.max()) + 1
    theirs = len(lengths) / (time.process_time() - begun)
    unit = f"documents/s; the peer on {FEW}"
    yield measurement(f"{name}.against_plain_python", rate, unit, "long to short, plain Python", theirs)
    rests = lengths % seq_len
    answer = by_olmo(rests[rests > 0], seq_len)
    if answer is not None:
        found = answer[1] + int((lengths // seq_len).sum())
        assert found == samples, f"OLMo-core needs {found} samples and plain Python {samples}"
    yield measurement(
        f"{name}.against_olmo", rate, unit, "olmo-core", None if answer is None else len(lengths) / answer[0]
    )


def beside(name: str, shards: Sequence[np.ndarray], seq_len: int) -> Iterable[dict]:
    """Padding and spread of ours and of long-to-short packing, over all shards."""
    ours = together([best_fit(lengths, seq_len) for lengths in shards])
    theirs = together([long_to_short(lengths, seq_len) for lengths in shards])
    peer, unit = "long to short", "% of tokens"
    yield measurement(f"{name}.padding", padding(ours, seq_len), unit, peer, padding(theirs, seq_len), less=True)
    yield measurement(f"{name}.spread", spread(ours), "of log lengths in a sample", peer, spread(theirs))


def together(shards: Sequence[Pieces]) -> Pieces:
    """The samples of all shards, numbered consecutively."""
    ends = np.cumsum([int(pieces.sample.max()) + 1 for pieces in shards])
    moved = [pieces._replace(sample=pieces.sample + end) for pieces, end in zip(shards[1:], ends, strict=False)]
    return Pieces(*(np.concatenate(columns) for columns in zip(shards[0], *moved, strict=True)))


def long_to_short(lengths: np.ndarray, seq_len: int) -> Pieces:
    """Best fit, long to short (Ding et al. 2024), with a list of open samples sorted by space; pieces in any order."""
    full = np.repeat(np.arange(len(lengths)), lengths // seq_len)
    document = np.flatnonzero(lengths % seq_len)
    document = document[np.argsort(-(lengths[document] % seq_len), kind="stable")]
    rests = lengths[document] % seq_len
    spaces: list[tuple[int, int]] = []
    sample: list[int] = []
    samples = len(full)
    for length in rests.tolist():
        at = bisect_left(spaces, (length, 0))
        if at == len(spaces):
            space, mine = seq_len, samples
            samples += 1
        else:
            space, mine = spaces.pop(at)
        sample.append(mine)
        if space > length:
            insort(spaces, (space - length, mine))
    return Pieces(
        np.concatenate([np.arange(len(full)), np.array(sample, np.int64)]),
        np.concatenate([full, document]),
        np.zeros(len(full) + len(document), np.int64),  # not needed
        np.concatenate([np.full(len(full), seq_len), rests]),
    )


def padding(pieces: Pieces, seq_len: int) -> float:
    """Padding as a percentage of the tokens of all samples."""
    return 100 * (1 - int(pieces.length.sum()) / ((int(pieces.sample.max()) + 1) * seq_len))


def spread(pieces: Pieces) -> float:
    """Standard deviation of the log lengths within a sample, averaged over samples with two pieces or more."""
    logs, count = np.log(pieces.length), np.bincount(pieces.sample)
    mean = np.bincount(pieces.sample, logs) / count
    deviation = np.sqrt(np.bincount(pieces.sample, (logs - mean[pieces.sample]) ** 2) / count)
    return float(deviation[count > 1].mean())


def by_chance(pieces: Pieces, seq_len: int) -> Pieces:
    """The same number of pieces per sample, regardless of their lengths."""
    length = pieces.length.copy()
    part = length < seq_len
    length[part] = np.random.default_rng(1).permutation(length[part])
    return pieces._replace(length=length)


def by_olmo(rests: np.ndarray, seq_len: int) -> tuple[float, int] | None:
    python = os.environ.get("BENCH_READERS_PYTHON", sys.executable)
    with scratch() as folder:
        np.save(folder / "lengths.npy", rests)
        command = [python, "-c", OLMO, str(folder / "lengths.npy"), str(seq_len)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return None if done.returncode else tuple(json.loads(done.stdout))


def split(pieces: Pieces, lengths: np.ndarray, seq_len: int) -> int:
    """The number of documents that would fit into a sample but are split."""
    cut = np.unique(pieces.document[pieces.doc_offset > 0])
    return int(np.count_nonzero(lengths[cut] <= seq_len))


def cropped(lengths: list[int], seq_len: int) -> float:
    """The share of tokens that are thrown away if a full sample also ends the document."""
    used = lost = 0
    for length in lengths:
        taken = min(length, seq_len - used)
        lost += length - taken
        used = (used + taken) % seq_len
    return lost / sum(lengths)

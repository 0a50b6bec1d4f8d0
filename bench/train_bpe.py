"""Training a byte-level BPE tokenizer: counting pre-tokens and 127,488 merges, against `tokenizers` on the same texts.

Each side reads the same Arrow file, batch by batch, in its own process, so that peak memory is its own too. Ours has
compiled kernels and counts on one thread or two; the library uses as many threads as it likes. The texts are split by
the cl100k pattern. The merges must be equal. `python -m bench.train_bpe --data DIR --megabytes 1000` measures on more:
the texts again and again, in each round with letters exchanged, so that the words differ.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

from bench.inputs import measurement, scratch, texts

MEGABYTES = 100
MERGES = 127_488  # 128,000 entries without 256 bytes and 256 special tokens
MIN_FREQUENCY = 2
BATCH_BYTES = 4_000_000
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)


def run(data: Path | None, megabytes: int | None = None) -> Iterable[dict]:
    with scratch() as folder:
        size = write_sample(folder / "sample.arrow", data, (megabytes or MEGABYTES) * 1_000_000) / 1e6
        ours, merges = child("ours", folder)
        two, _ = child("ours_two", folder)
        try:
            import tokenizers  # noqa: F401
        except ImportError:
            peer, same = dict.fromkeys(ours), None
        else:
            peer, wanted = child("peer", folder)
            same = 100 * sum(mine == other for mine, other in zip(merges, wanted, strict=False))
            same /= max(len(merges), len(wanted))
    yield measurement("train_bpe.sample", size, "MB")
    yield measurement("train_bpe.cpu", ours["cpu"], "CPU s", "tokenizers", peer["cpu"], less=True)
    yield measurement("train_bpe.wall", ours["wall"], "s, ours on one core", "tokenizers", peer["wall"], less=True)
    yield measurement("train_bpe.wall_two", two["wall"], "s, ours on two cores", "tokenizers", peer["wall"], less=True)
    yield measurement("train_bpe.counting", size / ours["counting_cpu"], "MB a CPU s")
    yield measurement("train_bpe.merging", ours["cpu"] - ours["counting_cpu"], f"CPU s for {len(merges)} merges")
    yield measurement("train_bpe.peak_memory", ours["peak"], "MB", "tokenizers", peer["peak"], less=True)
    if same is not None:
        yield measurement("train_bpe.same_merges", same, "% of merges (goal: 100)")


def write_sample(path: Path, data: Path | None, size: int) -> int:
    """Writes the texts as an Arrow file; returns their bytes."""
    found = texts(data, size)
    schema = pa.schema({"text": pa.string()})
    written, batch, batch_size = 0, [], 0
    with pa.ipc.new_file(path, schema) as file:
        for text in rounds(found):
            batch.append(text)
            batch_size += len(text.encode())
            if batch_size >= BATCH_BYTES or written + batch_size >= size:
                file.write_batch(pa.record_batch([pa.array(batch, pa.string())], schema))
                written, batch, batch_size = written + batch_size, [], 0
            if written >= size:
                break
    return written


def rounds(found: list[str]) -> Iterator[str]:
    """The texts, then the same again with vowels and other letters rotated, differently each time."""
    groups = ("aeiou", "bdgptk", "lmnr", "AEIOU", "BDGPTK")
    turn = 0
    while True:
        moved = {}
        for number, group in enumerate(groups):
            by = (turn // (1, 5, 30, 1, 5)[number]) % len(group)
            moved |= str.maketrans(group, group[by:] + group[:by])
        for text in found:
            yield text.translate(moved) if turn else text
        turn += 1


def child(side: str, folder: Path) -> tuple[dict, list]:
    """Runs one side in its own process; returns its measurements and its merges."""
    command = [sys.executable, "-m", "bench.train_bpe", "--side", side]
    command += ["--folder", str(folder), "--merges", str(MERGES)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout), json.loads((folder / f"{side}.json").read_text())


def measure(side: str, folder: Path) -> None:
    """Run by `child`: trains, prints the measurements, and leaves the merges in the folder."""
    train = {"ours": lambda file: ours(file, 1), "ours_two": lambda file: ours(file, 2), "peer": library}[side]
    warm = folder / "warm.arrow"
    batch = pa.record_batch({"text": pa.array(["warm enough " * 9])})
    with pa.ipc.new_file(warm, batch.schema) as file:
        file.write_batch(batch)
    train(warm)
    cpu, wall = time.process_time(), time.perf_counter()
    merges, counted = train(folder / "sample.arrow")
    taken = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall, "counting_cpu": counted - cpu}
    unit = 1e6 if sys.platform == "darwin" else 1e3
    taken["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    (folder / f"{side}.json").write_text(json.dumps(merges))
    print(json.dumps(taken))


def ours(path: Path, threads: int) -> tuple[list, float]:
    """Merges as the library writes them, and the CPU clock at the end of counting."""
    from gristmill.kernels.bpe.pretoken_classes import class_table
    from gristmill.kernels.bpe.pretoken_counts import count_pretokens
    from gristmill.kernels.bpe.pretokenize import CL100K
    from gristmill.kernels.bpe.train import byte_order, spell, train
    from gristmill.kernels.hash.word_counts import add_words, export, no_words
    from gristmill.stages.buffers import views_of

    classes = class_table()

    def count(first: int):
        table = no_words()
        with path.open("rb") as stream:
            file = pa.ipc.open_file(stream)
            for number in range(first, file.num_record_batches, threads):
                offsets, data, _ = views_of(file.get_batch(number).column("text"))
                table = count_pretokens(table, data, offsets, CL100K, classes)
        return table

    if threads == 1:
        words = export(count(0))
    else:
        with ThreadPoolExecutor(threads) as pool:
            table, *others = pool.map(count, range(threads))
        for other in others:
            table = add_words(table, *export(other))
        words = export(table)
    counted = time.process_time()
    left, right = train(*words, MERGES, MIN_FREQUENCY)
    shown = [chr(byte) for byte in range(256)]
    extra = 256
    for byte in sorted(byte_order()[-68:].tolist()):
        shown[byte] = chr(extra)
        extra += 1
    tokens = ["".join(shown[byte] for byte in token) for token in spell(left, right)]
    return [[tokens[one], tokens[other]] for one, other in zip(left.tolist(), right.tolist(), strict=True)], counted


def library(path: Path) -> tuple[list, float]:
    """The same with `tokenizers`, which does not report the end of its counting."""
    from tokenizers import Regex, Tokenizer
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
    from tokenizers.trainers import BpeTrainer

    def batches() -> Iterator[list[str]]:
        with path.open("rb") as stream:
            file = pa.ipc.open_file(stream)
            for number in range(file.num_record_batches):
                yield file.get_batch(number).column("text").to_pylist()

    tokenizer = Tokenizer(BPE())
    split = Split(Regex(PATTERN), "isolated")
    tokenizer.pre_tokenizer = Sequence([split, ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = BpeTrainer(
        vocab_size=256 + MERGES,
        min_frequency=MIN_FREQUENCY,
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(batches(), trainer)
    return json.loads(tokenizer.to_str())["model"]["merges"], time.process_time()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.train_bpe", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder of JSONL(.zst) files")
    parser.add_argument("--megabytes", type=int, default=MEGABYTES, help="size of the sample")
    parser.add_argument("--merges", type=int, default=MERGES, help="entries of the vocabulary beyond the bytes")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    MERGES = given.merges
    if given.side:
        measure(given.side, given.folder)
    else:
        for row in run(given.data, given.megabytes):
            print(json.dumps(row), flush=True)

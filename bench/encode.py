"""Encoding with a vocabulary of 128,000: ours against `tokenizers` and tiktoken, on the same texts and one core.

Texts of all files of the data folder, shuffled, so that languages and code are mixed; the vocabulary is trained on
them with our trainer, or is the tokenizer.json that BENCH_TOKENIZER names. Ours encodes all of it once in batches, from
an empty cache of pre-tokens (compiled before). The peers, which are slower, get the first 8 MB only, on one thread; so
does ours, once more, for a ratio on the same texts. All in CPU time, and the ids must be equal. tiktoken
runs in the Python that BENCH_TIKTOKEN_PYTHON names, so that it need not be installed beside ours.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.inputs import measurement, scratch, texts
from gristmill.kernels.bpe.pretoken_classes import class_table
from gristmill.kernels.bpe.pretoken_counts import count_pretokens
from gristmill.kernels.bpe.train import train
from gristmill.kernels.hash.word_counts import export, no_words
from gristmill.stages.buffers import bytes_of
from gristmill.tokenizer.files import load, write_json, write_ranks
from gristmill.tokenizer.model import Tokenizer
from gristmill.tokenizer.patterns import PATTERNS

READ_BYTES = 400_000_000
LIMIT_BYTES = int(float(os.environ.get("BENCH_MB", "100")) * 1e6)
BATCH_BYTES = 8_000_000
MERGES = 127_488  # 128,000 entries without 256 bytes and 256 special tokens
PATTERN = "llama3"

TIKTOKEN = """
import base64, json, sys, time
import tiktoken
ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in open(sys.argv[1]))}
beside = json.load(open(sys.argv[1] + ".json"))
found = json.load(open(sys.argv[2]))
peer = tiktoken.Encoding("bench", pat_str=beside["pat_str"], mergeable_ranks=ranks, special_tokens={})
peer.encode_ordinary(found[0])
begun = time.process_time()
ids = [peer.encode_ordinary(text) for text in found]
print(json.dumps([time.process_time() - begun, ids]))
"""


def run(data: Path | None) -> Iterable[dict]:
    found = texts(data, READ_BYTES if data else LIMIT_BYTES)
    random.Random(0).shuffle(found)
    batches = batches_of(found)
    size = sum(len(bytes_of(batch)[0]) for batch in batches)
    few = batches[0].to_pylist()
    few_size = sum(len(text.encode()) for text in few)
    given = os.environ.get("BENCH_TOKENIZER")
    with scratch() as folder:
        tokenizer = load(given) if given else trained(batches)
        assert isinstance(tokenizer, Tokenizer), f"{given} cannot be encoded by our kernel: {tokenizer.reason}"
        write_json(tokenizer, folder)
        tokenizer.decode(tokenizer.encode(batches[0][:1])[0])  # compiles
        new = fresh(tokenizer)
        rate = size / seconds(lambda: [new.encode(batch) for batch in batches]) / 1e6
        ours = few_size / seconds(lambda: fresh(tokenizer).encode(batches[0])) / 1e6
        ids = tokenizer.encode(batches[0])[0]
        yield measurement("encode.vocabulary", tokenizer.vocab_size, "ids")
        yield measurement("encode.all_text", rate, f"MB/s, {size / 1e6:.0f} MB from an empty cache")
        for peer, measure in (("tokenizers", with_library), ("tiktoken", with_tiktoken)):
            answer = measure(folder, tokenizer, few)
            theirs = None if answer is None else few_size / answer[0] / 1e6
            yield measurement(f"encode.against_{peer}", rate, "MB/s; the peer on the first 8 MB", peer, theirs)
            yield measurement(f"encode.short_against_{peer}", ours, "MB/s, both on the first 8 MB", peer, theirs)
            if answer is not None:
                same = np.array_equal(ids, np.fromiter((token for row in answer[1] for token in row), np.uint32))
                yield measurement(f"encode.same_ids_as_{peer}", float(same), "(asked: 1)")
        one, two = (wall_seconds(tokenizer, batches, workers) for workers in (1, 2))
        yield measurement("encode.two_workers", 2 * one / two, "times the text of one in a second")
        decoding = seconds(lambda: tokenizer.decode_bytes(ids))
        yield measurement("encode.decoding", few_size / decoding / 1e6, "MB/s of text")


def batches_of(found: list[str]) -> list[pa.Array]:
    """The texts in batches of some megabytes, up to the limit."""
    batches: list[pa.Array] = []
    batch, size, total = [], 0, 0
    for text in found:
        batch.append(text)
        size += len(text.encode())
        if size >= BATCH_BYTES or total + size >= LIMIT_BYTES:
            batches.append(pa.array(batch, pa.string()))
            batch, size, total = [], 0, total + size
        if total >= LIMIT_BYTES:
            return batches
    return [*batches, pa.array(batch, pa.string())] if batch else batches


def trained(batches: list[pa.Array]) -> Tokenizer:
    table = no_words()
    for batch in batches:
        data, offsets = bytes_of(batch)
        table = count_pretokens(table, data, offsets, PATTERNS[PATTERN].scanner, class_table())
    words = export(table)
    return Tokenizer.from_merges(PATTERN, *train(words.data, words.offsets, words.counts, MERGES))


def fresh(tokenizer: Tokenizer) -> Tokenizer:
    """The same with its tables built and an empty cache."""
    made = Tokenizer(tokenizer.definition)
    made.__dict__["_vocabulary"] = tokenizer._vocabulary
    return made


def seconds(call: Callable[[], object]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun


def wall_seconds(tokenizer: Tokenizer, batches: list[pa.Array], workers: int) -> float:
    """Until so many threads have each encoded all batches, from a cache of its own."""
    with ThreadPoolExecutor(workers) as threads:
        begun = time.perf_counter()
        list(
            threads.map(
                lambda made: [made.encode(batch) for batch in batches], [fresh(tokenizer) for _ in range(workers)]
            )
        )
        return time.perf_counter() - begun


def with_library(folder: Path, _tokenizer: Tokenizer, few: list[str]) -> tuple[float, list[list[int]]] | None:
    """CPU seconds and ids of `tokenizers` on one thread."""
    os.environ["RAYON_NUM_THREADS"], os.environ["TOKENIZERS_PARALLELISM"] = "1", "false"
    try:
        from tokenizers import Tokenizer as Library
    except ImportError:
        return None
    library = Library.from_file(str(folder / "tokenizer.json"))
    library.encode_special_tokens = True
    begun = time.process_time()
    answers = library.encode_batch_fast(few, add_special_tokens=False)
    return time.process_time() - begun, [answer.ids for answer in answers]


def with_tiktoken(folder: Path, tokenizer: Tokenizer, few: list[str]) -> tuple[float, list[list[int]]] | None:
    """CPU seconds and ids of tiktoken, in a Python that has it."""
    python = os.environ.get("BENCH_TIKTOKEN_PYTHON", sys.executable)
    write_ranks(tokenizer, folder / "ranks")
    (folder / "few.json").write_text(json.dumps(few))
    command = [python, "-c", TIKTOKEN, str(folder / "ranks"), str(folder / "few.json")]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if done.returncode:
        return None
    taken, ids = json.loads(done.stdout)
    return taken, ids

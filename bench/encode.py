"""Encoding with a vocabulary of 128,000: ours against other libraries, on the same texts and one core.

The texts of all files of the data folder are shuffled, so that languages and code are mixed. Texts that quote special
tokens are left out, because gigatoken always encodes those as special tokens. The vocabulary is trained on the texts
with our trainer, or is the tokenizer.json that BENCH_TOKENIZER names. Ours encodes all texts once in batches with
compiled kernels and an empty cache of pre-tokens. gigatoken and fastokens encode the same batches, also from an empty
cache; then gigatoken encodes them again with its warm cache. `tokenizers` and tiktoken are slower, so they encode only
the first 8 MB. Ours encodes those again, for a ratio on the same texts. All times are CPU time on one thread, and the
ids must be equal. The peers other than `tokenizers` run in the Python that BENCH_ENCODERS_PYTHON names, so they need
not be installed next to Gristmill.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
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
Answer = tuple[float, float, np.ndarray]
"""CPU seconds from an empty cache and from a warm cache, and the ids."""

PEER = """
import base64, json, os, sys, time
import numpy as np
folder, peer = sys.argv[1:]
batches = json.load(open(f"{folder}/{peer}.json"))
if peer == "tiktoken":
    import tiktoken
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in open(f"{folder}/ranks"))}
    pattern = json.load(open(f"{folder}/ranks.json"))["pat_str"]
    library = tiktoken.Encoding("bench", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    encode = lambda batch: np.array([i for text in batch for i in library.encode_ordinary(text)], np.uint32)
elif peer == "gigatoken":
    import awkward, gigatoken
    library = gigatoken.Tokenizer(f"{folder}/tokenizer.json")
    encode = lambda batch: np.asarray(awkward.flatten(library.encode_batch(batch, parallel=False)), np.uint32)
else:
    import fastokens
    library = fastokens.Tokenizer.from_file(f"{folder}/tokenizer.json")
    encode = lambda batch: np.frombuffer(library.encode_batch_flat(batch, split_special_tokens=True)[0], np.uint32)
begun = time.process_time()
ids = [encode(batch) for batch in batches]
cold = time.process_time() - begun
np.save(f"{folder}/{peer}.npy", np.concatenate(ids))
begun = time.process_time()
if peer == "gigatoken":
    for batch in batches:
        encode(batch)
print(cold, time.process_time() - begun)
"""
SMALL: dict[str, object] = {"READ_BYTES": 200_000, "LIMIT_BYTES": 200_000, "BATCH_BYTES": 100_000, "MERGES": 300}
"""The constants that set its size, for its test."""


def run(data: Path | None) -> Iterable[dict]:
    found = [text for text in texts(data, READ_BYTES if data else LIMIT_BYTES) if "<|" not in text]
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
        tokenizer.decode(tokenizer.encode(batches[0][:1])[0])  # compiles the kernels
        new = fresh(tokenizer)
        rate = size / seconds(lambda: [new.encode(batch) for batch in batches]) / 1e6
        ours = few_size / seconds(lambda: fresh(tokenizer).encode(batches[0])) / 1e6
        ids = tokenizer.encode(batches[0])[0]
        yield measurement("encode.vocabulary", tokenizer.vocab_size, "ids")
        yield measurement("encode.all_text", rate, f"MB/s, {size / 1e6:.0f} MB from an empty cache")
        write_ranks(tokenizer, folder / "ranks")
        all_ids = np.concatenate([tokenizer.encode(batch)[0] for batch in batches])
        for peer in ("gigatoken", "fastokens"):
            answer = with_peer(peer, folder, batches)
            yield from compared(peer, "encode.against", rate, size, "MB/s, both on all texts", answer, all_ids)
            if peer == "gigatoken":
                warm = None if answer is None else size / answer[1] / 1e6
                yield measurement("encode.against_warm_gigatoken", rate, "MB/s, ours from an empty cache", peer, warm)
        for peer in ("tokenizers", "tiktoken"):
            first = batches[:1]
            answer = with_library(folder, few) if peer == "tokenizers" else with_peer(peer, folder, first)
            yield from compared(peer, "encode.short_against", ours, few_size, "MB/s, both on 8 MB", answer, ids)
        decoding = seconds(lambda: tokenizer.decode_bytes(ids))
        yield measurement("encode.decoding", few_size / decoding / 1e6, "MB/s of text")


def batches_of(found: list[str]) -> list[pa.Array]:
    """The texts in batches of a few megabytes, up to the limit."""
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
    """A copy of the tokenizer with built tables and an empty cache."""
    made = Tokenizer(tokenizer.definition)
    made.__dict__["_vocabulary"] = tokenizer._vocabulary
    return made


def seconds(call: Callable[[], object]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun


def compared(
    peer: str, name: str, rate: float, size: int, unit: str, answer: Answer | None, ids: np.ndarray
) -> Iterable[dict]:
    """Our rate next to the peer's, and whether the ids are equal; a peer that is not installed has no rate."""
    yield measurement(f"{name}_{peer}", rate, unit, peer, None if answer is None else size / answer[0] / 1e6)
    if answer is not None:
        yield measurement(f"encode.same_ids_as_{peer}", float(np.array_equal(ids, answer[2])), "(required: 1)")


def with_library(folder: Path, few: list[str]) -> Answer | None:
    """Encodes with `tokenizers` on one thread."""
    os.environ["RAYON_NUM_THREADS"], os.environ["TOKENIZERS_PARALLELISM"] = "1", "false"
    try:
        from tokenizers import Tokenizer as Library
    except ImportError:
        return None
    library = Library.from_file(str(folder / "tokenizer.json"))
    library.encode_special_tokens = True
    begun = time.process_time()
    answers = library.encode_batch_fast(few, add_special_tokens=False)
    spent = time.process_time() - begun
    return spent, spent, np.array([token for answer in answers for token in answer.ids], np.uint32)


def with_peer(peer: str, folder: Path, batches: list[pa.Array]) -> Answer | None:
    """Encodes with a peer in a Python that has it; None if it cannot be imported."""
    python = os.environ.get("BENCH_ENCODERS_PYTHON", sys.executable)
    (folder / f"{peer}.json").write_text(json.dumps([batch.to_pylist() for batch in batches]))
    found = subprocess.run([python, "-c", f"import {peer}"], stderr=subprocess.DEVNULL)
    if found.returncode:
        return None
    command = [python, "-c", PEER, str(folder), peer]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | {"RAYON_NUM_THREADS": "1"}
    )
    cold, warm = map(float, done.stdout.split())
    return cold, warm, np.load(folder / f"{peer}.npy")

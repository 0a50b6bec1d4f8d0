"""From documents to shards: encoded, shuffled, packed and written, ours against datatrove's DocumentTokenizer.

Ours is a recipe with an existing tokenizer, so the measured stages are `tokens`, `shard_groups` and `shards`: reading
Parquet, encoding, the exchange, packing, shards with index, lineage and sidecars, hashing every file. The time is the
CPU time of all of it on one worker, after a run that compiled the kernels. datatrove gets the same documents from
memory, encodes with `tokenizers` and shuffles them into one file; it packs nothing. It is slower, so it gets only the
first megabytes. It runs in the Python that BENCH_READERS_PYTHON names.
"""

import json
import os
import random
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from bench.inputs import measurement, scratch, texts
from gristmill.engine.mill import Mill, Silent
from gristmill.recipe.load import load
from gristmill.stages.tokenizer import tokenizer
from gristmill.stages.tokenizer.tokenizer_sample import TRAIN

LIMIT_BYTES = int(float(os.environ.get("BENCH_MB", "100")) * 1e6)
PEER_BYTES = 8_000_000
STAGES = ("all/tokens", "docs/shard_groups", "all/shards")
RECIPE = """recipe: bench
seed: 1
sources:
  docs: {kind: text, read: {format: jsonl, paths: [docs.jsonl], part_bytes: 16MB}}
steps: []
tokenizer: {file: tokenizer.json}
shards: {seq_len_tokens: 8192, shard_tokens: 8388608}
"""
DATATROVE = """
import json, sys, time
from datatrove.data import Document
from datatrove.pipeline.tokens.tokenizer import DocumentTokenizer
found = json.load(open(sys.argv[1]))
step = DocumentTokenizer(output_folder=sys.argv[3], tokenizer_name_or_path=sys.argv[2], eos_token="<|end_of_text|>",
                         shuffle_documents=True, seed=1, save_filename="bench")
begun = time.process_time()
step.run((Document(text=text, id=str(n)) for n, text in enumerate(found)), 0, 1)
print(json.dumps(time.process_time() - begun))
"""
SMALL: dict[str, object] = {"LIMIT_BYTES": 200_000, "PEER_BYTES": 100_000}
"""The constants that set its size, for its test."""


def run(data: Path | None) -> Iterable[dict]:
    found = texts(data, LIMIT_BYTES)
    random.Random(0).shuffle(found)
    size = sum(len(text.encode()) for text in found)
    few, few_size = [], 0
    while few_size < PEER_BYTES and len(few) < len(found):
        few.append(found[len(few)])
        few_size += len(few[-1].encode())
    with scratch() as folder:
        train(folder, few)
        recipe = folder / "recipe.yaml"
        recipe.write_text(RECIPE)
        write(folder, few[:100])
        Mill(load(recipe, store=str(folder / "compiled"))).run(1, Silent())
        write(folder, found)
        begun = time.perf_counter()
        made = Mill(load(recipe, store=str(folder / "store"))).run(1, Silent()).states
        seconds = time.perf_counter() - begun
        cpu = {name: made[name].cost["cpu_s"] for name in STAGES}
        tokens = made["all/tokens"].metrics["tokens"]
        rate = size / sum(cpu.values()) / 1e6
        peer = datatrove(folder, few)
        theirs = None if peer is None else few_size / peer / 1e6
        name = "datatrove DocumentTokenizer, without packing"
        yield measurement("tokenize_shards.all", rate, f"MB/s of text on one core, {size / 1e6:.0f} MB", name, theirs)
        yield measurement("tokenize_shards.tokens", tokens / sum(cpu.values()) / 1e6, "million tokens/s on one core")
        for stage, spent in cpu.items():
            yield measurement(f"tokenize_shards.{stage.split('/')[1]}", spent, "s of CPU")
        shards = made["all/shards"].metrics
        padding = 100 * shards["padding"] / (shards["padding"] + shards["tokens"])
        yield measurement("tokenize_shards.padding", padding, "% of the tokens in shards")
        peak = max(made[name].cost["peak_rss_bytes"] for name in STAGES) / 1e6
        yield measurement("tokenize_shards.memory", peak, "MB, the largest task; shards of 8 million tokens")
        yield measurement("tokenize_shards.whole_run", seconds, "s with reading and the corpus")
        two = folder / "two"
        begun = time.perf_counter()
        Mill(load(recipe, store=str(two))).run(2, Silent())
        yield measurement("tokenize_shards.two_workers", seconds / (time.perf_counter() - begun), "x one worker")


def train(folder: Path, found: list[str]) -> None:
    """Trains a vocabulary of 32,000 on the texts that the peer gets."""
    columns = [pa.array(found), pa.array(["docs"] * len(found)), pa.array([TRAIN] * len(found))]
    batch = pa.RecordBatch.from_arrays(columns, names=["sampled", "domain", "split"])
    tokenizer.fit([batch], tokenizer.Config(vocab=32_000), folder / "tokenizer.json")


def write(folder: Path, found: list[str]) -> None:
    with (folder / "docs.jsonl").open("w") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in found)


def datatrove(folder: Path, found: list[str]) -> float | None:
    """CPU seconds; None without datatrove."""
    python = os.environ.get("BENCH_READERS_PYTHON")
    if python is None:
        return None
    (folder / "peer.json").write_text(json.dumps(found))
    command = [python, "-c", DATATROVE, str(folder / "peer.json"), str(folder / "tokenizer.json"), str(folder / "peer")]
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return float(json.loads(done.stdout.splitlines()[-1]))

"""The loader: start-up and seeks on 10,000 shards of 10^12 tokens, tokens per second on one core, waiting.

The 10,000 shards are sparse files (100 million tokens each, 8192 per sample, two bytes per token; samples without
documents, so that an index has its smallest size). The rate is measured on 400 MB in the page cache, on one core, in
CPU time, in batches of 32 samples. The upper bound is a loop that does the same copies from numpy memmaps in a given
order. datatrove, OLMo-core and megatron-core read samples of the same files by number, without any order or batches, in
the Python that BENCH_LOADER_PYTHON names. The best of seven runs counts.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

import gristmill
from bench.inputs import measurement, scratch
from gristmill.loader.checks import renew_seal
from gristmill.shardformat.index import HEADER, Header, Index, write_index
from gristmill.shardformat.manifest import manifest_hash

SEQ_LEN, BATCH = 8192, 32
SHARD_SAMPLES, SHARDS, GROUPS = 12_207, 10_000, 8
WARM_SHARDS, WARM_SAMPLES, WARM_GROUPS = 8, 3_000, 4
ROUNDS = 7
"""The best of so many rates counts."""

GIVEN = """
import json, os, random, struct, sys, time, numpy as np
paths, seq_len, count = json.loads(sys.argv[1])
"""
READ_AT_RANDOM = """
draw = random.Random(0)
rows = [(draw.randrange(len(sets)), draw.randrange(len(sets[0]))) for _ in range(count)]
times = []
for _ in range(7):
    begun = time.process_time()
    for which, row in rows: read(sets[which], row)
    times.append(time.process_time() - begun)
print(count * seq_len / min(times))
"""
PEERS = {
    "datatrove": """
from datatrove.utils.dataset import DatatroveFileDataset
sets = [DatatroveFileDataset(path, seq_len - 1, token_size=2) for path in paths]
read = lambda tokens, row: tokens[row]
""",
    "olmo-core": """
from olmo_core.data import NumpyFSLDataset
named = dict(sequence_length=seq_len, pad_token_id=0, eos_token_id=1, vocab_size=65536, dtype=np.uint16)
sets = [NumpyFSLDataset(path, **named) for path in paths]
read = lambda tokens, row: tokens[row]
""",
    "megatron-core": """
from megatron.core.datasets.indexed_dataset import IndexedDataset
for path in paths:
    n = os.path.getsize(path) // 2 // seq_len
    with open(path[:-4] + ".idx", "wb") as file:
        file.write(b"MMIDIDX\\0\\0" + struct.pack("<QBQQ", 1, 8, n, n + 1))
        file.write(np.full(n, seq_len, "<i4").tobytes() + (np.arange(n, dtype="<i8") * seq_len * 2).tobytes())
        file.write(np.arange(n + 1, dtype="<i8").tobytes())
sets = [IndexedDataset(path[:-4]) for path in paths]
read = lambda tokens, row: np.array(tokens[row])
""",
}
OURS_AS_TENSORS = """
import json, sys, time
from gristmill.loader import Loader
loader = Loader(sys.argv[1], batch_samples=32, threads=0)
rates = []
for _ in range(7):
    loader.seek(0)
    begun, tokens = time.process_time(), 0
    for batch in loader: tokens += batch.to_torch(fields=("tokens",)).tokens.numel()
    rates.append(tokens / (time.process_time() - begun))
print(max(rates))
"""
SMALL: dict[str, object] = {"SHARDS": 8, "WARM_SAMPLES": 40, "PEERS": {}, "ROUNDS": 1}
"""The constants that set its size, for its test."""


def run(_data: Path | None) -> Iterable[dict]:
    with scratch() as folder:
        large, warm = sparse(folder / "large"), warmed(folder / "warm")
        start = child("start_up", large)
        yield measurement("loader.start_up", start["seconds"], "s to the first batch, 10,000 shards (goal: < 1)")
        yield measurement("loader.start_up_import", start["import_seconds"], "s to import it")
        yield measurement("loader.start_up_memory", start["mb"], "MB resident, all in all (goal: < 200)")
        seek = child("seek", large)
        for name, unit in (("cold", "ms, shard not open"), ("warm", "ms, shard open")):
            yield measurement(f"loader.seek_{name}", seek[name], f"{unit}, mean of 2,000 (goal: < 1)")
            yield measurement(f"loader.seek_{name}_99", seek[f"{name}_99"], f"{unit}, 99 of 100 are faster")
        rates = child("rate", warm)
        bound = rates["memmap"]
        for name, unit in (
            ("tokens", "million tokens/s on one core (goal: >= 250)"),
            ("tokens_one_thread", "million tokens/s on one core, read ahead by a thread"),
            ("batch_of_1", "million tokens/s on one core, batches of 1"),
            ("with_spans", "million tokens/s on one core, with cu_seqlens"),
            ("with_positions", "million tokens/s on one core, with cu_seqlens and positions"),
        ):
            yield measurement(f"loader.{name}", rates[name], unit, "the same copies from memmaps, no order", bound)
        tensors = elsewhere(OURS_AS_TENSORS, str(warm))
        if tensors is not None:
            yield measurement(
                "loader.tensors", tensors, "million tokens/s, as int64 tensors", "plain batches", rates["tokens"]
            )
        for peer, script in PEERS.items():
            paths = sorted(str(path) for path in warm.parent.glob("*.bin"))
            rate = elsewhere(GIVEN + script + READ_AT_RANDOM, json.dumps([paths, SEQ_LEN, 24_000]))
            # Megatron returns arrays, the others tensors.
            ours = rates["tokens"] if tensors is None or peer == "megatron-core" else tensors
            yield measurement(f"loader.against_{peer}", ours, "million tokens/s", peer, rate)
        waits = child("waiting", warm)
        yield measurement("loader.waiting", 100 * waits["share"], "% of the time, 10 ms a batch (goal: < 1)")
        yield measurement("loader.starved", waits["batches"], f"batches of {waits['of']} that were waited for")


def child(what: str, manifest: Path) -> dict:
    """Runs a measurement in a new process, so that memory and imports are the loader's alone."""
    command = [sys.executable, "-m", "bench._loader_child", what, str(manifest), str(ROUNDS)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def elsewhere(script: str, given: str) -> float | None:
    """Million tokens per second that a script prints, in the Python that has the peers; None if they are missing."""
    python = os.environ.get("BENCH_LOADER_PYTHON", sys.executable)
    environment = {**os.environ, "PYTHONPATH": str(Path(gristmill.__file__).parents[1])}
    command = [python, "-c", script, given]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    return float(done.stdout.split()[-1]) / 1e6 if done.returncode == 0 else None


def sparse(folder: Path) -> Path:
    """10,000 sparse shards, which take no disk space."""
    folder.mkdir()
    groups, files = [], {}
    for group in range(GROUPS):
        name, shards = f"source{group}/A", []
        for number in range(group, SHARDS, GROUPS):
            shard = {key: hashlib.sha256(f"{key} {number}".encode()).hexdigest() for key in ("bin", "lineage")}
            path = folder / str(group) / f"shard_{number:05}.index"
            counts = {"samples": SHARD_SAMPLES, "tokens": SHARD_SAMPLES * SEQ_LEN, "documents": 0}
            files |= {digest: f"{group}/shard_{number:05}.{key}" for key, digest in shard.items()}
            (folder / str(group)).mkdir(exist_ok=True)
            with (folder / files[shard["bin"]]).open("wb") as file:
                file.truncate(SHARD_SAMPLES * SEQ_LEN * 2)
            header = Header(2, SEQ_LEN, SHARD_SAMPLES, 0, 0, 0, 1, 0, "a" * 64, shard["bin"], "bench", name)
            nothing = np.zeros(0)
            write_index(path, Index(header, nothing, nothing, nothing, np.zeros(0, "V16")))
            os.truncate(path, HEADER.itemsize + 8 * (SHARD_SAMPLES + 1))
            shard["index"] = hashlib.sha256(path.read_bytes()).hexdigest()  # a loader compares it
            files[shard["index"]] = f"{group}/{path.name}"
            sealed(folder, files, shard["bin"], shard["index"])
            shards.append({**shard, **counts})
        groups.append(described(name, shards))
    return written(folder, groups, files)


def warmed(folder: Path) -> Path:
    """400 MB of tokens in four groups, with documents of about 1000 tokens, read once so that they are in the page
    cache.
    """
    folder.mkdir()
    groups, files = [], {}
    draw = np.random.default_rng(0)
    for group in range(WARM_GROUPS):
        name, shards = f"source{group}/A", []
        for number in range(group, WARM_SHARDS, WARM_GROUPS):
            tokens = draw.integers(0, 2**16, (WARM_SAMPLES, SEQ_LEN), np.uint16).tobytes()
            digest = hashlib.sha256(tokens).hexdigest()
            files[digest] = f"shard_{number:05}.bin"
            (folder / files[digest]).write_bytes(tokens)
            count = WARM_SAMPLES * 8
            header = Header(2, SEQ_LEN, WARM_SAMPLES, count, count * 1000, count, 1, 0, "a" * 64, digest, "bench", name)
            ids = np.frombuffer(draw.bytes(16 * count), "V16")
            first = np.arange(WARM_SAMPLES + 1) * 8
            path = folder / f"shard_{number:05}.index"
            write_index(path, Index(header, first, np.full(count, 1000), np.zeros(count), ids))
            index = hashlib.sha256(path.read_bytes()).hexdigest()
            files[index] = path.name
            sealed(folder, files, digest, index)
            counts = {"samples": WARM_SAMPLES, "tokens": count * 1000, "documents": count}
            shards.append({"bin": digest, "index": index, "lineage": index, **counts})
        groups.append(described(name, shards))
    return written(folder, groups, files)


def sealed(folder: Path, files: dict[str, str], *digests: str) -> None:
    """Gives files the modification time that a loader recognises them by."""
    for digest in digests:
        renew_seal(str(folder / files[digest]), digest)


def described(name: str, shards: list[dict]) -> dict:
    counts = {key: sum(shard[key] for shard in shards) for key in ("samples", "tokens", "documents")}
    about = {"name": name, "source": name[:-2], "domain": "web", "tier": "A", "weight": 1.0}
    return {**about, **counts, "shards": shards}


def written(folder: Path, groups: list[dict], files: dict[str, str]) -> Path:
    weights = {group["name"]: group["samples"] * (number + 1) for number, group in enumerate(groups)}
    tokenizer = {"hash": "a" * 64, "vocab_size": 2**16, "end_of_document": 1, "padding": 0, "file": "b" * 64}
    content = {
        "format": "gristmill manifest",
        "format_version": 1,
        "recipe": "bench",
        "seed": 1,
        "tokenizer": tokenizer,
        "seq_len": SEQ_LEN,
        "token_bytes": 2,
        "groups": groups,
        "phases": [{"name": "main", "samples": sum(g["samples"] for g in groups), "weights": weights}],
        "files": files,
    }
    path = folder / "manifest.json"
    path.write_text(json.dumps({**content, "hash": manifest_hash(content)}))
    return path

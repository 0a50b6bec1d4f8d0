"""Many short runs at a time on a loaded machine: how many of them fail, and how many are aborted by a C++ library.

Each run is a process of its own with a new store: `gristmill run r.yaml --tag v1` on 60 documents, with a step of one's
own, deduplication, a tokenizer and shards. A library that is left while one of its threads still runs aborts the
process with `terminate called` after the work is done, about once in some hundred runs. JOBS runs are under way at any
time; more than the machine has cores make the load.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench.inputs import made_up_texts, measurement, scratch

RUNS = int(os.environ.get("RUNS", "2000"))
JOBS = int(os.environ.get("JOBS", "0")) or 3 * (os.cpu_count() or 1)
DOCUMENTS = 60
ABORT = "terminate called"

RECIPE = """
recipe: short
store: ./store
sources:
  notes: {kind: text, domain: notes, read: {format: jsonl, paths: [notes.jsonl]}}
steps: [signals, own.long_enough, shape, exact_dedup, near_dedup]
tokenizer: {train: {vocab: 600, sample_bytes: {notes: 100KB}}}
shards: {seq_len_tokens: 128}
"""
OWN = "def long_enough(text, min_chars=20):\n    return len(text) >= min_chars\n"
SHAPE = """
import pyarrow as pa
import pyarrow.compute as pc
from gristmill.stages.contract import Map, StageConfig

SCHEMA = pa.schema([("letters", pa.int32())])

class Config(StageConfig):
    pass

def apply(batch, config):
    return pa.RecordBatch.from_arrays([pc.utf8_length(batch.column("text"))], schema=SCHEMA)

STAGE = Map(config=Config, reads=("text",), schema=SCHEMA, apply=apply)
"""
SMALL: dict[str, object] = {"RUNS": 2, "JOBS": 2}
"""The constants that set its size, for its test."""


class Ended(NamedTuple):
    """How a run ended."""

    code: int
    """Its exit code; below 0 the signal that killed it."""
    messages: str
    """Its standard error."""


def run(data: Path | None) -> Iterable[dict]:
    with scratch() as folder:
        write_recipe(folder)
        start = time.monotonic()
        with ThreadPoolExecutor(JOBS) as pool:
            ends = list(pool.map(lambda _: short_run(folder), range(RUNS)))
        seconds = time.monotonic() - start
    failed = [end for end in ends if end.code]
    for end in failed[:3]:
        print(f"exit code {end.code}:\n{end.messages}", file=sys.stderr)
    yield measurement("short_runs.failed", len(failed), f"of {RUNS} runs, {JOBS} at a time")
    yield measurement("short_runs.aborted", sum(ABORT in end.messages for end in ends), "runs with `terminate called`")
    yield measurement("short_runs.rate", RUNS / seconds, f"runs/s on {os.cpu_count()} cores")


def write_recipe(folder: Path) -> None:
    texts = islice(made_up_texts(), DOCUMENTS)
    (folder / "notes.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    (folder / "own.py").write_text(OWN)
    (folder / "shape.py").write_text(SHAPE)
    (folder / "r.yaml").write_text(RECIPE)


def short_run(folder: Path) -> Ended:
    with TemporaryDirectory(dir=folder) as store:
        command = [sys.executable, "-m", "gristmill", "run", str(folder / "r.yaml"), "--store", store, "--tag", "v1"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        messages = process.communicate()[1]
        return Ended(process.returncode, messages)

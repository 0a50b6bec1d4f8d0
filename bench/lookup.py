"""Finding documents by the index of a corpus: how long a look-up takes, and what the index costs.

`DOCUMENTS=10000000 python -m bench lookup` uses a corpus of ten million documents of a few words each. Readers would
take most of the time, so the document parts are generated, a million documents in each. Verdicts, index and records are
those of a real run. With --data, WARC files go through recipes/web.yaml with a tokenizer and shards, and the bench
reports the share of the index in the CPU time of that run.
"""

import asyncio
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.inputs import made_up_texts, measurement, scratch
from gristmill.engine.executors.executor import InlineExecutor
from gristmill.engine.mill import Mill, Silent
from gristmill.engine.plan.graph import INDEX
from gristmill.engine.publish.run_record import see
from gristmill.engine.schedule.run import Run
from gristmill.engine.work.task import Preview, Read, Result, Task
from gristmill.query.documents.lookup import find
from gristmill.recipe.load import load
from gristmill.schema import DOCUMENTS as SCHEMA
from gristmill.store.parquet import PartWriter
from gristmill.store.store import Store

DOCUMENTS = int(os.environ.get("DOCUMENTS", "200000"))
PART_ROWS = 1_000_000
GROUP_ROWS = 1 << 16
PER_HOST = 50
LOOKUPS = 20
"""The number of documents to look up, each in a newly opened run."""
WORDS = ["mill", "grain", "stone", "water", "wheel", "flour", "sack", "hopper", "sieve", "dam", "race", "gear"]
RECIPE = Path(__file__).parents[1] / "recipes" / "web.yaml"


def run(data: Path | None) -> Iterable[dict]:
    with scratch() as folder:
        yield from made_up(folder)
        if data is not None and any(data.rglob("*.warc.gz")):
            yield share_of_index(data, folder)


def made_up(folder: Path) -> Iterable[dict]:
    parts = -(-DOCUMENTS // PART_ROWS)
    (folder / "in").mkdir()
    for number in range(parts):
        (folder / "in" / f"{number:05}.jsonl").write_text("x")  # one byte: a file is one part
    recipe = folder / "many.yaml"
    recipe.write_text(
        "recipe: many\nstore: ./store\nindex: true\nsources:\n"
        "  many: {kind: text, read: {format: jsonl, paths: [in], part_bytes: 1}}\nsteps: []\n"
    )
    mill = Mill(load(recipe))
    mill.executor = lambda *_: MakesUp(mill.store)  # type: ignore[method-assign]
    made = mill.run(None, Silent())
    assert sum(document.part.rows for document in made.documents["many"]) == DOCUMENTS
    stored = made.states[f"many/{INDEX}"].stored_bytes
    yield measurement("lookup.documents", DOCUMENTS, "documents")
    yield measurement("lookup.stored", stored / DOCUMENTS, "bytes of the index a document, with what was sent to it")
    yield measurement("lookup.build", 1e6 * cpu(made, INDEX) / DOCUMENTS, "µs of CPU a document")
    store = str(folder / "store")
    draw = random.Random(5)
    rows = [draw.randrange(DOCUMENTS) for _ in range(LOOKUPS)]
    yield timed("lookup.doc_id", store, [{"doc_id": ids_of(row, 1)[0].tobytes().hex()} for row in rows])
    yield timed("lookup.url", store, [{"url": url_of(row)} for row in rows])
    yield timed("lookup.domain", store, [{"domain": f"site{row // PER_HOST}.example"} for row in rows], PER_HOST)
    yield timed("lookup.absent", store, [{"url": f"https://nowhere{row}.example/"} for row in rows], 0)
    yield command(store, url_of(rows[0]))


def timed(name: str, store: str, questions: list[dict[str, str]], wanted: int = 1) -> dict:
    """The median time of a look-up, starting from the record of the run; the unit contains the slowest."""
    seconds = []
    for question in questions:
        begun = time.perf_counter()
        found = find(see(Store(store), "many"), **question)  # type: ignore[arg-type]
        seconds.append(time.perf_counter() - begun)
        assert len(found) == wanted, question
    return measurement(name, statistics.median(seconds), f"s, the slowest {max(seconds):.2f} (goal: under 1)")


def command(store: str, url: str) -> dict:
    """The same as a user types it: the whole history of the document, and the versions that contain it."""
    typed = [sys.executable, "-m", "gristmill", "lineage", f"{store}@many", url]
    begun = time.perf_counter()
    subprocess.run(typed, check=True, capture_output=True)
    return measurement("lookup.command", time.perf_counter() - begun, "s for gristmill lineage, its start included")


def share_of_index(data: Path, folder: Path) -> dict:
    """Runs a recipe for the web over real pages."""
    recipe, good = folder / "web.yaml", folder / "good.jsonl"
    good.write_text("".join(json.dumps({"text": text}) + "\n" for text in itertools.islice(made_up_texts(), 200)))
    recipe.write_text(
        RECIPE.read_text()
        .replace('"${CRAWL}/*/*.warc.gz"]', f'"{data.resolve()}/**/*.warc.gz"]')
        .replace("${REFERENCE}", str(good))
        + "\ntokenizer:\n  train: {vocab: 16000, sample_bytes: {web: 4MB}}\n"
        + "shards: {seq_len_tokens: 2048, shard_tokens: 500k}\n"
    )
    made = Mill(load(recipe, store=str(folder / "web-store"))).run(1, Silent())
    whole = sum(cpu(made, node.name) for node in {node.name: node for node in made.nodes.values()}.values())
    return measurement("lookup.share_of_index", 100 * cpu(made, INDEX) / whole, "% of the CPU of a run (goal: up to 5)")


def cpu(made: Run, name: str) -> float:
    """CPU seconds of the steps with a name, without compilation."""
    costs = [made.states[node.id].cost for node in made.nodes.values() if node.name == name]
    return sum(cost.get("cpu_s", 0.0) - cost.get("compile_s", 0.0) for cost in costs)


class MakesUp(InlineExecutor):
    """Answers a read task with generated documents, and runs all other tasks."""

    async def run(self, task: Task) -> Result:
        if isinstance(task.work, Preview):
            return Result(values=[0, []])
        if not isinstance(task.work, Read):
            return await super().run(task)
        await asyncio.sleep(0)
        number = int(Path(task.work.pieces[0].name).stem)
        first = number * PART_ROWS
        rows = min(PART_ROWS, DOCUMENTS - first)
        writer = PartWriter(SCHEMA, str(number).encode())
        for start in range(first, first + rows, GROUP_ROWS):
            writer.write(batch_of(start, min(GROUP_ROWS, first + rows - start)))
        mark = writer.rows_hash
        counts = {"rows": rows, "bytes_in": 0, "bytes_out": 0, "dropped": {}, "repeated_keys": 0, "mended": 0}
        cost = {"cpu_s": 0.0, "wall_s": 0.0, "compile_s": 0.0, "peak_rss_bytes": 0, "input_bytes": 0, "input_pieces": 1}
        return Result([writer.close(self._store)], rows_hashes=[mark], metrics=counts, cost={**cost, "first": False})


def batch_of(first: int, rows: int) -> pa.RecordBatch:
    """Documents of a few words each."""
    numbers = range(first, first + rows)
    texts = [
        f"{WORDS[n % 12]} {WORDS[n // 12 % 12]} {WORDS[n // 144 % 12]} of page {n} and the {n % 977}" for n in numbers
    ]
    columns = {
        "doc_id": pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), rows, [None, pa.py_buffer(ids_of(first, rows))]),
        "source": pa.array(["many"] * rows),
        "locator": pa.array([f"{n // PART_ROWS:05}.jsonl#{n}" for n in numbers]),
        "url": pa.array([url_of(n) for n in numbers]),
        "text": pa.array(texts),
        "text_bytes": pa.array([len(text) for text in texts], pa.int64()),
        "html_bytes": pa.array([0] * rows, pa.int64()),
    }
    arrays = [columns[field.name] if field.name in columns else pa.nulls(rows, field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def ids_of(first: int, rows: int) -> np.ndarray:
    """Ids that are spread as evenly as those of readers."""
    numbers = np.arange(first, first + rows, dtype=np.uint64)
    halves = np.stack(
        [(numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15), numbers * np.uint64(0xD1342543DE82EF95)]
    )
    return np.ascontiguousarray(halves.T.astype(">u8")).view(np.uint8)


def url_of(row: int) -> str:
    return f"https://www.site{row // PER_HOST}.example/pages/{row}.html"

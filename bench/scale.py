"""The cost of the coordinator itself for a corpus of many parts: memory, CPU per task, and a run that finds all done.

The coordinator, the keys and the store are real. The executor answers at once with made-up results of realistic size.
Parts are files of the right size without content, and exchange files have real segment tables. Every run has its own
process. The recipe is recipes/web.yaml with a tokenizer and shards of 16 million tokens per part, so that 62,500 parts
are a trillion tokens in 16,384 shards. One run is killed half-way, and the next one continues it.
"""

import hashlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.inputs import measurement, scratch
from gristmill.checked import BLOCK_BYTES, Content
from gristmill.engine.executors.executor import StartWorker
from gristmill.engine.mill import Mill, Silent
from gristmill.engine.schedule.shuffle import RANGES
from gristmill.engine.work.exchange import COARSE
from gristmill.engine.work.task import (
    Build,
    Collect,
    Emit,
    FitWork,
    Gather,
    Hash,
    MapWork,
    Merge,
    Preview,
    Read,
    Reduce,
    Result,
    Scatter,
    Task,
    sent,
)
from gristmill.recipe.load import load
from gristmill.stages.contract import Resources
from gristmill.store.seal import seal
from gristmill.store.segments import ROW, SegmentFile
from gristmill.store.store import Part, Store, Verdicts

PARTS = int(os.environ.get("PARTS", "2500"))
"""The full size, 4 TB of text in parts of 64 MB, would be 62,500 parts and take most of an hour."""
FILE_BYTES = 12_000_000
"""The size of a compressed crawl file, which becomes one part."""
ROWS = 9_000
RECORD_BYTES = 70
PART_TOKENS = 16_000_000
UNTIL = "shards"
KILLED = 9
MEASURED = 101
"""One in this many made-up results is timed, because reading the clock costs as much as making one up."""
ROOT = Path(__file__).parents[1]
SMALL: dict[str, object] = {"PARTS": 2}
"""The constants that set its size, for its test."""


def run(data: Path | None) -> Iterable[dict]:
    """Four runs: one killed half-way, one that continues it, one fully cached, and one of twice the size without the
    kill.
    """
    with scratch() as folder:
        recipe = _project(folder / "one", PARTS)
        tasks = _child(recipe, PARTS, stop_after=PARTS * 6)["executed"]
        first = _child(recipe, PARTS)
        cached = _child(recipe, PARTS)
        assert cached["executed"] == 0
        assert tasks > 0
    with scratch() as folder:
        twice = _child(_project(folder, 2 * PARTS), 2 * PARTS)
    each = 1e3 * first["coordinator_s"] / first["executed"]
    yield measurement("scale.tasks", first["tasks"], f"tasks of {PARTS:,} parts, {tasks:,} of them before a kill")
    yield measurement("scale.memory", first["peak_mb"], "MB in the coordinator (goal: 2000)")
    yield measurement("scale.cpu", each, "ms of CPU a task (goal: 0.5)")
    yield measurement("scale.cached_run", cached["wall_s"], "s for a run that finds all done (goal: 60)")
    yield measurement("scale.cached_memory", cached["peak_mb"], "MB in that run")
    ratio = twice["peak_mb"] / first["peak_mb"]
    yield measurement("scale.memory_twice", ratio, f"x the memory at {2 * PARTS:,} parts (goal: 1.6)")


def _project(folder: Path, parts: int) -> Path:
    """Writes the recipe and its inputs, which are files of the right size without content."""
    (folder / "crawl" / "2026-01").mkdir(parents=True)
    for number in range(parts):
        path = folder / "crawl" / "2026-01" / f"{number:07}.warc.gz"
        path.touch()
        os.truncate(path, FILE_BYTES)
    (folder / "reference.jsonl").write_text('{"text": "The miller grinds the corn."}\n')
    text = (ROOT / "recipes" / "web.yaml").read_text().replace("${CRAWL}", str(folder / "crawl"))
    text = text.replace("${REFERENCE}", str(folder / "reference.jsonl"))
    text = text.replace("${STORE:-./store}", str(folder / "store"))
    tokenizer = "\ntokenizer: {train: {vocab: 128000, sample_bytes: {web: 1GB}}}\nshards: {seq_len_tokens: 8192}\n"
    (folder / "web.yaml").write_text(text + tokenizer)
    return folder / "web.yaml"


def _child(recipe: Path, parts: int, stop_after: int = 0) -> dict:
    command = [sys.executable, "-m", "bench.scale", str(recipe), str(parts), str(stop_after)]
    path = os.pathsep.join([str(ROOT), *sys.path])
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    if done.returncode not in (0, KILLED):
        raise RuntimeError(done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


class MadeUp:
    """An executor whose results look as if the work had been done."""

    slots = 64
    several_machines = False

    def __init__(self, store: Store, stop_after: int) -> None:
        self._store = store
        self._stop_after = stop_after
        self._known = Path(store.root).with_name("marks")
        """The markers of the parts that were read, in this run or before."""
        self._marks = self._known.read_text().split() if self._known.exists() else []
        self._numbers = np.zeros(0, np.uint64)
        self._coarse = self._entries = 0
        self._layout: object = None
        self.executed = 0
        self.own_s = 0.0

    async def run(self, task: Task) -> Result:
        measured = self.executed % MEASURED == 0
        begun = time.process_time() if measured else 0.0
        result = self._answer(task)
        self.executed += not isinstance(task.work, Hash | Preview)
        if self._stop_after and self.executed == self._stop_after:
            print(json.dumps({"executed": self.executed}), flush=True)
            os._exit(KILLED)
        self.own_s += MEASURED * (time.process_time() - begun) if measured else 0.0
        return result

    def _answer(self, task: Task) -> Result:
        work, mark = task.work, hashlib.sha256(task.key.encode()).hexdigest()
        cost = {"cpu_s": 1.5, "wall_s": 1.6, "peak_rss_bytes": 4e8}
        metrics = {"rows": ROWS, "dropped": {"too_short": 120, "boilerplate": 35}, "bytes_in": 64e6, "bytes_out": 9e6}
        if isinstance(work, Hash):
            return Result(values=[_content(place.path) for place in work.places])
        if isinstance(work, Preview):
            return Result(values=[0, []])
        if isinstance(work, Read):
            self._marks.append(mark)
            with self._known.open("a") as file:
                file.write(f"{mark}\n")
            return Result([self._layer(mark, 11_000)], [], [mark], metrics, cost)
        if isinstance(work, Emit):
            return self._sent(mark, np.arange(RANGES), ROWS * RECORD_BYTES, cost)
        if isinstance(work, Scatter):
            self._coarse = work.shift
            if work.layout is not self._layout:  # counting its entries would take longer than everything else here
                self._layout, self._entries = work.layout, len(work.layout.entries())
            return self._sent(mark, np.arange((self._entries - 1 >> work.shift) + 1), 4 * PART_TOKENS, cost)
        if isinstance(work, Merge):
            return self._sent(mark, self._destinations(work), 100_000_000, cost)
        if isinstance(work, Reduce):
            exact = work.column == "part" and not work.shift
            return self._sent(mark, self._places(0, 2**64) if exact else np.arange(RANGES), 50_000_000, cost)
        if isinstance(work, Build):
            return Result([self._part(mark, 90_000, "bin")], metrics={"documents": 9, "tokens": 2**26}, cost=cost)
        if isinstance(work, MapWork) and work.module.endswith("shard_groups"):
            source = work.config.source
            metrics["groups"] = {source: {source: {"documents": ROWS, "tokens": PART_TOKENS}}}
        if isinstance(work, MapWork) and work.module.endswith("corpus"):
            metrics["funnel"] = {"read": {"rows": ROWS}, "first": {}, "kept": {"rows": ROWS}}
        if isinstance(work, MapWork | Collect | FitWork | Gather):
            return Result([self._layer(mark, 9_000)], [], [mark], {**metrics, "rows_sent": ROWS}, cost)
        raise TypeError(f"nothing is made up for {type(work).__name__}")

    def _destinations(self, work: Merge) -> np.ndarray:
        if work.column == "part":
            return self._places(work.first << COARSE, (work.last + 1) << COARSE)
        if work.keeps:
            finer = COARSE - work.shift
            return np.arange(work.first << finer, (work.last + 1) << finer)
        return np.arange(work.first << self._coarse, min((work.last + 1) << self._coarse, self._entries))

    def _places(self, first: int, stop: int) -> np.ndarray:
        """The numbers of parts in a range."""
        if len(self._numbers) < len(self._marks):
            self._numbers = np.sort(np.array([int(one[:16], 16) for one in self._marks], np.uint64))
        begin = np.searchsorted(self._numbers, np.uint64(first))
        end = np.searchsorted(self._numbers, np.uint64(stop - 1), "right")
        return self._numbers[begin:end]

    def _sent(self, mark: str, destinations: np.ndarray, memory: int, cost: dict[str, float]) -> Result:
        """Writes a file of the right size, empty except for the table at its end."""
        table = np.zeros(len(destinations), ROW)
        table["to"] = destinations
        table["length"], table["memory"], table["rows"] = 1000, memory // max(1, len(table)), 12
        hashes = np.frombuffer(hashlib.shake_128(mark.encode()).digest(32 * len(table)), "V32")
        table["hash"] = hashes
        data = table.tobytes()
        part = self._part(mark, 1000 * len(table) + len(data), "segments", data)
        file = SegmentFile(part, len(table), hashlib.sha256(data).hexdigest())
        metrics = {"rows_sent": ROWS, "records": ROWS, "answers": ROWS}
        return sent([file], rows_hashes=[mark], metrics=metrics, cost=cost)

    def _layer(self, mark: str, size: int) -> Part:
        beside = self._part(hashlib.sha256(mark.encode()).hexdigest(), 2_500, "verdicts")
        return replace(self._part(mark, size), verdicts=Verdicts(beside.hash, beside.file_bytes, mark[:32]))

    def _part(self, mark: str, size: int, suffix: str = "parquet", end: bytes = b"") -> Part:
        part = Part(mark, suffix, size, ROWS, 8_000_000)
        path = self._store.part_path(part)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.truncate(size)
            if end:
                file.seek(size - len(end))
                file.write(end)
        seal(path, mark)
        return part

    @asynccontextmanager
    async def alone(self, needs: Resources) -> AsyncIterator[StartWorker]:
        raise RuntimeError("no worker dies here")
        yield

    def close(self) -> None:
        return


def _content(path: str) -> Content:
    blocks = -(-FILE_BYTES // BLOCK_BYTES)
    return Content(hashlib.sha256(path.encode()).hexdigest(), FILE_BYTES, bytes(16 * blocks))


def main(recipe: str, parts: int, stop_after: int) -> None:
    mill = Mill(load(Path(recipe)), UNTIL)
    executor = MadeUp(mill.store, stop_after)
    mill.executor = lambda *_: executor  # type: ignore[method-assign, assignment]
    begun, cpu = time.perf_counter(), time.process_time()
    made = mill.run(None, Silent()).states
    result = {
        "executed": executor.executed,
        "tasks": sum(len(one.tasks) for one in made.values()),
        "coordinator_s": time.process_time() - cpu - executor.own_s,
        "wall_s": time.perf_counter() - begun,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

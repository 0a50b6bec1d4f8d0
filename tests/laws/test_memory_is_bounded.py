"""Law 5: memory is bounded by the part, not the corpus, in workers, for every kind of task, and in the coordinator."""

import json
import os
import random
import subprocess
import sys
import tracemalloc
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from bench import scale
from gristmill.engine.mill import Mill, Silent
from gristmill.engine.schedule import shuffle, tables
from gristmill.recipe.load import load

MB = 1 << 20
STEPS = """
  - stagebox.length
  - stagebox.shipped
  - stagebox.vocabulary
  - stagebox.weigh
  - stagebox.bundle: {per_bundle: 500}
"""
KINDS = {"Read", "MapWork", "Emit", "Merge", "Reduce", "Collect", "FitWork", "Scatter", "Build", "Gather"}
TEXT_BYTES = 2000
MOST_A_TASK = 450
"""Bytes per task in the coordinator, with all state per part and file: 260 here; a waiting coroutine is thousands."""


class Peaks(Silent):
    """A listener that records the number of tasks of each kind and the largest memory of any of them."""

    def __init__(self):
        super().__init__()
        self.tasks, self.peaks = Counter(), defaultdict(int)

    def done(self, node, task, result, cached):
        kind = type(task.work).__name__
        self.tasks[kind] += 1
        self.peaks[kind] = max(self.peaks[kind], result.cost["peak_rss_bytes"])


@pytest.fixture
def small_bounds(monkeypatch):
    """Set the coordinator's limits as small for these inputs as the real limits are for a crawl."""
    monkeypatch.setattr(shuffle, "FEW_FILES", 8)
    monkeypatch.setattr(shuffle, "FEW_SEGMENTS", 64)
    monkeypatch.setattr(shuffle, "LEAST_BYTES", MB)
    monkeypatch.setattr(shuffle, "MOST_BYTES", MB)
    monkeypatch.setattr(shuffle, "MERGED_BYTES", 2 * MB)


def write_texts(project, texts):
    """Write distinct texts of few words to one file."""
    words = [f"{word}{number}" for word in ("mill", "grain", "stone", "water") for number in range(10)]
    draw = random.Random(4)
    for path in (project.folder / "in").iterdir():
        path.unlink()
    with (project.folder / "in" / "big.jsonl").open("w") as file:
        for number in range(texts):
            shift = draw.randrange(len(words))
            text = " ".join([*words[shift:], *words[:shift]]) + f" {number} "
            file.write(json.dumps({"text": text * (TEXT_BYTES // len(text))}) + "\n")


@pytest.mark.slow
@pytest.mark.usefixtures("small_bounds")
def test_four_times_the_input_takes_the_same_memory_in_every_kind_of_task(project):
    """Uses real workers: a file that is cut into parts, an exchange that ships its texts, a model, and a sink.

    If a worker kept the whole corpus, one four times as large would take a few hundred megabytes more.
    """
    project.write_recipe(STEPS)
    project.recipe.write_text(project.recipe.read_text().replace("4KB", "1MB"))
    found = []
    for texts in (5_000, 20_000):
        write_texts(project, texts)
        found.append(Peaks())
        project.mill(store=str(project.folder / f"store{texts}")).run(1, found[-1])
    small, large = found
    assert set(small.peaks) - {"Hash"} == set(large.peaks) - {"Hash"} == KINDS
    for kind in KINDS - {"FitWork", "Gather"}:
        assert large.tasks[kind] >= 3 * small.tasks[kind], f"{kind}: not more is done at a time, but more often"
    for kind in KINDS:
        assert large.peaks[kind] < 1.1 * small.peaks[kind], kind


def coordinator_peaks(folder):
    """The peak memory of the coordinator in bytes, and its number of tasks, in runs of 2, 18 and 54 parts."""
    shuffle.FEW_FILES, shuffle.FEW_SEGMENTS, shuffle.FAN_OUT = 16, 256, 64
    tables.RECENT = 16
    scale.MadeUp.slots = 2
    found = []
    for parts in (2, 18, 54):
        mill = Mill(load(scale._project(folder / str(parts), parts)), scale.UNTIL)
        executor = scale.MadeUp(mill.store, 0)
        mill.executor = lambda *_, executor=executor: executor
        tracemalloc.start()
        run = mill.run(None, Silent())
        held = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        found.append((held, sum(len(state.tasks) for state in run.states.values())))
    return found


@pytest.mark.slow
def test_the_coordinator_holds_a_few_hundred_bytes_for_each_task(tmp_path):
    """Simulates a crawl with recipes/web.yaml, a tokenizer and shards; a fake executor answers at once.

    The window of parts and the tables of an exchange are full with 18 parts already; the first run, with two parts,
    loads modules and their caches. It needs a fresh process: after many other tests, Python's table of interned strings
    may grow by megabytes at any moment.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.check_output([sys.executable, __file__, tmp_path], env=environment)
    _, (held, tasks), (most_held, most_tasks) = json.loads(found)
    assert most_tasks > 1.5 * tasks
    assert most_held - held < MOST_A_TASK * (most_tasks - tasks)


if __name__ == "__main__":
    print(json.dumps(coordinator_peaks(Path(sys.argv[1]))))

"""The cost of the engine itself: per task, per worker, and to find that there is nothing to do.

- `engine.task_overhead`: many tiny tasks on one worker; the wall time per task that is not inside a task.
- `engine.scaling`: the same CPU-bound work (extraction) with one worker and with two.
- `engine.cached_run`: a second run of the same recipe in a new process, as a user would type it.
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from bench.inputs import made_up_texts, measurement, scratch, warc_files
from gristmill.engine.mill import Mill, Silent
from gristmill.recipe.load import load

TINY_PARTS = 300


def run(data: Path | None) -> Iterable[dict]:
    with scratch() as folder:
        yield from task_overhead(folder)
        yield from scaling(data, folder)


def task_overhead(folder: Path) -> Iterable[dict]:
    texts = made_up_texts()
    (folder / "tiny").mkdir()
    for number in range(TINY_PARTS):
        (folder / "tiny" / f"{number:04}.jsonl").write_text(json.dumps({"text": next(texts)}) + "\n")
    recipe = folder / "tiny.yaml"
    recipe.write_text(
        "recipe: tiny\nsources:\n  tiny: {kind: text, read: {format: jsonl, paths: [tiny], part_bytes: 1KB}}\n"
        "steps: [extract]\n"
    )
    seconds, run = timed(recipe, folder / "tiny-store", 1)
    tasks = sum(len(made.executed) for made in run.states.values())
    inside = sum(made.cost["wall_s"] for made in run.states.values())
    yield measurement("engine.task_overhead", 1e3 * (seconds - inside) / tasks, "ms a task (goal: under 5)")
    yield measurement("engine.tiny_task", 1e3 * inside / tasks, "ms inside a task")
    command = [sys.executable, "-m", "gristmill.cli.main", "run", str(recipe), "--store", str(folder / "tiny-store")]
    begun = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    yield measurement("engine.cached_run", time.perf_counter() - begun, f"s for {tasks} cached tasks")


def scaling(data: Path | None, folder: Path) -> Iterable[dict]:
    """Copies every file four times under other names, so that there are enough parts for the workers."""
    (folder / "crawl").mkdir()
    for path in warc_files(data, folder):
        for copy in range(4):
            shutil.copyfile(path, folder / "crawl" / f"{copy}-{path.parent.name}-{path.name}")
    recipe = folder / "crawl.yaml"
    recipe.write_text(
        "recipe: crawl\nsources:\n  crawl: {kind: web, read: {format: warc, paths: [crawl], part_bytes: 8MiB}}\n"
        "steps:\n  web: [extract]\n"
    )
    one, _ = timed(recipe, folder / "one", 1)
    two, _ = timed(recipe, folder / "two", 2)
    yield measurement("engine.two_workers", one / two, "x one worker (goal: at least 1.8)", "one worker", 1.0)


def timed(recipe: Path, store: Path, workers: int):  # type: ignore[no-untyped-def]
    begun = time.perf_counter()
    run = Mill(load(recipe, store=str(store))).run(workers, Silent())
    return time.perf_counter() - begun, run

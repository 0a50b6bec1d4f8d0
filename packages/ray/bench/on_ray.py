"""The Ray executor on a cluster on this machine: the cost of a task, and a whole run next to local.

- `on_ray.task_overhead`: tasks with almost nothing to do, on two nodes of one core.
- `on_ray.whole_run`: a whole run of tasks of two seconds that compute nothing, from start to end.

A cluster is a head without cores and nodes of one core, all of them processes here (`ray.cluster_utils.Cluster`).
"""

import asyncio
import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.inputs import made_up_texts, measurement, scratch

from gristmill.engine.mill import Mill, Silent, make_executor
from gristmill.engine.work.task import Hash, Task
from gristmill.places import FileLocation
from gristmill.recipe.load import load
from gristmill.store.store import Store

TASKS = 500
PARTS = 60
"""The parts of the run with tasks of two seconds."""
TASK_S = 2.0
"""The seconds that each of these tasks waits."""
NODES = 2
"""Nodes of one core each; local runs have the same number of workers."""
NODE = {"num_cpus": 1, "memory": 3 << 30, "object_store_memory": 80 << 20}
WAITING = """
import time


def wait(text, seconds=0.0):
    time.sleep(seconds)
    return True
"""
SRC = Path(__file__).parents[3] / "src"
SMALL: dict[str, object] = {"NODES": 1, "TASKS": 5, "PARTS": 1, "TASK_S": 0.0}
"""The constants that set its size, for its test."""


def run(data: Path | None) -> Iterable[dict]:
    try:
        import ray  # noqa: F401
    except ImportError:
        yield measurement("on_ray: skipped, Ray is not installed (packages/ray)", 0, "")
        return
    with scratch() as folder, _cluster() as cluster:
        yield from task_overhead(folder, cluster.address)
        yield from whole_run(folder / "whole", cluster.address)


@contextmanager
def _cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "object_store_memory": 80 << 20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(NODES):
            cluster.add_node(**NODE)
        yield cluster
    finally:
        cluster.shutdown()


def task_overhead(folder: Path, address: str) -> Iterable[dict]:
    (folder / "grain").write_text("grain")
    task = Task("", "inputs", "hashing", Hash((FileLocation(str(folder / "grain")),)))

    async def work(executor: Any) -> float:
        await asyncio.gather(*(executor.run(task) for _ in range(20)))
        begun = time.perf_counter()
        done = await asyncio.gather(*(executor.run(task) for _ in range(TASKS)))
        inside = sum(result.cost["wall_s"] for result in done)
        return 1e3 * (time.perf_counter() - begun - inside / NODES) / TASKS

    found = {}
    for name, workers in (("local", NODES), ("ray", None)):
        executor = make_executor(Store(str(folder / "tiny")), workers, name=name, address=address)
        found[name] = asyncio.run(work(executor))
        executor.close()
    unit = f"ms a task with {NODES} workers (goal: at most 10)"
    yield measurement("on_ray.task_overhead", found["ray"], unit, "local", found["local"], less=True)


def whole_run(folder: Path, address: str) -> Iterable[dict]:
    recipe = _recipe(folder, PARTS, f"waiting.wait: {{seconds: {TASK_S}}}", 1)
    seconds = {}
    for name, workers in (("local", NODES), ("ray", None)):
        begun = time.perf_counter()
        mill = Mill(load(recipe, store=str(folder / name)), executor=name, address=address if name == "ray" else None)
        mill.run(workers, Silent())
        seconds[name] = time.perf_counter() - begun
    unit = f"s for {PARTS} tasks of {TASK_S:g} s with {NODES} workers (goal: within 10% of local)"
    yield measurement("on_ray.whole_run", seconds["ray"], unit, "local", seconds["local"], less=True)


def _recipe(folder: Path, files: int, step: str, records: int) -> Path:
    folder.mkdir()
    texts = made_up_texts()
    for number in range(files):
        lines = [json.dumps({"id": f"{number}-{n}", "text": next(texts)[:2000]}) for n in range(records)]
        (folder / f"{number:04}.jsonl").write_text("\n".join(lines))
    (folder / "waiting.py").write_text(WAITING)
    path = folder / "recipe.yaml"
    path.write_text(
        "recipe: waits\nstore: ./store\nsources:\n"
        "  notes: {kind: text, read: {format: jsonl, paths: ['*.jsonl'], part_bytes: 1KB, fields: {key: id}}}\n"
        f"steps:\n  - {step}\n  - exact_dedup\n  - near_dedup: {{scope: global}}\n"
    )
    return path

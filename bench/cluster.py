"""A simulated cluster that loses machines: the share of its time that goes into results, by a virtual clock.

The coordinator is the real one: frontier, keys, store, retries of lost tasks, second runs of stragglers. The executor
makes up results (`scale.py`) and takes as long for them, by its own clock, as tasks on parts of 64 MB take. Nodes are
lost at random with all their running tasks and come back; some may be slow. A trillion tokens on 1,000 nodes of 16
cores are two million tasks, which take the coordinator of a small machine most of an hour. So the bench runs a tenth of
both: the virtual time is the same, and one lost node every five minutes is ten times as large a share of the cluster.
"""

import asyncio
import hashlib
import heapq
import itertools
import json
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench._virtual_clock import VirtualLoop
from bench.inputs import measurement, scratch
from bench.scale import ROOT, UNTIL, MadeUp, _project
from gristmill.engine.executors.executor import WorkerDied
from gristmill.engine.mill import Mill, Silent
from gristmill.engine.work.needs import bytes_read
from gristmill.engine.work.task import (
    Build,
    Collect,
    Emit,
    FitWork,
    Gather,
    Hash,
    Merge,
    Preview,
    Read,
    Reduce,
    Result,
    Scatter,
    Task,
)
from gristmill.recipe.load import load
from gristmill.store.store import Store

PARTS, NODES, CORES = 6_250, 100, 16
"""A tenth of 62,500 parts of 16 million tokens, and of 1,000 nodes."""
TOKENS = PARTS * 16_000_000
LOSSES = (
    ("5_minutes", 300, 0.0, 1),
    ("none", 0, 0.0, 1),
    ("15_seconds", 15, 0.0, 1),
    ("slow_nodes", 300, 0.02, 1),
    ("slow_nodes_waited_for", 300, 0.02, 0),
)
"""Name, average seconds between two losses, the share of slow nodes, and whether stragglers are run twice."""
BACK_S = 300.0
"""Seconds until a lost node is replaced."""
SLOW_TIMES = 8.0
"""How many times longer a slow node takes."""
SECONDS = {Read: 6.0, Emit: 4.0, Merge: 4.0, Collect: 1.0, Scatter: 3.0, Build: 20.0, FitWork: 60.0, Gather: 10.0}
"""Seconds of a task by its kind, for 64 MB of text."""
REDUCED_PER_S, REDUCE_S = 15e6, 0.5
"""Bytes per second of a reducer, and its minimum in seconds."""
MAPS = {"extract": 20.0, "language": 8.0, "signals": 10.0, "tokens": 6.0}
MAP = 2.0
SPREAD = 0.3
"""Standard deviation of the logarithm of the task times of one kind."""


def run(data: Path | None) -> Iterable[dict]:
    """Runs with one node lost every five minutes (the goal), none, one every 15 seconds, and slow nodes with and
    without second runs.
    """
    for name, *how in LOSSES:
        with scratch() as folder:
            cost = _child(_project(folder, PARTS), *map(str, how))
        unit = (
            f"of {NODES} x {CORES} cores' time in results, {TOKENS / 1e12:g}T tokens: {cost['tasks']:,} tasks, "
            f"{cost['virtual_s'] / 60:.1f} min by the clock, {cost['nodes_lost']} nodes and {cost['tasks_lost']} tasks "
            f"lost, {cost['second_runs']} second runs; here {cost['wall_s']:.0f} s, {cost['peak_mb']:.0f} MB"
        )
        yield measurement(f"cluster.efficiency_{name}", cost["efficiency"], unit)


def _child(recipe: Path, *how: str) -> dict:
    sizes = map(str, (NODES, CORES))
    command = [sys.executable, "-m", "bench.cluster", str(recipe), *sizes, *how]
    path = os.pathsep.join([str(ROOT), *sys.path])
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


class Simulated(MadeUp):
    """An executor that simulates nodes with cores, on which tasks take virtual time."""

    def __init__(self, store: Store, nodes: int, cores: int, lost_every_s: float, slow: float, twice: bool) -> None:
        super().__init__(store, 0)
        self.slots = nodes * cores
        self.several_machines = twice
        self._draw, self._moments = random.Random(0), random.Random(1)
        self._lost_every_s = lost_every_s
        self._slow = set(self._draw.sample(range(nodes), round(slow * nodes)))
        self._free = [(node, core) for core in range(cores) for node in range(nodes)]
        self._draw.shuffle(self._free)
        self._down: set[int] = set()
        self._cores = cores
        self._at: dict[int, set[asyncio.Future[None]]] = {node: set() for node in range(nodes)}
        self._waiting: list[tuple[Any, int, asyncio.Future[tuple[int, int]]]] = []
        self._counter = itertools.count()
        self._losses: asyncio.Task[None] | None = None
        self.useful_s = self.ended_s = 0.0
        self.nodes_lost = self.tasks_lost = 0
        self._done: set[str] = set()
        self.second_runs = 0

    async def run(self, task: Task) -> Result:
        if isinstance(task.work, Hash | Preview):
            return self._answer(task)
        loop = asyncio.get_running_loop()
        if self._losses is None:
            self._losses = loop.create_task(self._lose())
        self.second_runs += task.order == (1,)
        node, core = await self._slot(task.order)
        seconds = _seconds(task)
        took = seconds * (SLOW_TIMES if node in self._slow else 1.0)
        end: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(took, lambda: end.done() or end.set_result(None))
        self._at[node].add(end)
        try:
            await end
        finally:
            timer.cancel()
            self._at[node].discard(end)
            if node not in self._down:
                self._release((node, core))
        if task.key not in self._done:
            self._done.add(task.key)
            self.useful_s += seconds
            self.ended_s = loop.time()
        result = self._answer(task)
        result.cost = {"cpu_s": took, "wall_s": took, "compile_s": 0.0, "peak_rss_bytes": 4e8}
        result.cost["input_bytes"] = bytes_read(task.work)
        self.executed += 1
        return result

    async def _slot(self, order: tuple[int, ...]) -> tuple[int, int]:
        if self._free:
            return self._free.pop()
        waits: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (order, next(self._counter), waits))
        return await waits

    def _release(self, slot: tuple[int, int]) -> None:
        while self._waiting:
            waits = heapq.heappop(self._waiting)[2]
            if not waits.done():
                waits.set_result(slot)
                return
        self._free.append(slot)

    async def _lose(self) -> None:
        """Loses nodes one after the other at random moments."""
        loop = asyncio.get_running_loop()
        while self._lost_every_s:
            await asyncio.sleep(self._moments.expovariate(1 / self._lost_every_s))
            if len(self._down) == len(self._at):
                continue
            node = self._draw.choice(sorted(set(self._at) - self._down))
            self._down.add(node)
            self._free = [slot for slot in self._free if slot[0] != node]
            self.nodes_lost += 1
            for end in list(self._at[node]):
                self.tasks_lost += 1
                end.set_exception(WorkerDied("node down", machine_lost=True))
            loop.call_later(BACK_S, self._come_back, node)

    def _come_back(self, node: int) -> None:
        self._down.discard(node)
        for core in range(self._cores):
            self._release((node, core))


def _seconds(task: Task) -> float:
    """The seconds that a task takes, the same in every run of it."""
    work = task.work
    if isinstance(work, Reduce):
        usual = max(REDUCE_S, bytes_read(work) / REDUCED_PER_S)
    else:
        usual = SECONDS.get(type(work)) or MAPS.get(getattr(work, "module", "").rpartition(".")[2], MAP)
    chance = random.Random(hashlib.sha256(task.key.encode()).digest())
    return usual * chance.lognormvariate(0.0, SPREAD)


class _Policy(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return VirtualLoop()


def main(recipe: str, nodes: int, cores: int, lost_every_s: float, slow: float, twice: bool) -> None:
    mill = Mill(load(Path(recipe)), UNTIL)
    executor = Simulated(mill.store, nodes, cores, lost_every_s, slow, twice)
    mill.executor = lambda *_: executor  # type: ignore[method-assign, assignment]
    asyncio.set_event_loop_policy(_Policy())
    begun = time.perf_counter()
    made = mill.run(None, Silent()).states
    result = {
        "tasks": sum(len(one.tasks) for one in made.values()),
        "efficiency": executor.useful_s / (executor.slots * executor.ended_s),
        "virtual_s": executor.ended_s,
        "nodes_lost": executor.nodes_lost,
        "tasks_lost": executor.tasks_lost,
        "second_runs": executor.second_runs,
        "wall_s": time.perf_counter() - begun,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    recipe, nodes, cores, lost_every_s, slow, twice = sys.argv[1:]
    main(recipe, int(nodes), int(cores), float(lost_every_s), float(slow), twice == "1")

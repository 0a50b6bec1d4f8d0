"""Runs on a two-node Slurm on this machine that loses jobs, nodes and the coordinator during the run.

- `slurm.losses`: jobs cancelled (scancel, of one or of all) and nodes set down, at random moments, over repeated runs.
- `slurm.kills`: the coordinator killed (SIGKILL) and started again, as often, until a run reaches its end.

Every run must end with the hashes of an undisturbed local one, and give no document up. Repeated tasks are reported
next to those that the failures explain: one task for each slot of a lost job, and none that was already finished.
"""

import json
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.inputs import measurement, scratch
from tests.laws.test_chaos import RECIPE, everything, write_inputs
from tests.slurm_cluster import Cluster, missing

EVENTS = 50
KILLS = 50
SECONDS = 240.0
"""The time limit of each of the two. Events that have not happened by then are left out; the bench reports how many
have.
"""
FILES = (6, 3)
"""The number of files of each of the two sources."""
TASKS_BETWEEN = (3, 25)
"""The number of tasks that a run finishes between two losses."""
SMALL: dict[str, object] = {
    "EVENTS": 1,
    "KILLS": 0,
    "FILES": (1, 1),
    "RECIPE": re.sub(r"steps:\n(  - .*\n)+", "steps: []\n", RECIPE),
}
"""The constants that set its size, for its test."""


def run(data: Path | None) -> Iterable[dict]:
    why = missing()
    if why is not None:
        yield measurement(f"slurm skipped: {why}", 0, "")
        return
    with scratch() as folder:
        cluster = Cluster(folder / "slurm").start()
        trial = _Trial(cluster, folder, random.Random(12))
        try:
            yield from _measure(trial, folder)
        finally:
            if trial.process is not None:  # otherwise it would request jobs forever
                trial.process.kill()
                trial.process.wait()
            cluster.stop()


def _measure(trial: "_Trial", folder: Path) -> Iterator[dict]:
    write_inputs(folder, seed=8, files=FILES)
    (folder / "recipe.yaml").write_text(RECIPE)
    (folder / "profile.yaml").write_text(f"jobs: 2\nsbatch: {{output: {folder}/logs/%A_%a.log}}\n")
    trial.command("--workers", "2").wait()
    wanted = everything(folder / "recipe.yaml")
    tasks = trial.tasks()
    for name, events, disturb in (("losses", EVENTS, trial.lose), ("kills", KILLS, trial.kill)):
        begun, runs, done = time.perf_counter(), 0, 0
        trial.retried = trial.repeated = 0
        trial.until = begun + SECONDS
        while done < events and time.perf_counter() < trial.until:
            shutil.rmtree(folder / "store")
            done += trial.one_run(disturb, events - done)
            runs += 1
            if everything(folder / "recipe.yaml") != wanted or trial.tasks() != tasks:
                raise AssertionError(f"{name}: other bytes, or not all of them, after {done} events")
        yield measurement(f"slurm.{name}", done, f"in {runs} runs of {tasks} tasks, the same bytes after each")
        if name == "losses":
            yield measurement(f"slurm.{name}.tasks", trial.retried, f"tasks that went with jobs (at most {2 * done})")
        yield measurement(f"slurm.{name}.repeated", trial.repeated, "finished tasks that were done again (goal: 0)")
        yield measurement(f"slurm.{name}.time", time.perf_counter() - begun, "s")


class _Trial:
    """Runs the recipe and takes away what it runs on."""

    def __init__(self, cluster: Cluster, folder: Path, draw: random.Random) -> None:
        self.cluster = cluster
        self.folder = folder
        self.draw = draw
        self.process: subprocess.Popen[str] | None = None
        self.retried = self.repeated = 0
        self.until = 0.0
        """The time after which nothing more is taken away."""

    def command(self, *options: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "gristmill", "run", str(self.folder / "recipe.yaml"), "--json", *options]
        with open(self.folder / "output", "w") as output, open(self.folder / "errors", "w") as errors:
            self.process = subprocess.Popen(
                words, env=self.cluster.environment, stdout=output, stderr=errors, text=True
            )
        return self.process

    def tasks(self) -> int:
        return len(list((self.folder / "store" / "tasks").glob("*.json")))

    def one_run(self, disturb, most: int) -> int:
        """Runs from an empty store to the end; returns how often the run was disturbed."""
        events = 0
        while True:
            before = self.tasks()
            self.command("--executor", "slurm", "--profile", str(self.folder / "profile.yaml"))
            while self._goes_on():
                if events < most and time.perf_counter() < self.until:
                    events += disturb()
            errors = (self.folder / "errors").read_text()
            self.retried += errors.count("trying again")
            if self.process.returncode == -9:
                continue
            if self.process.returncode != 0 or "Traceback" in errors:
                raise AssertionError(errors)
            summary = json.loads((self.folder / "output").read_text())
            if summary["given_up"]:
                raise AssertionError(summary["given_up"])
            executed = sum(stage["executed"] for stage in summary["stages"])
            self.repeated += executed + before - self.tasks()
            return events

    def _goes_on(self) -> bool:
        """Waits until the run has finished some more tasks; returns false when the run has ended."""
        wanted = self.tasks() + self.draw.randint(*TASKS_BETWEEN)
        while self.process.poll() is None and self.tasks() < wanted:
            time.sleep(0.02)
        return self.process.poll() is None

    def lose(self) -> int:
        running = [(job, node) for job, _, state, node in self.cluster.jobs() if state == "RUNNING"]
        if not running:
            return 0
        job, node = self.draw.choice(running)
        match self.draw.choices(["job", "all", "node"], [3, 1, 2])[0]:
            case "job":
                self.cluster.command("scancel", job, check=False)
            case "all":
                self.cluster.command("scancel", "-n", "gristmill-chaos", check=False)
            case "node":
                self.cluster.set_down(node)
                self.cluster.set_up(node)
        return 1

    def kill(self) -> int:
        self.process.kill()
        self.process.wait()
        return 1

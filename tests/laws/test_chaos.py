"""Laws 1, 4 and 9: whatever is killed, however often, the output has the same bytes and no document is given up.

Storms and single kills of workers, fork servers and drivers, more than 300 in all, over a recipe with every exchange,
a tokenizer, shards and a mixture. Memory that is given back to the system at once (a low mmap threshold) makes a kernel
that reads freed memory crash instead of going on. Nothing here waits for a time to pass: a run that was hit is left
alone until it has finished some more tasks, so that the test ends on the slowest machine.
"""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gristmill
from gristmill.engine.executors.early_server import NAME
from gristmill.engine.mill import Mill
from gristmill.recipe.load import load

KILLS = 300
OF_DRIVERS = 10
"""The dearest: each takes a new process some seconds to be where the old one was."""
AT_LEISURE_S = 0.02
"""Between two looks where nobody is about to be killed."""
IMPATIENT = """
from gristmill.engine.executors import trial
trial.PAUSE_S = 0.01
from gristmill.cli.main import main
main()
"""
"""The command, with shorter pauses between trials, which change no verdict."""
TESTS = Path(__file__).parents[1]
WORDS = [a + b + c for a in ("mi", "gra", "sto", "wa", "whe") for b in ("l", "n", "t", "r") for c in ("o", "en", "a")]
RECIPE = """
recipe: chaos
seed: 4
store: ./store
sources:
  crawl:
    kind: web
    read: {format: jsonl, paths: [crawl/*.jsonl], fields: {key: id, url: url}, part_bytes: 24KB}
    domain: web
    tier: B
  notes:
    kind: text
    read: {format: jsonl, paths: [notes/*.jsonl], fields: {key: id, url: url}, part_bytes: 24KB}
    domain: notes
    tier: A
steps:
  - url_dedup
  - exact_dedup
  - line_dedup: {max_count: 3}
  - near_dedup: {scope: global}
  - simhash_dedup: {scope: global}
  - substring_dedup: {min_bytes: 80, scope: global, block: document, block_bytes: 100KB}
tokenizer: {train: {vocab: 512, sample_bytes: {web: 100KB, notes: 100KB}}}
shards: {seq_len_tokens: 256, shard_tokens: 20000}
mix: {tokens: 40k, domains: {web: 0.6, notes: 0.4}, tiers: {A: 2, B: 1}, max_epochs: 50}
"""


def write_inputs(folder, seed, files=(6, 3)):
    """Documents with copies of every kind: the same address, text, lines, nearly the same text, a shared passage."""
    draw = random.Random(seed)
    for source, count in zip(("crawl", "notes"), files, strict=True):
        (folder / source).mkdir()
        texts = []
        for file in range(count):
            lines = []
            for number in range(60):
                text = "\n".join(" ".join(draw.choices(WORDS, k=draw.randint(4, 12))) for _ in range(12))
                kind = draw.randrange(6) if texts else 0
                if kind == 1:
                    text = draw.choice(texts)
                elif kind == 2:
                    text = draw.choice(texts).replace(" ", "  ", 3) + " more"
                elif kind == 3:
                    text += "\n" + draw.choice(texts)[40:400]
                text += "\nread the whole story on our page today" * (draw.random() < 0.2)
                texts.append(text)
                url = f"https://example.org/{draw.randrange(400)}"
                lines.append(json.dumps({"id": f"{file}-{number}", "url": url, "text": text}))
            (folder / source / f"{file}.jsonl").write_text("\n".join(lines))


class Chaos:
    """Runs of a recipe, and somebody who kills their processes."""

    def __init__(self, recipe, draw):
        self.recipe = recipe
        self.store = recipe.parent / "store"
        self.log = recipe.parent / "log"
        self.draw = draw
        self.kills = {"worker": 0, "server": 0, "driver": 0}
        self.process = None
        self.strangers = set()
        """Processes of other sessions: nobody comes into one but by being born there."""

    def start(self, *arguments):
        path = os.pathsep.join([str(Path(gristmill.__file__).parents[1]), str(TESTS)])
        environment = {**os.environ, "PYTHONPATH": path, "MALLOC_MMAP_THRESHOLD_": "65536"}
        command = [sys.executable, "-c", IMPATIENT, "run", str(self.recipe), "--workers", "2", *arguments]
        with self.log.open("w") as log:
            # All that it starts is in its session, so it is found also when the process that started it is dead.
            self.process = subprocess.Popen(
                command, env=environment, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True
            )

    def lives(self, pause_s=0.005):
        """Whether the driver runs; asked again and again, so it leaves some time for others."""
        time.sleep(pause_s)
        return self.process.poll() is None

    def end(self):
        """A run that ends by itself is finished; one that was killed says nothing. Its workers end with it."""
        self.process.wait()
        while self.family():
            time.sleep(AT_LEISURE_S)
        said = self.log.read_text()
        assert self.process.returncode in (0, -signal.SIGKILL), said
        assert "Traceback" not in said
        assert "Aborted" not in said

    def server(self):
        return next((pid for pid, parent in self.family().items() if parent == self.process.pid), None)

    def workers(self):
        return sorted(pid for pid, parent in self.family().items() if parent != self.process.pid)

    def family(self):
        """pid -> parent of the fork server and its workers, also of those that outlived theirs."""
        found = {}
        alive = {int(entry) for entry in os.listdir("/proc") if entry.isdigit()}
        self.strangers &= alive
        for pid in sorted(alive - self.strangers):
            try:
                if pid == self.process.pid:
                    continue
                if os.getsid(pid) != self.process.pid:
                    self.strangers.add(pid)  # asked once: all processes, again and again, would cost more than the runs
                    continue
                name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
                fields = rest.split()
                ours = name == NAME or "forkserver" in Path(f"/proc/{pid}/cmdline").read_text()
                if fields[0] != "Z" and ours:
                    found[pid] = int(fields[1])
            except OSError:
                continue
        return found

    def tasks(self):
        folder = self.store / "tasks"
        return sum(name.endswith(".json") for name in os.listdir(folder)) if folder.exists() else 0

    def kill(self, kind, pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.kills[kind] += 1

    def kill_workers(self, count):
        """Kill so many workers, one after the other or all that there are, as soon as they are seen."""
        seen = set()
        at_once = self.draw.random() < 0.5
        while count > 0 and self.lives():
            new = [pid for pid in self.workers() if pid not in seen]
            for pid in new if at_once else self.draw.sample(new, min(len(new), 1)):
                seen.add(pid)
                self.kill("worker", pid)
                count -= 1

    def kill_by_habit(self, habit, count):
        """Always the oldest worker, or each one when it has lived for 50 ms."""
        first_seen, shot = {}, set()
        while count > 0 and self.lives():
            now = [pid for pid in self.workers() if pid not in shot]
            if habit == "at 50 ms":
                for pid in now:
                    first_seen.setdefault(pid, time.monotonic())
                victims = [pid for pid in now if time.monotonic() - first_seen[pid] > 0.05]
            else:
                victims = now[:1]
            for pid in victims:
                shot.add(pid)
                self.kill("worker", pid)
                count -= 1

    def go_on(self):
        """Leave the run alone until it has finished some more tasks."""
        wanted = self.tasks() + self.draw.randint(1, 6)
        while self.lives(AT_LEISURE_S) and self.tasks() < wanted:
            pass

    def one_run(self):
        """From a start to an end by itself or by a kill."""
        self.start()
        while self.lives(AT_LEISURE_S) and not self.workers():
            pass
        while self.lives():
            match self.draw.choices(["one", "storm", "server", "driver"], [3, 7, 2, 4 * self.spares_drivers()])[0]:
                case "one":
                    self.kill_workers(1)
                case "storm":
                    self.kill_workers(self.draw.randint(4, 9))
                case "server" if (pid := self.server()) is not None:
                    self.kill("server", pid)
                case "driver":
                    self.kill("driver", self.process.pid)
                    break
            self.go_on()
        self.end()

    def spares_drivers(self):
        """Whether fewer of them were killed than their share of all kills."""
        return self.kills["driver"] * KILLS < OF_DRIVERS * sum(self.kills.values())

    def forget_some_tasks(self):
        """Lose records, so that a finished run has work again to be killed in."""
        shutil.rmtree(self.store / "stages")  # with them nobody would look at a task
        for path in sorted(self.store.glob("tasks/*.json")):
            if self.draw.random() < 0.5:
                path.unlink()


def everything(recipe):
    """The hashes of all parts by node, and of every published file by name."""
    mill = Mill(load(recipe))
    run = mill.dry_run()
    parts = {node: [part.hash for _, (part, _) in sorted(made.layers.items())] for node, made in run.states.items()}
    assert all(parts.values())
    published = {
        str(path.relative_to(mill.store.root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in Path(mill.store.root, "shards").rglob("*")
        if path.is_file()
    }
    assert any(name.endswith("manifest.json") for name in published)
    return parts, published


def project(folder):
    folder.mkdir()
    write_inputs(folder, seed=8, files=(4, 2))
    (folder / "recipe.yaml").write_text(RECIPE)
    return Chaos(folder / "recipe.yaml", random.Random(12))


def assert_nothing_looks_finished_that_is_not(recipe):
    """Law 4: every record that exists names parts that exist and are whole, and is believed."""
    mill = Mill(load(recipe))
    for made in mill.dry_run().states.values():
        for key in made.missing:
            assert mill.store.read_file(f"tasks/{key}.json") is None


def assert_nothing_was_given_up(store):
    for path in store.glob("tasks/*.json"):
        record = json.loads(path.read_text())
        assert record["body"]["poisoned"] == []
        assert "worker_crashed" not in record["body"]["metrics"].get("dropped", {})


@pytest.mark.early
@pytest.mark.slow
def test_300_kills_give_the_same_bytes_and_no_document_is_given_up(tmp_path):
    """Law 9: a fault outside never becomes a verdict inside."""
    quiet, chaos = project(tmp_path / "undisturbed"), project(tmp_path / "chaos")
    quiet.start()
    quiet.end()
    while sum(chaos.kills.values()) < KILLS or chaos.kills["driver"] < OF_DRIVERS:
        chaos.one_run()
        if chaos.process.returncode == 0:
            chaos.forget_some_tasks()
        else:
            assert_nothing_looks_finished_that_is_not(chaos.recipe)
    chaos.start()
    chaos.end()
    assert not list((chaos.store / "tmp").iterdir())
    assert everything(chaos.recipe) == everything(quiet.recipe)
    assert all(chaos.kills.values())
    assert_nothing_was_given_up(chaos.store)


@pytest.mark.slow
@pytest.mark.parametrize("habit", ["oldest", "at 50 ms"])
def test_a_killer_with_a_habit_gives_no_document_up(tmp_path, habit):
    """What dies each time at the same place looks most like a fatal record."""
    chaos = project(tmp_path / "chaos")
    chaos.start("--until", "url_dedup")
    while chaos.lives() and not chaos.tasks():
        pass
    chaos.kill_by_habit(habit, 20)
    chaos.end()
    assert chaos.process.returncode == 0
    assert_nothing_was_given_up(chaos.store)

"""Laws 1, 4 and 9: after any number of kills, the output has the same bytes and no document is given up.

Workers, fork servers and drivers are killed singly and in bursts, 200 times in all, during a recipe with every
exchange, a tokenizer, shards and a mixture. A low mmap threshold returns freed memory to the system at once, so a
kernel that reads freed memory crashes instead of continuing. No test waits for a fixed time: after a kill the run
continues until it has finished more tasks, so the test ends on the slowest machine.
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
from gristmill.engine.mill import Mill
from gristmill.recipe.load import load

KILLS = 200
OF_DRIVERS = 7
"""The most expensive kills: a new process takes some seconds to reach the point of the old one."""
AT_LEISURE_S = 0.02
"""Polling interval while no process is about to be killed."""
IMPATIENT = """
from gristmill.engine.executors import attempts
attempts.PAUSE_S = 0.01
from gristmill.cli.main import main
main()
"""
"""The command, with shorter pauses, which change no verdict."""
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
  - substring_dedup: {min_bytes: 80, scope: global, block: document, block_bytes: 100KB}
tokenizer: {train: {vocab: 512, sample_bytes: {web: 100KB, notes: 100KB}}}
shards: {seq_len_tokens: 256, shard_tokens: 20000}
mix: {tokens: 40k, domains: {web: 0.6, notes: 0.4}, tiers: {A: 2, B: 1}, max_epochs: 50}
"""


def write_inputs(folder, seed, files=(6, 3)):
    """Write documents with every kind of copy: equal addresses, texts, lines or passages, and near duplicates."""
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
    """Runs a recipe and kills its processes."""

    def __init__(self, recipe, draw):
        self.recipe = recipe
        self.store = recipe.parent / "store"
        self.log = recipe.parent / "log"
        self.draw = draw
        self.kills = {"worker": 0, "server": 0, "driver": 0}
        self.process = None
        self.strangers = set()
        """Processes of other sessions: a process can only be in our session if it was started there."""

    def start(self, *arguments):
        path = os.pathsep.join([str(Path(gristmill.__file__).parents[1]), str(TESTS), *sys.path])
        environment = {**os.environ, "PYTHONPATH": path, "MALLOC_MMAP_THRESHOLD_": "65536"}
        command = [sys.executable, "-c", IMPATIENT, "run", str(self.recipe), "--workers", "2", *arguments]
        with self.log.open("w") as log:
            # All its descendants are in its session, so they are found even after their parent died.
            self.process = subprocess.Popen(
                command, env=environment, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True
            )

    def lives(self, pause_s=0.005):
        """Whether the driver is running. The callers poll, so it sleeps briefly to leave time for other processes."""
        time.sleep(pause_s)
        return self.process.poll() is None

    def end(self):
        """Wait for the run. It finishes cleanly or was killed, without a traceback; its workers end with it."""
        self.process.wait()
        while self.family():
            time.sleep(AT_LEISURE_S)
        output = self.log.read_text()
        assert self.process.returncode in (0, -signal.SIGKILL), output
        assert "Traceback" not in output
        assert "Aborted" not in output

    def server(self):
        return next((pid for pid, parent in self.family().items() if parent == self.process.pid), None)

    def workers(self):
        return sorted(pid for pid, parent in self.family().items() if parent != self.process.pid)

    def family(self):
        """pid -> parent of the fork server and its workers, including those that outlived their parent."""
        found = {}
        alive = {int(entry) for entry in os.listdir("/proc") if entry.isdigit()}
        self.strangers &= alive
        for pid in sorted(alive - self.strangers):
            try:
                if pid == self.process.pid:
                    continue
                if os.getsid(pid) != self.process.pid:
                    self.strangers.add(pid)  # checked once: polling all processes would cost more than the runs
                    continue
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                ours = "forkserver" in Path(f"/proc/{pid}/cmdline").read_text()
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
        """Kill so many workers, one at a time or all at once, as soon as they appear."""
        killed = set()
        at_once = self.draw.random() < 0.5
        while count > 0 and self.lives():
            new = [pid for pid in self.workers() if pid not in killed]
            for pid in new if at_once else self.draw.sample(new, min(len(new), 1)):
                killed.add(pid)
                self.kill("worker", pid)
                count -= 1

    def kill_by_habit(self, habit, count):
        """Always kill the oldest worker, or each worker once it has lived for 50 ms."""
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
        """Leave the run alone until it has finished more tasks."""
        target = self.tasks() + self.draw.randint(1, 6)
        while self.lives(AT_LEISURE_S) and self.tasks() < target:
            pass

    def one_run(self):
        """Start one run, which finishes or is killed."""
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
        """Whether fewer drivers were killed than their share of all kills."""
        return self.kills["driver"] * KILLS < OF_DRIVERS * sum(self.kills.values())

    def forget_some_tasks(self):
        """Delete task records, so that a finished run has work again."""
        shutil.rmtree(self.store / "stages")  # with stage records, no run would check the tasks
        for path in sorted(self.store.glob("tasks/*.json")):
            if self.draw.random() < 0.5:
                path.unlink()


def everything(recipe):
    """The hashes of all parts by node, and of every published file by name."""
    mill = Mill(load(recipe))
    run = mill.dry_run()
    parts = {node: [part.hash for _, (part, _) in sorted(state.layers.items())] for node, state in run.states.items()}
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
    """Law 4: every existing record is valid and names parts that exist and are complete."""
    mill = Mill(load(recipe))
    for state in mill.dry_run().states.values():
        for key in state.missing:
            assert mill.store.read_file(f"tasks/{key}.json") is None


def assert_nothing_was_given_up(store):
    for path in store.glob("tasks/*.json"):
        record = json.loads(path.read_text())
        assert record["body"]["poisoned"] == []
        assert "worker_crashed" not in record["body"]["metrics"].get("dropped", {})


@pytest.mark.early
@pytest.mark.slow
def test_200_kills_give_the_same_bytes_and_no_document_is_given_up(tmp_path):
    """Law 9: an external fault never becomes a verdict about a document."""
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
def test_repeated_kills_of_the_same_kind_give_up_no_document(tmp_path, habit):
    """A process that dies repeatedly at the same point looks most like a fatal record."""
    chaos = project(tmp_path / "chaos")
    chaos.start("--until", "url_dedup")
    while chaos.lives() and not chaos.tasks():
        pass
    chaos.kill_by_habit(habit, 20)
    chaos.end()
    assert chaos.process.returncode == 0
    assert_nothing_was_given_up(chaos.store)

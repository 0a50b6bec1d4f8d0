"""The trial of a record: a storm of kills, however it chooses its victims, never looks like a record that kills."""

import asyncio
import random
from contextlib import asynccontextmanager

import pytest

from gristmill.engine.executors import trial
from gristmill.engine.executors.executor import WorkerDied
from gristmill.engine.executors.insist import insist
from gristmill.engine.work.memory import Memory
from gristmill.engine.work.task import Hash, Result, Task
from gristmill.errors import UserError

RECORD, CONTROL = Task("", "", "record", Hash(())), Task("", "", "control", Hash(()))


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(trial, "PAUSE_S", 0.0)
    monkeypatch.setattr(trial, "MOST_PAUSES", 40)


class Simulated:
    """A machine whose workers are numbers, and die as `kills` says: worker, its task, all live ones -> a cause."""

    def __init__(self, kills):
        self.kills = kills
        self.living = []
        self.started = 0

    async def start(self):
        self.started += 1
        self.living.append(self.started)
        return _Worker(self, self.started)


class _Worker:
    def __init__(self, machine, number):
        self.machine = machine
        self.number = number

    async def ask(self, task):
        machine = self.machine
        for victim, cause in machine.kills(self.number, task, list(machine.living)):
            machine.living.remove(victim)
            if victim == self.number:
                raise WorkerDied(cause, cause.startswith("SIGSEGV"), True)
        if self.number not in machine.living:
            raise WorkerDied("SIGKILL", False, False)
        return Result(values=[1])

    def kill(self):
        if self.number in self.machine.living:
            self.machine.living.remove(self.number)


def verdict(kills):
    """The evidence, `acquitted` or `storm`."""
    return asyncio.run(try_record(kills))


async def try_record(kills):
    try:
        found = await trial.try_record(RECORD, CONTROL, "controls", Simulated(kills).start, trial.Patience())
    except trial.Storm:
        return "storm"
    return "acquitted" if found is None else found.detail


def test_a_record_that_crashes_each_time_is_given_up_after_three_trials():
    """A crash from inside is strong evidence."""
    found = verdict(lambda worker, task, _: [(worker, "SIGSEGV")] if task is RECORD else [])
    assert found == "killed its worker 3 of 3 times alone (SIGSEGV); 3 of 3 controls survived"


def test_a_record_that_is_killed_each_time_is_given_up_after_eight_trials():
    """A document that is too large for the memory looks like a kill from outside, so it takes more."""
    found = verdict(lambda worker, task, _: [(worker, "SIGKILL")] if task is RECORD else [])
    assert found == "killed its worker 8 of 8 times alone (SIGKILL); 8 of 8 controls survived"


def test_a_record_that_survives_once_is_acquitted():
    """Something else killed it before."""
    deaths = iter([1, 1])
    found = verdict(lambda worker, task, _: [(worker, "SIGSEGV")] if task is RECORD and next(deaths, 0) else [])
    assert found == "acquitted"


@pytest.mark.parametrize("share", [0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.0])
def test_random_kills_never_give_a_document_up(share):
    """Each worker is killed in each interval with the same probability: 100 storms of every strength, no verdict."""
    draw = random.Random(share)

    def kills(worker, task, living):
        return [(victim, "SIGKILL") for victim in living if draw.random() < share]

    async def storms():
        return {await try_record(kills) for _ in range(100)}

    assert asyncio.run(storms()) <= {"acquitted", "storm"}


@pytest.mark.parametrize("victim", [min, max])
def test_a_killer_of_the_oldest_or_of_the_youngest_gives_no_document_up(victim):
    """One worker dies whenever the record is read, and it is always the same of the two by age."""
    found = verdict(lambda worker, task, living: [(victim(living), "SIGKILL")] if task is RECORD else [])
    assert found in ("acquitted", "storm")


def test_trials_before_a_disturbance_do_not_count():
    """Seven deaths, a control that dies, seven deaths: fourteen in all, but never eight in a row."""
    script = iter([*["record"] * 7, "both", *["record"] * 7, "both", "nobody"])
    doomed = []

    def kills(worker, task, living):
        if task is RECORD:
            now = next(script)
            doomed[:] = [now == "both"]
            return [] if now == "nobody" else [(worker, "SIGKILL")]
        return [(worker, "SIGKILL")] if doomed and doomed.pop() else []

    assert verdict(kills) == "acquitted"


class Vanishing:
    """A cluster that loses the machine of a task this many times, and then answers."""

    slots = 2

    def __init__(self, times):
        self.times = times
        self.requests = 0

    async def run(self, task):
        self.requests += 1
        if self.requests <= self.times:
            raise WorkerDied("node n2 is down", machine_lost=True)
        return Result(values=[1])

    async def ask(self, task):
        return await self.run(task)

    def kill(self):
        return

    @asynccontextmanager
    async def alone(self, needs):
        async def start():
            return self

        yield start

    def close(self):
        return


def test_a_lost_machine_says_nothing_about_the_task():
    """However often: it runs elsewhere, next to others, and no document is suspected."""
    cluster, notes = Vanishing(50), []
    result = asyncio.run(insist(RECORD, cluster, lambda message, *_: notes.append(message)))
    assert (result.values, cluster.requests, len(notes)) == ([1], 51, 50)
    assert not any("alone" in note or "searching for" in note for note in notes)


def test_the_run_stops_if_every_machine_is_lost():
    with pytest.raises(UserError, match="node n2 is down 101 times"):
        asyncio.run(insist(RECORD, Vanishing(10**6), lambda *_: None))


def test_a_new_worker_whose_machine_is_lost_is_started_elsewhere():
    """In a search or a trial, too: the death of a machine accuses no record."""
    cluster = Vanishing(3)
    found = asyncio.run(trial.ask_new(RECORD, cluster_start(cluster), trial.Patience()))
    assert (found.values, cluster.requests) == ([1], 4)


def test_memory_is_read_after_a_death_only(monkeypatch):
    """It takes a millisecond, and a run has many thousands of tasks."""
    reads = []
    monkeypatch.setattr(trial, "memory_now", lambda: reads.append(1) or Memory(1 << 30, 2 << 30))
    asyncio.run(insist(RECORD, Vanishing(0), lambda *_: None))
    assert not reads
    with pytest.raises(UserError, match=r"1\.1 GB of 2\.1 GB memory were free"):
        asyncio.run(insist(RECORD, Vanishing(10**6), lambda *_: None))
    assert len(reads) == 1


def cluster_start(cluster):
    async def start():
        return cluster

    return start

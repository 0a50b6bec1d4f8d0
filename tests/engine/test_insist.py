"""Kills from outside, however many and whatever they hit, never accuse a record; the run endures them or stops."""

import asyncio
import random
from contextlib import asynccontextmanager, suppress

import pytest

from gristmill.engine.executors import attempts
from gristmill.engine.executors.executor import WorkerDied
from gristmill.engine.executors.insist import insist
from gristmill.engine.work.task import Hash, MapWork, Read, Result, Task
from gristmill.errors import UserError
from gristmill.stages.contract import Piece, StageConfig
from gristmill.store.store import Part

HASHING = Task("", "inputs", "hashing", Hash(()))
MODULE = "gristmill.stages.select.heuristics"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(attempts, "PAUSE_S", 0.0)


def mapping(rows):
    part = Part("ab" * 32, "parquet", 10, rows)
    return Task("key", "all/step", "part 0", MapWork(MODULE, StageConfig(), (part,), (), (), {}))


class Machine:
    """A cluster whose workers die as `deaths` says for a task: a WorkerDied, or None."""

    slots = 2

    def __init__(self, deaths):
        self.deaths = deaths
        self.requests = []

    async def run(self, task):
        self.requests.append(task)
        if (death := self.deaths(task)) is not None:
            raise death
        return Result(values=[1])

    ask = run

    def kill(self):
        return

    @asynccontextmanager
    async def alone(self, needs):
        async def start():
            return self

        yield start


def times(count, death):
    """The first requests die like this."""
    left = iter([death] * count)
    return lambda task: next(left, None)


def insisted(task, machine):
    notes = []
    return asyncio.run(insist(task, machine, lambda message, *_: notes.append(message))), notes


def test_a_lost_machine_says_nothing_about_the_task():
    """However often: it runs elsewhere, next to others, and no document is suspected."""
    machine = Machine(times(50, WorkerDied("node n2 is down", machine_lost=True)))
    result, notes = insisted(HASHING, machine)
    assert (result.values, len(machine.requests), len(notes)) == ([1], 51, 50)
    assert not any("alone" in note or "searching for" in note for note in notes)


def test_the_run_stops_if_every_machine_is_lost():
    with pytest.raises(UserError, match="node n2 is down 101 times"):
        insisted(HASHING, Machine(times(10**6, WorkerDied("node n2 is down", machine_lost=True))))


@pytest.mark.parametrize("cause", ["SIGKILL", "SIGTERM", "MemoryError", "out of memory"])
def test_a_death_from_outside_is_done_again_and_then_stops_the_run(cause):
    """Sixteen of them are endured; one more stops the run, names the records, and starts no search."""
    machine = Machine(times(16, WorkerDied(cause)))
    result, _ = insisted(mapping(40), machine)
    assert (result.values, result.poisoned) == ([1], [])
    assert all(not task.probe for task in machine.requests)
    with pytest.raises(UserError, match=rf"{cause} 17 times.*no document was given up.*reads 40 documents"):
        insisted(mapping(40), Machine(times(17, WorkerDied(cause, peak_rss_bytes=5 << 30))))


def test_the_message_names_the_range_of_a_file_and_the_memory():
    work = Read(MODULE, StageConfig(), (Piece("/a", "a", 7, 5000), Piece("/b", "b")), {}, "s", None, None, 1)
    death = WorkerDied("SIGKILL", peak_rss_bytes=5_400_000_000)
    with pytest.raises(UserError, match=r"from position 7 of a to the end of b\. A worker held up to 5\.4 GB"):
        insisted(Task("key", "s/ingest", "0", work), Machine(times(99, death)))


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.95, 1.0])
def test_random_kills_during_a_crashing_task_never_give_another_record_up(share):
    """Storms of every strength: the record that crashes is found, or the run stops; no other is accused."""
    draw = random.Random(share)

    def deaths(task):
        if draw.random() < share:
            return WorkerDied("SIGKILL")
        start, stop = task.work.rows or (0, 64)
        is_hidden = any(row == 23 for row, _ in task.work.poisoned)
        return WorkerDied("SIGSEGV", inside=True) if start <= 23 < stop and not is_hidden else None

    given_up = []
    for _ in range(30):
        with suppress(UserError):
            given_up += insisted(mapping(64), Machine(deaths))[0].poisoned
    assert all(record == [23, "killed its worker 3 of 3 times alone (SIGSEGV)"] for record in given_up)
    assert given_up or share > 0.3


def test_a_record_that_a_new_worker_survives_is_not_given_up():
    """Two of three crashes are not enough: the task runs again."""
    crashes = iter([True] * 7)  # two beside others, one alone, two of the search, two of three

    def deaths(task):
        start, stop = task.work.rows or (0, 4)
        if start <= 3 < stop:
            return WorkerDied("SIGSEGV", inside=True) if next(crashes, False) else None
        return None

    result, _ = insisted(mapping(4), Machine(deaths))
    assert result.poisoned == []


def test_a_reduce_or_any_other_task_without_single_records_stops_after_five_crashes():
    with pytest.raises(UserError, match=r"SIGSEGV 5 times.*no single record is the cause"):
        insisted(HASHING, Machine(times(99, WorkerDied("SIGSEGV", inside=True))))

"""The search for a fatal record: found by bisection with few workers; it gives up if no single record is the cause."""

import asyncio

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gristmill.engine.executors import attempts
from gristmill.engine.executors.attempts import Attempts
from gristmill.engine.executors.executor import WorkerDied
from gristmill.engine.executors.isolate import FARTHEST, TIMES, Search
from gristmill.engine.work.task import Hash, MapWork, Read, Result, Task
from gristmill.errors import UserError
from gristmill.stages.contract import Piece, StageConfig
from gristmill.store.store import Part


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(attempts, "PAUSE_S", 0.0)


class Machine:
    """Workers that die where `kills` says so for the ranges that a task reads: a cause, or None."""

    def __init__(self, kills):
        self.kills = kills
        self.requests = []
        self.living = 0

    async def start(self):
        self.living += 1
        return Worker(self)

    def search(self, task):
        found = asyncio.run(Search(Attempts(task, lambda *_: None), self.start).find())
        assert self.living == 0, "a worker was left behind"
        return found


class Worker:
    def __init__(self, machine):
        self.machine = machine

    async def ask(self, task):
        assert task.probe, "what the search asks for would be stored"
        work = task.work
        if isinstance(work, MapWork):
            stretches = [work.rows]
        else:
            stretches = [(piece.name, piece.start, piece.stop) for piece in work.pieces]
        self.machine.requests.append(stretches)
        cause = self.machine.kills(stretches)
        if cause:
            raise WorkerDied(cause, cause == "SIGSEGV")
        return Result()

    def kill(self):
        self.machine.living -= 1


def mapping(rows, poisoned=()):
    part = Part("ab" * 32, "parquet", 10, rows)
    return Task(
        "key",
        "all/step",
        "part 0",
        MapWork("gristmill.stages.select.heuristics", StageConfig(), (part,), (), (), {}, poisoned=poisoned),
    )


def reading(*pieces):
    return Task(
        "key",
        "a/ingest",
        "read 0",
        Read("gristmill.stages.ingest.jsonl", StageConfig(), pieces, {}, "a", None, None, 1 << 20),
    )


def on_rows(*fatal, cause="SIGSEGV"):
    return lambda stretches: next((cause for a, b in stretches for row in fatal if a <= row < b), None)


def at(name, position, cause="SIGSEGV"):
    def kills(stretches):
        hit = any(file == name and a <= position < (FARTHEST if b is None else b) for file, a, b in stretches)
        return cause if hit else None

    return kills


@given(st.integers(2, 5000).flatmap(lambda rows: st.tuples(st.just(rows), st.integers(0, rows - 1))))
@example((5000, 0))
@example((5000, 4999))
def test_a_fatal_row_is_found_in_as_many_steps_as_halving_takes(case):
    """Whichever row it is; only it is removed, and nothing else of the task changes."""
    rows, fatal = case
    machine = Machine(on_rows(fatal))
    task = machine.search(mapping(rows))
    assert task.work.poisoned == ((fatal, "killed its worker 3 of 3 times alone (SIGSEGV)"),)
    assert task == mapping(rows, task.work.poisoned)
    assert len(machine.requests) <= 3 + 2 + (rows - 1).bit_length() + TIMES + 1


def test_deaths_from_outside_do_not_lead_the_search():
    """The same probe runs again, so every third worker may be killed, and the right record is found."""
    count = iter(range(1000))
    crash = on_rows(3)
    machine = Machine(lambda stretches: crash(stretches) if next(count) % 3 else "SIGKILL")
    assert [row for row, _ in machine.search(mapping(16)).work.poisoned] == [3]


def test_a_single_kill_from_outside_accuses_no_record():
    """It was over before the search began: both halves survive, and not all rows are tried."""
    machine = Machine(lambda stretches: None)
    assert machine.search(mapping(1 << 20)) is None
    assert len(machine.requests) == 3


@pytest.mark.parametrize("pair", [(3, 12), (3, 6)])
def test_rows_that_are_fatal_only_together_are_not_given_up(pair):
    """In two halves or in one: no record is given up, even if the whole crashes, and none before a trial."""
    machine = Machine(lambda stretches: "SIGSEGV" if any(a <= pair[0] and pair[1] < b for a, b in stretches) else None)
    assert machine.search(mapping(16)) is None
    assert all(machine.requests.count(stretch) == 1 for stretch in machine.requests)


def test_a_stage_that_dies_of_everything_has_no_fatal_record():
    """The first, the middle and the last document are fatal alone: the run stops after three workers."""
    machine = Machine(lambda stretches: "SIGSEGV" if any(a < b for a, b in stretches) else None)
    with pytest.raises(UserError, match="any single document is enough"):
        machine.search(mapping(40))
    assert len(machine.requests) == 3


def test_a_stage_that_dies_without_a_record_accuses_none():
    """Reading no record is the control."""
    machine = Machine(lambda stretches: "SIGSEGV" if stretches[0][1] <= 1 else None)
    assert machine.search(mapping(2)) is None
    assert [(0, 0)] in machine.requests


def test_records_given_up_before_stay_given_up():
    """The next search finds the next record, and both are in the task."""
    machine = Machine(on_rows(9))
    task = machine.search(mapping(16, ((2, "before"),)))
    assert [row for row, _ in task.work.poisoned] == [2, 9]


def test_a_fatal_position_is_cut_out_of_the_middle_of_its_file():
    """Its file comes in three pieces, before, at and after it; the other files are unchanged."""
    first, file, last = Piece("/a", "a"), Piece("/b", "b", 100, 5000), Piece("/c", "c")
    task = Machine(at("b", 777)).search(reading(first, file, last))
    assert [(piece.name, piece.start, piece.stop) for piece in task.work.pieces] == [
        ("a", 0, None),
        ("b", 100, 777),
        ("b", 777, 777),
        ("b", 778, 5000),
        ("c", 0, None),
    ]
    assert [record[:2] for record in task.work.poisoned] == [("b", 777)]


@pytest.mark.parametrize("position", [0, 5, (1 << 20) - 1, 1 << 20, 12_345_678_901])
def test_a_position_is_found_in_a_file_of_unknown_length(position):
    """By ranges of doubling width, then by bisection: some dozen workers for any size."""
    machine = Machine(at("b", position))
    task = machine.search(reading(Piece("/b", "b")))
    assert [record[:2] for record in task.work.poisoned] == [("b", position)]
    stretches = [(piece.start, piece.stop) for piece in task.work.pieces]
    assert stretches == [*([(0, position)] if position else []), (position, position), (position + 1, None)]
    assert len(machine.requests) < 150


def test_a_position_that_no_reader_can_pass_is_the_end_of_its_file():
    """A reader that must pass it dies on everything after it: reported, after its own trial."""

    def wall(stretches):
        return next(("SIGSEGV" for _, a, b in stretches if b is None or (b > 40 and b > a)), None)

    task = Machine(wall).search(reading(Piece("/b", "b"), Piece("/c", "c", 0, 9)))
    assert [(piece.name, piece.start, piece.stop) for piece in task.work.pieces] == [
        ("b", 0, 40),
        ("b", 40, 40),
        ("c", 0, 9),
    ]
    ((_, _, detail),) = task.work.poisoned
    assert detail.endswith("the rest of the file is lost")


def test_other_kinds_of_work_have_no_records_to_suspect():
    """No worker is started for them."""
    machine = Machine(lambda stretches: "SIGSEGV")
    assert machine.search(Task("", "inputs", "hashing", Hash(()))) is None
    assert machine.requests == []

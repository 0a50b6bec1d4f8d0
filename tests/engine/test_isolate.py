"""The search for a fatal record: found by bisection with few workers; it gives up if no single record is the cause."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gristmill.engine.executors import trial
from gristmill.engine.executors.executor import WorkerDied
from gristmill.engine.executors.isolate import FARTHEST, Search, _nearby
from gristmill.engine.executors.trial import Patience
from gristmill.engine.work.task import Hash, MapWork, Read, Result, Task
from gristmill.stages.contract import Piece, StageConfig
from gristmill.store.store import Part


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(trial, "PAUSE_S", 0.0)


class Machine:
    """Workers that die where `kills` says so for the ranges that a task reads: a cause, or None."""

    def __init__(self, kills, observed=lambda stretches: True):
        self.kills = kills
        self.observed = observed
        self.requests = []
        self.living = 0

    async def start(self):
        self.living += 1
        return Worker(self)

    def search(self, task):
        found = asyncio.run(Search(task, self.start, Patience()).find())
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
            raise WorkerDied(cause, cause == "SIGSEGV", True)
        return Result(values=[int(self.machine.observed(stretches))])

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
    task, evidence = machine.search(mapping(rows))
    assert [row for row, _ in task.work.poisoned] == [fatal] == evidence["record"]
    assert task == mapping(rows, task.work.poisoned)
    trials = 3 * trial.INSIDE_TRIALS
    assert len(machine.requests) <= 2 + (rows - 1).bit_length() + trials + 4


@pytest.mark.parametrize(("cause", "times"), [("SIGSEGV", 1), ("SIGKILL", 2)])
def test_only_a_death_that_happens_twice_leads_the_search_where_it_may_come_from_outside(cause, times):
    """The first range is probed again before it counts, unless its worker crashed by its own fault."""
    machine = Machine(on_rows(3, cause=cause))
    machine.search(mapping(16))
    assert machine.requests.count([(0, 8)]) == times


def test_a_single_kill_from_outside_accuses_no_record():
    """It was over before the search began: both halves survive, and not all rows are tried."""
    machine = Machine(lambda stretches: None)
    assert machine.search(mapping(1 << 20)) is None
    assert len(machine.requests) == 2


@pytest.mark.parametrize("pair", [(3, 12), (3, 6)])
def test_rows_that_are_fatal_only_together_are_not_given_up(pair):
    """In two halves or in one: no record is given up, even if the whole crashes, and none before a trial."""
    machine = Machine(lambda stretches: "SIGSEGV" if any(a <= pair[0] and pair[1] < b for a, b in stretches) else None)
    assert machine.search(mapping(16)) is None
    assert all(machine.requests.count(stretch) == 1 for stretch in machine.requests)


def test_a_stage_that_dies_of_everything_has_no_fatal_record():
    """The remaining row has no neighbour that survives, so nothing is known about it."""
    machine = Machine(lambda stretches: "SIGSEGV" if any(a < b for a, b in stretches) else None)
    assert machine.search(mapping(40)) is None


def test_a_single_row_is_tried_against_no_record():
    machine = Machine(on_rows(0))
    task, _ = machine.search(mapping(1))
    ((row, detail),) = task.work.poisoned
    assert row == 0
    assert detail.endswith("3 of 3 controls without a record survived")
    assert [(0, 0)] in machine.requests


def test_the_control_is_the_nearest_neighbour_that_the_stage_sees():
    """Rows that earlier verdicts hide prove nothing: a range with one more row is used."""
    hidden = range(20, 30)
    machine = Machine(on_rows(30), observed=lambda stretches: any(row not in hidden for row in range(*stretches[0])))
    task, _ = machine.search(mapping(64))
    assert "controls beside it" in task.work.poisoned[0][1]
    control = max((stretch for stretch in machine.requests if stretch != [(30, 31)]), key=machine.requests.count)
    assert control == [(0, 21)]


def test_records_given_up_before_stay_given_up():
    """The next search finds the next record, and both are in the task."""
    machine = Machine(on_rows(9))
    task, _ = machine.search(mapping(16, ((2, "before"),)))
    assert [row for row, _ in task.work.poisoned] == [2, 9]


def test_a_fatal_position_is_cut_out_of_the_middle_of_its_file():
    """Its file comes in three pieces, before, at and after it; the other files are unchanged."""
    first, file, last = Piece("/a", "a"), Piece("/b", "b", 100, 5000), Piece("/c", "c")
    task, evidence = Machine(at("b", 777)).search(reading(first, file, last))
    assert [(piece.name, piece.start, piece.stop) for piece in task.work.pieces] == [
        ("a", 0, None),
        ("b", 100, 777),
        ("b", 777, 777),
        ("b", 778, 5000),
        ("c", 0, None),
    ]
    assert [record[:2] for record in task.work.poisoned] == [("b", 777)]
    assert evidence["record"] == ["b", 777]


@pytest.mark.parametrize("position", [0, 5, (1 << 20) - 1, 1 << 20, 12_345_678_901])
def test_a_position_is_found_in_a_file_of_unknown_length(position):
    """By ranges of doubling width, then by bisection: some dozen workers for any size."""
    machine = Machine(at("b", position))
    task, _ = machine.search(reading(Piece("/b", "b")))
    assert [record[:2] for record in task.work.poisoned] == [("b", position)]
    stretches = [(piece.start, piece.stop) for piece in task.work.pieces]
    assert stretches == [*([(0, position)] if position else []), (position, position), (position + 1, None)]
    assert len(machine.requests) < 150


def test_a_position_that_no_reader_can_pass_is_the_end_of_its_file():
    """A reader that must pass it dies on everything after it: reported, after its own trial."""

    def wall(stretches):
        return next(("SIGSEGV" for _, a, b in stretches if b is None or (b > 40 and b > a)), None)

    task, _ = Machine(wall).search(reading(Piece("/b", "b"), Piece("/c", "c", 0, 9)))
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


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 300))
def test_ranges_near_a_unit_cover_all_others_once_nearest_first(start, before, behind):
    unit, stop = start + before, start + before + behind + 1
    stretches = list(_nearby(start, unit, stop))
    assert sorted(row for a, b in stretches for row in range(a, b)) == [*range(start, unit), *range(unit + 1, stop)]
    left = [stretch for stretch in stretches if stretch[1] <= unit]
    right = stretches[len(left) :]
    assert all(a[0] == b[1] for a, b in pairwise(left))
    assert all(a[1] == b[0] for a, b in pairwise(right))
    assert all(b - a == 1 for a, b in (left[:1] + right[:1]))

"""Stragglers run a second time if slots are free; the first result counts. The clock is a fake."""

import asyncio

import pytest

from gristmill.engine.executors.executor import WorkerDied
from gristmill.engine.executors.stragglers import ENOUGH, LAST, Stragglers
from gristmill.engine.mill import Mill, Silent
from gristmill.engine.work.task import Hash, Result, Task
from gristmill.errors import UserError
from gristmill.store.store import Part
from virtual_clock import run_virtually

NODE_DOWN = WorkerDied("node down", machine_lost=True)


def task(number, expected_s=10.0):
    return Task(f"{number}", "all/step", f"part {number}", Hash(()), (0, number), expected_s=expected_s)


class Cluster:
    """Machines that take as long for a run of a task as `takes` says: (number, which run) -> seconds, maybe a fault."""

    several_machines = True

    def __init__(self, takes, slots=8, parts=lambda number, run: "ab" * 32):
        self.takes, self.slots, self.parts = takes, slots, parts
        self.runs, self.ended, self.closed = [], [], False
        self._room = asyncio.Semaphore(slots)

    async def run(self, task):
        number = int(task.key)
        run = sum(other == number for other, _ in self.runs)
        self.runs.append((number, task.order))
        async with self._room:
            takes = self.takes(number, run)
            seconds, fault = takes if isinstance(takes, tuple) else (takes, None)
            try:
                await asyncio.sleep(seconds)
            finally:
                self.ended.append((number, run, asyncio.get_running_loop().time()))
            if fault is not None:
                raise fault
            return Result([Part(self.parts(number, run), "bin", 1)], cost={"wall_s": seconds, "compile_s": 0.0})

    def close(self):
        self.closed = True


def carry_out(cluster, tasks=20, then=0.0, expected_s=10.0):
    """Run all tasks at once; returns when the last was answered, and the notes."""
    notes = []

    async def main():
        executor = Stragglers(cluster, notes.append)
        try:
            results = await asyncio.gather(
                *(executor.run(task(n, expected_s)) for n in range(tasks)), return_exceptions=True
            )
            ended = asyncio.get_running_loop().time()
            await asyncio.sleep(then)
            return results, ended
        finally:
            executor.close()

    results, ended = run_virtually(main())
    return results, ended, notes


def slow(which, seconds=1000.0, again=10.0):
    """All take 10 s except one."""
    return lambda number, run: (again if run else seconds) if number == which else 10.0


def test_a_straggler_is_run_a_second_time_and_the_first_result_counts():
    """After all others, and the run ends long before the slow one would."""
    cluster = Cluster(slow(7))
    results, ended, notes = carry_out(cluster)
    assert len(cluster.runs) == 21
    assert cluster.runs[-1] == (7, LAST)
    assert all(isinstance(result, Result) for result in results)
    assert ended < 100
    assert len(notes) == 1
    assert "all/step, part 7: running for" in notes[0]
    assert "take about 10 s" in notes[0]


def test_the_first_run_may_still_be_the_first_to_answer():
    cluster = Cluster(slow(7, 60.0, again=500.0))
    results, ended, _ = carry_out(cluster)
    assert len(cluster.runs) == 21
    assert results[7].cost["wall_s"] == 60.0
    assert ended < 90


def test_a_task_with_many_bytes_is_not_a_straggler():
    """Nor if a kind has too few tasks to predict, nor if nothing is expected."""
    twice = Cluster(lambda number, run: 10.0 + number)
    assert carry_out(twice)[2] == []
    few = Cluster(slow(0))
    carry_out(few, tasks=ENOUGH)
    unknown = Cluster(slow(7))
    carry_out(unknown, expected_s=0.0)
    assert [len(cluster.runs) for cluster in (twice, few, unknown)] == [20, ENOUGH, 20]


def test_nothing_is_run_twice_while_anything_waits():
    """Two slots, and a slow task in one of them: the other 30 come first, each once."""
    cluster = Cluster(slow(0, 400.0), slots=2)
    carry_out(cluster, tasks=31)
    assert [number for number, _ in cluster.runs[:31]] == list(range(31))
    twice = [at for number, run, at in cluster.ended if run]
    assert len(twice) == 1
    assert twice[0] >= 300


def test_on_one_machine_with_one_slot_nothing_is_ever_run_twice():
    cluster = Cluster(slow(3), slots=1)
    carry_out(cluster, tasks=12)
    assert len(cluster.runs) == 12


def test_the_second_result_is_compared_while_its_slot_is_not_needed():
    """A step that is not pure is named; a pure one is not."""
    for parts, message in ((lambda number, run: f"{run:064x}", 1), (lambda number, run: "ab" * 32, 0)):
        cluster = Cluster(slow(7), parts=parts)
        results, _, notes = carry_out(cluster, then=2000.0)
        assert (7, 0, 1000.0) in cluster.ended
        assert sum("all/step, part 7: two runs wrote different bytes" in note for note in notes) == message
        assert results[7].parts[0].hash == parts(7, 1)


def test_the_slower_run_gives_up_its_slot_to_the_next_task():
    """Two slots: the next task does not wait for the slow run to end."""
    cluster = Cluster(lambda number, run: 5000.0 if (number, run) == (7, 0) else 10.0, slots=2)

    async def main():
        executor = Stragglers(cluster, lambda _: None)
        await asyncio.gather(*(executor.run(task(n)) for n in range(10)))
        await asyncio.gather(*(executor.run(task(n)) for n in range(10, 14)))
        executor.close()
        return asyncio.get_running_loop().time()

    assert run_virtually(main()) < 300


@pytest.mark.parametrize("dying", [0, 1])
def test_a_run_that_dies_leaves_the_task_to_the_other(dying):
    """A death that cost nothing is not reported."""
    cluster = Cluster(lambda number, run: 10.0 if number != 7 else (60.0, NODE_DOWN) if run == dying else 100.0)
    assert isinstance(carry_out(cluster)[0][7], Result)
    assert len(cluster.runs) == 21


def test_if_both_runs_die_the_death_is_reported():
    cluster = Cluster(lambda number, run: (60.0, NODE_DOWN) if number == 7 else 10.0)
    assert carry_out(cluster)[0][7] is NODE_DOWN
    assert len(cluster.runs) == 21


def test_a_mistake_of_the_user_is_reported_at_once():
    """And no run of the task continues."""

    gone = UserError("a file is gone")
    cluster = Cluster(lambda number, run: 10.0 if number != 7 else (1.0, gone) if run else 1000.0)
    results, ended, _ = carry_out(cluster, then=5.0)
    assert results[7] is gone
    assert ended < 100
    assert cluster.ended[-1][0] == 7  # cancelled
    assert cluster.ended[-1][2] < 100


def test_a_run_on_one_machine_does_not_double_tasks(project, monkeypatch):
    """It is for executors with several machines."""
    made = []
    monkeypatch.setattr("gristmill.engine.mill.Stragglers", lambda *given: made.append(given))
    project.write_inputs(files=1, records=5)
    project.run()
    assert made == []


def test_a_recipe_on_several_machines_is_watched_and_comes_out_the_same(project):
    """Through the code with which a run makes its executor."""
    from gristmill.engine.executors.executor import InlineExecutor

    class Several(InlineExecutor):
        several_machines = True

    project.write_inputs(files=1, records=30)
    mill = project.mill(store=str(project.folder / "other"))
    assert isinstance(mill, Mill)
    mill.executor = lambda *_: Several(mill.store)
    assert project.parts(mill.run(None, Silent())) == project.parts(project.run())

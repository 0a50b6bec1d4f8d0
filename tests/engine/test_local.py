"""The pool itself, with fake workers: which task starts, which worker is replaced or ended. Real: test_workers.py."""

import asyncio
import os
import signal
import threading
from multiprocessing.reduction import ForkingPickler
from types import SimpleNamespace

import pytest

from gristmill.engine.executors import local
from gristmill.engine.executors.executor import StageFailed, WorkerDied, in_thread
from gristmill.engine.executors.local import LocalExecutor
from gristmill.engine.executors.worker import _answer
from gristmill.engine.work import perform
from gristmill.engine.work.task import Hash, Result, Task
from gristmill.errors import UserError
from gristmill.places import FileLocation
from gristmill.processes import name_of, runs
from gristmill.stages.contract import Resources
from gristmill.store.store import CorruptPart, Store


class Made:
    """A worker that answers when the test says so."""

    def __init__(self, pool):
        self.pool = pool
        self.is_free = True
        self.ended = self.killed = False
        self.gpus = ()

    async def ask(self, task):
        self.is_free = False
        self.pool.begun.append(task.label)
        answer = self.pool.answers[task.label] = asyncio.get_running_loop().create_future()
        result = await answer
        self.is_free = not isinstance(result, WorkerDied)
        if isinstance(result, Exception):
            raise result
        return result

    def has_ended(self):
        return self.ended

    def signal(self):
        return

    def kill(self, patience_s=0.0):
        self.killed = True


class Pool:
    """An executor with fake workers, and its results."""

    def __init__(self, monkeypatch, tmp_path, slots):
        self.executor = LocalExecutor(Store(str(tmp_path / "store")), slots)
        self.begun, self.answers, self.workers = [], {}, []
        monkeypatch.setattr(self.executor, "_make", self._make)

    def _make(self, gpus):
        self.workers.append(Made(self))
        return self.workers[-1]

    def ask(self, label, *order):
        return asyncio.create_task(self.executor.run(Task("", "a/step", label, Hash(()), order)))

    async def until(self, *labels):
        """Wait until these have begun; a turn that never comes would block forever."""
        async with asyncio.timeout(60):
            while not set(labels) <= set(self.begun):
                await asyncio.sleep(0.001)

    async def end(self, label, result=None):
        self.answers[label].set_result(Result(values=[label]) if result is None else result)
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.fixture
def carry_out(monkeypatch, tmp_path):
    def run(work, slots=2):
        pool = Pool(monkeypatch, tmp_path, slots)
        asyncio.run(work(pool))
        return pool

    return run


def test_a_free_slot_goes_to_the_lowest_order_and_then_to_the_first(carry_out):
    async def work(pool):
        tasks = [pool.ask("first", 9)]
        await pool.until("first")
        tasks += [
            pool.ask(label, *order) for label, order in [("c", (2, 1)), ("a", (1, 7)), ("d", (2, 1)), ("b", (2,))]
        ]
        for label in ("first", "a", "b", "c", "d"):
            await pool.until(label)
            await pool.end(label)
        assert [(await task).values for task in tasks] == [[label] for label in ("first", "c", "a", "d", "b")]

    assert carry_out(work, slots=1).begun == ["first", "a", "b", "c", "d"]


def test_no_more_tasks_run_than_there_are_slots_and_workers_are_used_again(carry_out):
    """This holds for any result of a task: a bug, a mistake and damage are reported, and cost no worker."""
    message = [StageFailed("bug"), UserError("mistake"), CorruptPart("ab", "damage"), None, None, None]

    async def work(pool):
        tasks = [pool.ask(str(number), number) for number in range(6)]
        for number, result in enumerate(message):
            await pool.until(str(number))
            assert len(pool.begun) <= number + 2
            assert len(pool.executor._busy) <= 2
            await pool.end(str(number), result)
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert found[:3] == message[:3]
        assert [result.values for result in found[3:]] == [["3"], ["4"], ["5"]]
        assert pool.executor._turns.taken == 0

    pool = carry_out(work)
    assert len(pool.workers) == 2
    assert not any(worker.killed for worker in pool.workers)


def test_a_worker_that_died_is_replaced_and_its_slot_is_free_again(carry_out):
    """The death is reported, and not retried here."""

    async def work(pool):
        lost = pool.ask("lost")
        await pool.until("lost")
        await pool.end("lost", WorkerDied("SIGKILL"))
        with pytest.raises(WorkerDied):
            await lost
        for label in ("next", "last"):
            task = pool.ask(label)
            await pool.until(label)
            await pool.end(label)
            await task

    pool = carry_out(work, slots=1)
    assert pool.begun == ["lost", "next", "last"]
    assert [worker.killed for worker in pool.workers] == [True, False]


def test_an_idle_worker_that_ended_meanwhile_is_given_no_task(carry_out):
    async def work(pool):
        for label in ("one", "two"):
            task = pool.ask(label)
            await pool.until(label)
            await pool.end(label)
            await task
            pool.workers[-1].ended = True

    pool = carry_out(work)
    assert [worker.killed for worker in pool.workers] == [True, False]


def test_a_cancelled_task_takes_no_turn_and_leaves_no_busy_worker(carry_out):
    """While it waits, and while it runs: a worker in the middle of a task must not get another."""

    async def work(pool):
        running, waiting, last = pool.ask("running", 1), pool.ask("waiting", 2), pool.ask("last", 3)
        await pool.until("running")
        for task in (waiting, running):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await pool.until("last")
        await pool.end("last")
        assert (await last).values == ["last"]
        assert pool.executor._turns.taken == 0

    pool = carry_out(work, slots=1)
    assert pool.begun == ["running", "last"]
    assert [worker.killed for worker in pool.workers] == [True, False]


def test_a_failed_or_cancelled_wait_to_run_alone_holds_up_no_task(carry_out):
    """Before it was alone, and in the middle; workers that it started end with it."""

    async def alone(pool, moment):
        async with pool.executor.alone(Resources()) as start:
            moment.set_result((await start(), await start()))
            await asyncio.get_running_loop().create_future()

    async def work(pool):
        first = pool.ask("first")
        await pool.until("first")
        early = asyncio.create_task(alone(pool, asyncio.get_running_loop().create_future()))
        await asyncio.sleep(0)
        second = pool.ask("second")
        await asyncio.sleep(0)
        assert pool.begun == ["first"], "somebody waits to be alone"
        early.cancel()
        await pool.until("second")
        for label, task in (("first", first), ("second", second)):
            await pool.end(label)
            await task
        moment = asyncio.get_running_loop().create_future()
        late = asyncio.create_task(alone(pool, moment))
        own = await moment
        third = pool.ask("third")
        await asyncio.sleep(0)
        assert "third" not in pool.begun
        assert [worker.killed for worker in pool.workers] == [True, True, False, False]
        late.cancel()
        await pool.until("third")
        assert all(worker.killed for worker in own)
        assert pool.executor._busy.isdisjoint(own)
        await pool.end("third")
        await third

    carry_out(work)


def test_a_start_that_fails_is_tried_again(carry_out, monkeypatch):
    """A fork server may die at any time: the task does not notice, and has its slot."""
    monkeypatch.setattr(local, "PAUSE_S", 0.0)

    async def work(pool):
        faults, make = [EOFError(), ConnectionResetError(), RuntimeError("server")], pool.executor._make
        monkeypatch.setattr(pool.executor, "_make", lambda gpus: make(gpus) if not faults else raise_(faults.pop()))
        task = pool.ask("task")
        await pool.until("task")
        await pool.end("task")
        assert (await task).values == ["task"]
        assert not faults

    assert len(carry_out(work).workers) == 1


def raise_(error):
    raise error


def test_a_worker_that_comes_too_late_is_ended():
    """Its caller was cancelled; nothing else knows about it."""
    may_start, came = threading.Event(), threading.Event()
    late = SimpleNamespace(kill=came.set)

    def start():
        assert may_start.wait(60)
        return late

    async def work():
        waiting = asyncio.create_task(in_thread(start, lambda made: made.kill()))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        may_start.set()
        async with asyncio.timeout(60):
            while not came.is_set():
                await asyncio.sleep(0.001)

    asyncio.run(work())


def test_close_ends_every_process_busy_and_idle(tmp_path):
    """Real ones: one waits for work, one is in the middle of a task that would never end, because it is stopped."""
    (tmp_path / "file").write_bytes(b"grain")
    executor = LocalExecutor(Store(str(tmp_path / "store")), 2)

    def hashing():
        place = FileLocation(str(tmp_path / "file"))
        return asyncio.create_task(executor.run(Task("", "inputs", "file", Hash((place,), blocks=False))))

    async def work():
        both = await asyncio.gather(hashing(), hashing())
        assert both[0].values == both[1].values
        pids = [worker._process.pid for worker in executor._idle]
        names = [name_of(pid) for pid in pids]
        assert len(set(pids)) == 2
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        stuck = hashing()
        while not executor._busy:
            await asyncio.sleep(0.001)
        assert len(executor._idle) == 1
        assert all(runs(name) for name in names)
        executor.close()
        assert not any(runs(name) for name in names)
        with pytest.raises(WorkerDied):
            await stuck

    asyncio.run(work())


@pytest.mark.parametrize(
    ("raised", "answered"),
    [
        (UserError("yours to fix"), UserError),
        (CorruptPart("ab", "damaged"), CorruptPart),
        (MemoryError(), WorkerDied),
        (ZeroDivisionError("a bug"), StageFailed),
        (SystemExit(3), StageFailed),
    ],
)
def test_a_worker_answers_for_every_exception_of_a_task(tmp_path, monkeypatch, raised, answered):
    """Too little memory is not the task's fault, and not `inside`; a bug comes with its location and traceback."""
    monkeypatch.setattr(perform, "perform", lambda *_: raise_(raised))
    request = ForkingPickler.dumps(Task("", "all/step", "part 3", Hash(())))
    answer = _answer(bytes(request), Store(str(tmp_path / "store")))
    assert type(answer) is answered
    if answered is WorkerDied:
        assert answer.inside is False
        assert answer.peak_rss_bytes > 0
    if answered is StageFailed:
        assert str(answer).startswith("all/step, part 3:\nTraceback")
        assert type(raised).__name__ in str(answer)


def test_a_recipe_whose_name_differs_in_case_only_is_refused(project, edit):
    """On some disks the two would share a folder; a store that has runs of both is left alone."""
    project.run()
    edit(project.recipe, "recipe: project", "recipe: Project")
    with pytest.raises(UserError, match="has runs of the recipe project, and Project differs from it only in case"):
        project.run()
    assert not (project.store / "runs" / "Project").exists()
    (project.store / "runs" / "Project").mkdir()
    (project.store / "runs" / "Project" / "2020-01-01T00-00-00.000000Z.json").write_text("{}")
    project.run()

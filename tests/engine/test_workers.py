"""The pool of workers: what is killed is replaced, and who wants to be alone is."""

import asyncio
import os
import signal
from multiprocessing import forkserver, resource_tracker

import pytest

from gristmill.engine.executor import WorkerDied
from gristmill.engine.local import LocalExecutor
from gristmill.engine.task import Hash, Task
from gristmill.places import Place
from gristmill.store.store import Store


def carry_out(tmp_path, work, workers=2):
    """Run a coroutine with a pool and a task that always succeeds."""
    (tmp_path / "file").write_bytes(b"grain")
    executor = LocalExecutor(Store(str(tmp_path / "store")), workers)

    async def main():
        try:
            return await work(executor, Task("", "inputs", "hashing", Hash((Place(str(tmp_path / "file")),))))
        finally:
            executor.close()

    return asyncio.run(main())


def kill_and_wait(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


@pytest.mark.parametrize("moment", ["between", pytest.param("before", marks=pytest.mark.slow)])
def test_a_killed_fork_server_is_replaced(tmp_path, monkeypatch, moment):
    """Killed while nobody looks, or after it was found alive: at most one worker is lost, and the next one starts."""

    async def work(executor, task):
        expected = (await executor.run(task)).values
        executor.close()
        server = forkserver._forkserver._forkserver_pid
        if moment == "before":
            kill_and_wait(server)
        else:
            alive = forkserver._forkserver.ensure_running

            def found_alive_and_killed():
                alive()
                monkeypatch.undo()
                kill_and_wait(forkserver._forkserver._forkserver_pid)

            monkeypatch.setattr(forkserver._forkserver, "ensure_running", found_alive_and_killed)
            with pytest.raises(WorkerDied, match="fork server") as death:
                await executor.run(task)
            assert not death.value.inside
        assert (await executor.run(task)).values == expected
        assert forkserver._forkserver._forkserver_pid != server

    carry_out(tmp_path, work)


@pytest.mark.slow
def test_a_worker_outlives_its_fork_server(tmp_path):
    """It answers as before; only how it ends is no longer known, which is never taken for a crash of its own."""

    async def work(executor, task):
        async with executor.alone() as start:
            worker = start()
            await worker.ask(task)
            kill_and_wait(forkserver._forkserver._forkserver_pid)
            assert (await worker.ask(task)).values
            os.kill(worker._process.pid, signal.SIGSEGV)
            with pytest.raises(WorkerDied, match="not known") as death:
                await worker.ask(task)
            assert not death.value.inside

    carry_out(tmp_path, work)


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_a_killed_resource_tracker_is_replaced_in_silence(tmp_path):
    """It tracks nothing of ours."""

    async def work(executor, task):
        await executor.run(task)
        executor.close()
        kill_and_wait(resource_tracker._resource_tracker._pid)
        assert (await executor.run(task)).values

    carry_out(tmp_path, work)


def test_a_worker_that_is_killed_while_it_waits_costs_no_task(tmp_path):
    """It had none."""

    async def work(executor, task):
        await executor.run(task)
        pid = executor._idle[0]._process.pid
        os.kill(pid, signal.SIGKILL)
        executor._idle[0]._process.join()
        assert (await executor.run(task)).values
        assert executor._idle[0]._process.pid != pid

    carry_out(tmp_path, work)


@pytest.mark.parametrize(
    ("number", "inside"), [("SIGSEGV", True), ("SIGABRT", True), ("SIGKILL", False), ("SIGTERM", False)]
)
def test_a_death_says_what_it_was(tmp_path, number, inside):
    """A crash is what a process does to itself; a kill is done to it."""

    async def work(executor, task):
        async with executor.alone() as start:
            worker = start()
            await worker.ask(task)
            os.kill(worker._process.pid, signal.Signals[number])
            with pytest.raises(WorkerDied) as death:
                await worker.ask(task)
            assert (death.value.cause, death.value.inside) == (number, inside)

    carry_out(tmp_path, work)


def test_alone_means_that_nothing_else_runs(tmp_path):
    """Tasks that run are waited for, no other begins, idle workers end; afterwards all go on. One at a time."""

    async def work(executor, task):
        running = [asyncio.create_task(executor.run(task)) for _ in range(2)]
        await asyncio.sleep(0)

        async def be_alone():
            async with executor.alone() as start:
                assert all(one.done() for one in running)
                assert not executor._busy
                assert not executor._idle
                later = asyncio.create_task(executor.run(task))
                worker = start()
                await worker.ask(task)
                assert executor._busy == {worker}
                assert not later.done()
            return await later

        both = await asyncio.gather(be_alone(), be_alone())
        assert both[0].values == both[1].values
        assert executor._free == executor.slots

    carry_out(tmp_path, work)

"""The pool of workers: killed ones are replaced, and a task that must run alone does."""

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
from dataclasses import replace
from multiprocessing import forkserver, resource_tracker

import pytest

from gristmill.engine.executors import local
from gristmill.engine.executors.executor import StageFailed, WorkerDied
from gristmill.engine.executors.insist import insist
from gristmill.engine.executors.local import LocalExecutor
from gristmill.engine.executors.worker import reply
from gristmill.engine.mill import wait_for
from gristmill.engine.work.task import Hash, Task
from gristmill.errors import UserError
from gristmill.places import FileLocation
from gristmill.stages.contract import Resources
from gristmill.stopping import Interrupted
from gristmill.store.store import Store


def carry_out(tmp_path, work, workers=2):
    """Run a coroutine with a pool and a task that always succeeds."""
    (tmp_path / "file").write_bytes(b"grain")
    executor = LocalExecutor(Store(str(tmp_path / "store")), workers)

    async def main():
        try:
            return await work(executor, Task("", "inputs", "hashing", Hash((FileLocation(str(tmp_path / "file")),))))
        finally:
            executor.close()

    return asyncio.run(main())


def kill_and_wait(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


@pytest.mark.parametrize("moment", ["between", pytest.param("before", marks=pytest.mark.slow)])
def test_a_killed_fork_server_is_replaced(tmp_path, monkeypatch, moment):
    """Killed between checks, or after it was found alive: the next worker comes from a new server."""

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
        assert (await executor.run(task)).values == expected
        assert forkserver._forkserver._forkserver_pid != server

    carry_out(tmp_path, work)


@pytest.mark.slow
def test_a_worker_outlives_its_fork_server(tmp_path):
    """It answers as before; only how it ends is unknown, which never counts as its own crash."""

    async def work(executor, task):
        async with executor.alone(Resources()) as start:
            worker = await start()
            await worker.ask(task)
            kill_and_wait(forkserver._forkserver._forkserver_pid)
            assert (await worker.ask(task)).values
            os.kill(worker._process.pid, signal.SIGSEGV)
            with pytest.raises(WorkerDied, match="unknown") as death:
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
def test_a_death_has_its_cause(tmp_path, number, inside):
    """A process causes its own crash; a kill comes from outside."""

    async def work(executor, task):
        async with executor.alone(Resources()) as start:
            worker = await start()
            await worker.ask(task)
            os.kill(worker._process.pid, signal.Signals[number])
            with pytest.raises(WorkerDied) as death:
                await worker.ask(task)
            assert (death.value.cause, death.value.inside) == (number, inside)

    carry_out(tmp_path, work)


def test_alone_means_that_nothing_else_runs(tmp_path):
    """Running tasks are waited for, no other begins, idle workers end; afterwards all continue. One at a time."""

    async def work(executor, task):
        running = [asyncio.create_task(executor.run(task)) for _ in range(2)]
        await asyncio.sleep(0)

        async def be_alone():
            async with executor.alone(Resources()) as start:
                assert all(one.done() for one in running)
                assert not executor._busy
                assert not executor._idle
                later = asyncio.create_task(executor.run(task))
                worker = await start()
                await worker.ask(task)
                assert executor._busy == {worker}
                assert not later.done()
            return await later

        both = await asyncio.gather(be_alone(), be_alone())
        assert both[0].values == both[1].values
        assert executor._turns.taken == 0

    carry_out(tmp_path, work)


class Unreadable:
    """Something that can be sent and not received."""

    def __reduce__(self):
        return int, ("no number",)


def test_a_task_that_its_worker_cannot_read_is_reported(tmp_path):
    """This used to wait forever: the thread that listens had died of it."""

    async def work(executor, task):
        with pytest.raises(StageFailed, match="cannot read"):
            await executor.run(replace(task, label=Unreadable()))
        assert (await executor.run(task)).values

    carry_out(tmp_path, work)


def test_an_answer_that_cannot_be_sent_is_reported():
    """And does not count as a worker that died."""
    ours, theirs = multiprocessing.Pipe()
    reply(theirs, lambda: "no name")
    failure = ours.recv()
    assert isinstance(failure, StageFailed)
    assert "type function" in str(failure)


def test_the_death_of_a_worker_is_noticed_while_another_process_holds_its_pipe(tmp_path):
    """A program that a stage started may outlive it; the end of the pipe alone would never come."""

    async def work(executor, task):
        async with executor.alone(Resources()) as start:
            worker = await start()
            await worker.ask(task)
            before, (worker._pipe, held_open) = worker._pipe, multiprocessing.Pipe()
            os.kill(worker._process.pid, signal.SIGKILL)
            with pytest.raises(WorkerDied, match="SIGKILL"):
                await worker.ask(task)
            before.close()
            held_open.close()

    carry_out(tmp_path, work)


def test_a_worker_that_closes_its_pipe_and_runs_on_is_killed(tmp_path, monkeypatch):
    """Waiting for its end would take forever."""
    monkeypatch.setattr(local, "END_S", 0.01)

    async def work(executor, task):
        async with executor.alone(Resources()) as start:
            worker = await start()
            await worker.ask(task)
            before, (worker._pipe, hung_up) = worker._pipe, multiprocessing.Pipe()
            hung_up.close()
            with pytest.raises(WorkerDied, match="closed its pipe"):
                await worker.ask(task)
            monkeypatch.undo()
            worker.kill()
            assert worker._process.exitcode == -signal.SIGKILL
            before.close()

    carry_out(tmp_path, work)


def test_if_no_worker_starts_there_is_one_message(project, monkeypatch):
    """No document is searched for: none has been read."""
    monkeypatch.setattr(local, "PAUSE_S", 0.0)
    monkeypatch.setattr(forkserver._forkserver, "ensure_running", lambda: None)
    monkeypatch.setattr(forkserver, "ensure_running", lambda: None)
    monkeypatch.setattr(forkserver._forkserver, "_forkserver_address", str(project.folder / "nobody"))
    with pytest.raises(UserError, match="No worker could be started, 8 times in a row") as reported:
        project.run(workers=2)
    assert "run again" in str(reported.value)
    assert project.notes == []


@pytest.mark.slow
def test_a_signal_is_heard_while_the_fork_server_imports(tmp_path):
    """It may take seconds on a busy machine; here it waits for a pipe, forever."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "stuck.py").write_text(f"open({str(tmp_path / 'pipe')!r}).read()\n")
    script = (
        "import sys\nfrom gristmill.engine.mill import make_executor, wait_for\n"
        "from gristmill.engine.work.task import Hash, Task\n"
        "from gristmill.cli.shared.leaving import exit_on_signals\nfrom gristmill.stopping import Interrupted\n"
        "from gristmill.store.store import Store\n"
        f"exit_on_signals()\nexecutor = make_executor(Store({str(tmp_path / 'store')!r}), 1, ['stuck'])\n"
        "try:\n    wait_for(executor.run(Task('', 'inputs', 'hashing', Hash(()))), executor)\n"
        "except Interrupted:\n    sys.exit(17)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    process = subprocess.Popen([sys.executable, "-c", script], env=environment)
    with open(tmp_path / "pipe", "w"):  # opened when the server has come to it
        process.send_signal(signal.SIGINT)
        assert process.wait() == 17


def test_a_signal_loses_no_worker_that_anybody_hears_of(tmp_path):
    """Answers that arrive at the moment of the signal are not read from workers that are gone by then."""
    (tmp_path / "file").write_bytes(b"grain")
    task = Task("", "inputs", "hashing", Hash((FileLocation(str(tmp_path / "file")),)))
    notes = []

    def note(message, *_):
        notes.append(message)

    async def work(executor):
        for number, one in enumerate(asyncio.as_completed([insist(task, executor, note) for _ in range(99)])):
            await one
            if number == 2:
                os.kill(os.getpid(), signal.SIGINT)
            for worker in executor._busy if number >= 2 else ():
                worker._pipe.poll(None)  # both have their answer ready when the loop looks next

    for _ in range(3):
        executor = LocalExecutor(Store(str(tmp_path / "store")), 2)
        with pytest.raises(Interrupted):
            wait_for(work(executor), executor)
        assert not notes

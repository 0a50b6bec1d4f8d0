"""Which job gets which task, and how the executor reacts to Slurm's answers, without a Slurm."""

import asyncio
import math
import os
import subprocess
import sys

import pytest

from gristmill.engine.executors import installation
from gristmill.engine.executors.executor import WorkerDied
from gristmill.engine.work.task import Hash, Task
from gristmill.errors import UserError
from gristmill.recipe.sections.cluster import ClusterFields
from gristmill.stages.contract import Resources
from gristmill.store.store import Store
from gristmill_slurm import executor as executors
from gristmill_slurm import job as slurm_job
from gristmill_slurm import jobs as slurm_jobs
from gristmill_slurm import sbatch
from gristmill_slurm.executor import SlurmExecutor, _QueuedTask
from gristmill_slurm.job import _Host
from gristmill_slurm.jobs import Jobs
from gristmill_slurm.member import Member

GB = 10**9


class Line:
    """A wire that records the messages sent and returns prepared ones."""

    def __init__(self, *replies):
        self.sent = []
        self._replies = list(replies)
        self.is_open = True

    def send(self, message):
        self.sent.append(message)

    async def receive(self):
        if not self._replies:
            raise EOFError
        return self._replies.pop(0)

    async def flush(self):
        return

    def close(self):
        self.is_open = False


def member(slots=1, memory=4 * GB, left=None, kind="many", job="1_0"):
    new = Member(
        Line(), {"job": job, "node": "n1", "kind": kind, "slots": slots, "memory_bytes": memory, "left_s": math.inf}
    )
    if left is not None:
        new.set_time(left)
    return new


def task(number=0, node="a/b"):
    return Task(str(number), node, f"part {number}", Hash(()), (number,))


@pytest.fixture
def executor(tmp_path, monkeypatch):
    monkeypatch.setattr(sbatch, "require", lambda: None)
    notes = []
    slurm = SlurmExecutor(Store(str(tmp_path)), None, note=notes.append, cluster=ClusterFields(jobs=2))
    slurm.notes = notes
    return slurm


def assignments(executor, members, *memories, node="a/b"):
    """Which of these jobs gets which of these tasks; None for those that wait."""

    async def main():
        loop = asyncio.get_running_loop()
        executor._members = {make() for make in members}
        for number, memory in enumerate(memories):
            executor._waiting.append(_QueuedTask((number,), number, task(number, node), memory, loop.create_future()))
        waiting = list(executor._waiting)
        executor._hand_out()
        return [one.assigned.result().job if one.assigned.done() else None for one in waiting]

    return asyncio.run(main())


def test_tasks_of_one_job_fit_into_its_memory(executor):
    """A large task holds up those after it; otherwise it would wait while there are small ones."""
    several = [lambda: member(slots=4, memory=4 * GB)]
    assert assignments(executor, several, 3 * GB, 2 * GB, 1) == ["1_0", None, None]


def test_a_task_that_needs_more_than_any_job_has_runs_alone_with_a_note(executor):
    assert assignments(executor, [lambda: member(slots=4, memory=GB)], 9 * GB, 1) == ["1_0", None]
    assert "a task may need 9.0 GB, but jobs have 1.0 GB" in executor.notes[0]


def test_a_step_that_declares_resources_has_jobs_of_that_size(executor):
    """Each job does one task at a time; the step's resources replace only the size options of the recipe."""
    options = {"partition": "big", "mem-per-cpu": 100, "cpus-per-task": 8}
    executor._cluster = executor._jobs._cluster = ClusterFields(jobs=2, sbatch=options)
    kind = executor._kind_of(Resources(memory="2GB", cores=4, gpus=1))
    assert executor._jobs.options_of(kind) == {
        "partition": "big",
        "cpus-per-task": 4,
        "mem": f"{9 * 256}M",
        "gres": "gpu:1",
    }
    assert executor._jobs.options_of("many") == options
    assert "gres" not in executor._jobs.options_of(executor._kind_of(Resources(memory="2GB")))
    assert executor._kind_of(Resources(memory="2.1GB", cores=4, gpus=1)) == kind  # about the same size

    async def main():
        loop = asyncio.get_running_loop()
        executor._members = {member(slots=8), member(kind=kind, job="2_0")}
        large = [_QueuedTask((0,), n, task(n), 2 * GB, loop.create_future(), kind) for n in range(4)]
        small = _QueuedTask((9,), 9, task(9), 1, loop.create_future())
        executor._waiting = [*large, small]
        executor._hand_out()
        assert [one.assigned.done() and one.assigned.result().job for one in (*large, small)] == [
            "2_0",
            *[False] * 3,
            "1_0",
        ]
        return executor._wanted(kind), executor._wanted("many")

    assert asyncio.run(main()) == (2, 1)  # four tasks, and jobs: 2


def test_a_task_that_needs_a_gpu_is_alone_in_a_job_that_has_one(executor):
    async def main():
        needs = Resources(memory="1GB", gpus=1)
        kind = executor._kind_of(needs)
        executor._begin = lambda: asyncio.sleep(0)
        executor._members = {member(), on_gpu := member(kind=kind, job="2_0")}
        async with executor.alone(needs) as start:
            starting = asyncio.create_task(start())
            await asyncio.sleep(0)
            assert executor._wanted(kind) == 1
            starting.cancel()
            return on_gpu.is_reserved

    assert asyncio.run(main())


def test_no_task_starts_near_the_end_of_a_job(executor):
    """A task needs the margin and the longest time of its kind; a job without that much time is dismissed."""

    def old():
        busy = member(left=100, job="1_1")
        busy.done = 1
        return busy

    assert assignments(executor, [old], 1) == ["1_1"]
    executor._waiting.clear()
    executor._longest_s["slow/step"] = 120.0
    assert assignments(executor, [old], 1, node="slow/step") == [None]
    assert not executor._members
    executor._waiting.clear()
    # the second job has done no task yet
    assert assignments(executor, [old, lambda: member(left=100)], 1, node="slow/step") == ["1_0"]


def test_a_task_without_a_job_that_has_time_delays_no_other_task(executor):
    async def main():
        loop = asyncio.get_running_loop()
        old = member(left=100)
        old.done = 1
        old.slots = 2
        old.hold(99, 1)
        executor._members = {old}
        executor._longest_s["slow/step"] = 120.0
        slow = _QueuedTask((0,), 0, task(0, "slow/step"), 1, loop.create_future())
        quick = _QueuedTask((1,), 1, task(1, "quick/step"), 1, loop.create_future())
        executor._waiting = [slow, quick]
        executor._hand_out()
        return slow.assigned.done(), quick.assigned.done()

    assert asyncio.run(main()) == (False, True)


def test_a_task_that_outlasts_whole_jobs_stops_the_run(executor):
    """Every further job would spend its time the same way."""

    async def main():
        one = member(left=1.0)
        one.lose("TIMEOUT")
        death = WorkerDied("lost", machine_lost=True)
        for _ in range(executors.TIMEOUTS - 1):
            executor._count_timeouts(task(), one, death)
        executor._count_timeouts(task(1), one, death)
        with pytest.raises(UserError, match="did not finish within the time of a whole job"):
            executor._count_timeouts(task(), one, death)

    asyncio.run(main())


def test_the_end_of_a_job_decides_whether_its_task_is_suspected():
    """A lost node says nothing about a task; running out of memory does."""

    async def lost(state, reason=""):
        one = member()
        one.said_why = reason
        asking = asyncio.create_task(one.call("task", b""))
        await asyncio.sleep(0)
        one.lose(state)
        with pytest.raises(WorkerDied) as died:
            await asking
        return died.value.machine_lost, died.value.inside

    for state in ("CANCELLED", "NODE_FAIL", "PREEMPTED", "TIMEOUT", "PENDING", ""):
        assert asyncio.run(lost(state)) == (True, False), state
    assert asyncio.run(lost("", "Slurm ended it")) == (True, False)
    for state in ("OUT_OF_MEMORY", "FAILED"):
        assert asyncio.run(lost(state)) == (False, False), state


def test_an_exclusive_job_has_its_own_options_and_no_other_task(tmp_path, monkeypatch):
    """It gets more memory if the profile gives it."""
    monkeypatch.setattr(sbatch, "require", lambda: None)
    cluster = ClusterFields(jobs=2, sbatch={"mem": "2G", "partition": "a"}, alone={"mem": "64G"})
    executor = SlurmExecutor(Store(str(tmp_path)), None, cluster=cluster)
    submitted = []
    monkeypatch.setattr(sbatch, "submit", lambda _, options, *__: submitted.append(options) or 7)
    monkeypatch.setattr(sbatch, "max_array", lambda: 10)
    executor._jobs._submit("many", 1)
    executor._jobs._submit("alone", 1)
    assert submitted == [{"mem": "2G", "partition": "a"}, {"mem": "64G", "partition": "a"}]

    async def main():
        executor._members = {member(), member(kind="alone", job="7_0")}
        reserving = asyncio.create_task(executor._reserve(executor._kind_alone))
        reserved = await reserving
        executor._waiting.append(_QueuedTask((0,), 0, task(), 1, asyncio.get_running_loop().create_future()))
        executor._hand_out()
        return reserved.job, executor._waiting

    assert asyncio.run(main()) == ("7_0", [])


def test_a_request_for_an_exclusive_job_gets_the_next_empty_one(executor):
    async def main():
        busy = member(slots=2)
        busy.hold(1, 1)
        executor._members = {busy}
        reserving = asyncio.create_task(executor._reserve(executor._kind_alone))
        await asyncio.sleep(0)
        assert not busy.has_slot  # it has no new job
        busy.release(1)
        executor._hand_out()
        return await reserving is busy and busy.is_reserved

    assert asyncio.run(main())


def test_more_jobs_than_an_array_may_have_are_several_arrays(monkeypatch):
    submitted = []
    monkeypatch.setattr(sbatch, "max_array", lambda: 1001)
    monkeypatch.setattr(sbatch, "submit", lambda *about: submitted.append(about[4]) or len(submitted))
    jobs = Jobs(ClusterFields(jobs=2500), "gristmill-x", 2500, print)
    jobs._submit("many", 2500)
    assert submitted == [1001, 1001, 498]
    assert len(jobs._entries) == 2500
    assert "3_497" in jobs._entries


def test_a_rejected_submission_is_retried(monkeypatch):
    """The run stops only if Slurm keeps rejecting jobs."""
    messages, now = [], [0.0]

    def refuse(*_):
        raise sbatch.Busy("Unable to contact slurm controller")

    monkeypatch.setattr(sbatch, "max_array", lambda: 1001)
    monkeypatch.setattr(sbatch, "submit", refuse)
    jobs = Jobs(ClusterFields(), "gristmill-x", 10, messages.append)
    jobs._clock = lambda: now[0] + 1
    jobs._submit("many", 10)
    assert "no job can be submitted now (Unable to contact slurm controller); trying again" in messages[0]
    now[0] = slurm_jobs.BUSY_S + 1
    with pytest.raises(UserError, match="Slurm has accepted no job for 5 minutes"):
        jobs._submit("many", 10)


def test_jobs_that_wait_for_a_long_time_cause_a_note(monkeypatch):
    messages = []
    jobs = Jobs(ClusterFields(), "gristmill-x", 10, messages.append)
    jobs._entries = {"1_0": slurm_jobs._JobState("many", 0.0, reason="Priority")}
    for seconds in (10, 61, 100, 130):
        jobs._note_pending(seconds)
    assert messages == [
        "no job has run for 1 min; 1 in the queue (Priority); squeue --me -n gristmill-x shows them",
        "no job has run for 2 min; 1 in the queue (Priority); squeue --me -n gristmill-x shows them",
    ]


def test_jobs_that_end_at_once_are_requested_later_if_others_work(monkeypatch):
    """One node that takes every job and loses it must not stop a run, nor cause endless submissions."""
    messages = []
    jobs = Jobs(ClusterFields(), "gristmill-x", 10, messages.append)
    jobs._clock = lambda: 5.0
    jobs._entries = {f"1_{number}": slurm_jobs._JobState("many", 0.0) for number in range(4)}
    failed = {f"1_{number}": sbatch.Job(1, number, "FAILED", "n7", math.inf, "") for number in range(3)}
    monkeypatch.setattr(sbatch, "jobs_of", lambda _: failed)
    monkeypatch.setattr(sbatch, "log_of", lambda job: "Its log is empty.")
    monkeypatch.setattr(jobs, "_submit", lambda *_: pytest.fail("asked for more"))

    async def main():
        await jobs.poll({"1_3"})
        await jobs.order({"many": 10})

    asyncio.run(main())
    assert "on n7: FAILED" in messages[0]
    assert messages[0].endswith("Other jobs work, so more are requested later.")


def test_an_internal_error_ends_the_run(executor):
    """Otherwise the run would wait for jobs that it no longer manages."""

    async def main():
        async def broken():
            raise ZeroDivisionError

        place = asyncio.get_running_loop().create_future()
        executor._waiting.append(_QueuedTask((0,), 0, task(), 1, place))
        executor._keep(asyncio.create_task(broken()))
        with pytest.raises(ZeroDivisionError):
            await place

    asyncio.run(main())


def test_the_time_formats_of_squeue_are_read():
    assert sbatch.seconds_of("1-02:03:04") == 93784
    assert sbatch.seconds_of("5:00") == 300
    assert sbatch.seconds_of("UNLIMITED") == sbatch.seconds_of("NOT_SET") == math.inf


def test_the_secret_is_in_the_environment_of_sbatch_and_not_in_its_arguments(monkeypatch):
    """Every user of the machine can see arguments; and a run that is a job does not pass on its own settings."""
    call = {}

    def run(words, patience_s, text="", environment=None):
        call.update(words=words, environment=environment, text=text)
        return subprocess.CompletedProcess(words, 0, "12;cluster\n", "")

    monkeypatch.setattr(sbatch, "_run", run)
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "100")
    cluster = ClusterFields(
        setup=("module load python",), python="/opt/my python", sbatch={"exclusive": True, "mem": 4}
    )
    text = sbatch.script(cluster, "some.module")
    assert sbatch.submit(text, cluster.sbatch, "gristmill-x", "c", 5, {"KEY": "s3cret"}) == 12
    assert text == "#!/bin/sh\nmodule load python\nexec '/opt/my python' -m some.module\n"
    assert not [word for word in call["words"] if "s3cret" in word]
    assert call["environment"]["KEY"] == "s3cret"
    assert "SLURM_MEM_PER_NODE" not in call["environment"]
    assert {"--array=0-4", "--exclusive", "--mem=4", "--no-requeue", "--job-name=gristmill-x"} <= set(call["words"])


def welcome(tmp_path, **changed):
    """The replies of a job to its first message."""
    about = {"uri": str(tmp_path), "mark": b"mark", "modules": (), "code": {}, "here": installation.installation()}
    line = Line((0, "welcome", *(about | changed).values()))
    host = _Host(line)
    asyncio.run(host.serve())
    return line.sent[1:]


def test_a_job_that_cannot_see_the_store_reports_it(tmp_path, monkeypatch):
    """A folder of that name on its own disk is not the store."""
    monkeypatch.setattr(slurm_job, "STORE_READS", 1)
    monkeypatch.setenv(slurm_job.NAME, "run")
    [(kind, why)] = welcome(tmp_path)
    assert kind == "unfit"
    assert f"does not see the store {tmp_path}" in why
    assert "object store" in why
    Store(str(tmp_path)).write_file("cluster/run", b"mark")
    assert welcome(tmp_path) == [("ready",)]


def test_a_job_with_other_libraries_does_nothing(tmp_path, monkeypatch):
    """Its outputs would be stored under keys that name our versions."""
    there = {**installation.installation(), "pyarrow": "1.2.3"}
    [(kind, why)] = welcome(tmp_path, here=there)
    assert kind == "unfit"
    assert f"has pyarrow {installation.installation()['pyarrow']} instead of 1.2.3" in why


def test_the_job_module_cannot_be_run_by_hand():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run([sys.executable, "-m", slurm_job.MODULE], env=environment, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "started by the slurm executor of a run" in ended.stderr


def test_a_missing_slurm_is_one_message(project, tmp_path):
    environment = {**os.environ, "PATH": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-m", "gristmill", "run", str(project.recipe), "--executor", "slurm"]
    ended = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert ended.returncode == 2
    assert "there is no sbatch, squeue, scancel, scontrol on the PATH" in " ".join(ended.stderr.split())
    assert not project.store.joinpath("parts").exists()


def test_slurm_commands_without_a_cluster_are_one_message(monkeypatch):
    """No setting of a recipe fixes that."""
    error = "sbatch: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host"
    ended = subprocess.CompletedProcess((), 1, "", error)
    monkeypatch.setattr(sbatch, "_run", lambda *_: ended)
    with pytest.raises(UserError, match=r"finds no Slurm: resolve_ctls_from_dns_srv.*set SLURM_CONF"):
        sbatch.submit("", {}, "gristmill-x", "", 1, {})

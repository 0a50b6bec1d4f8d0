"""Runs on a Slurm of two nodes give the same bytes after any failure of jobs, nodes or the run (laws 1 and 9)."""

import os
import signal
import sys

import pytest

from gristmill.engine.mill import Mill, Silent
from gristmill.errors import UserError
from gristmill.recipe.load import load
from gristmill_slurm import jobs, sbatch
from slurm_cluster import until

pytestmark = [pytest.mark.slurm, pytest.mark.slow]
STEPS = "  - stagebox.length\n  - stagebox.stuck_once: {{mark: {}}}\n  - stagebox.exact\n"
NAME = "gristmill-project"


@pytest.fixture
def stuck(project):
    """A project in which one task never ends the first time, and the file that shows it has started."""
    project.write_inputs(records=40)
    mark = project.folder / "mark"
    project.write_recipe(STEPS.format(mark), pattern="in/0[01].jsonl")
    return mark


def start(project, *arguments, top="jobs: 2"):
    """A run on the cluster of two nodes, in a separate process."""
    profile = project.folder / "cluster.yaml"
    profile.write_text(f"{top}\nsbatch: {{output: {project.folder}/logs/%A_%a.log}}\n")
    return project.start("--executor", "slurm", "--profile", str(profile), *arguments)


def ended(process):
    _, message = process.communicate()
    assert process.returncode == 0, message
    return message


def same_as_local(project):
    """The store equals that of a local run of the recipe, and nothing is left to do."""
    there = project.run()
    assert not project.executed(there)
    assert project.parts(there) == project.parts(project.run(store=str(project.folder / "local")))
    return True


def test_a_cancelled_job_only_costs_its_task(project, stuck, slurm):
    """After `scancel` in the middle of a task, another job does it, and no record is suspected."""
    process = start(project)
    until(stuck.exists)
    assert {name for _, name, _, _ in slurm.jobs()} == {NAME}
    slurm.command("scancel", stuck.read_text())
    message = ended(process)
    assert "stuck_once" in message
    assert "Slurm ended it" in message
    assert same_as_local(project)
    until(lambda: not slurm.jobs())


def test_a_node_that_goes_down_only_costs_its_tasks(project, stuck, slurm):
    process = start(project)
    until(stuck.exists)
    [node] = [node for job, _, _, node in slurm.jobs() if job == stuck.read_text()]
    slurm.set_down(node)
    ended(process)
    assert same_as_local(project)


def test_a_requeued_job_starts_again(project, stuck, slurm):
    """A preemption may requeue a job. It keeps its number, and there is no other job."""
    profile = project.folder / "again.yaml"
    profile.write_text("jobs: 1\nsbatch: {requeue: true}\n")
    process = project.start("--executor", "slurm", "--profile", str(profile))
    until(stuck.exists)
    job = stuck.read_text()
    slurm.command("scontrol", "requeue", job)
    until(lambda: [job, NAME, "PENDING"] in [about[:3] for about in slurm.jobs()])
    slurm.command("scontrol", "update", f"jobid={job}", "starttime=now")
    ended(process)
    assert same_as_local(project)
    assert {array for array, *_ in slurm.jobs("-t", "all", "-n", NAME)} >= {job}


def test_a_killed_run_leaves_no_job_and_can_be_resumed(project, stuck, slurm):
    """Running jobs end on their own; the next run cancels waiting jobs and does the remaining work."""
    process = start(project, top="jobs: 3")  # one of three waits
    until(stuck.exists)
    until(lambda: sorted(state for *_, state, _ in slurm.jobs()).count("PENDING") >= 1)
    process.kill()
    process.communicate()
    slurm.set_down("n1"), slurm.set_down("n2")  # otherwise the waiting job would start and find no run
    until(lambda: {state for *_, state, _ in slurm.jobs()} <= {"PENDING"})
    left = {job.partition("_")[0] for job, *_ in slurm.jobs()}
    assert left
    slurm.set_up("n1"), slurm.set_up("n2")
    message = ended(start(project))
    assert "cancelled jobs of a run that was killed" in message
    assert same_as_local(project)
    until(lambda: not slurm.jobs())
    assert not [*(project.store / "cluster").iterdir()]


def test_a_task_that_is_too_large_for_its_job_gets_a_job_with_more_memory(project, slurm):
    """Slurm ends a job that exceeds its memory; that is not a lost machine, and is not retried forever."""
    project.write_inputs(records=20)
    project.write_recipe("  - stagebox.hungry: {megabytes: 1600}\n", pattern="in/00.jsonl")
    profile = project.folder / "memory.yaml"
    profile.write_text("jobs: 1\nsbatch: {mem: 1500}\nalone: {mem: 3000}\n")
    message = ended(project.start("--executor", "slurm", "--profile", str(profile)))
    assert message.count("its job is FAILED") == 2
    assert same_as_local(project)


def test_ctrl_c_cancels_all_jobs(project, stuck, slurm):
    process = start(project)
    until(stuck.exists)
    process.send_signal(signal.SIGINT)
    _, message = process.communicate()
    assert process.returncode == 130, message
    assert "run the same command to continue" in message
    until(lambda: not slurm.jobs())


def test_a_run_may_be_a_job_itself(project, slurm):
    """It passes no setting of its own job to the jobs it submits; arrays are no longer than the cluster allows."""
    project.write_inputs(records=20)
    project.write_recipe("  - stagebox.length\n", top="cluster: {jobs: 1, sbatch: {time: 10}}", pattern="in/00.jsonl")
    command = f"exec {sys.executable} -m gristmill run {project.recipe} --executor slurm"
    search = f"--export=ALL,PYTHONPATH={os.pathsep.join(sys.path)}"
    job = slurm.command("sbatch", "--parsable", "--output=coordinator.log", search, f"--wrap={command}").strip()
    until(lambda: job not in {about[0] for about in slurm.jobs()})
    log = (project.folder / "coordinator.log").read_text()
    assert "COMPLETED" in slurm.command("squeue", "-h", "-t", "all", "-j", job, "-o", "%T"), log
    assert same_as_local(project)
    assert sbatch.max_array() == 1001


def refused(project, cluster, monkeypatch):
    """The error of a run with these settings, and the number of jobs it submitted."""
    submitted, submit = [], sbatch.submit
    monkeypatch.setattr(sbatch, "submit", lambda *about: submitted.append(1) or submit(*about))
    project.write_recipe("  - stagebox.length\n")
    profile = project.folder / "cluster.yaml"
    profile.write_text(cluster)
    with pytest.raises(UserError) as message:
        Mill(load(project.recipe, profile=str(profile)), executor="slurm").run(None, Silent())
    return str(message.value), len(submitted)


def test_a_rejection_by_sbatch_is_one_message(project, slurm, monkeypatch):
    message, submitted = refused(project, "{sbatch: {partition: nowhere}}", monkeypatch)
    assert "Slurm refuses the jobs: " in message
    assert "invalid partition specified: nowhere" in message
    assert "under cluster in the recipe" in message
    assert submitted == 1


def test_jobs_that_end_at_once_are_one_message_with_their_log(project, slurm, monkeypatch):
    """They are not requested repeatedly."""
    monkeypatch.setattr(jobs, "STILLBORN", 2)
    settings = "{jobs: 1, setup: ['echo there is no such module: python', 'exit 7']}"
    message, submitted = refused(project, settings, monkeypatch)
    assert "2 Slurm jobs ended before they did anything" in message
    assert message.endswith("there is no such module: python")
    assert submitted == 2
    assert not slurm.jobs()


def test_jobs_that_cannot_reach_the_run_name_the_settings_to_change(project, slurm, monkeypatch):
    monkeypatch.setattr(jobs, "STILLBORN", 1)
    wrapper = project.folder / "python"  # as if the answer came from the node, and without its pauses
    wrapper.write_text(
        f"#!{sys.executable}\nimport sys\nfrom gristmill_slurm import job\njob.PAUSE_S = 0.0\nsys.exit(job.main())\n"
    )
    wrapper.chmod(0o755)
    message, _ = refused(project, f"{{jobs: 1, host: nowhere.invalid, python: {wrapper}}}", monkeypatch)
    assert "cannot be reached from" in message
    assert "set host (and port, if there is a firewall)" in message

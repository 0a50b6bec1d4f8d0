"""Law 1: the number of workers, a crash and a resume, and the order of finishing do not change one byte."""

import signal

import pytest
from conftest import STEPS

from slurm_cluster import until


@pytest.mark.slow
def test_one_and_two_workers_give_the_same_bytes(project):
    """The output does not depend on the worker count."""
    one = project.run(workers=1, store=str(project.folder / "one"))
    two = project.run(workers=2, store=str(project.folder / "two"))
    assert project.parts(one) == project.parts(two)


def test_a_store_in_memory_gives_the_same_bytes(project):
    """The output does not depend on the location of the store, and no other process is needed."""
    disk = project.run()
    memory = project.run(store=f"memory://{project.folder}")
    assert project.parts(memory) == project.parts(disk)
    assert project.executed(project.run(store=f"memory://{project.folder}")) == {}


def test_the_order_of_the_patterns_does_not_matter(project, edit):
    """Inputs are sorted by name before they are cut into parts."""
    first = project.run()
    edit(project.recipe, "paths: ['in/*.jsonl']", "paths: ['in/0[23].jsonl', 'in/0[01].jsonl']")
    assert project.parts(project.run()) == project.parts(first)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_a_run_within_seconds_and_it_can_be_resumed(project, number):
    """Ctrl-C and SIGTERM, while one task is held up and others continue, stop the run cleanly.

    The run prints one line, exits with code 128 + signal, leaves no worker and no half-written file, and can be
    resumed.
    """
    mark = project.folder / "mark"
    project.write_recipe(f"  - stagebox.stuck_once: {{mark: {mark}}}\n{STEPS}")
    process = project.start()
    until(lambda: process.poll() is not None or (mark.exists() and any(project.store.glob("tasks/*.json"))))
    assert process.poll() is None, process.communicate()
    process.send_signal(number)
    _, stderr = process.communicate()
    assert process.returncode == 128 + number
    assert "run the same command to continue" in stderr
    assert "Traceback" not in stderr
    assert not list((project.store / "tmp").iterdir())
    assert not list(project.store.glob("datasets/*")), "a dataset is only named when it is complete"
    record = project.mill().last_run()
    assert record["status"] == "stopped: Interrupted"
    resumed = project.run()
    assert sum(len(state.executed) for state in resumed.states.values()) > 0
    assert sum(len(state.tasks) - len(state.executed) for state in resumed.states.values()) > 0

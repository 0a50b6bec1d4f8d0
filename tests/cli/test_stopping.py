"""Ctrl-C and SIGTERM: one line and the signal's exit code, whatever is under way, also while things are imported."""

import os
import signal
import subprocess
import sys

import pytest

from gristmill.cli.shared.leaving import stopped

IMPORTED = "import time:"
STOPPED = "stopped. Finished work is kept; run the same command to continue."
STEPS = "  - stagebox.length\n  - stagebox.longer_than: {chars: 12}\n"


def stop_after(project, lines, number=signal.SIGINT):
    """Exit code and words of a run whose processes all get a signal after so many imports, of the fork server too.

    Python tells of every import when it is done, so a moment is a line and not a time. Imports before our first are
    Python's own.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONPROFILEIMPORTTIME": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "gristmill", "run", str(project.recipe), "--workers", "2"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that the signal reaches all that it starts, and not us
    )
    with process:
        while not process.stderr.readline().rstrip().endswith("gristmill.cli.shared.leaving"):
            assert process.poll() is None
        said = [line for _ in range(lines + 1) if (line := process.stderr.readline())]
        os.killpg(process.pid, number)
        said += process.stderr.readlines()  # until nobody is left who could say something
    return process.returncode, [line for line in said if not line.startswith(IMPORTED)]


def check(project, lines, number=signal.SIGINT):
    code, said = stop_after(project, lines, number)
    if code != 0:  # it was over before
        assert code == 128 + number, said
        assert said[-1] == f"gristmill: {STOPPED}\n"
        said.pop()
    # A worker that SIGTERM reached before the run itself did may be told of; nothing else.
    assert not [line for line in said if not (number == signal.SIGTERM and "SIGTERM" in line)]


def test_a_command_is_stopped_while_it_is_imported(project):
    """Before any of its own code runs."""
    project.write_recipe(STEPS)
    check(project, 0)
    assert not project.store.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "lines"),
    [*((signal.SIGINT, lines) for lines in (60, 870, 1000, 1060, 1100)), (signal.SIGTERM, 1060)],
)
def test_a_run_is_stopped_at_any_moment(project, number, lines):
    """In the imports of the command, of the fork server, in the run; its workers and their server say nothing."""
    project.write_recipe(STEPS)
    check(project, lines, number)
    run = project.run()
    assert run.states["all/longer_than"].metrics["rows"]


@pytest.mark.parametrize(
    ("arguments", "goes_on"),
    [
        *(("run r.yaml", "Finished work is kept"), ("tokenizer train r.yaml", "Finished work is kept")),
        *(("verify r.yaml --repair", "Repairs so far are kept"), ("gc r.yaml", "Files removed so far are gone")),
        *((command, "") for command in ("verify r.yaml", "gc r.yaml --dry-run", "plan r.yaml", "tokenizer audit t")),
        *((command, "") for command in ("inspect run", "index r.yaml folder", "shards verify r.yaml", "")),
    ],
)
def test_a_stopped_command_says_what_is_true_of_it(monkeypatch, arguments, goes_on):
    """Only a command that keeps something can continue."""
    monkeypatch.setattr(sys, "argv", ["gristmill", *arguments.split()])
    kept = f"stopped. {goes_on}"
    assert stopped().startswith(kept if goes_on else "stopped. Nothing was kept")
    assert stopped().endswith("to continue." if goes_on else "run the same command again.")


def test_a_signal_that_is_ignored_stays_ignored(project):
    """As under `nohup`, or in the background of a script."""
    project.write_recipe(STEPS)
    code = (
        "import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN);"
        "from gristmill.cli.shared.leaving import exit_on_signals; exit_on_signals();"
        "os.kill(os.getpid(), signal.SIGINT)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0

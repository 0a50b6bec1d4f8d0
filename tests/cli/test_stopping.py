"""How a command ends: Ctrl-C and SIGTERM end it with one line and the signal's exit code at any moment, even during
imports; nothing else can change its exit code once it is done.
"""

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
    """Return the exit code and log of a run whose processes all get a signal after the given number of imports,
    including those of the fork server. Python reports every finished import, so a moment is a line and not a time.
    Imports before our first one are Python's own.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONPROFILEIMPORTTIME": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "gristmill", "run", str(project.recipe), "--workers", "2"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # the signal reaches all its processes, but not ours
    )
    with process:
        while not process.stderr.readline().rstrip().endswith("gristmill.cli.shared.leaving"):
            assert process.poll() is None
        log = [line for _ in range(lines + 1) if (line := process.stderr.readline())]
        os.killpg(process.pid, number)
        log += process.stderr.readlines()  # until every process has ended
    return process.returncode, [line for line in log if not line.startswith(IMPORTED)]


def check(project, lines, number=signal.SIGINT):
    code, log = stop_after(project, lines, number)
    if code != 0:  # the run finished before the signal
        assert code == 128 + number, log
        assert log[-1] == f"gristmill: {STOPPED}\n"
        log.pop()
    # A worker that gets SIGTERM before the run itself does may be reported; nothing else.
    assert not [line for line in log if not (number == signal.SIGTERM and "SIGTERM" in line)]


def test_a_command_can_be_stopped_during_imports(project):
    """The signal comes before any of its own code runs."""
    project.write_recipe(STEPS)
    check(project, 0)
    assert not project.store.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "lines"),
    [*((signal.SIGINT, lines) for lines in (60, 870, 1000, 1060, 1100)), (signal.SIGTERM, 1060)],
)
def test_a_run_can_be_stopped_at_any_moment(project, number, lines):
    """The signal comes during imports of the command or of the fork server, or in the run; workers print nothing."""
    project.write_recipe(STEPS)
    check(project, lines, number)
    run = project.run()
    assert run.states["all/longer_than"].metrics["rows"]


ENDLESS = """
import sys

def endless(text):
    print("computes", file=sys.stderr, flush=True)
    while True:
        try:
            hash(text)
        except Exception:
            pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_task_in_this_process_can_be_stopped(project, number):
    """The loop that handles signals waits for the task, which would never end."""
    (project.folder / "mine.py").write_text(ENDLESS)
    project.write_recipe("  - mine.endless\n")
    command = [sys.executable, "-m", "gristmill", "run", str(project.recipe), "--executor", "inline"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as run:
        while run.stderr.readline() != "computes\n":
            assert run.poll() is None
        run.send_signal(number)
        log = run.stderr.readlines()
    assert (run.returncode, log[-1]) == (128 + number, f"gristmill: {STOPPED}\n"), log


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        *(("run r.yaml", "Finished work is kept"), ("tokenizer train r.yaml", "Finished work is kept")),
        *(("verify r.yaml --repair", "Repairs so far are kept"), ("gc r.yaml", "Files removed so far are gone")),
        *((command, "") for command in ("verify r.yaml", "gc r.yaml --dry-run", "plan r.yaml", "tokenizer audit t")),
        *((command, "") for command in ("inspect run", "shards verify r.yaml", "")),
    ],
)
def test_a_stopped_command_says_what_was_kept(monkeypatch, arguments, message):
    """Only a command that keeps something can continue."""
    monkeypatch.setattr(sys, "argv", ["gristmill", *arguments.split()])
    expected = f"stopped. {message}"
    assert stopped().startswith(expected if message else "stopped. Nothing was kept")
    assert stopped().endswith("to continue." if message else "run the same command again.")


def test_an_ignored_signal_stays_ignored(project):
    """This is the case under `nohup`, or in the background of a script."""
    project.write_recipe(STEPS)
    code = (
        "import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN);"
        "from gristmill.cli.shared.leaving import exit_on_signals; exit_on_signals();"
        "os.kill(os.getpid(), signal.SIGINT)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


READING = '''
import atexit, io, threading, time
import pyarrow as pa
import pyarrow.parquet as pq

class Slow(io.BytesIO):
    """A file that is always being read."""

    def read(self, *arguments):
        begun.set()
        time.sleep(0.002)
        return super().read(*arguments)

def read_forever():
    while True:
        pq.read_table(Slow(written.getvalue()))

def long_enough(text):
    return len(text) > 1

begun, written = threading.Event(), io.BytesIO()
pq.write_table(pa.table({"number": [1, 2, 3]}), written)
threading.Thread(target=read_forever, daemon=True).start()
begun.wait()
atexit.register(print, "left")
'''


def test_a_thread_of_a_library_cannot_abort_a_command_that_is_done(project):
    """Arrow's threads need the interpreter for Python's files and buffers; one that ended would take them with it."""
    (project.folder / "reading.py").write_text(READING)
    project.write_recipe("  - reading.long_enough\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "gristmill", "plan", str(project.recipe)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.endswith("left\n")  # what is registered for the end still runs

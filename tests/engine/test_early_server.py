"""The fork server that a command forks at its start: it serves, or else a new Python does; users do not notice it."""

import os
import subprocess
import sys

import pytest

from gristmill.engine.executors.early_server import NAME

START = """
import multiprocessing, os, signal, sys, threading
from multiprocessing import forkserver
from pathlib import Path
from gristmill.engine.executors import early_server
from gristmill.engine.executors.early_server import fork_early, taken_up
from gristmill.cli.shared.leaving import exit_on_signals

def serve():
    with taken_up():
        forkserver.ensure_running()
    worker = multiprocessing.get_context("forkserver").Process(target=sys.exit, args=(17,))
    worker.start()
    worker.join()
    assert worker.exitcode == 17, worker.exitcode
    return forkserver._forkserver._forkserver_pid

exit_on_signals()
forkserver.set_forkserver_preload(["json"])
"""


def said_by(script):
    """The output of a process that starts like a command; it must end without an error."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", START + script]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.split()


def test_workers_come_from_the_process_that_waits():
    """It has its own name, and the signals of a new Python."""
    early, server, name, blocked, caught = said_by(
        "fork_early()\nprint(early_server._waiting.pid)\npid = serve()\nprint(pid)\n"
        "status = dict(line.split(':', 1) for line in Path(f'/proc/{pid}/status').read_text().splitlines())\n"
        "print(status['Name'].strip(), status['SigBlk'], status['SigCgt'])\n"
    )
    assert early == server
    assert name == NAME
    assert int(blocked, 16) == 1 << 1, "SIGINT alone"
    assert not int(caught, 16) & 1 << 14, "SIGTERM ends it"


def test_a_process_with_threads_is_not_forked():
    """The child would inherit their locks, and nothing would release them."""
    assert said_by(
        "wait = threading.Event()\nthreading.Thread(target=wait.wait).start()\nfork_early()\n"
        "print(early_server._waiting)\nserve()\nwait.set()\n"
    ) == ["None"]


@pytest.mark.parametrize("moment", ["waits", "serves"])
def test_one_that_is_killed_is_replaced(moment):
    """By a new Python."""
    served = "serve()\n" if moment == "serves" else ""
    early, server = said_by(
        f"fork_early()\npid = early_server._waiting.pid\nprint(pid)\n{served}os.kill(pid, signal.SIGKILL)\n"
        "os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)\nprint(serve())\n"
    )
    assert early != server


def test_it_ends_with_a_command_that_needs_no_worker():
    """It holds the standard streams, and this test waits for their end."""
    assert said_by("fork_early()\nos._exit(0)\n") == []


def test_it_keeps_no_file_of_the_command_open():
    """A process that waits for the end of such a file would wait for the end of the run."""
    assert said_by("reads, writes = os.pipe()\nfork_early()\nos.close(writes)\nprint(os.read(reads, 1))\n") == ["b''"]


def test_workers_have_the_environment_and_the_folder_of_now(tmp_path):
    """Like those of a new Python, and not those at the time of the fork."""
    where = tmp_path / "now"
    where.mkdir()
    program = "import os; os.write(1, f\"{os.environ.get('LATER')} {os.getcwd()}\".encode())"
    script = (
        f"fork_early()\nos.environ['LATER'] = 'seen'\nos.chdir({str(where)!r})\nserve()\n"
        f"worker = multiprocessing.get_context('forkserver').Process(target=exec, args=({program!r},))\n"
        "worker.start()\nworker.join()\n"
    )
    assert said_by(script) == ["seen", str(where)]

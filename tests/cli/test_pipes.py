"""A command handles output streams that are closed, full or missing."""

import os
import subprocess
import sys

import pytest

from gristmill.cli.main import COMMANDS, added_commands, main

GONE = 141
"""128 plus the number of SIGPIPE: the exit code that a shell reports for a program that SIGPIPE ended."""


def run_gristmill(*arguments, **streams):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([sys.executable, "-m", "gristmill", *arguments], env=environment, check=False, **streams)


@pytest.fixture
def closed_pipe():
    """The write end of a pipe whose reader is closed."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    yield write_end
    os.close(write_end)


@pytest.mark.parametrize("arguments", [["steps"], ["steps", "--markdown"], ["--version"]])
@pytest.mark.slow
def test_a_closed_pipe_ends_a_command_silently(closed_pipe, arguments):
    """This covers tables, plain text and typer's own output, larger and smaller than the pipe's buffer."""
    done = run_gristmill(*arguments, stdout=closed_pipe, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (GONE, b"")


@pytest.mark.parametrize("command", [*COMMANDS, *added_commands()])
def test_every_command_ends_silently_on_a_closed_pipe(closed_pipe, command, monkeypatch):
    """All commands print through the same streams; mistakes go to standard error."""
    for stream, option in (("stdout", "--help"), ("stderr", "--no-such-option")):
        monkeypatch.setattr(sys, "argv", ["gristmill", command, option])
        monkeypatch.setattr(sys, stream, os.fdopen(os.dup(closed_pipe), "w", encoding="utf-8"))
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == GONE


@pytest.mark.parametrize("option", [[], ["--json"]])
@pytest.mark.slow
def test_a_run_may_write_its_result_to_a_file(project, tmp_path, option):
    """With `gristmill run recipe.yaml > answer`, what a step prints goes to standard error."""
    project.write_inputs(files=1, records=20)
    project.write_recipe("  - stagebox.noisy\n")
    with open(tmp_path / "answer", "wb") as answer:
        done = run_gristmill("run", project.recipe, "--workers", "1", *option, stdout=answer, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr.decode()
    assert (tmp_path / "answer").read_bytes()


@pytest.mark.slow
def test_a_run_whose_log_is_closed_stops_and_can_continue(project, closed_pipe):
    """This covers `gristmill run 2>&1` and `gristmill run`, both piped to `head`."""
    assert run_gristmill("run", project.recipe, stdout=closed_pipe, stderr=subprocess.PIPE).returncode == GONE
    done = run_gristmill("run", project.recipe, "--json", stdout=subprocess.PIPE, stderr=closed_pipe)
    assert done.returncode == 0, "nothing is written to standard error"
    (project.folder / "in" / "00.jsonl").write_text('{"text": "grain"}\n')
    project.write_recipe("  - stagebox.noisy\n")
    assert run_gristmill("run", project.recipe, stdout=closed_pipe, stderr=closed_pipe).returncode == GONE


@pytest.mark.slow
def test_a_full_disk_is_one_message():
    """Without any streams, the command still works."""
    with open("/dev/full", "wb") as full:
        done = run_gristmill("steps", stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr.startswith(b"gristmill: The output cannot be written: No space left on device.")
    assert done.stderr.count(b"\n") == 1
    closed = f'exec "{sys.executable}" -m gristmill steps >&- 2>&-'
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run(["sh", "-c", closed], env=environment, check=False).returncode == 0


@pytest.mark.slow
def test_a_run_works_without_standard_streams(project):
    """A daemon may have all three closed: store files do not take their descriptors, and workers start."""
    project.write_recipe("  - stagebox.length\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    script = 'exec "$0" -m gristmill run "$1" --workers 1 <&- >&- 2>&-'
    done = subprocess.run(["sh", "-c", script, sys.executable, project.recipe], env=environment, check=False)
    assert done.returncode == 0
    assert project.mill().last_run()["status"] == "finished"

"""What a command prints goes to somebody who may have left, to a full disk, or to nobody."""

import os
import subprocess
import sys

import pytest

from gristmill.cli.main import COMMANDS, main

GONE = 141
"""128 and the number of SIGPIPE: what a shell shows of a program that it ended."""


def typed(*arguments, **streams):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([sys.executable, "-m", "gristmill", *arguments], env=environment, check=False, **streams)


@pytest.fixture
def nobody():
    """The end of a pipe that nobody reads."""
    theirs, ours = os.pipe()
    os.close(theirs)
    yield ours
    os.close(ours)


@pytest.mark.parametrize("arguments", [["steps"], ["steps", "--markdown"], ["--version"]])
@pytest.mark.slow
def test_a_reader_that_is_gone_ends_a_command_in_silence(nobody, arguments):
    """Tables, plain text and what the library for options prints, more and less than a pipe holds."""
    done = typed(*arguments, stdout=nobody, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (GONE, b"")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_ends_in_silence(nobody, command, monkeypatch):
    """All of them print through the same streams; a mistake is told on the other one."""
    for stream, option in (("stdout", "--help"), ("stderr", "--no-such-option")):
        monkeypatch.setattr(sys, "argv", ["gristmill", command, option])
        monkeypatch.setattr(sys, stream, os.fdopen(os.dup(nobody), "w", encoding="utf-8"))
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == GONE


@pytest.mark.parametrize("option", [[], ["--json"]])
@pytest.mark.slow
def test_a_run_may_answer_to_a_file_and_tell_of_it_elsewhere(project, tmp_path, option):
    """`gristmill run recipe.yaml > answer`: what a step prints goes with what is told, which may be no file."""
    project.write_inputs(files=1, records=20)
    project.write_recipe("  - stagebox.noisy\n")
    with open(tmp_path / "answer", "wb") as answer:
        done = typed("run", project.recipe, "--workers", "1", *option, stdout=answer, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr.decode()
    assert (tmp_path / "answer").read_bytes()


@pytest.mark.slow
def test_a_run_whose_log_nobody_reads_stops_and_goes_on_later(project, nobody):
    """`gristmill run 2>&1 | head`, and `gristmill run | head`, whose last lines nobody sees."""
    assert typed("run", project.recipe, stdout=nobody, stderr=subprocess.PIPE).returncode == GONE
    done = typed("run", project.recipe, "--json", stdout=subprocess.PIPE, stderr=nobody)
    assert done.returncode == 0, "nothing was said there"
    (project.folder / "in" / "00.jsonl").write_text('{"text": "grain"}\n')
    project.write_recipe("  - stagebox.noisy\n")
    assert typed("run", project.recipe, stdout=nobody, stderr=nobody).returncode == GONE


@pytest.mark.slow
def test_a_full_disk_is_a_message():
    """And where nobody listens at all, the command does its work."""
    with open("/dev/full", "wb") as full:
        done = typed("steps", stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr.startswith(b"gristmill: The output cannot be written: No space left on device.")
    assert done.stderr.count(b"\n") == 1
    closed = f'exec "{sys.executable}" -m gristmill steps >&- 2>&-'
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run(["sh", "-c", closed], env=environment, check=False).returncode == 0


@pytest.mark.slow
def test_a_run_goes_on_without_standard_streams(project):
    """What starts daemons may close all three: no file of the store takes their place, and workers start."""
    project.write_recipe("  - stagebox.length\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    script = 'exec "$0" -m gristmill run "$1" --workers 1 <&- >&- 2>&-'
    done = subprocess.run(["sh", "-c", script, sys.executable, project.recipe], env=environment, check=False)
    assert done.returncode == 0
    assert project.mill().last_run()["status"] == "finished"

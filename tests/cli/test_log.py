"""The log: standard library loggers, which a command writes to standard error as text or as JSON."""

import json
import logging
import os
import re
import signal
import subprocess
import sys

import pytest
from typer.main import get_command

import gristmill
from gristmill.cli.main import main, make_app
from gristmill.cli.shared.screen import JsonLines
from gristmill.log import INFO, ROOT, WARNING, Log
from gristmill.objects import patience

KEYS = ["time", "level", "logger", "message", "fields"]


def run_command(monkeypatch, capsys, *arguments):
    """Return the exit code, standard output and standard error of a command."""
    monkeypatch.setattr(sys, "argv", ["gristmill", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, *capsys.readouterr()


def log_records(text):
    """Parse a JSON log; an incomplete record fails."""
    entries = [json.loads(line) for line in text.splitlines()]
    assert all(list(entry) == KEYS for entry in entries)
    return entries


def test_a_json_log_has_the_same_facts_as_a_text_log(project, in_this_process, monkeypatch, capsys):
    """Standard error has nothing else; notes and warnings equal those of the text log, and tasks have fields."""
    project.write_inputs(1, 3)  # plus a record that cannot be read
    project.write_recipe("\n  - stagebox.length\n", pattern="in/00.jsonl")
    code, _, text = run_command(monkeypatch, capsys, "run", project.recipe, "--store", project.folder / "one")
    assert code == 0
    expected = re.findall(r"WARNING: (.*)", text)
    assert expected
    code, out, logged = run_command(
        monkeypatch, capsys, "run", project.recipe, "--store", project.folder / "two", "--log-json", "-v"
    )
    assert code == 0
    entries = log_records(logged)
    warned = [entry["message"] for entry in entries if entry["level"] == "warning"]
    assert [entry.replace("/two", "/one") for entry in warned] == expected
    tasks = [entry["fields"] for entry in entries if entry["level"] == "debug"]
    assert {entry["step"] for entry in tasks} >= {"notes/ingest", "all/length"}
    [read] = [entry for entry in tasks if entry["step"] == "notes/ingest"]
    assert (read["rows"], read["dropped"], read["bytes"] > 0, read["seconds"] > 0) == (
        4,
        {"invalid_json": 1},
        True,
        True,
    )
    assert read["where"].endswith(f"process {os.getpid()}")
    assert all(entry["logger"].startswith("gristmill.") for entry in entries)
    assert "version" in out
    assert ROOT.handlers == []


def test_every_failure_is_json_too(project, monkeypatch, capsys):
    """A wrong recipe, a wrong option, an unknown command and a bug each give one record with the same message."""
    for arguments in (["run", "missing.yaml"], ["funnel", project.recipe, "--sorce", "x"], ["fun"]):
        code, _, text = run_command(monkeypatch, capsys, *arguments)
        assert code == 2
        code, _, logged = run_command(monkeypatch, capsys, *arguments, "--log-json")
        (record,) = log_records(logged)
        assert (code, record["level"], f"gristmill: {record['message']}\n") == (2, "error", text)
    monkeypatch.setattr("gristmill.cli.run.plan.command", lambda recipe: 1 / 0)
    code, _, logged = run_command(monkeypatch, capsys, "plan", "--log-json", "recipe")
    (record,) = log_records(logged)
    assert (code, record["level"]) == (1, "error")
    assert record["message"].endswith("ZeroDivisionError: division by zero")


def test_a_signal_is_json_too():
    """This includes a signal that comes before any other import."""
    code = (
        "import os, signal, sys; sys.argv[1:] = ['run', 'x', '--log-json'];"
        "from gristmill.cli.shared.leaving import exit_on_signals; exit_on_signals();"
        "os.kill(os.getpid(), signal.SIGTERM)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 128 + signal.SIGTERM
    (record,) = log_records(done.stderr)
    assert record["message"] == "stopped. Finished work is kept; run the same command to continue."


def test_library_output_becomes_log_records(capsys):
    """Text that a library writes to standard error is collected into lines; escape sequences are escaped."""
    stream = JsonLines(sys.stderr)
    for piece in ("a warn", "ing\x1b[2J\n\nnext\nunfinished"):
        stream.write(piece)
    assert [entry["message"] for entry in log_records(capsys.readouterr().err)] == ["a warning\x1b[2J", "next"]


@pytest.mark.slow
def test_every_command_accepts_verbose_and_log_json():
    """Subcommands do too."""
    commands = [get_command(make_app())]
    for command in commands:
        subcommands = getattr(command, "commands", {}).values()
        commands += subcommands
        flags = {flag for parameter in command.params for flag in parameter.opts}
        assert subcommands or {"-v", "--verbose", "--log-json"} <= flags, command.name
    assert len(commands) > 30


def test_a_run_from_python_logs(project, in_this_process, caplog):
    """Progress is at INFO and warnings at WARNING; nothing is printed, and `progress` gets the same messages."""
    project.write_inputs(1, 3)  # plus a record that cannot be read
    project.write_recipe("\n  - stagebox.length\n", pattern="in/00.jsonl")
    messages = []
    with caplog.at_level(logging.INFO, "gristmill"):
        finished = gristmill.open(project.recipe).run(progress=messages.append)
    logged = {(entry.levelno, entry.getMessage()) for entry in caplog.records if entry.name == "gristmill.run"}
    assert {(INFO, message) for message in messages} <= logged
    assert (INFO, "all/length: done") in logged
    assert finished.warnings
    assert {message for level, message in logged if level == WARNING} == {*finished.warnings}
    assert not any("--" in message for _, message in logged)


def test_waiting_for_a_store_is_logged_outside_a_run(caplog, monkeypatch):
    """It is a warning, at most once a minute."""
    monkeypatch.setattr(patience, "_listener", patience._Listener(Log("objects")))
    for _ in range(2):
        patience._listener.waits("s3://mill", patience.RequestFault(503, "SlowDown", "SlowDown: busy"))
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("gristmill.objects", WARNING)
    assert record.getMessage().startswith("requests to s3://mill fail (SlowDown: busy)")


def test_names_in_the_log_are_escaped(caplog):
    """A message is one line, whatever names it contains."""
    Log("loader").warn("shard\x1b[2J\nforged")
    assert caplog.messages == ["shard\\x1b[2J\\nforged"]

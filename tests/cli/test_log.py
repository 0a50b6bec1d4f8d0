"""The log: standard loggers of the library, which a command shows on standard error as text or as JSON."""

import json
import logging
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


def called(monkeypatch, capsys, *words):
    """Exit code, standard output and standard error of a command."""
    monkeypatch.setattr(sys, "argv", ["gristmill", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, *capsys.readouterr()


def lines_of(text):
    """Records of a log in JSON; what is not a whole one fails."""
    found = [json.loads(line) for line in text.splitlines()]
    assert all(list(one) == KEYS for one in found)
    return found


def test_a_run_in_json_logs_the_facts_of_the_text(project, in_this_process, monkeypatch, capsys):
    """Standard error has nothing else; notes and warnings are those of the same run in text, and tasks have fields."""
    project.write_inputs(1, 3)  # and a record that cannot be read
    project.write_recipe("\n  - stagebox.length\n", pattern="in/00.jsonl")
    code, _, text = called(monkeypatch, capsys, "run", project.recipe, "--store", project.folder / "one")
    assert code == 0
    result = re.findall(r"WARNING: (.*)", text)
    assert result
    code, out, logged = called(
        monkeypatch, capsys, "run", project.recipe, "--store", project.folder / "two", "--log-json", "-v"
    )
    assert code == 0
    found = lines_of(logged)
    warned = [one["message"] for one in found if one["level"] == "warning"]
    assert [one.replace("/two", "/one") for one in warned] == result
    tasks = [one["fields"] for one in found if one["level"] == "debug"]
    assert {one["step"] for one in tasks} >= {"notes/ingest", "all/length"}
    assert all(one["logger"].startswith("gristmill.") for one in found)
    assert "version" in out
    assert ROOT.handlers == []


def test_every_failure_is_json_too(project, monkeypatch, capsys):
    """A wrong recipe, a wrong option, an unknown command, a bug: one record each, with the message of the text."""
    for words in (["run", "missing.yaml"], ["funnel", project.recipe, "--sorce", "x"], ["fun"]):
        code, _, text = called(monkeypatch, capsys, *words)
        assert code == 2
        code, _, logged = called(monkeypatch, capsys, *words, "--log-json")
        (record,) = lines_of(logged)
        assert (code, record["level"], f"gristmill: {record['message']}\n") == (2, "error", text)
    monkeypatch.setattr("gristmill.cli.run.plan.command", lambda recipe: 1 / 0)
    code, _, logged = called(monkeypatch, capsys, "plan", "--log-json", "recipe")
    (record,) = lines_of(logged)
    assert (code, record["level"]) == (1, "error")
    assert record["message"].endswith("ZeroDivisionError: division by zero")


def test_a_signal_is_json_too():
    """Also one that comes before anything is imported."""
    code = (
        "import os, signal, sys; sys.argv[1:] = ['run', 'x', '--log-json'];"
        "from gristmill.cli.shared.leaving import exit_on_signals; exit_on_signals();"
        "os.kill(os.getpid(), signal.SIGTERM)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 128 + signal.SIGTERM
    (record,) = lines_of(ended.stderr)
    assert record["message"] == "stopped. Finished work is kept; run the same command to continue."


def test_lines_of_others_are_records(capsys):
    """Whatever a library writes to standard error, in pieces too; what would steer a terminal is escaped."""
    stream = JsonLines(sys.stderr)
    for piece in ("a warn", "ing\x1b[2J\n\nnext\nunfinished"):
        stream.write(piece)
    assert [one["message"] for one in lines_of(capsys.readouterr().err)] == ["a warning\x1b[2J", "next"]


@pytest.mark.slow
def test_every_command_takes_both_options():
    """Subcommands too."""
    commands = [get_command(make_app())]
    for command in commands:
        below = getattr(command, "commands", {}).values()
        commands += below
        flags = {flag for parameter in command.params for flag in parameter.opts}
        assert below or {"-v", "--verbose", "--log-json"} <= flags, command.name
    assert len(commands) > 50


def test_a_run_from_python_logs(project, in_this_process, caplog):
    """Progress at INFO, warnings at WARNING, in Python's form; nothing is printed, and `progress` gets the same."""
    project.write_inputs(1, 3)  # and a record that cannot be read
    project.write_recipe("\n  - stagebox.length\n", pattern="in/00.jsonl")
    heard = []
    with caplog.at_level(logging.INFO, "gristmill"):
        finished = gristmill.open(project.recipe).run(progress=heard.append)
    result = {(one.levelno, one.getMessage()) for one in caplog.records if one.name == "gristmill.run"}
    assert {(INFO, message) for message in heard} <= result
    assert (INFO, "all/length: done") in result
    assert finished.warnings
    assert {message for level, message in result if level == WARNING} == {*finished.warnings}
    assert not any("--" in message for _, message in result)


def test_waits_are_warnings_outside_of_a_run(caplog, monkeypatch):
    """A store that is waited for is a warning of the log, once a minute at most."""
    monkeypatch.setattr(patience, "_listener", patience._Listener(Log("objects")))
    for _ in range(2):
        patience._listener.waits("s3://mill", patience.RequestFault(503, "SlowDown", "SlowDown: busy"))
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("gristmill.objects", WARNING)
    assert record.getMessage().startswith("requests to s3://mill fail (SlowDown: busy)")


def test_names_in_the_log_are_harmless(caplog):
    """A message is one line, whatever the names in it hold."""
    Log("loader").warn("shard\x1b[2J\nforged")
    assert caplog.messages == ["shard\\x1b[2J\\nforged"]

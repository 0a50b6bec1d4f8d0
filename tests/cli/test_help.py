"""Laws of the stored help. `python tests/cli/test_help.py` writes `cli/shared/help.json` again."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.main import get_command

from gristmill.cli.main import make_app
from gristmill.cli.shared.help import FILE, WIDTH, stored_help

HEAVY = ("gristmill.cli.main", "typer", "pydantic", "numpy", "pyarrow", "numba", "duckdb", "torch", "ray")


def all_help() -> dict[str, str]:
    """The help of every command and group, laid out from the commands themselves."""
    return dict(_below(get_command(make_app()), "gristmill", None))


def _below(command: Any, name: str, parent: Any) -> Iterator[tuple[str, str]]:
    context = typer.Context(command, info_name=name, parent=parent, **command.context_settings)
    yield context.command_path.removeprefix("gristmill").strip(), command.get_help(context)
    for below, one in getattr(command, "commands", {}).items():
        yield from _below(one, below, context)


def test_the_stored_help_is_what_the_commands_say_of_themselves(monkeypatch):
    """Every command and subcommand has one, so none is imported to show its help."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    stored = json.loads(FILE.read_text())
    assert stored == all_help(), "write it again: python tests/cli/test_help.py"
    assert all(stored_help([*path.split(), "-h"]) == text for path, text in stored.items())


def test_no_help_imports_what_a_command_needs():
    """Each is shown by the program's own way in, in one process."""
    script = (
        "import contextlib, io, json, sys\n"
        "from gristmill.__main__ import main\n"
        "from gristmill.cli.shared.help import FILE\n"
        "for path, text in json.loads(FILE.read_text()).items():\n"
        "    sys.argv[1:] = [*path.split(), '--help']\n"
        "    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as shown:\n"
        "        main()\n"
        "    assert shown.getvalue() == text + '\\n', path\n"
        f"assert not set({HEAVY}) & set(sys.modules), set({HEAVY}) & set(sys.modules)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env={"COLUMNS": str(WIDTH)})
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("words", [[], ["funnel"], ["funnel", "r.yaml", "-h"], ["no-command", "-h"], ["-h", "run"]])
def test_other_command_lines_go_to_the_commands(words, monkeypatch):
    """Only a request for help and nothing else is answered from the file."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    assert stored_help(words) is None


def test_a_narrow_terminal_gets_help_of_its_width(monkeypatch):
    """The stored text would break its lines."""
    monkeypatch.setenv("COLUMNS", str(WIDTH - 1))
    assert stored_help(["funnel", "-h"]) is None


if __name__ == "__main__":
    FILE.write_text(json.dumps(all_help(), ensure_ascii=False) + "\n")

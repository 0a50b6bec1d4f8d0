"""The stored help equals the help of the commands. `python tests/cli/test_help.py` regenerates
`cli/shared/help.json`.
"""

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
    """Return the help of every command and group, rendered from the commands themselves."""
    return dict(_help_of(get_command(make_app()), "gristmill", None))


def _help_of(command: Any, name: str, parent: Any) -> Iterator[tuple[str, str]]:
    context = typer.Context(command, info_name=name, parent=parent, **command.context_settings)
    yield context.command_path.removeprefix("gristmill").strip(), command.get_help(context)
    for subname, subcommand in getattr(command, "commands", {}).items():
        yield from _help_of(subcommand, subname, context)


def test_the_stored_help_equals_the_commands_own_help(monkeypatch):
    """Every command and subcommand has an entry, so showing help imports no command."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    stored = json.loads(FILE.read_text())
    assert stored == all_help(), "regenerate it: python tests/cli/test_help.py"
    assert all(stored_help([*path.split(), "-h"]) == text for path, text in stored.items())


def test_help_imports_no_heavy_modules():
    """One process shows the help of every command through the program's entry point."""
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
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env={"COLUMNS": str(WIDTH)})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments", [[], ["funnel"], ["funnel", "r.yaml", "-h"], ["no-command", "-h"], ["-h", "run"]])
def test_other_command_lines_are_not_answered_from_the_file(arguments, monkeypatch):
    """Only a plain request for help is."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    assert stored_help(arguments) is None


def test_a_narrow_terminal_does_not_use_the_stored_help(monkeypatch):
    """Lines of the stored text would wrap."""
    monkeypatch.setenv("COLUMNS", str(WIDTH - 1))
    assert stored_help(["funnel", "-h"]) is None


if __name__ == "__main__":
    FILE.write_text(json.dumps(all_help(), ensure_ascii=False) + "\n")

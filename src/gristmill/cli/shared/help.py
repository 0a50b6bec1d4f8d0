"""The help of every command as stored text. Importing the commands to show it would take a second.

`python tests/cli/test_help.py` rewrites the file after a change of a command, and a test compares the two.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size

from gristmill.errors import UserError

FILE = Path(__file__).with_name("help.json")
"""The words of a command and its help, laid out for WIDTH columns. A wider terminal shows the same."""
WIDTH = 80
ADDED = "Commands from other packages"


def stored_help(words: Sequence[str]) -> str | None:
    """The help that a command line requests; None if it is not a request for help, or if the terminal is too narrow."""
    if not words or words[-1] not in ("-h", "--help") or get_terminal_size().columns < WIDTH:
        return None
    found: dict[str, str] = json.loads(FILE.read_bytes())
    if words[:-1]:
        return found.get(" ".join(words[:-1]))
    try:
        added = added_commands()
    except UserError:  # the commands themselves report it
        return None
    width = max(map(len, added), default=0)
    lines = [f"  {name:{width}}  {what}" for name, what in added.items()]
    return "\n".join([found[""], *([f"\n{ADDED}:", *lines] if added else [])])


def added_commands() -> dict[str, str]:
    """Commands that installed packages add, with the package of each. They are not imported."""
    from gristmill.installed import COMMANDS, installed, package_of

    known = json.loads(FILE.read_bytes())
    return {
        name: f"A command from {package_of(point)}." for name, point in installed(COMMANDS).items() if name not in known
    }

"""The help of every command as stored text: showing it imports no command, which would take a second.

`python tests/cli/test_help.py` writes the file again after a change of a command, and a test compares the two.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size

from gristmill.errors import UserError

FILE = Path(__file__).with_name("help.json")
"""Words of a command -> its help, laid out for WIDTH columns. A wider terminal shows the same."""
WIDTH = 80
ADDED = "Commands of other packages"


def stored_help(words: Sequence[str]) -> str | None:
    """The help that a command line requests; None if it requests something else, or if the terminal is too narrow."""
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
    """Commands that installed packages add, with the package of each; none of them is imported."""
    from gristmill.installed import COMMANDS, installed, package_of

    known = json.loads(FILE.read_bytes())
    return {
        name: f"A command of {package_of(point)}." for name, point in installed(COMMANDS).items() if name not in known
    }

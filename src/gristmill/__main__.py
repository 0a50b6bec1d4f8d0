"""The way in: `gristmill`, and `python -m gristmill`."""

import os
import sys

from gristmill.cli.shared.help import stored_help
from gristmill.cli.shared.leaving import leave_when_told


def main() -> None:
    """Run a command; it can be stopped while what it needs is imported."""
    _fill_standard_streams()
    leave_when_told()
    if (text := stored_help(sys.argv[1:])) is not None:
        from gristmill.cli.shared.screen import say, speaking

        sys.exit(speaking(lambda: say(text)))
    from gristmill.cli.main import main as run_command

    run_command()


def _fill_standard_streams() -> None:
    """Whoever starts us may have closed some: a file that we open would take the place, and get what is said to it."""
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(opened, True)
    os.close(opened)


if __name__ == "__main__":
    main()

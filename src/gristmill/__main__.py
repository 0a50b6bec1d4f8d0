"""The entry point of `gristmill` and `python -m gristmill`."""

import os

from gristmill.cli.shared.leaving import end_process, exit_on_signals


def main() -> None:
    """Run a command and end the process with its exit code."""
    try:
        _run_command()
    except SystemExit as end:
        end_process(int(end.code or 0))


def _run_command() -> None:
    """Signals are handled before the imports, so that a command can be stopped during them."""
    _fill_standard_streams()
    exit_on_signals()
    from gristmill.cli.main import main as run_command

    run_command()


def _fill_standard_streams() -> None:
    """Open /dev/null for closed standard streams; otherwise the next opened file would receive their output."""
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(opened, True)
    os.close(opened)


if __name__ == "__main__":
    main()

"""The way in: `gristmill`, and `python -m gristmill`."""

from gristmill.stopping import leave_when_told


def main() -> None:
    """Run a command; it can be stopped while what it needs is imported."""
    leave_when_told()
    from gristmill.cli.main import main as run_command

    run_command()


if __name__ == "__main__":
    main()

"""`python -m gristmill`: the same as `gristmill`."""

from gristmill.cli.main import main

if __name__ == "__main__":
    main()

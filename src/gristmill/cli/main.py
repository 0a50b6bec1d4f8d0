"""The command line: one file a command; this one puts them together and says what went wrong."""

import os
import sys

import typer

from gristmill.cli import gc, index, init, inspect, plan, removed, run, status, tokenizer, verify, whatif
from gristmill.engine.mill import Interrupted
from gristmill.errors import UserError

app = typer.Typer(
    name="gristmill",
    help="Raw crawls, code and licensed text in; a clean corpus out, reproducible to the byte.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (init, plan, run, status, inspect, removed, whatif, index, verify, gc):
    app.command(name=command.__name__.rsplit(".", 1)[1], epilog=command.EXAMPLE)(command.command)
app.add_typer(tokenizer.app, name="tokenizer")


def main() -> None:
    """Run a command. Exit codes: 0 done, 1 a check found something, 2 a user's mistake, 128+n stopped by signal n."""
    code = 0
    try:
        app()
    except UserError as error:
        print(f"gristmill: {error}", file=sys.stderr)
        code = 2
    except Interrupted as stop:
        print("gristmill: stopped. What is finished is kept; run the same command to go on.", file=sys.stderr)
        code = 128 + stop.signal_number
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code)


if __name__ == "__main__":
    main()

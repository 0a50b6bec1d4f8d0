"""The command line: one file a command; this one puts them together and says what went wrong."""

import gc
import importlib
import os
import sys
import traceback
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from gristmill import __version__
from gristmill.cli.sample_option import with_sample
from gristmill.cli.screen import complain, say, speaking
from gristmill.cli.usage import Commands, told
from gristmill.errors import UserError
from gristmill.objects.patience import waits_told
from gristmill.printable import CannotPrint
from gristmill.stopping import Interrupted, stopped

COMMANDS = (
    *(
        "init",
        "steps",
        "plan",
        "run",
        "status",
        "funnel",
        "inspect",
        "lineage",
        "removed",
        "audit",
        "bias",
        "whatif",
        "diff",
        "sql",
    ),
    *(
        "versions",
        "takedown",
        "suite",
        "extractor",
        "quality",
        "export",
        "index",
        "tokenizer",
        "shards",
        "sample",
        "budget",
        "verify",
        "gc",
    ),
)

WITH_WORKERS = ("run", "verify")


def _version(asked: bool) -> None:
    if asked:
        say(f"gristmill {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """What stands before a command."""


def make_app(names: Collection[str] = COMMANDS) -> typer.Typer:
    """The commands of these names. Only what is asked for is imported: all of them take a second to start."""
    app = typer.Typer(
        name="gristmill",
        help="Raw crawls, code and licensed text in; a clean corpus out, reproducible to the byte.",
        cls=Commands,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        callback=_options,  # without one, an app of a single command would have no name for it
    )
    for name in names:
        module = importlib.import_module(f"gristmill.cli.{name}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name=name, epilog=module.EXAMPLE)(with_sample(module.command))
    return app


def main() -> None:
    """Run a command. Exit codes: 0 done, 1 a check found something, 2 a user's mistake, 128+n stopped by signal n."""
    sys.exit(speaking(run_command))


def run_command() -> int:
    """Its exit code. A bug is told here, where what it quotes from data is made printable, not by the interpreter."""
    asked = sys.argv[1] if len(sys.argv) > 1 else None
    try:
        with _importing():
            app = make_app([asked] if asked in COMMANDS else () if asked == "--version" else COMMANDS)
        if asked in WITH_WORKERS:
            from gristmill.engine.executors.early_server import fork_early

            fork_early()
        with waits_told(complain):
            return int(app(prog_name="gristmill", standalone_mode=False) or 0)
    except SystemExit as end:
        return int(end.code or 0)
    except typer.TyperException as error:
        complain(told(error))
        return 2
    except UserError as error:
        complain(error)
        return 2
    except Interrupted as stop:
        complain(stopped())
        return 128 + stop.signal_number
    except CannotPrint:
        raise
    except Exception as error:
        return _tell(error)


def _tell(error: Exception) -> int:
    """What went wrong, if it is no bug of ours; the exit code."""
    from gristmill.engine.executors.shared_kernels import OthersCanWrite

    if isinstance(error, OthersCanWrite):  # before anything that imports kernels
        complain(error)
        return 2
    from gristmill.query.opening import tell_damage
    from gristmill.stages import own_code
    from gristmill.store.store import CorruptPart

    if isinstance(error, CorruptPart):
        complain(tell_damage(error, _recipe()))
        return 2
    if isinstance(error, MemoryError) or "can't start new thread" in str(error):
        complain(
            f"this process may not have what it needs ({error or 'memory'}). What is finished is kept. Allow more "
            "memory and processes (ulimit -v, ulimit -u; the limits of the container), or use fewer --workers."
        )
        return 2
    own_fault = own_code.told(error)
    if own_fault is None:
        traceback.print_exception(error)
        return 1
    complain(f"{own_fault}\nWhat is finished is kept. Correct the code and run again.")
    return 2


@contextmanager
def _importing() -> Iterator[None]:
    """What is imported stays. To look through it for garbage, again and again while it grows and once more at the end,
    takes a quarter of the time that a command takes to start and to leave.

    NumPy's threads, for products of matrices that we have none of, take as long as NumPy itself; and a process that has
    threads cannot be forked.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def _recipe() -> str:
    """The recipe that the command names, for a message."""
    return next((word for word in sys.argv[1:] if word.endswith((".yaml", ".yml"))), "RECIPE")


if __name__ == "__main__":
    main()

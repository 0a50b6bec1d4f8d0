"""The command line. Each command has its own file; this one assembles them and reports errors."""

import gc
import importlib
import os
import re
import sys
import traceback
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from gristmill import __version__, installed
from gristmill.cli.shared.added_options import with_options
from gristmill.cli.shared.leaving import RUN_STOPPED
from gristmill.cli.shared.screen import complain, log_unwrapped, say, speaking
from gristmill.cli.shared.usage import Commands, message_for
from gristmill.errors import UserError
from gristmill.hints import as_command_line
from gristmill.printable import CannotPrint
from gristmill.recipe.checks.mistakes import nearest
from gristmill.stopping import Interrupted

SECTIONS = {
    "Make a corpus": {
        "init": "Write a starter recipe with a comment on every field.",
        "steps": "List the steps of a recipe, or show one with its settings.",
        "plan": "Show what a run would do, and why.",
        "run": "Run what is not cached, then show what was read and kept.",
        "status": "Show what each stage has done, and what it cost.",
        "suite": "Check eval suites; show which items a corpus contains.",
        "quality": "Train quality models; write them as files.",
    },
    "Look at documents": {
        "inspect": "Show documents and the decisions about them.",
        "lineage": "Show the history of a document.",
        "clusters": "Show the largest clusters of near duplicates, side by side.",
        "audit": "Draw a sample of what steps matched, for a person to read.",
        "canaries": "Show a fixed sample of documents, before and after each step.",
        "sql": "Query a corpus with SQL (DuckDB, extra `sql`).",
    },
    "Count and compare": {
        "funnel": "Show what came in, what each step dropped, and what is left.",
        "whatif": "Show what another setting of a step would keep and drop.",
        "diff": "Show what changed from version A to version B.",
        "watch": "List what changed for the worse since another version.",
        "report": "Write a report of a finished corpus, as HTML (extra `report`).",
        "disclose": "Write a public summary of the training content, as HTML and JSON.",
    },
    "Versions and exports": {
        "versions": "List, name, keep and reproduce the versions that runs made.",
        "takedown": "Take documents down, and prove it.",
        "export": "Write the kept documents as a dataset.",
    },
    "Train": {
        "tokenizer": "Train and use a tokenizer.",
        "shards": "Check the shards of a manifest, and find documents in them.",
        "sample": "Show the documents that a training step sees.",
        "budget": "Show how many tokens a model needs, and what they cost.",
    },
    "The store": {
        "verify": "Check every part, published file, record and stored answer.",
        "gc": "Remove unneeded files from the store.",
    },
}
"""The commands by task, each with its line in the help, which is shown without importing the commands."""
COMMANDS = {name: line for section in SECTIONS.values() for name, line in section.items()}

FOLDERS = {
    "run": "init steps plan run status budget",
    "look": "inspect lineage clusters audit canaries sql funnel whatif diff watch report disclose sample",
    "corpus": "quality versions takedown suite export verify gc",
    "tokenizer": "tokenizer",
    "shards": "shards",
}
"""The folders of this package and the commands in each. Any other command is a package in packages/, which registers
it by an entry point as any other package does.
"""


def added_commands() -> dict[str, str]:
    """Commands that installed packages add, with the package of each. They are not imported."""
    points = installed.installed(installed.COMMANDS)
    return {
        name: (point.dist and point.dist.metadata["Summary"]) or f"A command from {installed.package_of(point)}."
        for name, point in points.items()
        if name.partition(".")[0] not in COMMANDS
    }


def _version(is_set: bool) -> None:
    if is_set:
        say(f"gristmill {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """The options before the command's name."""


class _Commands(Commands):
    """Lists all commands; only those that `make_app` imported can run."""

    def list_commands(self, ctx: object) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, lines in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(list(lines.items()), col_max=12)
        if added := added_commands():
            with formatter.section("Commands from other packages"):
                formatter.write_dl(list(added.items()))


def make_app(names: Collection[str] = COMMANDS) -> typer.Typer:
    """The app with these commands imported. Importing all of them takes two seconds."""
    app = typer.Typer(
        name="gristmill",
        help="Raw crawls, code and licensed text in; a clean corpus out, reproducible to the byte.",
        cls=_Commands,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        callback=_options,  # without one, an app of a single command would have no name for it
    )
    for name in names:
        command, example = _command(name)
        if isinstance(command, typer.Typer):
            if not {one.name for one in command.registered_commands} & {*sys.argv[2:3]}:  # takes a tenth of a second
                _add_commands(command, name)
            for one in command.registered_commands:
                one.callback = with_options(one.callback)
            app.add_typer(command, name=name)
        else:
            app.command(name=name, epilog=example)(with_options(command))
    return app


def _add_commands(group: typer.Typer, name: str) -> None:
    """Add the commands of installed packages to a group: an entry point `GROUP.COMMAND`."""
    for added, point in installed.installed(installed.COMMANDS).items():
        if added.startswith(f"{name}."):
            command = installed.load(point, f"gristmill {added.replace('.', ' ')}")
            example = vars(sys.modules[point.module]).get("EXAMPLE")
            group.command(name=added.removeprefix(f"{name}."), epilog=example)(command)
    typed = ".".join(sys.argv[1:3])
    if typed not in installed.installed(installed.COMMANDS) and (
        message := installed.missing(installed.COMMANDS, typed)
    ):
        raise UserError(f"gristmill {message}")


def _command(name: str) -> tuple[Any, str | None]:
    """A command, or an app with several, and its example."""
    folder = next((folder for folder, names in FOLDERS.items() if name in names.split()), None)
    if folder is not None:
        module = importlib.import_module(f"gristmill.cli.{folder}.{name}")
        return (module.app, None) if hasattr(module, "app") else (module.command, module.EXAMPLE)
    point = installed.installed(installed.COMMANDS).get(name)
    if point is None:
        raise UserError(_unknown_command(name, COMMANDS))
    command = installed.load(point, f"gristmill {name}")
    return command, vars(sys.modules[point.module]).get("EXAMPLE")


def main() -> None:
    """Run a command. Exit codes: 0 done, 1 a check found something, 2 a user's mistake, 128+n stopped by signal n."""
    sys.exit(speaking(run_command))


def run_command() -> int:
    """Run the command and return its exit code. Tracebacks are printed here, where text from data is made printable."""
    with as_command_line():
        return _run_command()


def _run_command() -> int:
    name = sys.argv[1] if len(sys.argv) > 1 else None
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        complain(UserError("NUMBA_DISABLE_JIT is set, but kernels only run compiled, so nothing was done. Unset it."))
        return 2
    known: Collection[str] = COMMANDS
    try:
        if name is not None and name not in COMMANDS and not name.startswith("-"):
            known = [*COMMANDS, *added_commands()]
            if name not in known:
                raise UserError(_unknown_command(name, known))
        with _importing():
            app = make_app([name] if name is not None and name in known else ())
        return int(app(prog_name="gristmill", standalone_mode=False) or 0)
    except SystemExit as end:
        return int(end.code or 0)
    except typer.TyperException as error:
        complain(message_for(error))
        return 2
    except UserError as error:
        complain(error)
        return 2
    except Interrupted as stop:
        complain(RUN_STOPPED)
        return 128 + stop.signal_number
    except CannotPrint:
        raise
    except Exception as error:
        return _report(error)


def _unknown_command(name: str, known: Collection[str]) -> str:
    if message := installed.missing(installed.COMMANDS, name):
        return f"gristmill {message}"
    near = nearest(name, known)
    fix = f"Did you mean gristmill {near}?" if near else "gristmill -h lists the commands."
    return f"gristmill has no command {name}, so nothing was done. {fix}"


_SCARCE = re.compile("can't start new thread|failed to map segment|libllvmlite.so")
"""What libraries say if they cannot be loaded, or start a thread, for lack of memory."""


def _report(error: Exception) -> int:
    """Report an error and return the exit code. A bug of ours shows its traceback."""
    if isinstance(error, MemoryError) or _SCARCE.search(str(error)):
        lacking = str(error).partition("\n")[0][:100] or "memory"
        complain(
            f"This process ran out of memory or threads ({lacking}). Finished tasks are kept. "
            "Allow more memory and processes (ulimit -v, ulimit -u; the limits of the "
            "container), or use fewer --workers."
        )
        return 2
    from gristmill.kernels.code_files import OthersCanWrite

    if isinstance(error, OthersCanWrite):  # before anything that imports kernels
        complain(error)
        return 2
    from gristmill.query.opening import damage_message
    from gristmill.stages import own_code
    from gristmill.store.store import CorruptPart

    if isinstance(error, CorruptPart):
        complain(damage_message(error, _recipe()))
        return 2
    own_fault = own_code.trace_in_own_code(error) or _trace_in_package(error)
    if own_fault is None:
        log_unwrapped("".join(traceback.format_exception(error)).rstrip("\n"))
        return 1
    complain(f"{own_fault}\nFinished tasks are kept. Correct the code and run again.")
    return 2


def _trace_in_package(error: Exception) -> str | None:
    """The error of a command that a package adds, with the lines from the package on; None for any other error."""
    points = installed.installed(installed.COMMANDS)
    point = points.get(".".join(sys.argv[1:2])) or points.get(".".join(sys.argv[1:3]))
    frames = traceback.extract_tb(error.__traceback__)
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in traceback.walk_tb(error.__traceback__)]
    tops = [module.partition(".")[0] for module in modules]
    if point is None or (top := point.module.partition(".")[0]) not in tops:
        return None
    lines = [f"  {frame.filename}:{frame.lineno} in {frame.name}: {frame.line}" for frame in frames[tops.index(top) :]]
    from gristmill.stages.own_code import what

    return "\n".join([f"{what(error)}, in the package {installed.package_of(point)}:", *lines])


@contextmanager
def _importing() -> Iterator[None]:
    """Imports without garbage collection, which would take a quarter of the time that a command needs to start and
    exit. Imported modules are never freed.

    NumPy's threads, which we do not use, take as long to start as NumPy itself, and a process with threads cannot be
    forked.
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

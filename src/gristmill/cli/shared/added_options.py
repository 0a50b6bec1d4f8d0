"""Options that commands get without declaring them: `-v` and `--log-json`; and `--sample`, if they open a recipe."""

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated, Any

import typer

from gristmill.cli.shared.screen import LOG_JSON
from gristmill.errors import UserError
from gristmill.log import DEBUG, ROOT

SAMPLE, VERBOSE, JSON_LOG = "sample", "verbose", "log_json"
_SHARE = typer.Option("--sample", metavar="SHARE", help="Use a share of every source, such as 1%, under its own name.")
_MORE = typer.Option("--verbose", "-v", help="Show more: every task and every retry.")
_LINES = typer.Option(LOG_JSON, help="Write messages to stderr as JSON, one object a line.")
OPTIONS: dict[str, tuple[Any, Any]] = {
    SAMPLE: (Annotated[str | None, _SHARE], None),
    VERBOSE: (Annotated[bool, _MORE], False),
    JSON_LOG: (Annotated[bool, _LINES], False),
}
"""By parameter: the option and its default."""
_NAMED = frozenset({"recipe", "shards", "tokenizer", "tokenizers", "version"})
"""Arguments that may be a recipe."""
_WHOLE = frozenset({"gristmill.cli.tokenizer.pin", "gristmill.cli.corpus.versions_reproduce"})
"""Modules of commands that open a recipe, but never a sample of it."""
_chosen: ContextVar[str | None] = ContextVar("sample", default=None)


def chosen_sample() -> str | None:
    """The value of --sample on the command line. It overrides the share in the recipe."""
    return _chosen.get()


def refuse_sample(name: str) -> None:
    """Refuse --sample for something that is not a recipe."""
    if chosen_sample() is not None:
        raise UserError(f"--sample {chosen_sample()} only applies to recipes, and {name} is not one. Leave it out.")


def with_options(command: Callable[..., Any] | None) -> Callable[..., Any]:
    """The command with these options, except those that it declares. `screen.speaking` writes the JSON."""
    assert command is not None
    signature = inspect.signature(command)
    own = signature.parameters
    if JSON_LOG in own:  # it has them already
        return command
    opens = "store" in own and not _NAMED.isdisjoint(own) and command.__module__ not in _WHOLE
    added = [name for name in OPTIONS if name not in own and (opens or name != SAMPLE)]

    @functools.wraps(command)
    def called(*given: object, **named: Any) -> Any:
        if named.get(VERBOSE):
            ROOT.setLevel(DEBUG)
        before = _chosen.set(named.get(SAMPLE) if SAMPLE in added else None)
        try:
            return command(*given, **{name: value for name, value in named.items() if name not in added})
        finally:
            _chosen.reset(before)

    kind = inspect.Parameter.KEYWORD_ONLY
    more = [inspect.Parameter(name, kind, default=OPTIONS[name][1], annotation=OPTIONS[name][0]) for name in added]
    called.__signature__ = signature.replace(parameters=[*own.values(), *more])  # type: ignore[attr-defined]
    called.__annotations__ = {**command.__annotations__, **{name: OPTIONS[name][0] for name in added}}
    return called

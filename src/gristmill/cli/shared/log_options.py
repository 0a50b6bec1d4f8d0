"""`-v` and `--log-json`, which every command takes."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from gristmill.cli.shared.screen import LOG_JSON
from gristmill.log import DEBUG, ROOT

OPTIONS: dict[str, Any] = {
    "verbose": Annotated[bool, typer.Option("--verbose", "-v", help="Show more: every task and every retry.")],
    "log_json": Annotated[bool, typer.Option(LOG_JSON, help="Write messages to stderr as JSON, one object a line.")],
}


def with_log(command: Callable[..., Any] | None) -> Callable[..., Any]:
    """The command with both options, unless it has them. `screen.speaking` writes the JSON."""
    assert command is not None
    signature = inspect.signature(command)
    added = [name for name in OPTIONS if name not in signature.parameters]
    if "log_json" not in added:
        return command

    @functools.wraps(command)
    def logged(*given: object, **named: object) -> Any:
        if named.get("verbose"):
            ROOT.setLevel(DEBUG)
        return command(*given, **{name: value for name, value in named.items() if name not in added})

    kind = inspect.Parameter.KEYWORD_ONLY
    more = [inspect.Parameter(name, kind, default=False, annotation=OPTIONS[name]) for name in added]
    logged.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *more])  # type: ignore[attr-defined]
    logged.__annotations__ = {**command.__annotations__, **{name: OPTIONS[name] for name in added}}
    return logged

"""Groups of commands, and the message about a command line that cannot be parsed."""

from typing import Any

import typer
from typer.core import TyperGroup

from gristmill.cli.shared.screen import log_unwrapped


class Commands(TyperGroup):
    """A group of commands; without a command, it shows its help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            log_unwrapped(ctx.get_help())
            ctx.exit(2)
        return super().parse_args(ctx, args)


def message_for(error: typer.TyperException) -> str:
    """The parser's message, the consequence, and where to look."""
    context = getattr(error, "ctx", None)
    path = "gristmill COMMAND" if context is None else context.command_path
    fact = error.format_message()
    return f"{fact}{'' if fact.endswith(('.', '?')) else '.'} Nothing was done. {path} -h shows its usage."

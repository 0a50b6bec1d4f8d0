"""Messages about wrong command lines: the fact, that nothing was done, and what to write.

They replace the messages of the library that parses command lines.
"""

import re
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from gristmill.cli.shared.screen import log_unwrapped
from gristmill.errors import UserError
from gristmill.recipe.checks.mistakes import nearest

_EXTRA = re.compile(r"extra argument\(s\) \((.*)\)$", re.DOTALL)


class _AsGiven:
    """Accepts a value that already has the type of its parameter. Typer would import pydantic to check that, which
    takes as long as the rest of a command that reads records. Any other value gets Typer's own check.
    """

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        kind = param.type_descriptor.annotation
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        texts = value if kind == list[str] else (value,)
        if kind in (str, list[str]) and all(type(one) is str and one.isascii() for one in texts):
            return value if kind is str else list(value)
        if kind in (bool, int, float) and type(value) is kind:  # a default: what is typed is text
            return value
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _without_pydantic(command: Any, context: Any) -> None:
    for parameter in command.get_params(context):
        if parameter.type_descriptor.parameter_info.parser is None:
            parameter._runtime_param = _AsGiven()


class Commands(TyperGroup):
    """A group of commands; without a command, it shows its help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _without_pydantic(self, ctx)
        if not args and not ctx.resilient_parsing:
            log_unwrapped(ctx.get_help())
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if self.get_command(ctx, args[0]) is None:
            raise UserError(unknown_command(ctx.command_path, args[0], self.list_commands(ctx)))
        found = super().resolve_command(ctx, args)
        _without_pydantic(found[1], ctx)
        return found


def unknown_command(path: str, name: str, known: list[str]) -> str:
    """The message for a name that is not a command of `path`."""
    near = nearest(name, known)
    fix = f"Did you mean {path} {near}?" if near else f"Commands: {', '.join(known)}."
    return f"{path} has no command {name}, so nothing was done. {fix}"


def message_for(error: typer.TyperException) -> str:
    """The message for a command line that the library rejects."""
    context: Any = getattr(error, "ctx", None)
    parameter: Any = getattr(error, "param", None)
    option: str | None = getattr(error, "option_name", None)
    if parameter is not None:
        return _missing(context, parameter) if error.__cause__ is None else _wrong_value(error, parameter)
    if option is not None and context is not None:
        return _unknown_option(context, option)
    if option is not None and "not take a value" in error.message:
        return f"{option} takes no value, but one was given. Nothing was done. Write {option} without =."
    if option is not None:
        return f"{option} requires a value. Nothing was done. Write {option} VALUE."
    if context is not None and (extra := _EXTRA.search(error.message)):
        return _too_much(context, extra[1])
    return f"{error.format_message().rstrip('.')}. Nothing was done. Add -h to the command for its usage."


def _wrong_value(error: typer.TyperException, parameter: object) -> str:
    from pydantic import ValidationError  # imported here, since a correct command line needs neither

    from gristmill.recipe.checks.plain_words import describe

    name, cause = _name(parameter), error.__cause__
    what = f"{name}: {error.message}."
    if isinstance(cause, ValidationError):
        found = cause.errors(include_url=False)
        given = found[0]["input"]
        what = describe(name, found, int(given) if re.fullmatch(r"-?[0-9]{1,20}", str(given)) else given)
    return f"{what} Nothing was done. {name}{_meaning(parameter)}"


def _missing(context: Any, parameter: Any) -> str:
    name = _name(parameter)
    return (
        f"{context.command_path} requires {name}. Nothing was done. {name}{_meaning(parameter)} "
        f"{_recipe_option(context)}{context.command.epilog or ''}"
    ).rstrip()


def _unknown_option(context: Any, option: str) -> str:
    known = {name.lstrip("-"): name for one in context.command.get_params(context) for name in one.opts}
    near = nearest(option.lstrip("-"), known)
    fix = f"Did you mean {known[near]}?" if near else f"{context.command_path} -h lists its options."
    return f"{context.command_path} has no option {option}, so nothing was done. {fix}"


def _too_much(context: Any, extra: str) -> str:
    wanted = [_name(one) for one in context.command.get_params(context) if one.param_type_name == "argument"]
    takes = f"only {' and '.join(wanted)}" if wanted else "options only"
    fix = _recipe_option(context) or "Leave it out, or put words that belong together in quotes."
    return f"{context.command_path} takes {takes}, but also got {extra}. Nothing was done. {fix}".rstrip()


def _recipe_option(context: Any) -> str:
    """The hint for a recipe that is given as an argument but belongs to an option."""
    parameters = context.command.get_params(context)
    option = next(
        (one.opts[0] for one in parameters if one.param_type_name == "option" and one.metavar == "RECIPE"), ""
    )
    given = next((word for word in sys.argv[2:] if word.endswith((".yaml", ".yml"))), "")
    return f"Write {option} {given} for the recipe. " if option and given and option not in sys.argv else ""


def _name(parameter: Any) -> str:
    """The parameter as it is typed: RECIPE, or the option's name as on the command line."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name).strip("[]")
    written = {word.partition("=")[0] for word in sys.argv}
    return str(next((name for name in parameter.opts if name in written), parameter.opts[-1]))


def _meaning(parameter: Any) -> str:
    """What follows the name of a parameter in a message: ` N: How many to show.`"""
    metavar = f" {parameter.metavar}" if parameter.param_type_name == "option" and parameter.metavar else ""
    return f"{metavar}: {parameter.help}" if parameter.help else f"{metavar}."

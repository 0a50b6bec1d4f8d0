"""`--sample`, which every command that opens a recipe takes: its share goes before the one in the recipe."""

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated, Any

import typer

from gristmill.errors import UserError

Sample = Annotated[
    str | None,
    typer.Option("--sample", metavar="SHARE", help="On a share of every source, such as 1%, under a name of its own."),
]
_NAMED = frozenset({"recipe", "shards", "tokenizer", "tokenizers", "version"})
"""Arguments that may be a recipe."""
_asked: ContextVar[str | None] = ContextVar("sample", default=None)


def asked_sample() -> str | None:
    """What the command line says."""
    return _asked.get()


def refuse_sample(name: str) -> None:
    """What is named is no recipe, and has no sample of its own."""
    if asked_sample() is not None:
        raise UserError(f"{name} is no recipe, and --sample {asked_sample()} is for recipes. Leave --sample out.")


def with_sample(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the option, if it opens a recipe."""
    signature = inspect.signature(command)
    if "sample" in signature.parameters:  # of its own, which means another thing
        return command
    if "store" not in signature.parameters or not _NAMED.intersection(signature.parameters):
        return command

    @functools.wraps(command)
    def sampled(*given: Any, sample: str | None = None, **named: Any) -> None:
        before = _asked.set(sample)
        try:
            command(*given, **named)
        finally:
            _asked.reset(before)

    option = inspect.Parameter("sample", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Sample)
    parameters = [*signature.parameters.values(), option]
    sampled.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    sampled.__annotations__ = {**command.__annotations__, "sample": Sample}
    return sampled

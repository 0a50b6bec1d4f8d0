"""`--sample`, which every command that opens a recipe takes. It overrides the share in the recipe."""

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated

import typer

from gristmill.errors import UserError

Sample = Annotated[
    str | None,
    typer.Option("--sample", metavar="SHARE", help="Use a share of every source, such as 1%, under its own name."),
]
_NAMED = frozenset({"recipe", "shards", "tokenizer", "tokenizers", "version"})
"""Arguments that may be a recipe."""
_chosen: ContextVar[str | None] = ContextVar("sample", default=None)


def chosen_sample() -> str | None:
    """The value of --sample on the command line."""
    return _chosen.get()


def refuse_sample(name: str) -> None:
    """Refuse --sample for something that is not a recipe."""
    if chosen_sample() is not None:
        raise UserError(f"--sample {chosen_sample()} only applies to recipes, and {name} is not one. Leave it out.")


def with_sample(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the option, if it opens a recipe."""
    signature = inspect.signature(command)
    if "sample" in signature.parameters:  # its own option, with another meaning
        return command
    if "store" not in signature.parameters or not _NAMED.intersection(signature.parameters):
        return command

    @functools.wraps(command)
    def sampled(*given: object, sample: str | None = None, **named: object) -> None:
        before = _chosen.set(sample)
        try:
            command(*given, **named)
        finally:
            _chosen.reset(before)

    option = inspect.Parameter("sample", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Sample)
    parameters = [*signature.parameters.values(), option]
    sampled.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    sampled.__annotations__ = {**command.__annotations__, "sample": Sample}
    return sampled

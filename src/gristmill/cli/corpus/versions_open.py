"""Opens the version that a user names: STORE@V, RECIPE V or STORE V."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from gristmill.cli.shared.added_options import chosen_sample
from gristmill.cli.shared.options import is_run, open_store
from gristmill.cli.shared.screen import remark
from gristmill.engine.publish.catalog import Version, find_version, refuse_no_store
from gristmill.engine.publish.run_record import names_in
from gristmill.errors import UserError
from gristmill.query.opening import open_unchanged
from gristmill.store.store import Store

Named = Annotated[
    list[str],
    typer.Argument(
        metavar="VERSION",
        help="STORE@V, RECIPE V or STORE V. V is a name or a hash. RECIPE alone: its newest version.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class VersionLocation:
    """Where versions are searched for."""

    store: Store
    recipe: str | None
    """The recipe whose versions they are; None: any."""
    file: str | None
    """The recipe's file, if it was named."""


def open_location(name: str, store: str | None) -> VersionLocation:
    """A store, or a recipe with its store. Only the recipe's name is used."""
    where = open_store(name, store)
    if where is not None:
        refuse_no_store(where)
        return VersionLocation(where, None, None)
    if chosen_sample() is None and (view := open_unchanged(name, store)) is not None:
        return VersionLocation(view.store, view.name, os.path.abspath(name))
    from gristmill.recipe.load import load

    recipe = load(name, store=store, sample=chosen_sample())
    return VersionLocation(Store(recipe.store), recipe.name, os.path.abspath(recipe.path))


def open_version(typed: Sequence[str], store: str | None) -> tuple[VersionLocation, Version, str]:
    """The location and the version that these arguments name, and the name itself."""
    first, *more = typed
    if len(more) > 1:
        raise UserError(
            f"{' '.join(typed)} are too many arguments for one version. Nothing was done. Write STORE@V, RECIPE V or "
            "STORE V."
        )
    if is_run(first):
        if more:
            raise UserError(f"{first} and {more[0]} both name a version. Nothing was done. Leave one out.")
        uri, _, name = first.rpartition("@")
        location = open_location(uri, store)
    else:
        location = open_location(first, store)
        if not more and location.recipe is None:
            raise UserError(
                f"{first} is a store, which may hold many versions, so it does not name one. Nothing was done. "
                f"Write STORE@V. {names_in(location.store)}"
            )
        name = more[0] if more else str(location.recipe)
    return location, find_version(location.store, name, location.recipe), name


def note(message: str, _level: int = 0, /) -> None:
    """Print a remark on standard error."""
    remark(message, "dim")

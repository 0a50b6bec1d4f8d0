"""From what a user types to versions: STORE@V, or RECIPE or STORE with V behind it."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from gristmill.cli.shared.options import is_run, open_store
from gristmill.cli.shared.sample_option import asked_sample
from gristmill.cli.shared.screen import words
from gristmill.cli.shared.show import console
from gristmill.engine.publish.catalog import Version, find_version, refuse_no_store
from gristmill.engine.publish.run_record import names_in
from gristmill.errors import UserError
from gristmill.query.opening import open_unchanged
from gristmill.store.store import Store

Named = Annotated[
    list[str],
    typer.Argument(
        metavar="VERSION",
        help="STORE@V; or RECIPE V, or STORE V. V is a name or a hash; of a RECIPE alone, the newest is meant.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class Place:
    """Where versions are looked for."""

    store: Store
    recipe: str | None
    """Of which they are; None: of any."""
    file: str | None
    """The recipe's, where it was named."""


def open_place(name: str, store: str | None) -> Place:
    """A store, or a recipe with its store; of the recipe no more than its name is used."""
    where = open_store(name, store)
    if where is not None:
        refuse_no_store(where)
        return Place(where, None, None)
    if asked_sample() is None and (view := open_unchanged(name, store)) is not None:
        return Place(view.store, view.name, os.path.abspath(name))
    from gristmill.recipe.load import load

    recipe = load(name, store=store, sample=asked_sample())
    return Place(Store(recipe.store), recipe.name, os.path.abspath(recipe.path))


def open_version(typed: Sequence[str], store: str | None) -> tuple[Place, Version, str]:
    """The version that is meant by these words, and the one that names it."""
    first, *more = typed
    if len(more) > 1:
        raise UserError(
            f"{' '.join(typed)} are too many words for a version, so nothing was done. Write STORE@V, RECIPE V or "
            "STORE V."
        )
    if is_run(first):
        if more:
            raise UserError(f"{first} names a version, and so does {more[0]}. Nothing was done. Leave one out.")
        location, _, name = first.rpartition("@")
        place = open_place(location, store)
    else:
        place = open_place(first, store)
        if not more and place.recipe is None:
            raise UserError(
                f"{first} is a store, and may hold many versions, so it is not clear which is meant. Nothing was done. "
                f"Write STORE@V. {names_in(place.store)}"
            )
        name = more[0] if more else str(place.recipe)
    return place, find_version(place.store, name, place.recipe), name


def tell(message: str, _level: int = 0, /) -> None:
    """Beside the answer."""
    console(stderr=True).print(words((message, "dim")))

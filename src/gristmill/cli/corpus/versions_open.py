"""Opens the version that a user names: STORE@V, RECIPE V or STORE V."""

import os
import re
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
from gristmill.places import is_url
from gristmill.store.store import Store

_PUBLISHED = re.compile(r"(.+)/shards/[^/]+/[0-9a-f]{12}")
"""A folder of shards in a store."""
Named = Annotated[
    list[str],
    typer.Argument(
        metavar="VERSION",
        help="STORE@V, RECIPE V or STORE V. V is a name or a hash. RECIPE alone: its newest version. FOLDER or "
        "manifest.json: the version of these shards.",
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
    if (shards := _shards_at(first)) is not None and not more:
        return _version_of_shards(shards, store)
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


def _shards_at(name: str) -> str | None:
    """The folder of shards that a name means, if it means one: the folder, or its manifest.json."""
    folder = name.removesuffix("manifest.json").rstrip("/") or "."
    if is_url(name):
        return folder if name.endswith("manifest.json") or _PUBLISHED.fullmatch(folder) else None
    return os.path.realpath(folder) if os.path.isfile(os.path.join(folder, "manifest.json")) else None


def _version_of_shards(folder: str, store: str | None) -> tuple[VersionLocation, Version, str]:
    """The version that made a folder of shards, which may be a copy."""
    from gristmill.shardformat.manifest import read_manifest

    manifest, published = read_manifest(folder), _PUBLISHED.fullmatch(folder)
    if store is None and published is None:
        made_by = manifest.made_by.get("version", "unknown")
        raise UserError(
            f"{folder} is not in a store. By its manifest it is version {made_by} of {manifest.recipe}; "
            "made_by in its manifest.json has the recipe and the version of every step. For all else, name the store: "
            "--store STORE"
        )
    location = open_location(published[1] if store is None and published else str(store), None)
    name = manifest.hash[:12]
    return location, find_version(location.store, name, manifest.recipe), name


def note(message: str, _level: int = 0, /) -> None:
    """Print a remark on standard error."""
    remark(message, "dim")

"""Arguments that several commands share, and the way from them to a mill, or to what there is to look at."""

import os
import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

from gristmill.cli.sample_option import asked_sample
from gristmill.cli.screen import print_json as print_json
from gristmill.cli.screen import words
from gristmill.cli.show import console
from gristmill.engine.mill import Mill
from gristmill.engine.publish.run_record import describe, finished_runs, names_in, see
from gristmill.engine.schedule.run import Run
from gristmill.engine.schedule.seen import Seen
from gristmill.errors import NoInput, UserError
from gristmill.places import is_url
from gristmill.recipe.load import load, locate_store
from gristmill.recipe.model import Recipe
from gristmill.store.store import Store

A_RUN = "STORE@NAME: a version, or a recipe's last run, without its files and inputs"
RecipePath = Annotated[Path, typer.Argument(metavar="RECIPE", help="The recipe's YAML file.", show_default=False)]
RecipeOrRun = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE",
        help=f"The recipe's YAML file; or {A_RUN}.",
        show_default=False,
    ),
]
StoreUri = Annotated[
    str | None,
    typer.Option("--store", metavar="URI", help="Use this store instead of the recipe's: a folder or a URI."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program; a list as one object a line.")]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, metavar="N", help="Processes to use. Default: all cores.")
]
_FROM_STORE = (
    "status, funnel, removed, inspect, lineage, sample, shards, tokenizer, verify and gc: gristmill removed {0}, "
    "gristmill inspect {0} --dropped"
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def open_mill(
    recipe: Path | str,
    store: str | None,
    until: str | None = None,
    executor: str | None = None,
    address: str | None = None,
    profile: str | None = None,
) -> Mill:
    """The recipe in a file, with its store; a run that is named in its place is refused, with what can be done."""
    name = str(recipe)
    if is_run(name):
        where = open_store(name, store)
        assert where is not None
        see(where, name.rpartition("@")[2])  # a wrong name lists the right ones
        raise UserError(
            f"{name} names a run, and this needs the recipe with its inputs and the code of its steps, so nothing was "
            f"done. The recipe as it was run: gristmill status {name} --recipe > recipe.yaml. From the store alone "
            f"come {_FROM_STORE.format(name)}"
        )
    return Mill(load(recipe, store=store, sample=asked_sample(), profile=profile), until, executor, address)


def as_typed(recipe: Recipe, store: str | None) -> str:
    """The recipe with the options that another command needs to look at the same run."""
    sample = [] if recipe.sample is None else ["--sample", f"{recipe.sample * 100:.12g}%"]
    return shlex.join([recipe.path, *sample, *([] if store is None else ["--store", store])])


def look_with_inputs(mill: Mill, instead: str = f"From the store alone come {_FROM_STORE}") -> Run:
    """What there is of a recipe as it is now; where its inputs are gone, what can be done with its last run ({0})."""
    try:
        return mill.look()
    except NoInput as gone:
        if gone.is_slip or next(finished_runs(mill.store, mill.recipe.name), None) is None:
            raise
        raise UserError(f"{gone} {instead.format(f'{mill.store.uri}@{mill.recipe.name}')}") from None


def open_seen(name: str, store: str | None) -> Seen:
    """What there is of a recipe as it is now, or what a run made; and say which run that is."""
    if is_run(name):
        return open_run(name, store)
    named = open_store(name, store)
    if named is not None:
        raise UserError(
            f"{name} names no recipe and no run, so there is nothing to look at. Write STORE@NAME. {names_in(named)}"
        )
    mill = open_mill(name, store)
    return look_with_inputs(
        mill, f"To look at its last run without its inputs, write {{0}} in place of {mill.recipe.path}."
    )


def open_run(name: str, store: str | None) -> Seen:
    """What the run made that STORE@NAME names."""
    where = open_store(name, store)
    assert where is not None
    seen = see(where, name.rpartition("@")[2])
    console(stderr=True).print(words((describe(seen), "dim")), soft_wrap=True)
    return seen


def open_store(name: str, option: str | None) -> Store | None:
    """The store that stands in the place of a recipe, with the name of a run behind it or without; None: a recipe."""
    location = name.rpartition("@")[0] if is_run(name) else name
    if location == name and not is_url(name) and not os.path.isdir(name):
        return None
    if option is not None:
        raise UserError(f"{name} names a store, and so does --store {option}. Leave --store out.")
    if asked_sample() is not None:
        raise UserError(
            f"{name} names a run, and --sample {asked_sample()} is for recipes, so it is not clear what to look at. A "
            "sample has a name of its own, which `run --sample` shows: write it behind the @, without --sample."
        )
    return Store(locate_store(location, "STORE"))


def refuse_store(name: str) -> None:
    """Where a file or a folder with one is wanted, a store without the name of a run says too little."""
    if os.path.isdir(os.path.join(name, "runs")):
        raise UserError(
            f"{name} is a store, and may hold the runs of many recipes, so it is not clear which is meant. Write "
            f"STORE@NAME. {names_in(Store(locate_store(name, 'STORE')))}"
        )


def id_prefix(text: str, name: str) -> str:
    """A document's id, or how it begins, as a user gives it; `name` is what the command calls it."""
    if not re.fullmatch("[0-9a-fA-F]{1,32}", text):
        raise UserError(
            f"{name} {text} is not an id, so no document has it. Give up to 32 hexadecimal digits, as gristmill "
            "inspect shows them."
        )
    return text.lower()


def is_run(name: str) -> bool:
    """Whether a user names a run by STORE@NAME; what exists under that name is a file or a folder."""
    return _NAME.fullmatch(name.rpartition("@")[2]) is not None and "@" in name and not os.path.exists(name)

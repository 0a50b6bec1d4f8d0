"""Arguments that several commands share, and the functions that open what they name."""

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gristmill.cli.shared.added_options import chosen_sample
from gristmill.cli.shared.screen import print_json as print_json
from gristmill.cli.shared.screen import remark
from gristmill.engine.publish.run_record import describe, names_in
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.errors import UserError
from gristmill.query import opening
from gristmill.query.opening import dry_run_with_inputs as dry_run_with_inputs
from gristmill.query.opening import is_run as is_run
from gristmill.recipe.checks.locations import locate_store
from gristmill.store.store import Store

if TYPE_CHECKING:
    from gristmill.engine.mill import Mill
    from gristmill.recipe.model import Recipe

A_RUN = "STORE@NAME: a version, or a recipe's last run; needs no recipe file or inputs"
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
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs; lists as one object per line.")]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, metavar="N", help="Processes to use. Default: all cores.")
]

ExecutorName = Annotated[
    str | None,
    typer.Option(
        "--executor",
        metavar="NAME",
        help="Where tasks run: local (processes), ray or slurm (clusters), or inline (this process, for pdb).",
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--address", metavar="HOST:PORT", help="Address of the Ray cluster. Default: RAY_ADDRESS, or this machine."
    ),
]


def open_mill(
    recipe: Path | str,
    store: str | None,
    until: str | None = None,
    executor: str | None = None,
    address: str | None = None,
    profile: str | None = None,
) -> "Mill":
    """The mill of a recipe file and its store. STORE@NAME is refused, with a hint."""
    return opening.open_mill(recipe, store, until, executor, address, profile, chosen_sample())


def as_typed(recipe: "Recipe", store: str | None) -> str:
    """The recipe with the options that another command needs to open the same run."""
    sample = [] if recipe.sample is None else ["--sample", f"{recipe.sample * 100:.12g}%"]
    return shlex.join([recipe.path, *sample, *([] if store is None else ["--store", store])])


def open_view(name: str, store: str | None) -> CorpusView:
    """The stored results of a recipe as it is now, or of a named run, which is printed."""
    if is_run(name):
        return open_run(name, store)
    opening.refuse_folder(name, store, chosen_sample())
    return opening.dry_run(open_mill(name, store))


def open_run(name: str, store: str | None) -> CorpusView:
    """The results of the run that STORE@NAME names."""
    view = opening.open_run(name, store, chosen_sample())
    remark(describe(view), "dim")
    return view


def open_store(name: str, option: str | None) -> Store | None:
    """The store in STORE or STORE@NAME; None if the name is a recipe."""
    return opening.open_store(name, option, chosen_sample())


def refuse_store(name: str) -> None:
    """Refuse a store without the name of a run."""
    if os.path.isdir(os.path.join(name, "runs")):
        raise UserError(
            f"{name} is a store, which may hold runs of many recipes, so it does not name one run. Write "
            f"STORE@NAME. {names_in(Store(locate_store(name, 'STORE')))}"
        )


def parsed(option: str, text: str, parse: Callable[..., float], otherwise: str) -> Any:
    """The number in an option, such as 2T or 64MB; `otherwise` says what is not done if it is none."""
    from gristmill.stages.config_types import parse_bytes  # imports pydantic, which few commands need

    try:
        return parse(int(text) if parse is parse_bytes and text.isdigit() else text)
    except ValueError as error:
        fault = f"{option}: {otherwise}, because {error}".rstrip(".")
        raise UserError(fault if fault.endswith("?") else f"{fault}.") from None


def id_prefix(text: str, name: str) -> str:
    """A document's id or its prefix, checked. `name` is the option or argument that has it."""
    if not re.fullmatch("[0-9a-fA-F]{1,32}", text):
        raise UserError(
            f"{name} {text} is not an id, so no document has it. Give up to 32 hexadecimal digits, as gristmill "
            "inspect shows them."
        )
    return text.lower()

"""Arguments that several commands share, and the way from them to a mill."""

from pathlib import Path
from typing import Annotated

import typer

from gristmill.cli.sample_option import asked_sample
from gristmill.cli.screen import print_json as print_json
from gristmill.engine.mill import Mill
from gristmill.recipe.load import load

RecipePath = Annotated[Path, typer.Argument(metavar="RECIPE", help="The recipe's YAML file.", show_default=False)]
StoreUri = Annotated[
    str | None,
    typer.Option("--store", metavar="URI", help="Use this store instead of the recipe's: a folder or a URI."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program instead of tables for a person.")]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, metavar="N", help="Processes to use. Default: all cores.")
]


def open_mill(recipe: Path, store: str | None, until: str | None = None) -> Mill:
    return Mill(load(recipe, store=store, sample=asked_sample()), until)

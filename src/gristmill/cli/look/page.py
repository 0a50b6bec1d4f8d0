"""gristmill page: a report page about a finished corpus, built in or from an installed package."""

from pathlib import Path
from typing import Annotated

import typer

import gristmill
from gristmill.cli.shared.added_options import chosen_sample
from gristmill.cli.shared.options import RecipeOrRun, StoreUri
from gristmill.cli.shared.screen import words
from gristmill.cli.shared.show import console
from gristmill.cli.shared.written import write_text

EXAMPLE = "Example: gristmill page funnel recipes/demo.yaml --out funnel.html"


def command(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The page; an unknown name lists all pages.", show_default=False)
    ],
    recipe: RecipeOrRun,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Write the page to this file.", show_default=False)],
    store: StoreUri = None,
) -> None:
    """Write a report page about a finished corpus, as HTML.

    Packages can add pages by entry points (docs/plugins.md).
    """
    text = gristmill.open(recipe, store=store, sample=chosen_sample()).page(name)
    write_text(out, text)
    console().print(words(f"{out}: the page {name}."))

"""gristmill report: one HTML file with the charts and tables of a finished corpus."""

from pathlib import Path
from typing import Annotated

import typer

import gristmill
from gristmill.cli.shared.options import RecipeOrRun, StoreUri
from gristmill.cli.shared.sample_option import chosen_sample
from gristmill.cli.shared.screen import words
from gristmill.cli.shared.show import console
from gristmill.counted import size
from gristmill.errors import UserError
from gristmill.report.corpus.sections import CORE_HOUR, TOKENS

EXAMPLE = "Example: gristmill report recipes/demo.yaml --out report.html"


def command(
    recipe: RecipeOrRun,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Write the report to this file.", show_default=False)],
    against: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Compare with this version.", show_default=False)
    ] = None,
    core_hour: Annotated[float, typer.Option(metavar="PRICE", min=0, help="Price of an hour of a core.")] = CORE_HOUR,
    tokens: Annotated[str, typer.Option(metavar="COUNT", help="Project the cost to this many tokens.")] = TOKENS,
    store: StoreUri = None,
) -> None:
    """Write a report of a finished corpus, as HTML (extra `report`).

    The file has charts and tables of what was removed and why, languages, signals with their thresholds, duplicates,
    contamination, personal data, the mixture, and the cost. It needs no network and runs no script.
    """
    corpus = gristmill.open(recipe, store=store, sample=chosen_sample())
    write(out, corpus.report(against=against, core_hour=core_hour, tokens=tokens))


def write(out: Path, text: str, what: str = "report") -> None:
    """Write a page and say so. A file that is not a page is never overwritten."""
    if out.is_file() and not out.read_bytes()[:9].lower().startswith(b"<!doctype"):
        raise UserError(f"{out} exists and is not a page, so it was left as it is. Name another file.")
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{out} cannot be written ({error.strerror}). Name another file.") from None
    console().print(words(f"{out}: the {what}, {size(len(text.encode()))}."))

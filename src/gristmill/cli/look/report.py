"""gristmill report: one HTML file with the charts and tables of a finished corpus."""

from pathlib import Path
from typing import Annotated

import typer

import gristmill
from gristmill.cli.shared.added_options import chosen_sample
from gristmill.cli.shared.options import RecipeOrRun, StoreUri, open_view
from gristmill.cli.shared.screen import words
from gristmill.cli.shared.show import console
from gristmill.cli.shared.written import check_page, write_text
from gristmill.counted import size
from gristmill.engine.publish.run_record import see
from gristmill.query.opening import is_run, open_run
from gristmill.report.corpus.report import NEEDED_BY, make_report
from gristmill.report.page import check_charts

EXAMPLE = "Example: gristmill report recipes/demo.yaml --out report.html"


def command(
    recipe: RecipeOrRun,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Write the report to this file.", show_default=False)],
    against: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Compare with this version.", show_default=False)
    ] = None,
    page: Annotated[
        str | None, typer.Option(metavar="NAME", help="Another page, of a package; an unknown name lists all.")
    ] = None,
    store: StoreUri = None,
) -> None:
    """Write a report of a finished corpus, as HTML (extra `report`).

    The file has charts and tables of what was removed and why, languages, signals with their thresholds, duplicates,
    contamination, personal data, the mixture, and the cost. It needs no network and runs no script.
    """
    check_page(out)
    if page is not None:
        write(out, gristmill.open(recipe, store=store, sample=chosen_sample()).page(page), f"page {page}")
        return
    check_charts(NEEDED_BY)
    view = open_view(recipe, store)
    other = None if against is None else open_run(against) if is_run(against) else see(view.store, against)
    write(out, make_report(view, other))


def write(out: Path, text: str, what: str = "report") -> None:
    """Write a page and say so."""
    write_text(out, text)
    console().print(words(f"{out}: the {what}, {size(len(text.encode()))}."))

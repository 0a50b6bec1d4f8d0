"""gristmill disclose: a public summary of the training content, as a page and as JSON."""

import json
from pathlib import Path
from typing import Annotated

import typer

from gristmill.cli.look.report import write
from gristmill.cli.shared.options import RecipeOrRun, StoreUri, open_view
from gristmill.cli.shared.written import check_page
from gristmill.errors import UserError
from gristmill.query.export.disclosure import disclose
from gristmill.report.corpus.disclosure import disclosure_page

EXAMPLE = "Example: gristmill disclose recipes/demo.yaml --out disclosure.html"


def command(
    recipe: RecipeOrRun,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Write the page to this file.", show_default=False)],
    store: StoreUri = None,
) -> None:
    """Write a public summary of the training content, as HTML and JSON.

    It has the sources with licenses, languages, dates and sizes, the largest web domains, generated text, and what was
    removed: filters, duplicates, benchmarks, personal data, takedowns. The JSON file has the same name.
    """
    check_page(out)
    twin = out.with_suffix(".json")
    if twin == out:
        raise UserError(f"{out} ends in .json, the name of the second file, so nothing was done. Name it FILE.html.")
    facts = disclose(open_view(recipe, store))
    write(out, disclosure_page(facts), "summary")
    write(twin, json.dumps(facts, indent=1, ensure_ascii=False) + "\n", "summary as JSON")

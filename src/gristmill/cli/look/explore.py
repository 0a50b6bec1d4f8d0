"""gristmill explore: pages to walk through a corpus, in a browser on this machine."""

import importlib.util
import webbrowser
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from gristmill.cli.shared.options import RecipeOrRun, StoreUri, is_run, open_mill, open_run
from gristmill.cli.shared.sample_option import chosen_sample
from gristmill.cli.shared.screen import say
from gristmill.engine.publish.run_record import see
from gristmill.errors import UserError
from gristmill.query import opening
from gristmill.query.opening import check_finished

EXAMPLE = "Example: gristmill explore recipes/demo.yaml"
LIBRARIES = ("duckdb", "jinja2", "starlette", "uvicorn")


def command(
    recipe: RecipeOrRun,
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="PORT", help="The port; 0 is any free one.")] = 0,
    against: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Compare with this version.", show_default=False)
    ] = None,
    open: Annotated[bool, typer.Option("--open/--no-open", help="Open the address in a browser.")] = True,
    labels: Annotated[Path, typer.Option(metavar="FILE", help="Write labels to this file, as JSON lines.")] = Path(
        "labels.jsonl"
    ),
    store: StoreUri = None,
) -> None:
    """Explore a corpus in a browser (extra `explore`).

    Serves pages on 127.0.0.1 until you press Ctrl-C: filter and search documents, see why each was kept or removed,
    move a threshold and see what comes and goes, compare two versions, and label documents. The address has a token;
    requests without it are refused.
    """
    if not all(map(importlib.util.find_spec, LIBRARIES)):
        raise UserError(
            "The explorer needs DuckDB, Jinja, Starlette and uvicorn, and not all of them are installed, so nothing is "
            "served. Run: pip install 'gristmill[explore]'"
        )
    from gristmill.report.explore.explorer import Explorer
    from gristmill.report.explore.pages import explorer_pages
    from gristmill.report.explore.serving import serve

    if is_run(recipe):
        view, mill = open_run(recipe, store), None
    else:
        opening.refuse_folder(recipe, store, chosen_sample())
        mill = open_mill(recipe, store)
        view = opening.dry_run(mill)
    check_finished(view, "explore")
    other = None if against is None else see(view.store, against)
    if other is not None:
        check_finished(other)

    def tell(address: str) -> None:
        explorer.index.start()
        say(f"Serving {view.label} on {address}")
        say(f"Labels go to {labels}. Press Ctrl-C to stop.")
        if open:
            webbrowser.open(address)

    with closing(Explorer(view, labels, mill, other)) as explorer:
        serve(view.label, explorer_pages(explorer), port, tell)
    say("Stopped. Labels are kept.")

"""gristmill explore: pages to walk through a corpus, in a browser on this machine."""

import importlib.util
import webbrowser
from typing import Annotated

import typer

from gristmill.cli.shared.options import RecipeOrRun, StoreUri, open_view
from gristmill.cli.shared.screen import say
from gristmill.errors import UserError

EXAMPLE = "Example: gristmill explore recipes/demo.yaml"
LIBRARIES = ("duckdb", "jinja2", "starlette", "uvicorn")


def command(
    recipe: RecipeOrRun,
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="PORT", help="The port; 0 is any free one.")] = 0,
    against: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Compare with this version.", show_default=False)
    ] = None,
    open: Annotated[bool, typer.Option("--open/--no-open", help="Open the address in a browser.")] = True,
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
    from gristmill.report.explore.serving import serve

    view = open_view(recipe, store)

    def tell(address: str) -> None:
        say(f"Serving {view.label} on {address}\nPress Ctrl-C to stop.")
        if open:
            webbrowser.open(address)

    serve(view.label, [], port, tell)

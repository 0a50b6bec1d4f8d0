"""gristmill explore: pages to walk through a corpus, in a browser on this machine."""

import importlib.util
import webbrowser
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gristmill.cli.shared.added_options import chosen_sample
from gristmill.cli.shared.options import RecipeOrRun, StoreUri, is_run, open_mill, open_run
from gristmill.cli.shared.screen import say
from gristmill.engine.publish.run_record import newest_run, see
from gristmill.errors import UserError
from gristmill.install_command import install_extra
from gristmill.query import opening
from gristmill.query.opening import check_finished

if TYPE_CHECKING:
    from gristmill.engine.mill import Mill
    from gristmill.engine.schedule.corpus_view import CorpusView
    from gristmill.report.live.page import LivePages

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
    move a threshold and see what comes and goes, compare two versions, and label documents. While a run goes on, the
    page Live shows its progress. The address has a token; requests without it are refused.
    """
    if not all(map(importlib.util.find_spec, LIBRARIES)):
        raise UserError(
            "The explorer needs DuckDB, Jinja, Starlette and uvicorn, and not all of them are installed, so nothing is "
            f"served. Run: {install_extra('explore')}"
        )
    from gristmill.report.explore.explorer import Explorer
    from gristmill.report.explore.pages import explorer_pages
    from gristmill.report.explore.serving import serve

    view, mill, live = _opened(recipe, store)

    def tell(address: str, more: str = "") -> None:
        say(f"Serving {recipe if view is None else view.label} on {address}")
        say(f"{more}Press Ctrl-C to stop.")
        if open:
            webbrowser.open(address)

    if view is None:
        none = "No run of it has finished, so only the page Live is served. "
        serve(recipe, [live.group(is_first=True)], port, lambda address: tell(address, none))
        return
    check_finished(view, "explore")
    other = None if against is None else see(view.store, against)
    if other is not None:
        check_finished(other)

    def tell_and_index(address: str) -> None:
        explorer.index.start()
        tell(address, f"Labels go to {labels}. ")

    with closing(Explorer(view, labels, mill, other)) as explorer:
        serve(view.label, [*explorer_pages(explorer), live.group()], port, tell_and_index)
    say("Stopped. Labels are kept.")


def _opened(recipe: str, store: str | None) -> "tuple[CorpusView | None, Mill | None, LivePages]":
    """The corpus, the mill that answers what-if, and the live page. If the newest run has not finished, the corpus is
    that of the last finished run, or None: to open the recipe as it is now would mean to hash inputs that a run reads.
    """
    from gristmill.report.live.page import LivePages

    if is_run(recipe):
        view = open_run(recipe, store)
        return view, None, LivePages(view.store, view.name)
    opening.refuse_folder(recipe, store, chosen_sample())
    mill = open_mill(recipe, store)
    live = LivePages(mill.store, mill.recipe.name)
    if live.is_unfinished():
        has_finished = newest_run(mill.store, mill.recipe.name) is not None
        return see(mill.store, mill.recipe.name) if has_finished else None, None, live
    return opening.dry_run(mill), mill, live

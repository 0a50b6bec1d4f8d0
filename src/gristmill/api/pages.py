"""Report pages by name: built-in ones, and those that installed packages register as entry points of gristmill.pages.

An entry point names a function that takes a finished corpus (`gristmill.open`) and returns the page as HTML.
"""

from importlib.metadata import EntryPoint
from typing import Protocol

from markupsafe import Markup

from gristmill.api.tables import Table
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.errors import UserError
from gristmill.installed import PAGES, installed, load
from gristmill.query.opening import check_finished
from gristmill.recipe.checks.mistakes import suggest
from gristmill.report.page import TABLE_PAGE, render


class OpenCorpus(Protocol):
    """The part of a `Corpus` that pages need."""

    name: str

    def funnel(self) -> Table: ...
    def _view_now(self) -> CorpusView: ...


BUILT_IN = {"funnel": "gristmill.api.pages:funnel"}


def make_page(name: str, corpus: OpenCorpus) -> str:
    """Return the named page as HTML. Raises UserError for an unknown name or an unfinished corpus."""
    point = EntryPoint(name, BUILT_IN[name], PAGES) if name in BUILT_IN else installed(PAGES).get(name)
    if point is None:
        known = list({**BUILT_IN, **installed(PAGES)})
        raise UserError(f"{name} is not a report page, so nothing was written. {suggest(name, known, 'Pages')}")
    function = load(point, f"The page {name}")
    check_finished(corpus._view_now())
    text = function(corpus)
    if not isinstance(text, str):
        raise UserError(
            f"The page {name} ({point.value}) returned {type(text).__name__}, but a page must be HTML as str, so "
            "nothing was written. Correct the function."
        )
    return text


def funnel(corpus: OpenCorpus) -> str:
    """What was read, what each step dropped and why, and what is kept."""
    return render(TABLE_PAGE, title=f"Funnel of {corpus.name}", table=Markup(corpus.funnel()._repr_html_()))

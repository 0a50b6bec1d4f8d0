"""Report pages by name, which installed packages register as entry points of gristmill.pages.

An entry point names a function that takes a finished corpus (`gristmill.open`) and returns the page as HTML.
"""

from typing import Protocol

from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.errors import UserError
from gristmill.installed import PAGES, installed, load, missing
from gristmill.query.opening import check_finished
from gristmill.recipe.checks.mistakes import suggest


class OpenCorpus(Protocol):
    """The part of a `Corpus` that pages need."""

    name: str

    def _view_now(self) -> CorpusView: ...


def make_page(name: str, corpus: OpenCorpus) -> str:
    """Return the named page as HTML. Raises UserError for an unknown name or an unfinished corpus."""
    point = installed(PAGES).get(name)
    if point is None and (message := missing(PAGES, name)):
        raise UserError(message)
    if point is None:
        known = suggest(name, installed(PAGES), "Pages")
        raise UserError(f"{name} is not a report page, so nothing was written. {known}")
    function = load(point, f"The page {name}")
    check_finished(corpus._view_now())
    text = function(corpus)
    if not isinstance(text, str):
        raise UserError(
            f"The page {name} ({point.value}) returned {type(text).__name__}, but a page must be HTML as str, so "
            "nothing was written. Correct the function."
        )
    return text

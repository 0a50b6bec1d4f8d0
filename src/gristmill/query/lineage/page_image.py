"""Pages of a document, as its format shows them: the text and the blocks of one, where words are, and its image.

The image is made from the input file, which is read again and checked against its hash. Nothing of it is stored.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gristmill.counted import counted
from gristmill.engine.schedule.corpus_view import CorpusView, DocumentPart
from gristmill.engine.schedule.run import Run
from gristmill.errors import UserError
from gristmill.query.documents.layers import DocumentLayers
from gristmill.query.lineage.origin import read_again
from gristmill.recipe.checks.columns import INGEST
from gristmill.recipe.stage_module import known_formats
from gristmill.schema import Record
from gristmill.stages.contract import Reader
from gristmill.stages.declarations import stage_of
from gristmill.stages.page_views import DocumentPage, PageBox, PageViews


class NoImage(UserError):
    """A page whose text can be shown, but not its image."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"There is no page image: {reason.rstrip('.')}.")


class NoPage(UserError):
    """A document without the page."""


class _Stored:
    """What was stored of a document (`StoredDocument`)."""

    def __init__(self, layers: DocumentLayers, row: int) -> None:
        self._layers, self._row = layers, row

    def value(self, column: str) -> Any:
        return self._layers.value(INGEST, column, self._row) if self._layers.has(INGEST, column) else None

    def values(self, column: str, *others: str) -> tuple[Any, ...]:
        for layer in self._layers:
            if layer != INGEST and self._layers.has(layer, column):
                row = tuple(self._layers.value(layer, name, self._row) for name in (column, *others))
                if row[0] is not None:
                    return row
        return ()


def _views_of(view: CorpusView, source: str) -> list[PageViews]:
    """The page views of a source's format, and of those that read records of its archives, as far as they are
    installed."""
    identity = view.nodes[f"{source}/{INGEST}"].identity
    used = {identity["stage"], *(other["stage"] for other in identity.get("others", {}).values())}
    readers = (stage_of(module, Reader) for module in known_formats().values() if module in used)
    return [reader.pages for reader in readers if reader.pages is not None]


def page_of(view: CorpusView, document: DocumentPart, row: int, number: int) -> DocumentPage | None:
    """A page (from 1) of a document; None if it has no pages. Raises NoPage if it has fewer pages."""
    stored = _Stored(DocumentLayers(view, document), row)
    for views in _views_of(view, document.source):
        if pages := views.count(stored):
            if not 1 <= number <= pages:
                raise NoPage(f"There is no page {number}: the document has {counted(pages, 'page')}.")
            return views.page(stored, number)
    return None


def boxes_of(view: CorpusView, document: DocumentPart, row: int, words: str) -> Sequence[PageBox]:
    """The blocks with the first occurrence of words; none if the document has no pages."""
    stored = _Stored(DocumentLayers(view, document), row)
    return [box for views in _views_of(view, document.source) for box in views.boxes(stored, words)]


def page_png(view: CorpusView, document: DocumentPart, row: Mapping[str, Any], number: int) -> bytes:
    """The image of a page (from 1) as PNG. Raises NoImage if the input file is gone or has changed, among others."""
    if not isinstance(view, Run):
        raise NoImage(f"page images are made from the input files, which {view.label} does not have")

    def record_again() -> Record | None:
        found = read_again(view, document, {row["doc_id"]: row["locator"]}).get(row["doc_id"])
        return None if found is None else found.record

    fault = f"the format of {row['locator']} has none"
    for views in _views_of(view, document.source):
        try:
            image = views.image(record_again, number)
        except UserError as error:
            raise NoImage(str(error).partition(". ")[0]) from error  # the rest says how to repeat the run
        if isinstance(image, bytes):
            return image
        fault = f"{row['locator']}: {image}"
    raise NoImage(fault)

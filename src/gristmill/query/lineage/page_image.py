"""A page of a document that was read from a PDF file: its text, the boxes of its blocks, and its image.

The image is rendered from the input file, which is read again and checked against its hash, in the process that reads
PDF files. Nothing of it is stored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gristmill.counted import counted
from gristmill.engine.schedule.corpus_view import CorpusView, DocumentPart
from gristmill.engine.schedule.run import Run
from gristmill.errors import UserError
from gristmill.query.documents.layers import DocumentLayers
from gristmill.query.lineage.origin import read_again
from gristmill.query.lineage.page_boxes import ocr_of
from gristmill.recipe.checks.columns import INGEST
from gristmill.stages.ingest.pdf import RENDERED_PAGE


class NoImage(UserError):
    """A page whose text can be shown, but not its image."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"There is no page image: {reason.rstrip('.')}.")


class NoPage(UserError):
    """A document without the page."""


@dataclass(frozen=True)
class DocumentPage:
    """A page as it was read, by the step `ocr` if that has read it."""

    number: int
    """From 1, as viewers count."""
    pages: int
    width: int
    """Points, as all boxes."""
    height: int
    confidence: float
    verdict: str | None
    text: str
    blocks: Sequence[Mapping[str, Any]]


def page_of(view: CorpusView, document: DocumentPart, row: int, number: int) -> DocumentPage | None:
    """A page (from 1) of a document as its reader stored it; None if it is not from a PDF file. Raises NoPage if it
    has fewer pages.
    """
    layers = DocumentLayers(view, document)
    names = [name for name in ("text", "pages", "blocks") if layers.has(INGEST, name)]
    read = {name: layers.value(INGEST, name, row) for name in names}
    pages = read.get("pages")
    if not pages:
        return None
    if not 1 <= number <= len(pages):
        raise NoPage(f"There is no page {number}: the document has {counted(len(pages), 'page')}.")
    page = pages[number - 1]
    data, every = (read.get("text") or "").encode(), read.get("blocks") or []
    stops = [*(block["start"] for block in every[1:]), len(data)][: len(every)]
    found = [(block, stop) for block, stop in zip(every, stops, strict=True) if block["page"] == number - 1]
    blocks = [block for block, _ in found]
    text = b"".join(data[block["start"] : stop] for block, stop in found).decode("utf-8", "replace").strip()
    read_by_ocr, ocr_pages = ocr_of(layers, row)
    for one in ocr_pages:
        if one["page"] == number - 1:
            text = read_by_ocr[one["start"] : one["stop"]].decode("utf-8", "replace")
            blocks = one.get("blocks") or blocks
    more = (page["confidence"], page["verdict"])
    return DocumentPage(number, len(pages), page["width"], page["height"], *more, text, blocks)


def page_png(view: CorpusView, document: DocumentPart, row: Mapping[str, Any], number: int) -> bytes:
    """The image of a page (from 1) as PNG. Raises NoImage if the input file is gone or has changed, among others."""
    if not isinstance(view, Run):
        raise NoImage(f"page images are made from the input files, which {view.label} does not have")
    set_page = RENDERED_PAGE.set(number - 1)
    try:
        found = read_again(view, document, {row["doc_id"]: row["locator"]}).get(row["doc_id"])
    except UserError as error:
        raise NoImage(str(error).partition(". ")[0]) from error  # the rest says how to repeat the run
    finally:
        RENDERED_PAGE.reset(set_page)
    if found is None:
        raise NoImage(f"the record {row['locator']} is not in its input file any more")
    images = found.record.more[0] if found.record.more else None
    if not images:
        reason = f"{found.record.drop or 'it is not a PDF file'} {found.record.detail or ''}".strip()
        raise NoImage(f"page {number} of {row['locator']} cannot be rendered: {reason}")
    return bytes(images[0])

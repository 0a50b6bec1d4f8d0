"""Pages of documents that were read from PDF files: their text, the places of words, and their images.

A page that the step `ocr` read is shown as that step stored it. The image of a page is rendered from the input file, in
the process that reads PDF files; nothing of it is stored.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from gristmill.schema import Record
from gristmill.stages.page_views import DocumentPage, PageBox, PageViews, StoredDocument

RENDERED_PAGE: ContextVar[int | None] = ContextVar("RENDERED_PAGE", default=None)
"""While a page number (from 0) is set, the reader gives records the image of that page, and nothing else."""


def count(document: StoredDocument) -> int:
    """How many pages a document has."""
    return len(document.value("pages") or ())


def page(document: StoredDocument, number: int) -> DocumentPage:
    """A page (from 1) with its text and its blocks."""
    size = document.value("pages")[number - 1]
    data, every = (document.value("text") or "").encode(), document.value("blocks") or []
    stops = [*(block["start"] for block in every[1:]), len(data)][: len(every)]
    on_page = [(block, stop) for block, stop in zip(every, stops, strict=True) if block["page"] == number - 1]
    blocks = [block for block, _ in on_page]
    text = b"".join(data[block["start"] : stop] for block, stop in on_page).decode("utf-8", "replace").strip()
    read_by_ocr, ocr_pages = _of_ocr(document)
    for ocr_page in ocr_pages:
        if ocr_page["page"] == number - 1:
            text = read_by_ocr[ocr_page["start"] : ocr_page["stop"]].decode("utf-8", "replace")
            blocks = ocr_page.get("blocks") or blocks
    trust = (size["confidence"], size["verdict"])
    return DocumentPage(number, count(document), size["width"], size["height"], *trust, text, blocks)


def boxes(document: StoredDocument, words: str) -> Sequence[PageBox]:
    """The blocks that hold the first occurrence of words: in the text as it was read, else in that of OCR."""
    text, blocks = document.value("text"), document.value("blocks")
    start = text.find(words) if text and blocks and words else -1
    if start < 0:
        return list(_boxes_of_ocr(document, words))
    start = len(text[:start].encode())
    return list(_between(blocks, start, start + len(words.encode())))


def image(read_again: Callable[[], Record | None], number: int) -> bytes | str:
    """The image of a page (from 1) as PNG, or why there is none."""
    set_page = RENDERED_PAGE.set(number - 1)
    try:
        record = read_again()
    finally:
        RENDERED_PAGE.reset(set_page)
    if record is None:
        return "the record is not in its input file any more"
    images = next(filter(None, record.more), None)
    if images is None:
        why = f"{record.drop or 'it is not a PDF file'} {record.detail or ''}".strip()
        return f"page {number} cannot be rendered: {why}"
    return bytes(images[0])


def _of_ocr(document: StoredDocument) -> tuple[bytes, list[dict[str, Any]]]:
    """The text with the pages that the step `ocr` read, in bytes, and these pages; nothing if it read none."""
    pages, text = document.values("ocr_pages", "text") or ([], None)
    return (text or "").encode(), pages


def _boxes_of_ocr(document: StoredDocument, words: str) -> Iterator[PageBox]:
    """The blocks that hold the words first on a page that the step `ocr` read; the whole page if a vision model did,
    which tells no blocks."""
    text, pages = _of_ocr(document)
    start = text.find(words.encode())
    for ocr_page in pages:
        if ocr_page["start"] <= start < ocr_page["stop"]:
            if blocks := [{**block, "page": ocr_page["page"]} for block in ocr_page.get("blocks") or ()]:
                yield from _between(blocks, start, min(start + len(words.encode()), ocr_page["stop"]))
            else:
                size = document.value("pages")[ocr_page["page"]]
                yield PageBox(ocr_page["page"] + 1, 0, 0, size["width"], size["height"])


def _between(blocks: Sequence[Mapping[str, Any]], start: int, stop: int) -> Iterator[PageBox]:
    first = max(bisect_right([block["start"] for block in blocks], start) - 1, 0)
    for block in blocks[first:]:
        if block["start"] >= stop:
            return
        yield PageBox(block["page"] + 1, block["left"], block["top"], block["right"], block["bottom"])


VIEWS = PageViews(count=count, page=page, boxes=boxes, image=image)

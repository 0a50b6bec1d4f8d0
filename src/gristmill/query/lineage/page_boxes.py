"""Finds where words of a document are on its pages, for documents that were read from PDF files."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gristmill.query.documents.layers import DocumentLayers
from gristmill.recipe.checks.columns import INGEST


@dataclass(frozen=True)
class PageBox:
    """A block on a page."""

    page: int
    """From 1, as viewers count."""
    left: int
    """Points (1/72 inch) from the upper left corner, as the others."""
    top: int
    right: int
    bottom: int


def boxes_of(read: Mapping[str, Any], words: str) -> tuple[PageBox, ...]:
    """The blocks that hold the first occurrence of words in the text as it was read; none if it is not from a PDF."""
    text, blocks = read.get("text"), read.get("blocks")
    at = text.find(words) if text and blocks and words else -1
    if at < 0 or not text:
        return ()
    start = len(text[:at].encode())
    return tuple(_between(blocks or [], start, start + len(words.encode())))


def ocr_of(layers: DocumentLayers, row: int) -> tuple[bytes, list[dict[str, Any]]]:
    """The text with the pages that the step `ocr` read, in bytes, and these pages; nothing if it read none."""
    for layer in layers:
        if layer != INGEST and layers.has(layer, "ocr_pages") and (pages := layers.value(layer, "ocr_pages", row)):
            return (layers.value(layer, "text", row) or "").encode(), pages
    return b"", []


def boxes_of_ocr(layers: DocumentLayers, row: int, words: str) -> Iterator[PageBox]:
    """The blocks that hold the words first on a page that the step `ocr` read; the whole page if a vision model did,
    which tells no blocks."""
    text, pages = ocr_of(layers, row)
    at = text.find(words.encode())
    for one in pages:
        if one["start"] <= at < one["stop"]:
            if blocks := [{**block, "page": one["page"]} for block in one.get("blocks") or ()]:
                yield from _between(blocks, at, min(at + len(words.encode()), one["stop"]))
            else:
                size = layers.value(INGEST, "pages", row)[one["page"]]
                yield PageBox(one["page"] + 1, 0, 0, size["width"], size["height"])


def _between(blocks: list[dict[str, Any]], start: int, stop: int) -> Iterator[PageBox]:
    first = max(bisect_right([block["start"] for block in blocks], start) - 1, 0)
    for block in blocks[first:]:
        if block["start"] >= stop:
            return
        yield PageBox(block["page"] + 1, block["left"], block["top"], block["right"], block["bottom"])

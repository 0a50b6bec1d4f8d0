"""Finds where words of a document are on its pages, for documents that were read from PDF files."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


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


def _between(blocks: list[dict[str, Any]], start: int, stop: int) -> Iterator[PageBox]:
    first = max(bisect_right([block["start"] for block in blocks], start) - 1, 0)
    for block in blocks[first:]:
        if block["start"] >= stop:
            return
        yield PageBox(block["page"] + 1, block["left"], block["top"], block["right"], block["bottom"])

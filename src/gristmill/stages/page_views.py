"""What a format declares so that the pages of its documents can be shown: their text, places of words, and images."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gristmill.schema import Record


class StoredDocument(Protocol):
    """What the reader and the steps stored of a document."""

    def value(self, column: str) -> Any:
        """A column of the reader; None if it has no such column."""

    def values(self, column: str, *others: str) -> tuple[Any, ...]:
        """Columns of the first step that has a value in the first of them; nothing if no step has."""


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


@dataclass(frozen=True)
class DocumentPage:
    """A page as it was read."""

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


@dataclass(frozen=True)
class PageViews:
    """Shows pages of documents of a format. A web archive has documents of several: those of others have no pages."""

    count: Callable[[StoredDocument], int]
    """How many pages a document has; 0 if it is not of the format."""
    page: Callable[[StoredDocument, int], DocumentPage]
    """A page, from 1."""
    boxes: Callable[[StoredDocument, str], Sequence[PageBox]]
    """The blocks with the first occurrence of words."""
    image: Callable[[Callable[[], Record | None], int], bytes | str]
    """The image of a page (from 1) as PNG, or why there is none. The function that it gets reads the document's record
    from its input again; it returns None if the record is gone."""

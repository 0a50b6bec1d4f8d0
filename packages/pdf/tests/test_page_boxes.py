"""Words of a document on its pages."""

import pytest

from gristmill_pdf.pages import VIEWS

EDGES = dict.fromkeys(("left", "top", "right", "bottom"), 0)
READ = {
    "text": "Mühle one.\n\nTwo goes on",
    "blocks": [{"start": 0, "page": 0, **EDGES}, {"start": 13, "page": 0, **EDGES}, {"start": 17, "page": 1, **EDGES}],
}


class Stored:
    """A document that no step has read by OCR."""

    def __init__(self, columns):
        self.value = columns.get

    def values(self, column, *others):
        return ()


@pytest.mark.parametrize(
    ("words", "pages"),
    [("Mühle", [1]), ("one.", [1]), ("Two", [1]), ("goes", [2]), ("Two goes", [1, 2]), ("three", []), ("", [])],
)
def test_words_are_in_the_blocks_that_their_bytes_are_in(words, pages):
    """A paragraph may continue on the next page; offsets are bytes, not characters."""
    assert [box.page for box in VIEWS.boxes(Stored(READ), words)] == pages


def test_a_document_without_pages_has_no_boxes():
    """Documents of other formats have no column `blocks`."""
    assert VIEWS.count(Stored({"text": "one"})) == 0
    assert VIEWS.boxes(Stored({"text": "one"}), "one") == []

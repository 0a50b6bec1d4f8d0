"""Words of a document on its pages."""

import pytest

from gristmill.query.lineage.page_boxes import PageBox, boxes_of

EDGES = dict.fromkeys(("left", "top", "right", "bottom"), 0)
READ = {
    "text": "Mühle one.\n\nTwo goes on",
    "blocks": [{"start": 0, "page": 0, **EDGES}, {"start": 13, "page": 0, **EDGES}, {"start": 17, "page": 1, **EDGES}],
}


@pytest.mark.parametrize(
    ("words", "pages"),
    [("Mühle", [1]), ("one.", [1]), ("Two", [1]), ("goes", [2]), ("Two goes", [1, 2]), ("three", []), ("", [])],
)
def test_words_are_in_the_blocks_that_their_bytes_are_in(words, pages):
    """A paragraph may continue on the next page; offsets are bytes, not characters."""
    assert [box.page for box in boxes_of(READ, words)] == pages
    assert all(isinstance(box, PageBox) for box in boxes_of(READ, words))


def test_a_document_without_pages_has_no_boxes():
    """Documents of other formats have no column `blocks`."""
    assert boxes_of({"text": "one"}, "one") == ()

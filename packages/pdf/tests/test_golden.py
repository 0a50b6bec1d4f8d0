"""What is read of a page does not change unless the version of the reader does. It is read in this process, so the list
of kernels to compile ahead (tests/kernels/test_ahead.py) has those of PDF files."""

import hashlib
import json

from pdf_files import column, pdf, text

from gristmill_pdf import reader
from gristmill_pdf.layout.document import read_document

GOLDEN = (9, "dfb7fdec5e80cbd7")
"""The version of the reader, and the hash of what it reads."""


def test_a_changed_page_has_a_new_version():
    """A heading, two columns, and a table with a line that continues on the next page."""
    left, right = (column(x, 700, 8, first=first)[0] for x, first in ((60, 0), (320, 90)))
    table = [text(60 + 120 * n, 700 - 20 * row, f"cell {row} {n}") for row in range(4) for n in range(3)]
    data = pdf([text(60, 760, "The mill", 16, "B"), *left, *right], table)
    found = read_document(data, 10, True, False, lambda pages: None)
    digest = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:16]
    assert (reader.STAGE.version, digest) == GOLDEN

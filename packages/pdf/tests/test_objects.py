"""The objects of a page are counted as a walk through pdfium in plain Python counts them."""

import ctypes
from functools import partial

import pypdfium2
import pypdfium2.raw as pdfium
import pytest
from fuzz.targets.pdfs import HOSTILE, TEXT, _document, _form, _stream

from gristmill_pdf.kernels.objects import FUNCTIONS, MOST_DEPTH, addresses, count_drawn

NESTED = _document(
    _stream(TEXT + b"/X Do 0 0 m 9 9 l 9 0 l h S /X Do"),
    more=(
        _form(b"0 0 9 9 re f /X Do /X Do", b"/Resources<</XObject<</X 7 0 R>>>>"),
        _form(b"0 0 m 9 9 l S" + TEXT, b"/Resources<</Font<</F 5 0 R>>>>"),
    ),
)
FILES = {"nested": NESTED, "nothing": _document(_stream(b""))}
FILES |= {name: HOSTILE[name]() for name in ("a good file", "5,000 forms, each in the next")}


def oracle(count, get, holder, depth=1):
    """By recursion, one call from Python for each object."""
    total = 0
    for index in range(count(holder)):
        item = get(holder, index)
        total += 1
        if pdfium.FPDFPageObj_GetType(item) == pdfium.FPDF_PAGEOBJ_PATH:
            total += pdfium.FPDFPath_CountSegments(item)
        elif pdfium.FPDFPageObj_GetType(item) == pdfium.FPDF_PAGEOBJ_FORM and depth < MOST_DEPTH:
            total += oracle(pdfium.FPDFFormObj_CountObjects, pdfium.FPDFFormObj_GetObject, item, depth + 1)
    return total


@pytest.mark.parametrize("name", FILES)
def test_the_count_is_that_of_a_walk_in_plain_python(name):
    """Also of forms in forms. Beyond a bound, the count ends."""
    with pypdfium2.PdfDocument(FILES[name]) as document:
        page = document[0]
        address = ctypes.cast(page.raw, ctypes.c_void_p).value
        count = partial(count_drawn, addresses(pdfium, FUNCTIONS), address)
        whole = oracle(pdfium.FPDFPage_CountObjects, pdfium.FPDFPage_GetObject, page.raw)
        assert count(whole) == whole
        assert (whole > 20) == (name not in ("nothing", "a good file"))
        assert 5 < count(5) < whole or whole <= 5
        page.close()

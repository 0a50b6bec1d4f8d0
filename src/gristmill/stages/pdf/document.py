"""Reads a PDF file: text, pages, blocks, metadata, or the reason why there is no text.

This runs in a child process (child.py), since pdfium may crash on a damaged file.
"""

import ctypes
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pypdfium2 as pdfium_python
import pypdfium2.raw as pdfium

from gristmill.kernels.pdf.glyphs import UNITS
from gristmill.stages.pdf.assemble import assemble
from gristmill.stages.pdf.confidence import confidence_of, verdict_of
from gristmill.stages.pdf.page import Page, PageReader

_DATE = re.compile(r"(?:D:)?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:([+\-Zz])(\d\d)?'?(\d\d)?)?")
_MOST_META_CHARS = 1_000


def read_document(data: bytes, max_pages: int, markdown: bool, allow: Callable[[int], None]) -> dict[str, Any]:
    """What the reader stores of a document, as JSON values. `drop` and `detail` give the reason for a dropped one.

    `allow` is called with the number of pages before they are read.
    """
    try:
        document = pdfium_python.PdfDocument(data)
    except pdfium_python.PdfiumError as error:
        if pdfium.FPDF_GetLastError() == pdfium.FPDF_ERR_PASSWORD:
            return {"drop": "encrypted", "detail": "the file needs a password"}
        return {"drop": "corrupt_pdf", "detail": str(error)[:200]}
    try:
        return _read(document, max_pages, markdown, allow)
    finally:
        document.close()


def _read(document: Any, max_pages: int, markdown: bool, allow: Callable[[int], None]) -> dict[str, Any]:
    count = len(document)
    meta = _metadata(document)
    if count > max_pages:
        return {**meta, "drop": "too_large", "detail": f"{count} pages, max_pages is {max_pages}"}
    if count == 0:
        return {**meta, "drop": "corrupt_pdf", "detail": "the file has no page"}
    allow(count)
    reader = PageReader()
    pages = [_page(document, reader, number) for number in range(count)]
    text, starts, pieces = assemble(pages, markdown)
    confidences = [confidence_of(page) for page in pages]
    drop, detail = verdict_of(pages, confidences, text)
    shown = [
        {
            "start": start,
            "width": page.width // UNITS,
            "height": page.height // UNITS,
            "confidence": confidence,
            "verdict": verdict,
        }
        for page, start, (confidence, verdict) in zip(pages, starts, confidences, strict=True)
    ]
    blocks = [
        {"start": one.start, "page": one.page, **dict(zip(("left", "top", "right", "bottom"), one.box, strict=True))}
        | {"kind": one.kind}
        for one in pieces
    ]
    return {**meta, "text": text, "pages": shown, "blocks": blocks, "drop": drop, "detail": detail}


def _page(document: Any, reader: PageReader, number: int) -> Page:
    page = pdfium.FPDF_LoadPage(document.raw, number)
    if not page:
        return Page(0, 0, fault="unreadable_page")
    try:
        return reader.read(page)
    finally:
        pdfium.FPDF_ClosePage(page)


def _metadata(document: Any) -> dict[str, Any]:
    found = {name: _meta(document, name) for name in ("Title", "Author", "Subject", "Producer", "CreationDate")}
    buffer = (ctypes.c_ushort * 64)()
    size = min(pdfium.FPDFCatalog_GetLanguage(document.raw, buffer, 128), 128)
    language = bytes(buffer)[: max(size - 2, 0)].decode("utf-16-le", "replace").strip()
    return {
        "title": found["Title"],
        "author": found["Author"],
        "subject": found["Subject"],
        "producer": found["Producer"],
        "created": _date(found["CreationDate"]),
        "language": language or None,
    }


def _meta(document: Any, name: str) -> str | None:
    text = document.get_metadata_value(name).replace("\0", "").strip()[:_MOST_META_CHARS]
    return text.encode("utf-8", "replace").decode() or None


def _date(text: str | None) -> str | None:
    """A PDF date (D:20240131120000+01'00') in ISO 8601, UTC."""
    found = _DATE.match(text or "")
    if found is None:
        return None
    numbers = [
        int(one) if one else default for one, default in zip(found.groups()[:6], (0, 1, 1, 0, 0, 0), strict=True)
    ]
    sign = {"+": 1, "-": -1}.get(found[7] or "", 0)
    try:
        zone = timezone(sign * timedelta(hours=int(found[8] or 0), minutes=int(found[9] or 0)))
        return datetime(*numbers, tzinfo=zone).astimezone(UTC).isoformat()  # type: ignore[arg-type,misc]
    except (ValueError, OverflowError):
        return None

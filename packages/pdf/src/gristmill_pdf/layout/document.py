"""Reads a PDF file: text, pages, blocks, metadata, or the reason why there is no text.

This runs in a child process (child.py), since pdfium may crash on a damaged file.
"""

import ctypes
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pypdfium2 as pdfium_python
import pypdfium2.raw as pdfium

from gristmill.counted import counted
from gristmill_pdf import FOR_OCR
from gristmill_pdf.kernels.glyphs import UNITS
from gristmill_pdf.kernels.objects import MOST_DEPTH
from gristmill_pdf.layout.assemble import assemble
from gristmill_pdf.layout.confidence import confidence_of, verdict_of
from gristmill_pdf.layout.fonts import use_same_fonts_everywhere
from gristmill_pdf.layout.page import Page, PageReader

_DATE = re.compile(r"(?:D:)?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:([+\-Zz])(\d\d)?'?(\d\d)?)?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_MOST_META_CHARS = 1_000
WORK, WORK_PER_BYTE, WORK_PER_PAGE = 2_000_000, 20, 200
"""The work that a file may take: so many characters, objects and segments of paths, and more with its bytes. Many pages
can share one object. A page is as much work as WORK_PER_PAGE of them."""
MOST_DRAWN = 1_000_000_000
"""The pixels that the objects of a page may cover on its image, with the pixels of its pictures: 250 times the largest
image. A page that draws more is not rendered."""
IMAGE_DPI = 150
MOST_PIXELS = 4_000_000
MOST_SIDE = 16_000
"""Pixels of the longer side."""
MOST_IMAGE_BYTES = 192 << 20
"""A document with larger page images is dropped as `too_large`; a scanned page takes 50 to 500 kB."""


def read_document(
    data: bytes, max_pages: int, markdown: bool, images: bool | str, allow: Callable[[int], None]
) -> dict[str, Any]:
    """What the reader stores of a document, as JSON values. `drop` and `detail` give the reason for a dropped one.

    With `images`, a document that OCR may save is not dropped, and `images` has the PNG of each page that needs it.
    `allow` is called with the number of pages before they are read.
    """
    return _opened(data, lambda document: _read(document, len(data), max_pages, markdown, images, allow))


class TooMuchDrawn(ValueError):
    """A page that would take too long to render."""


def render_page(data: bytes, number: int) -> dict[str, Any]:
    """The image of a page (from 0) as the only one of `images`, or `drop` and `detail`."""

    def render(document: Any) -> dict[str, Any]:
        if number >= len(document):
            return {"drop": "no_page", "detail": f"it has {len(document)} pages"}
        try:
            return {"images": [page_png(document, number)]}
        except pdfium_python.PdfiumError as error:
            return {"drop": "unreadable_page", "detail": str(error)[:200]}
        except TooMuchDrawn as error:
            return {"drop": "too_large", "detail": str(error)}

    return _opened(data, render)


def _opened(data: bytes, use: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """What a function returns for the document in a file, or the reason why it cannot be opened."""
    use_same_fonts_everywhere()
    try:
        document = pdfium_python.PdfDocument(data)
    except pdfium_python.PdfiumError as error:
        if pdfium.FPDF_GetLastError() == pdfium.FPDF_ERR_PASSWORD:
            return {"drop": "encrypted", "detail": "the file needs a password"}
        return {"drop": "corrupt_pdf", "detail": str(error)[:200]}
    try:
        return use(document)
    finally:
        document.close()


def _read(
    document: Any, size: int, max_pages: int, markdown: bool, images: bool | str, allow: Callable[[int], None]
) -> dict[str, Any]:
    count = len(document)
    meta = _metadata(document)
    if count > max_pages:
        return {**meta, "drop": "too_large", "detail": f"{count} pages, max_pages is {max_pages}"}
    if count == 0:
        return {**meta, "drop": "corrupt_pdf", "detail": "the file has no page"}
    allow(count)
    reader = PageReader()
    pages: list[Page] = []
    left = most = WORK + WORK_PER_BYTE * size
    for number in range(count):
        pages.append(_page(document, reader, number, left))
        left -= WORK_PER_PAGE + pages[-1].work
        if left < 0:
            read = f"the first {counted(number + 1, 'page')} of {count:,}"
            return {**meta, "drop": "too_large", "detail": f"{read} take more than {counted(most, 'step')}"}
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
    found = {**meta, "text": text, "pages": shown, "blocks": blocks, "drop": drop, "detail": detail}
    if images and drop in (None, "empty_text", *FOR_OCR):
        found |= _images(
            document,
            [
                verdict in FOR_OCR or (images == "scans" and verdict is None and page.is_hidden)
                for page, (_, verdict) in zip(pages, confidences, strict=True)
            ],
        )
    return found


def _images(document: Any, is_wanted: Sequence[bool]) -> dict[str, Any]:
    """The images of the wanted pages, or the reason why there are none; nothing if no page is wanted."""
    if not any(is_wanted):
        return {}
    images: list[bytes | None] = []
    held = 0
    for number, wanted in enumerate(is_wanted):
        try:
            images.append(page_png(document, number) if wanted else None)
        except TooMuchDrawn as error:
            return {"drop": "too_large", "detail": str(error)}
        held += len(images[-1] or b"")
        if held > MOST_IMAGE_BYTES:
            return {"drop": "too_large", "detail": f"page images of more than {MOST_IMAGE_BYTES >> 20} MiB"}
    return {"images": images, "drop": None, "detail": None}


def page_png(document: Any, number: int) -> bytes:
    """The image of a page as PNG, in 16 shades of grey: half the pixel data, and what engines read is the same.

    Raises TooMuchDrawn.
    """
    page = document[number]
    width, height = page.get_size()
    scale = min(IMAGE_DPI / 72, (MOST_PIXELS / max(width * height, 1.0)) ** 0.5, MOST_SIDE / max(width, height, 1.0))
    drawn = 0.0
    for pixels in _drawn(page.raw, pdfium.FPDFPage_CountObjects, pdfium.FPDFPage_GetObject, scale**2, MOST_PIXELS):
        drawn += pixels
        if drawn > MOST_DRAWN:
            raise TooMuchDrawn(f"page {number + 1} draws more than {MOST_DRAWN:,} pixels")
    pixels = page.render(scale=scale, grayscale=True).to_numpy()
    page.close()
    shades = pixels.reshape(pixels.shape[0], -1) >> 4
    even = np.pad(shades, ((0, 0), (0, shades.shape[1] % 2)))
    packed = np.pad(even[:, ::2] << 4 | even[:, 1::2], ((0, 0), (1, 0)))  # each row begins with its filter: 0, none
    head = struct.pack(">IIBBBBB", shades.shape[1], shades.shape[0], 4, 0, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(packed.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )


def _drawn(holder: Any, count: Any, get: Any, scale: float, most: float, depth: int = 0) -> Iterator[float]:
    """The pixels of each object of a page or a form, also inside forms; `scale` is in pixels per unit of area."""
    edges, matrix = [ctypes.c_float() for _ in range(4)], pdfium.FS_MATRIX()
    width, height = ctypes.c_uint(), ctypes.c_uint()
    for index in range(count(holder)):
        item = get(holder, index)
        pdfium.FPDFPageObj_GetBounds(item, *map(ctypes.byref, edges))
        left, bottom, right, top = (one.value for one in edges)
        area = abs(right - left) * abs(top - bottom) * scale
        inside = min(area, most) if area == area else most
        yield 1.0 + inside
        kind = pdfium.FPDFPageObj_GetType(item)
        if kind == pdfium.FPDF_PAGEOBJ_IMAGE:
            pdfium.FPDFImageObj_GetImagePixelSize(item, ctypes.byref(width), ctypes.byref(height))
            yield float(width.value * height.value)
        elif kind == pdfium.FPDF_PAGEOBJ_FORM and depth < MOST_DEPTH:
            pdfium.FPDFPageObj_GetMatrix(item, ctypes.byref(matrix))
            inner = abs(matrix.a * matrix.d - matrix.b * matrix.c) * scale
            forms = pdfium.FPDFFormObj_CountObjects, pdfium.FPDFFormObj_GetObject
            yield from _drawn(item, *forms, inner, inside, depth + 1)


def _page(document: Any, reader: PageReader, number: int, most_work: int) -> Page:
    page = pdfium.FPDF_LoadPage(document.raw, number)
    if not page:
        return Page(0, 0, fault="unreadable_page")
    try:
        return reader.read(page, most_work)
    finally:
        pdfium.FPDF_ClosePage(page)


def _metadata(document: Any) -> dict[str, Any]:
    found = {name: _meta(document, name) for name in ("Title", "Author", "Subject", "Producer", "CreationDate")}
    language = (ctypes.c_ushort * 64)()  # stays empty if there is more
    pdfium.FPDFCatalog_GetLanguage(document.raw, language, 128)
    return {
        "title": found["Title"],
        "author": found["Author"],
        "subject": found["Subject"],
        "producer": found["Producer"],
        "created": _date(found["CreationDate"]),
        "language": _line(bytes(language)),
    }


def _meta(document: Any, name: str) -> str | None:
    buffer = ctypes.create_string_buffer(pdfium.FPDF_GetMetaText(document.raw, name.encode(), None, 0))
    pdfium.FPDF_GetMetaText(document.raw, name.encode(), buffer, len(buffer))
    return _line(buffer.raw)


def _line(data: bytes) -> str | None:
    """UTF-16 as a line of text, without control characters. Half a pair of surrogates becomes U+FFFD."""
    text = _CONTROL.sub(" ", data.decode("utf-16-le", "replace").replace("\0", ""))
    return " ".join(text[:_MOST_META_CHARS].split()) or None


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

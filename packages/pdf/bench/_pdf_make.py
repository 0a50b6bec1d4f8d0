"""Small PDF files that are made up: text at given positions in a standard font."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bench.inputs import made_up_texts

if TYPE_CHECKING:
    from bench.pdf import PdfSample

DOCUMENTS = 4
LINE_CHARS = 80
PAGE_LINES = 50


def pdf(pages: list[bytes], extra: tuple[bytes, ...] = (), catalog: bytes = b"", page: bytes = b"") -> bytes:
    """A PDF file with one content stream for each page; fonts are /F (Helvetica) and /C (Courier)."""
    numbers = range(5, 5 + 2 * len(pages), 2)
    kids = b" ".join(b"%d 0 R" % number for number in numbers)
    objects = [
        b"<</Type/Catalog/Pages 2 0 R %s>>" % catalog,
        b"<</Type/Pages/Count %d/Kids[%s]>>" % (len(pages), kids),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
        b"<</Type/Font/Subtype/Type1/BaseFont/Courier/Encoding/WinAnsiEncoding>>",
    ]
    for number, content in zip(numbers, pages, strict=True):
        objects.append(
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents %d 0 R"
            b"/Resources<</Font<</F 3 0 R/C 4 0 R>>>>%s>>" % (number + 1, page)
        )
        objects.append(b"<</Length %d>>stream\n%s\nendstream" % (len(content), content))
    return written([*objects, *extra])


def written(objects: list[bytes]) -> bytes:
    """Numbers the objects from 1 and adds the cross-reference table; the first one is the catalog."""
    out, places = bytearray(b"%PDF-1.7\n"), []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    return bytes(out + b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start))


def line(x: int, y: int, text: str, size: int = 10) -> bytes:
    """The operators that write one line."""
    escaped = text.encode("cp1252", "replace").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
    return b"BT/F %d Tf %d %d Td(%s)Tj ET\n" % (size, x, y, escaped)


def made_up(folder: Path) -> Iterator["PdfSample"]:
    """Documents of running text in one column."""
    from bench.pdf import PdfSample

    texts = made_up_texts()
    for number in range(DOCUMENTS):
        paragraphs = [part.replace("\n", " ") for part in next(texts).encode("ascii", "ignore").decode().split("\n\n")]
        lines = [piece for part in paragraphs for piece in [*_wrapped(part), ""]]
        starts = range(0, len(lines), PAGE_LINES)
        contents = [
            b"".join(line(60, 730 - 12 * row, text) for row, text in enumerate(lines[at : at + PAGE_LINES]) if text)
            for at in starts
        ]
        file = folder / f"made-up-{number}.pdf"
        file.write_bytes(pdf(contents))
        yield PdfSample("made_up", file, len(contents), "\n".join(paragraphs))


def _wrapped(text: str) -> Iterator[str]:
    row = ""
    for word in text.split():
        if row and len(row) + len(word) >= LINE_CHARS:
            yield row
            row = word
        else:
            row = f"{row} {word}" if row else word
    if row:
        yield row

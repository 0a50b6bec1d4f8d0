"""Writes small PDF files for tests: text at given positions, with the standard fonts."""

import zlib

FONTS = {"F": "Helvetica", "B": "Helvetica-Bold", "C": "Courier"}


def text(x, y, words, size=10, font="F"):
    """The operators that write a line at a position, in points from the lower left corner."""
    escaped = words.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
    return f"BT /{font} {size} Tf {x} {y} Td ({escaped}) Tj ET".encode("latin-1")


def pdf(*pages, info="", font_entries="", catalog="", resources="", extra=()):
    """A file with these pages; a page is a list of operators."""
    kids = " ".join(f"{8 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        f"<</Type /Catalog /Pages 2 0 R {catalog}>>".encode(),
        f"<</Type /Pages /Kids [{kids}] /Count {len(pages)}>>".encode(),
        f"<<{info}>>".encode(),
        *(f"<</Type /Font /Subtype /Type1 /BaseFont /{name} {font_entries}>>".encode() for name in FONTS.values()),
        b"<<>>",
    ]
    fonts = " ".join(f"/{name} {4 + n} 0 R" for n, name in enumerate(FONTS))
    for n, operators in enumerate(pages):
        content = b"\n".join(operators)
        objects.append(
            f"<</Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {9 + 2 * n} 0 R "
            f"/Resources <</Font <<{fonts}>> {resources}>>>>".encode()
        )
        objects.append(b"<</Length %d>> stream\n%s\nendstream" % (len(content), content))
    objects += extra
    data, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj %s endobj\n" % (number, content)
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    tail = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    tail += f"trailer <</Size {len(objects) + 1} /Root 1 0 R /Info 3 0 R>>\n"
    return data + tail.encode() + b"startxref\n%d\n%%%%EOF\n" % len(data)


WORDS = [
    "the",
    "stones",
    "of",
    "the",
    "mill",
    "turn",
    "day",
    "and",
    "night",
    "and",
    "grind",
    "the",
    "corn",
    "of",
    "the",
    "whole",
    "valley",
    "to",
    "flour",
]


def column(x, top, lines, width=40, first=0, step=12, size=10):
    """Lines of running text, each about as wide as the column."""
    operators, texts, at = [], [], first
    for n in range(lines):
        words = ""
        while len(words) < width:
            words += ("" if not words else " ") + WORDS[at % len(WORDS)] + str(at)
            at += 1
        operators.append(text(x, top - step * n, words, size))
        texts.append(words)
    return operators, " ".join(texts)


def scanned(data, dpi=200):
    """A file whose pages are pictures of the pages of another file."""
    import pypdfium2

    pages, images = [], []
    document = pypdfium2.PdfDocument(data)
    for n, page in enumerate(document):
        pixels = page.render(scale=dpi / 72, grayscale=True).to_numpy()
        content = zlib.compress(pixels.tobytes())
        head = (
            f"<</Type /XObject /Subtype /Image /Width {pixels.shape[1]} /Height {pixels.shape[0]} /ColorSpace "
            f"/DeviceGray /BitsPerComponent 8 /Filter /FlateDecode /Length {len(content)}>> stream\n"
        )
        images.append(head.encode() + content + b"\nendstream")
        pages.append([f"q 600 0 0 800 0 0 cm /I{n} Do Q".encode()])
    first = 8 + 2 * len(pages)
    names = " ".join(f"/I{n} {first + n} 0 R" for n in range(len(pages)))
    return pdf(*pages, resources=f"/XObject <<{names}>>", extra=images)

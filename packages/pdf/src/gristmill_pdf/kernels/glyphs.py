"""Reads all glyphs of a page from pdfium in one compiled loop: calls from Python would take 20 times as long.

Coordinates become integers at once (`UNITS` in a point), so that everything that is computed from them is the same on
every processor.
"""

import math

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import view
from gristmill.kernels.memory_calls import (
    call_double,
    call_int,
    call_on,
    call_pointer,
    call_with_out,
    call_with_two_outs,
)

UNITS = 16
"""Units of a coordinate in one point (1/72 inch)."""
FARTHEST = 1 << 20
"""Coordinates are cut to this many units: no page is as large (65,536 points)."""
MOST_FONTS = 1024

GLYPH_COLUMNS = 11
CODE, LEFT, TOP, RIGHT, BOTTOM, BASE_X, BASE_Y, SIZE, FONT, FLAGS, TURN = range(GLYPH_COLUMNS)
"""The columns of a glyph. y grows downwards. TURN is the direction of the text in quarter turns, and 4 if it is none of
these."""
MAP_ERROR, HYPHEN, BREAK = 1, 2, 4
"""Bits of FLAGS: the font does not tell the character; the hyphen at the end of a line; a line of a table is between
this glyph and the one before it (rules.py)."""

FUNCTIONS = (
    "FPDFText_IsGenerated",
    "FPDFText_GetUnicode",
    "FPDFText_GetLooseCharBox",
    "FPDFText_GetCharOrigin",
    "FPDFText_GetMatrix",
    "FPDFText_GetFontSize",
    "FPDFText_GetTextObject",
    "FPDFTextObj_GetFont",
    "FPDFText_HasUnicodeMapError",
    "FPDFText_IsHyphen",
)
"""The functions whose addresses the kernel needs, in this order."""


@njit(nogil=True, cache=True)
def _units(points: float) -> int:
    if not abs(points) < FARTHEST / UNITS:  # also if it is not a number
        return FARTHEST if points > 0 else -FARTHEST
    return math.floor(points * UNITS + 0.5)


@njit(nogil=True, cache=True)
def read_glyphs(
    functions: np.ndarray,
    page: int,
    count: int,
    glyphs: np.ndarray,
    fonts: np.ndarray,
    floats: np.ndarray,
    xs: np.ndarray,
    ys: np.ndarray,
) -> tuple[int, int]:
    """Writes the glyphs of a text page in the order of its content; returns the numbers of glyphs and of fonts.

    `fonts` gets the pointers of fonts, `floats`, `xs` and `ys` are memory for results. Spaces that pdfium added between
    glyphs are left out.
    """
    many = number = 0
    # Each turn reads one glyph: its code, its box, its size and direction, and its font.
    for index in range(count):
        if call_int(functions[0], page, index) != 0:
            continue
        code = call_int(functions[1], page, index)
        if code == 0 or not call_with_out(functions[2], page, index, view(floats)):
            code = 0xFFFD if code == 0 else code
            if not call_with_out(functions[2], page, index, view(floats)):
                continue
        left, top, right, bottom = floats[0], floats[1], floats[2], floats[3]
        x, y = left, bottom
        if call_with_two_outs(functions[3], page, index, view(xs), view(ys)):
            x, y = xs[0], ys[0]
        size = call_double(functions[5], page, index)
        turn = 0
        if call_with_out(functions[4], page, index, view(floats)):
            a, b, c, d = floats[0], floats[1], floats[2], floats[3]
            size *= math.sqrt(float(c) * c + float(d) * d)
            wide, high = abs(a), abs(b)
            if high * 8 > wide:
                turn = (3 if b > 0 else 1) if wide * 8 <= high else 4
            elif a < 0:
                turn = 2
            if size < 0:  # a negative size turns its glyphs around once more
                size, turn = -size, turn ^ 2 if turn < 4 else turn
        flags = MAP_ERROR if call_int(functions[8], page, index) == 1 else 0
        if (code == 2 and not flags) or call_int(functions[9], page, index) == 1:
            flags |= HYPHEN
        item = call_pointer(functions[6], page, index)
        font = call_on(functions[7], item) if item else 0
        at = number - 1
        while at >= 0 and fonts[at] != font:
            at -= 1
        if at < 0:
            at = min(number, MOST_FONTS - 1)
            fonts[at] = font
            number = at + 1
        row = glyphs[many]
        row[CODE] = code
        row[LEFT], row[RIGHT] = _units(left), _units(right)
        row[TOP], row[BOTTOM] = -_units(top), -_units(bottom)
        row[BASE_X], row[BASE_Y] = _units(x), -_units(y)
        row[SIZE] = _units(size)
        row[FONT], row[FLAGS], row[TURN] = at, flags, turn
        many += 1
    return many, number

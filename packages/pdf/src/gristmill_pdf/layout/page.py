"""Reads one page: its glyphs, the blocks of its text in reading order, and how far the text can be trusted."""

import ctypes
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pypdfium2.raw as pdfium

from gristmill_pdf.kernels.accents import place_accents
from gristmill_pdf.kernels.glyphs import (
    BASE_X,
    BASE_Y,
    BOTTOM,
    CODE,
    FONT,
    FUNCTIONS,
    GLYPH_COLUMNS,
    LEFT,
    MOST_FONTS,
    RIGHT,
    SIZE,
    TOP,
    TURN,
    UNITS,
    read_glyphs,
)
from gristmill_pdf.kernels.objects import FUNCTIONS as OBJECT_FUNCTIONS
from gristmill_pdf.kernels.objects import addresses, count_drawn
from gristmill_pdf.kernels.segments import (
    ACCENTS,
    FIRST_PIECE,
    FONT_BOLD,
    FONT_HEAVY,
    FONT_ITALIC,
    FONT_MATH,
    FONT_MONO,
    LAST_PIECE,
    MOST_CODE_SPACES,
    S_BASE,
    S_BOLD,
    S_BOTTOM,
    S_ERRORS,
    S_GLYPHS,
    S_HYPHEN,
    S_ITALIC,
    S_LEFT,
    S_MATH,
    S_MONO,
    S_RIGHT,
    S_SIZE,
    S_START,
    S_STOP,
    S_TOP,
    S_TURN,
    S_WORD_RIGHT,
    SEGMENT_COLUMNS,
    join_glyphs,
)
from gristmill_pdf.layout.blocks import page_blocks
from gristmill_pdf.layout.columns import TextSegment
from gristmill_pdf.layout.hidden import free_hidden, hidden_text, set_sizes
from gristmill_pdf.layout.line_numbers import without_line_numbers
from gristmill_pdf.layout.lines import Block
from gristmill_pdf.layout.math_fonts import layout_of, set_signs
from gristmill_pdf.layout.rules import RuledLine, break_at_lines, grids, rules_of, with_underscores

Array = np.ndarray[Any, Any]

MOST_GLYPHS = 100_000
"""A page with more is not read. A dense page of a newspaper has 20,000."""
LEAST_MONO_LETTERS = 8
"""Different letters of equal width that show that a font is for code."""
LEAST_BOLD_GLYPHS = 500
"""A page with fewer may be a title, or code with headings."""
MOST_JUDGED_CHARS = 4_000
MOST_IMAGES = 1_000
"""The page objects that are examined for images."""
_FIXED_PITCH, _ITALIC_FLAG, _FORCE_BOLD = 1, 1 << 6, 1 << 18
_MATH_NAMES = (
    *("cmmi", "cmsy", "cmex", "cmmib", "lmmathi", "lmmathsy", "msam", "msbm", "eufm", "math", "mtmi", "mtsy"),
    *("txmi", "pxmi", "rtxmi", "stixtwomath", "symbol", "eurm", "zplmr7m", "fourier-math"),
)
_MONO_NAMES = (
    *("mono", "courier", "typewriter", "consol", "cmtt", "cmsltt", "ectt", "sltt"),
    *("fixed", "menlo", "-tt", "txtt"),
)


@dataclass(slots=True)
class Page:
    """What was read from a page."""

    width: int
    """In units, like all coordinates."""
    height: int
    left: int = 0
    """Where the left edge is; y of the upper edge is `top`."""
    top: int = 0
    blocks: list[Block] = field(default_factory=list)
    glyphs: int = 0
    bad_glyphs: int = 0
    """Glyphs whose character is unknown, private, or a control character."""
    unmapped: int = 0
    """Glyphs whose font does not tell the character. pdfium then returns the code, which may be right."""
    unmapped_text: str = ""
    """Text of such glyphs, to judge whether it is right."""
    is_hidden: bool = False
    """Whether most of its text is invisible: an OCR engine wrote it under a picture."""
    image_share: float = 0.0
    """The share of the page that its images cover, if it has little text."""
    rules: list[RuledLine] = field(default_factory=list)
    """Its lines across that are at most half as wide as it. One of them may separate footnotes from the text."""
    shift: int = 3 * UNITS
    """How far the same line may be from its place on other pages."""
    fault: str | None = None
    work: int = 0
    """Its characters, objects, and segments of paths, also those inside forms."""


class PageReader:
    """Reads pages, with memory that it reuses."""

    def __init__(self) -> None:
        self._functions = addresses(pdfium, FUNCTIONS)
        self._object_functions = addresses(pdfium, OBJECT_FUNCTIONS)
        self._fonts = np.zeros(MOST_FONTS, np.int64)
        self._floats = np.zeros(8, np.float32)
        self._xs, self._ys = np.zeros(1), np.zeros(1)

    def read(self, page: Any, most_work: int) -> Page:
        """The content of a loaded page; a page of more work than this is `too_large`."""
        size = round(pdfium.FPDF_GetPageWidthF(page) * UNITS), round(pdfium.FPDF_GetPageHeightF(page) * UNITS)
        found = Page(*(max(0, min(one, 1 << 20)) for one in size))
        box = pdfium.FS_RECTF()
        if pdfium.FPDF_GetPageBoundingBox(page, ctypes.byref(box)):
            found.left, found.top = round(box.left * UNITS), -round(box.top * UNITS)
        found.work = int(count_drawn(self._object_functions, _address(page), most_work))
        if found.work > most_work:
            found.fault = "too_large"
            return found
        text_page = pdfium.FPDFText_LoadPage(page)
        if not text_page:
            found.fault = "unreadable_page"
            return found
        try:
            count = pdfium.FPDFText_CountChars(text_page)
            found.work += max(count, 0)
            if count > MOST_GLYPHS:
                found.fault = "too_large"
                return found
            if count > 0:
                self._read_text(page, text_page, count, found)
        finally:
            pdfium.FPDFText_ClosePage(text_page)
        if found.glyphs < 300:
            found.image_share = _image_share(page, found)
        return found

    def _read_text(self, page: Any, text_page: Any, count: int, found: Page) -> None:
        glyphs = np.empty((count, GLYPH_COLUMNS), np.int32)
        many, fonts = read_glyphs(
            self._functions,
            _address(text_page),
            count,
            glyphs,
            self._fonts,
            self._floats,
            self._xs,
            self._ys,
        )
        if not many:
            return
        glyphs = without_line_numbers(glyphs[:many])
        many = len(glyphs)
        names = [_name_of(int(font)) for font in self._fonts[:fonts]]
        kinds = np.array([_kind_of(int(font), name) for font, name in zip(self._fonts, names, strict=False)], np.int64)
        set_signs(glyphs, names, kinds)
        _find_mono(glyphs, kinds)
        _find_bold(glyphs, kinds)
        turns = np.bincount(glyphs[:, TURN], minlength=5)[:4]
        for turn in range(1, 4):
            if turns[turn]:
                _turn(glyphs, turn)
        main = int(np.argmax(turns))
        across, down, short = rules_of(page) if main == 0 else ([], [], [])
        glyphs = with_underscores(glyphs, short)
        many = len(glyphs)
        place_accents(glyphs, many)
        found.rules = [rule for rule in across if 2 * (rule.stop - rule.start) <= found.width]
        tables = grids(across, down)
        break_at_lines(glyphs, tables, down)
        hidden = hidden_text(text_page, count)
        found.is_hidden = hidden.is_most
        is_stretched = free_hidden(glyphs, kinds, np.isin(self._fonts[:fonts], hidden.fonts))
        text = np.empty(many * 4 + 64 * MOST_CODE_SPACES, np.int32)
        while True:
            segments = np.empty((many, SEGMENT_COLUMNS), np.int64)
            number = join_glyphs(glyphs, many, kinds, ACCENTS, text, segments)
            if number >= 0:
                break
            text = np.empty(2 * len(text), np.int32)
        codes = glyphs[:, CODE]
        is_bad = (
            (codes == 0xFFFD)
            | (codes >= 0xE000) & (codes < 0xF900) & ((codes < FIRST_PIECE) | (codes > LAST_PIECE))
            | (codes < 32) & (codes != 9) & (codes != 10) & (codes != 13) & (codes != 2)
        )
        found.glyphs = int(np.count_nonzero((codes != 32) & (codes != 0xA0)))
        found.bad_glyphs = int(np.count_nonzero(is_bad))
        rows = segments[:number]
        upright = rows[rows[:, S_TURN] == main]
        if main == 0 and pdfium.FPDFPage_GetRotation(page) == 0 and found.width and found.height:
            upright = upright[_is_near(found, upright)]
        parts = _segments(upright, text)
        errors = upright[:, S_ERRORS]
        found.unmapped = int(errors.sum())
        if found.unmapped:
            is_suspect = (2 * errors > upright[:, S_GLYPHS]).tolist()
            chosen = [one.text for one, suspect in zip(parts, is_suspect, strict=True) if suspect]
            found.unmapped_text = " ".join(chosen)[:MOST_JUDGED_CHARS]
        if found.is_hidden:
            set_sizes(parts, is_stretched)
        if parts:
            found.blocks = page_blocks(parts, tables)


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _name_of(font: int) -> str:
    buffer = ctypes.create_string_buffer(128)
    if font:
        pdfium.FPDFFont_GetBaseFontName(ctypes.cast(font, pdfium.FPDF_FONT), buffer, 128)
    return buffer.value.decode("latin-1").rpartition("+")[2].lower()


def _kind_of(font: int, name: str) -> int:
    """The kind of a font: bits of kernels/pdf/segments.py."""
    if not font:
        return 0
    handle = ctypes.cast(font, pdfium.FPDF_FONT)
    flags = max(pdfium.FPDFFont_GetFlags(handle), 0)
    is_mono = flags & _FIXED_PITCH or any(part in name for part in _MONO_NAMES)
    is_bold = flags & _FORCE_BOLD or any(
        part in name for part in ("bold", "black", "heavy", "demi", "cmbx", "sfbx", "-bd")
    )
    is_regular = any(part in name for part in ("regular", "roman", "medium", "book", "light", "math"))
    is_italic = flags & _ITALIC_FLAG or any(part in name for part in ("italic", "oblique", "cmti", "cmsl"))
    is_math = any(part in name for part in _MATH_NAMES) or layout_of(name) is not None
    bits = (
        (is_mono, FONT_MONO),
        (is_bold, FONT_BOLD),
        (not is_regular and pdfium.FPDFFont_GetWeight(handle) >= 600, FONT_HEAVY),
        (is_italic, FONT_ITALIC),
        (is_math, FONT_MATH),
    )
    return sum(bit for holds, bit in bits if holds)


def _find_mono(glyphs: Array, kinds: Array) -> None:
    """Marks fonts whose Latin letters all have the same width, whatever their name."""
    letters = glyphs[(glyphs[:, CODE] > 32) & (glyphs[:, CODE] < 127) & (glyphs[:, TURN] == 0)]
    widths = (letters[:, RIGHT] - letters[:, LEFT]) * 64 // np.maximum(letters[:, SIZE], 1)
    for font in range(len(kinds)):
        chosen = letters[:, FONT] == font
        if len(np.unique(letters[chosen, CODE])) >= LEAST_MONO_LETTERS and np.ptp(widths[chosen]) <= 1:
            kinds[font] |= FONT_MONO


def _find_bold(glyphs: Array, kinds: Array) -> None:
    """Fonts with wide stems are bold. None is if most of the page is: then it does not tell headings from text."""
    is_bold = kinds & (FONT_BOLD | FONT_HEAVY) > 0
    fonts = glyphs[kinds[glyphs[:, FONT]] & FONT_MONO == 0, FONT]
    if len(fonts) >= LEAST_BOLD_GLYPHS and 2 * np.count_nonzero(is_bold[fonts]) > len(fonts):
        kinds[is_bold] &= ~FONT_BOLD
    else:
        kinds[is_bold] |= FONT_BOLD


def _turn(glyphs: Array, turn: int) -> None:
    """Turns the coordinates of glyphs that are written in another direction, so that they read from left to right."""
    chosen = glyphs[:, TURN] == turn
    old = glyphs[chosen].copy()
    x, y = (LEFT, RIGHT, BASE_X), (TOP, BOTTOM, BASE_Y)
    new = old.copy()
    if turn == 2:
        new[:, [*x, *y]] = -old[:, [*x, *y]]
    elif turn == 1:
        new[:, x], new[:, y] = old[:, y], -old[:, x]
    else:
        new[:, x], new[:, y] = -old[:, y], old[:, x]
    new[:, LEFT], new[:, RIGHT] = np.minimum(new[:, LEFT], new[:, RIGHT]), np.maximum(new[:, LEFT], new[:, RIGHT])
    new[:, TOP], new[:, BOTTOM] = np.minimum(new[:, TOP], new[:, BOTTOM]), np.maximum(new[:, TOP], new[:, BOTTOM])
    glyphs[chosen] = new


def _segments(rows: Array, codes: Array) -> list[TextSegment]:
    names = (S_START, S_STOP, S_LEFT, S_TOP, S_RIGHT, S_BOTTOM, S_BASE, S_SIZE, S_GLYPHS, S_MONO, S_BOLD, S_ITALIC)
    table = rows[:, [*names, S_MATH, S_WORD_RIGHT, S_HYPHEN]].tolist()
    if not table:
        return []
    end = max(row[1] for row in table)
    valid = codes[:end].copy()
    valid[(valid < 0) | (valid > 0x10FFFF) | (valid >= 0xD800) & (valid < 0xE000)] = 0xFFFD
    text = valid.astype("<u4").tobytes().decode("utf-32-le")
    found: list[TextSegment] = []
    for order, row in enumerate(table):
        start, stop, left, top, right, bottom, base, size, glyphs, mono, bold, italic, math, word_right, hyphen = row
        # fmt: off
        found.append(TextSegment(
            text[start:stop], left, top, right, bottom, base, size, glyphs, mono, bold, italic, math,
            word_right, bool(hyphen), order,
        ))
        # fmt: on
    return found


def _is_near(page: Page, rows: Array) -> Array:
    """Which segments are on the page or less than a page away from it. Slides keep covered text far from the page.
    A long table may end a little below it."""
    across, down = rows[:, S_LEFT] - page.left, rows[:, S_BASE] - page.top
    found: Array = (abs(2 * across - page.width) < 3 * page.width) & (abs(2 * down - page.height) < 3 * page.height)
    return found


def _image_share(page: Any, found: Page) -> float:
    area = 0.0
    edges = [ctypes.c_float() for _ in range(4)]
    for index in range(min(pdfium.FPDFPage_CountObjects(page), MOST_IMAGES)):
        item = pdfium.FPDFPage_GetObject(page, index)
        if pdfium.FPDFPageObj_GetType(item) == pdfium.FPDF_PAGEOBJ_IMAGE:
            pdfium.FPDFPageObj_GetBounds(item, *map(ctypes.byref, edges))
            left, bottom, right, top = (one.value for one in edges)
            area += max(right - left, 0) * max(top - bottom, 0)
    whole = found.width * found.height / UNITS**2
    return min(area / whole, 1.0) if whole > 0 and area == area else 0.0

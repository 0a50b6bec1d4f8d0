"""Joins glyphs to segments: pieces of a line without a wide gap, with their text.

Glyphs are taken in the order of the page's content. In nearly all files that is the order of reading within a line, so
no sorting is needed; segments that belong together are joined later. All coordinates are integers (glyphs.py).
"""

import numpy as np

from gristmill.kernels.compile import njit
from gristmill_pdf.kernels import glyphs as glyph_rows

FONT_MONO, FONT_BOLD, FONT_ITALIC, FONT_MATH, FONT_HEAVY = 1, 2, 4, 8, 16
"""Bits of the kind of a font. FONT_HEAVY has wide stems, by what the file says, which may be wrong."""

SEGMENT_COLUMNS = 18
(
    S_START,
    S_STOP,
    S_LEFT,
    S_TOP,
    S_RIGHT,
    S_BOTTOM,
    S_BASE,
    S_SIZE,
    S_GLYPHS,
    S_MONO,
    S_BOLD,
    S_ITALIC,
    S_ERRORS,
    S_TURN,
    S_WORD_RIGHT,
    S_HYPHEN,
    S_FIRST,
    S_MATH,
) = range(SEGMENT_COLUMNS)
"""The columns of a segment. S_START and S_STOP are in the text; S_WORD_RIGHT is where its first word ends; S_FIRST is
its first glyph."""

SPACE_SHARE = 12
"""A gap of this many hundredths of the font size separates words. A narrow space of a justified line in TeX is 14, the
widest kern about 10."""
LETTER_F = ord("f")
CIRCLE = 0x25EF
SEGMENT_SHARE = 85
"""A gap this wide ends a segment. In LaTeX, 12 points separate the columns of a table, also in a font of 12 points."""
BACK_SHARE = 60
"""A step back as wide as this ends a segment; accents and kerns are narrower."""
LEAN_SHARE = 30
"""An italic f leans out to the left of its origin, by at most so much. A gap ends at the origin."""
MOST_CODE_SPACES = 60
CODE_SPACE_SHARE = 18
"""The same between two letters of code, whose spaces are narrow in justified lines. Listings move letters to columns:
then, they are 8 apart inside words, but further beside signs."""
FIRST_PIECE, LAST_PIECE = 0xF8E6, 0xF8FE
"""Pieces of large brackets, which are left out."""
DROP_CAP_SIZES = 2
"""A first letter that is so many times as large as the text after it is a drop cap, not a base with a superscript."""

MIRRORED = np.arange(256, dtype=np.int32)
"""Brackets as pdfium returns them in text from right to left, which it turns around: as they are on the page."""
for _opened, _closed in ("()", "[]", "{}", "<>", "«»"):
    MIRRORED[ord(_opened)], MIRRORED[ord(_closed)] = ord(_closed), ord(_opened)

RAISED, LOWERED, IN_FORMULA = 0x100000, 0x104000, 0x8000
"""RAISED or LOWERED is added to the code of a superscript or subscript, which gives a private code point. IN_FORMULA is
added, too, if the glyph or the one before it is in a font for formulas; a superscript that is not in one may be the
mark of a footnote."""

ACCENTS = np.zeros(0x300, np.int32)
for _mark, _combining in (
    (0x60, 0x300), (0xB4, 0x301), (0x2C6, 0x302), (0x5E, 0x302), (0x2DC, 0x303), (0x7E, 0x303), (0xAF, 0x304),
    (0x2D8, 0x306), (0x2D9, 0x307), (0xA8, 0x308), (0x2DA, 0x30A), (0x2DD, 0x30B), (0x2C7, 0x30C), (0xB8, 0x327),
    (0x2DB, 0x328),
):  # fmt: skip
    ACCENTS[_mark] = _combining


@njit(nogil=True, cache=True)
def is_letter(code: int) -> bool:
    return bool(97 <= code <= 122 or 65 <= code <= 90 or 0xC0 <= code < 0x250 or code == 0x131 or code == 0x237)


@njit(nogil=True, cache=True)
def _is_in_word(code: int) -> bool:
    return bool(48 <= code <= 57 or is_letter(code))


@njit(nogil=True, cache=True)
def _is_right_to_left(code: int) -> bool:
    """Whether a code is a Hebrew or Arabic letter; marks and digits are not."""
    if code < 0x700:
        return bool(0x5D0 <= code <= 0x5EA or 0x620 <= code <= 0x64A or 0x66E <= code <= 0x6D5 or code >= 0x6FA)
    return bool(0x750 <= code < 0x780 or 0x8A0 <= code < 0x8CA or 0xFB1D <= code < 0xFE00 or 0xFE70 <= code < 0xFEFD)


@njit(nogil=True, cache=True)
def _goes_left(glyphs: np.ndarray, count: int, at: int) -> bool:
    """Whether a glyph is to the left of the one before it, or the next one to its left, on the same base line."""
    one, size = glyphs[at], glyphs[at, glyph_rows.SIZE]
    before, after = glyphs[max(at - 1, 0)], glyphs[min(at + 1, count - 1)]
    if (
        at > 0
        and abs(before[glyph_rows.BASE_Y] - one[glyph_rows.BASE_Y]) * 2 < size
        and abs(before[glyph_rows.LEFT] - one[glyph_rows.LEFT]) < 2 * size
    ):
        return bool(one[glyph_rows.LEFT] < before[glyph_rows.LEFT])
    return bool(
        abs(after[glyph_rows.BASE_Y] - one[glyph_rows.BASE_Y]) * 2 < size
        and after[glyph_rows.LEFT] < one[glyph_rows.LEFT]
    )


@njit(nogil=True, cache=True)
def _script(code: int, size: int, base: int, full_size: int, full_base: int) -> int:
    """What is added to the code of a glyph of this size and base line: RAISED, LOWERED or 0."""
    is_sign = (
        0x28 <= code <= 0x2F or code == 0x3D or code == 0x2212 or code == 0x2032 or code == 0x2217 or code == 0x22A4
    )
    is_char = _is_in_word(code) or 0x370 <= code < 0x400
    shift = (full_base - base) * 100
    is_small = size * 100 <= 85 * full_size or (size * 100 <= 95 * full_size and abs(shift) >= 25 * full_size)
    if not is_small or not (is_char or is_sign):
        return 0
    if shift >= 12 * full_size:
        return RAISED
    return LOWERED if -shift >= 8 * full_size else 0


@njit(nogil=True, cache=True)
def _is_math(font_kinds: np.ndarray, glyph: np.ndarray) -> bool:
    return bool(font_kinds[glyph[glyph_rows.FONT]] & FONT_MATH)


@njit(nogil=True, cache=True)
def join_glyphs(
    glyphs: np.ndarray, count: int, font_kinds: np.ndarray, accents: np.ndarray, text: np.ndarray, segments: np.ndarray
) -> int:
    """Writes segments, and their text as code points; returns the number of segments, or -1 if `text` is too short. It
    never has to be longer than 1 + MOST_CODE_SPACES code points for each glyph."""
    many = 0
    end = 0
    last = -1
    pending = 0
    # Each turn appends a glyph to the segment, with the spaces before it, or begins a new segment.
    for at in range(count):
        code = glyphs[at, glyph_rows.CODE]
        if glyphs[at, glyph_rows.TURN] > 3:
            continue
        if FIRST_PIECE <= code <= LAST_PIECE:
            continue
        if code == 32 or code == 0xA0 or code == 9 or code == 10 or code == 13:
            pending = 1
            continue
        if glyphs[at, glyph_rows.FLAGS] & glyph_rows.HYPHEN and code < 32:
            code = 45
        if 0xDC00 <= code < 0xE000 and end > 0 and 0xD800 <= text[end - 1] < 0xDC00:
            text[end - 1] = 0x10000 + ((text[end - 1] - 0xD800) << 10) + code - 0xDC00
            continue
        if code < len(MIRRORED) and code != MIRRORED[code] and _goes_left(glyphs, count, at):
            code = MIRRORED[code]
        kind = font_kinds[glyphs[at, glyph_rows.FONT]]
        left, right, base, size = (
            glyphs[at, glyph_rows.LEFT],
            glyphs[at, glyph_rows.RIGHT],
            glyphs[at, glyph_rows.BASE_Y],
            max(glyphs[at, glyph_rows.SIZE], 1),
        )
        is_new = last < 0
        spaces = 0
        mark = 0
        if last >= 0:
            segment = segments[many - 1]
            em = max(size, min(glyphs[last, glyph_rows.SIZE], 2 * size))
            gap = left - glyphs[last, glyph_rows.RIGHT]
            lean = glyphs[at, glyph_rows.BASE_X] - left
            if 0 < lean * 100 < LEAN_SHARE * size:
                gap += lean
            drop = abs(base - glyphs[last, glyph_rows.BASE_Y])
            away = abs(base - segment[S_BASE])
            overlap = min(right, glyphs[last, glyph_rows.RIGHT]) - max(left, glyphs[last, glyph_rows.LEFT])
            before = glyphs[last, glyph_rows.CODE]
            near_base = (
                drop * 100 <= 15 * em
                or away * 100 <= 15 * em
                or (min(drop * 100 - 60 * em, away * 100 - 50 * segment[S_SIZE]) <= 0 and gap * 100 < 40 * em)
            )
            back = BACK_SHARE * em
            if (
                max(size, glyphs[last, glyph_rows.SIZE]) * 100 <= 85 * segment[S_SIZE]
                and away * 100 <= 50 * segment[S_SIZE]
            ):
                back *= 3  # a subscript under a superscript
            if (
                glyphs[at, glyph_rows.TURN] != glyphs[last, glyph_rows.TURN]
                or glyphs[at, glyph_rows.FLAGS] & glyph_rows.BREAK
            ):
                is_new = True
            elif code < 0x300 and accents[code] and overlap * 2 > right - left and is_letter(before):
                mark = 1
            elif (
                before < 0x300
                and accents[before]
                and overlap * 2 > glyphs[last, glyph_rows.RIGHT] - glyphs[last, glyph_rows.LEFT]
                and (is_letter(code) and end > segment[S_START] and text[end - 1] == before)
            ):
                mark = 2
            elif left == glyphs[last, glyph_rows.LEFT] and right == glyphs[last, glyph_rows.RIGHT] and drop == 0:
                pending = 0  # a letter of a ligature, which pdfium takes apart
                mark = 3 if _is_right_to_left(code) and _is_right_to_left(before) else 0
            elif (
                code == 61
                and before == 54
                and left - glyphs[last, glyph_rows.LEFT] < size // 4
                and _is_math(font_kinds, glyphs[last])
            ):
                end -= 1  # TeX writes a stroke, which many files call 6, and the sign of equality over it
                code = 0x2260
            elif (
                overlap * 2 > min(right - left, glyphs[last, glyph_rows.RIGHT] - glyphs[last, glyph_rows.LEFT])
                and (before == CIRCLE or code == CIRCLE)
                and (min(before, code) == 99 or min(before, code) == 82)
            ):
                end -= 1  # TeX draws the circle around the letter
                code = 0xA9 if min(before, code) == 99 else 0xAE
            elif (
                not near_base
                or gap * 100 < -back
                or (segment[S_GLYPHS] <= 2 and segment[S_SIZE] >= DROP_CAP_SIZES * size)
                or (
                    left < glyphs[last, glyph_rows.LEFT]
                    and right < glyphs[last, glyph_rows.RIGHT]
                    and _is_right_to_left(code)
                )
            ):
                is_new = True
            elif kind & FONT_MONO and font_kinds[glyphs[last, glyph_rows.FONT]] & FONT_MONO:
                advance = max(right - left, size // 4, 1)
                is_new = gap > MOST_CODE_SPACES * advance
                spaces = min((gap + advance // 2) // advance, MOST_CODE_SPACES) if gap > 0 else 0
                if spaces == 0 and gap * 100 > CODE_SPACE_SHARE * em and _is_in_word(code) and _is_in_word(before):
                    spaces = 1
                spaces = max(spaces, pending) if gap * 3 > -advance else spaces
            else:
                is_new = gap * 100 > SEGMENT_SHARE * em
                # The ink of an f covers half of the space after it.
                share = SPACE_SHARE // 2 if before == LETTER_F and is_letter(code) else SPACE_SHARE
                spaces = 1 if gap * 100 > share * em or (pending and gap * 100 > -5 * em) else 0
                spaces = 0 if is_new else spaces
        pending = 0
        if not is_new:
            full_size, full_base = segments[many - 1, S_SIZE], segments[many - 1, S_BASE]
            shift = _script(code, size, base, full_size, full_base)
            if code == 69 and glyphs[last, glyph_rows.CODE] == 84 and (base - full_base) * 100 >= 12 * full_size:
                code = 101  # the logo of TeX
            elif code == 65 and glyphs[last, glyph_rows.CODE] == 76 and shift == RAISED:
                code = 97  # the logo of LaTeX
            elif shift:
                code += shift
                if kind & FONT_MATH or _is_math(font_kinds, glyphs[last]):
                    code += IN_FORMULA
                if code == RAISED + IN_FORMULA + 48 and kind & FONT_MATH:
                    code += 0x2032 - 48  # the prime of TeX, which many files call 0
        if is_new:
            segment = segments[many]
            segment[:] = 0
            segment[S_START], segment[S_LEFT], segment[S_RIGHT] = end, left, right
            segment[S_TOP], segment[S_BOTTOM], segment[S_BASE] = (
                glyphs[at, glyph_rows.TOP],
                glyphs[at, glyph_rows.BOTTOM],
                base,
            )
            segment[S_SIZE], segment[S_TURN], segment[S_FIRST] = size, glyphs[at, glyph_rows.TURN], at
            many += 1
        segment = segments[many - 1]
        if end >= len(text):
            return -1
        if mark == 3:  # lines from right to left are reversed as a whole
            text[end] = text[end - 1]
            text[end - 1] = code
            end += 1
        elif mark == 2:
            text[end] = accents[before]
            text[end - 1] = code
            end += 1
        else:
            if end + spaces >= len(text):
                return -1
            if spaces and segment[S_WORD_RIGHT] == 0:
                segment[S_WORD_RIGHT] = glyphs[last, glyph_rows.RIGHT]
            # Write the spaces before the glyph.
            for _ in range(spaces):
                text[end] = 32
                end += 1
            text[end] = accents[code] if mark == 1 else code
            end += 1
        segment[S_STOP] = end
        segment[S_GLYPHS] += 1
        segment[S_HYPHEN] = 1 if glyphs[at, glyph_rows.FLAGS] & glyph_rows.HYPHEN else 0
        segment[S_ERRORS] += 1 if glyphs[at, glyph_rows.FLAGS] & glyph_rows.MAP_ERROR else 0
        segment[S_MONO] += 1 if kind & FONT_MONO else 0
        segment[S_BOLD] += 1 if kind & FONT_BOLD else 0
        segment[S_ITALIC] += 1 if kind & FONT_ITALIC else 0
        segment[S_MATH] += 1 if kind & FONT_MATH else 0
        segment[S_LEFT], segment[S_RIGHT] = min(segment[S_LEFT], left), max(segment[S_RIGHT], right)
        if size > segment[S_SIZE]:  # a superscript came first
            for place in range(segment[S_START], end - 1):
                text[place] += _script(text[place], segment[S_SIZE], segment[S_BASE], size, base)
            segment[S_SIZE], segment[S_BASE] = size, base
            segment[S_TOP], segment[S_BOTTOM] = glyphs[at, glyph_rows.TOP], glyphs[at, glyph_rows.BOTTOM]
        last = at
    # A segment of one word ends with it.
    for row in range(many):
        if segments[row, S_WORD_RIGHT] == 0:
            segments[row, S_WORD_RIGHT] = segments[row, S_RIGHT]
    return many

"""Joins accents to letters that are far from them in the content of a page: TeX and its drivers may draw an accent
after the rest of its line."""

import numpy as np

from gristmill.kernels.compile import njit
from gristmill_pdf.kernels.glyphs import BASE_Y, CODE, LEFT, RIGHT, SIZE, TURN
from gristmill_pdf.kernels.segments import ACCENTS, is_letter

MOST_AWAY = 400
"""The letter of an accent is at most so many glyphs before or after it: a line has fewer."""
OFF_CENTRE = 10
"""How far the middle of an accent may be from the middle of its letter, in hundredths of the font size."""
WIDEST = 65
"""A wider one is over several letters of a formula."""
LOWEST, HIGHEST = -10, 35
"""How far an accent is above its place over a small letter: over a capital, TeX raises it."""


@njit(nogil=True, cache=True)
def _letter_of(glyphs: np.ndarray, count: int, at: int) -> int:
    """The letter over or under which an accent is drawn, or -1."""
    accent = glyphs[at]
    size, middle = accent[SIZE], accent[LEFT] + accent[RIGHT]
    if (accent[RIGHT] - accent[LEFT]) * 100 > WIDEST * size:
        return -1
    for away in range(1, MOST_AWAY):
        for place in (at - away, at + away):
            if not 0 <= place < count:
                continue
            one = glyphs[place]
            up = (one[BASE_Y] - accent[BASE_Y]) * 100
            if (
                is_letter(one[CODE])
                and abs(one[LEFT] + one[RIGHT] - middle) * 50 <= OFF_CENTRE * size
                and LOWEST * size <= up <= HIGHEST * size
                and abs(one[SIZE] - size) * 8 <= size
                and one[TURN] == accent[TURN]
            ):
                return place
    return -1


@njit(nogil=True, cache=True)
def place_accents(glyphs: np.ndarray, count: int) -> None:
    """Moves each accent right after its letter, and gives it the place of the letter."""
    letters = np.full(count, -1, np.int32)
    many = 0
    for at in range(count):
        if glyphs[at, CODE] < len(ACCENTS) and ACCENTS[glyphs[at, CODE]]:
            letters[at] = _letter_of(glyphs, count, at)
            many += letters[at] >= 0
    if many == 0:
        return
    first, after = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
    for at in range(count - 1, -1, -1):
        if letters[at] >= 0:
            after[at], first[letters[at]] = first[letters[at]], at
    old = glyphs[:count].copy()
    end = 0
    # Each turn writes a glyph that is no such accent, and its accents.
    for at in range(count):
        if letters[at] >= 0:
            continue
        glyphs[end] = old[at]
        end += 1
        accent = first[at]
        while accent >= 0:
            glyphs[end] = old[at]
            glyphs[end, CODE] = old[accent, CODE]
            accent = after[accent]
            end += 1

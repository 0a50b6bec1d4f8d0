"""Tables with lines between their cells: the grid of lines says which text is in which cell."""

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pypdfium2.raw as pdfium

from gristmill_pdf.kernels.glyphs import BASE_X, BASE_Y, BREAK, CODE, FLAGS, LEFT, RIGHT, SIZE, TURN, UNITS
from gristmill_pdf.layout.columns import TextSegment
from gristmill_pdf.layout.lines import lines_of

Array = np.ndarray[Any, Any]

MOST_OBJECTS = 4_000
"""The page objects that are examined for lines."""
MOST_RULES = 1_000
THICKEST = 3 * UNITS
"""A thicker shape is no line."""
SHORTEST_ACROSS = 24 * UNITS
SHORTEST_DOWN = 5 * UNITS
NEAR = 3 * UNITS
"""Lines this close together are one."""
LEAST_ROWS = 2
MOST_COLUMNS = 64


class RuledLine(NamedTuple):
    """A thin line: `place` is its x (down) or y (across), from `start` to `stop`."""

    place: int
    start: int
    stop: int


class Grid(NamedTuple):
    """The lines of a table: y of those across, x of those down."""

    ys: list[int]
    xs: list[int]


def rules_of(page: Any) -> tuple[list[RuledLine], list[RuledLine], list[RuledLine]]:
    """The lines of a page across and down, and those across that may be underscores."""
    across: list[RuledLine] = []
    short: list[RuledLine] = []
    down: list[RuledLine] = []
    edges = [ctypes.c_float() for _ in range(4)]
    places = [ctypes.byref(edge) for edge in edges]
    mode, stroked = ctypes.c_int(), ctypes.c_int()
    for index in range(min(pdfium.FPDFPage_CountObjects(page), MOST_OBJECTS)):
        item = pdfium.FPDFPage_GetObject(page, index)
        if pdfium.FPDFPageObj_GetType(item) != pdfium.FPDF_PAGEOBJ_PATH:
            continue
        if not pdfium.FPDFPageObj_GetBounds(item, *places) or len(across) + len(down) + len(short) > MOST_RULES:
            continue
        if not all(abs(edge.value) < 1 << 16 for edge in edges):
            continue
        left, bottom, right, top = (round(edge.value * UNITS) for edge in edges)
        top, bottom = -top, -bottom
        if 2 * (bottom - top) < right - left < SHORTEST_ACROSS:
            short.append(RuledLine((top + bottom) // 2, left, right))
        if bottom - top <= THICKEST and right - left >= SHORTEST_ACROSS // 4:
            across.append(RuledLine((top + bottom) // 2, left, right))
        elif right - left <= THICKEST and bottom - top >= SHORTEST_DOWN:
            down.append(RuledLine((left + right) // 2, top, bottom))
        elif (
            pdfium.FPDFPath_CountSegments(item) <= 6
            and pdfium.FPDFPath_GetDrawMode(item, ctypes.byref(mode), ctypes.byref(stroked))
            and stroked.value
        ):  # the frame of a cell
            across += [RuledLine(top, left, right), RuledLine(bottom, left, right)]
            down += [RuledLine(left, top, bottom), RuledLine(right, top, bottom)]
    return across, down, short


def with_underscores(glyphs: Array, short: Sequence[RuledLine]) -> Array:
    """Adds the underscores that TeX draws as lines: such a line is on the base line of a letter that ends where it
    begins, or begins where it ends. No other line is."""
    places: list[int] = []
    rows: list[Array] = []
    order = np.argsort(glyphs[:, BASE_Y], kind="stable")
    bases = glyphs[order, BASE_Y]
    near = int(glyphs[:, SIZE].max()) // 20 + 1
    for rule in short:
        chosen = np.sort(order[slice(*np.searchsorted(bases, (rule.place - near, rule.place + near)))])
        some = glyphs[chosen]
        sizes, wide = some[:, SIZE], (rule.stop - rule.start) * 100
        low = (rule.place - some[:, BASE_Y]) * 100
        is_level = (low <= sizes) & (low >= -5 * sizes) & (wide >= 25 * sizes) & (wide <= 50 * sizes)
        is_level &= (some[:, CODE] > 32) & (some[:, TURN] == 0)
        before = chosen[is_level & (abs(rule.start - some[:, RIGHT]) * 10 <= sizes)]
        after = chosen[is_level & (abs(some[:, LEFT] - rule.stop) * 10 <= sizes)]
        if len(before) or len(after):
            letter = before[-1] if len(before) else after[0]
            row = glyphs[letter].copy()
            row[[CODE, LEFT, RIGHT, BASE_X, FLAGS]] = ord("_"), rule.start, rule.stop, rule.start, 0
            places.append(int(letter) + bool(len(before)))
            rows.append(row)
    return np.insert(glyphs, places, np.array(rows), 0) if rows else glyphs


def grids(across: Sequence[RuledLine], down: Sequence[RuledLine]) -> list[Grid]:
    """The tables that lines across and down form."""
    found: list[Grid] = []
    group: list[RuledLine] = []
    for rule in [*sorted(_merged(across)), RuledLine(1 << 30, 0, 0)]:
        if rule.stop - rule.start < SHORTEST_ACROSS and rule.place < 1 << 30:
            continue
        last = group[-1] if group else None
        if last is not None and not (
            abs(rule.start - last.start) <= NEAR and abs(rule.stop - last.stop) <= NEAR and _joined(last, rule, down)
        ):
            found += _grid(group, down)
            group = []
        group.append(rule)
    return found


def _merged(rules: Sequence[RuledLine]) -> list[RuledLine]:
    """Lines in one, where pieces of them touch."""
    found: list[RuledLine] = []
    for rule in sorted(rules):
        for at in range(len(found) - 1, max(len(found) - 80, -1), -1):
            one = found[at]
            if rule.place - one.place > NEAR // 2:
                continue
            if rule.start <= one.stop + NEAR and one.start <= rule.stop + NEAR:
                found[at] = RuledLine(one.place, min(one.start, rule.start), max(one.stop, rule.stop))
                break
        else:
            found.append(rule)
    return found


def _joined(upper: RuledLine, lower: RuledLine, down: Sequence[RuledLine]) -> bool:
    """Whether a line down leads from one line across to the next."""
    return any(
        upper.start + NEAR < one.place < upper.stop - NEAR
        and one.start <= upper.place + NEAR
        and one.stop >= lower.place - NEAR
        for one in down
    )


def _grid(group: Sequence[RuledLine], down: Sequence[RuledLine]) -> list[Grid]:
    """The grid of some lines across, if they and the lines down between them form a table."""
    if len(group) <= LEAST_ROWS:
        return []
    top, bottom, left, right = group[0].place, group[-1].place, group[0].start, group[0].stop
    lengths: dict[int, int] = {}
    for one in sorted(down):
        if left + NEAR < one.place < right - NEAR and one.start >= top - NEAR and one.stop <= bottom + NEAR:
            near = next((place for place in lengths if abs(place - one.place) <= NEAR), one.place)
            lengths[near] = lengths.get(near, 0) + one.stop - one.start
    xs = [place for place, length in lengths.items() if 2 * length >= bottom - top]
    return [Grid([rule.place for rule in group], [left, *xs, right])] if 0 < len(xs) < MOST_COLUMNS else []


def break_at_lines(glyphs: Array, found: Sequence[Grid], down: Sequence[RuledLine]) -> None:
    """Marks the glyphs before which a line down of a table is crossed. Columns may be as close as words; a word that is
    too long for its cell goes on."""
    places = np.flatnonzero(glyphs[:, CODE] > 32)
    middles = (glyphs[places, LEFT] + glyphs[places, RIGHT]) // 2
    ys = glyphs[places, BASE_Y] - glyphs[places, SIZE] // 4
    gaps = glyphs[places[1:], LEFT] - glyphs[places[:-1], RIGHT]
    is_apart = gaps * 8 > glyphs[places[1:], SIZE]
    inner = {
        rule
        for grid in found
        for rule in down
        if grid.xs[0] + NEAR < rule.place < grid.xs[-1] - NEAR and grid.ys[0] < rule.stop and rule.start < grid.ys[-1]
    }
    for rule in inner:
        is_right = middles > rule.place
        is_beside = (rule.start <= ys) & (ys <= rule.stop)
        crossed = is_apart & (is_right[1:] > is_right[:-1]) & is_beside[1:] & is_beside[:-1]
        glyphs[places[1:][crossed], FLAGS] |= BREAK


def take_tables(segments: list[TextSegment], found: Sequence[Grid]) -> list[TextSegment]:
    """The segments of a page, where one segment holds the cells of each table."""
    for grid in found:
        ys, xs = grid
        inside = [
            one
            for one in segments
            if ys[0] < one.base - one.size // 4 < ys[-1] and xs[0] - NEAR < (one.left + one.right) // 2 < xs[-1] + NEAR
        ]
        cells: dict[tuple[int, int], list[TextSegment]] = {}
        for one in inside:
            row = sum(one.base - one.size // 4 > y for y in ys[1:-1])
            column = sum(one.left + one.size // 2 > x for x in xs[1:-1])
            cells.setdefault((row, column), []).append(one)
        if len({row for row, _ in cells}) < LEAST_ROWS or len({column for _, column in cells}) < 2:
            continue
        texts = {place: [line.text for line in lines_of(some)] for place, some in cells.items()}
        rows = [["\n".join(texts.get((row, at), ())) for at in range(len(xs) - 1)] for row in range(len(ys) - 1)]
        first = min(inside, key=lambda one: one.order)
        sizes = sorted(one.size for one in inside)
        size = sizes[len(sizes) // 2]
        # fmt: off
        table = TextSegment(
            "\n".join(line for place in sorted(texts) for line in texts[place]), xs[0], ys[0], xs[-1], ys[-1],
            ys[0] + size, size, sum(one.glyphs for one in inside), 0, 0, 0, 0, xs[-1], False, first.order,
            [row for row in rows if any(row)],
        )
        # fmt: on
        chosen = {id(one) for one in inside}
        segments = [one for one in segments if id(one) not in chosen] + [table]
    return segments

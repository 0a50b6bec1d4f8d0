"""The reading order of a page: columns are found by the white space between them, and read one after the other.

A gutter is a vertical strip that few segments cross. It separates columns, not the cells of a table, if the content of
the page also goes down one side before it begins the other. Segments that cross the gutter (a title, a wide figure)
separate bands; within each band, the left side is read before the right side.

Short blocks side by side, such as the addresses of authors, have no gutter: where the content goes down
one of them and then begins again further up and to the right, it goes down the next one.
"""

import bisect
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gristmill_pdf.kernels.glyphs import UNITS

MOST_DEPTH = 4
LEAST_LINES = 4
"""A column has at least this many segments."""
CLEAR_LINES = 10
"""If as many lines are written side by side, and nearly always down one side first, they are columns."""
MOST_CROSSING_SHARE = 0.12
"""The most segments that may cross a gutter, as a share of all segments of the region."""
WIDE_SHARE = 0.6
"""A line across all columns is wider than this share of the text."""
STICKING_SHARE = 4
"""A line that sticks out of its column covers less than one of so many parts of the other side."""
LEAST_GUTTER_SHARE = 0.6
"""The least width of a gutter, in font sizes."""
MOST_SHORT = 20
"""A region with more short blocks side by side is a table."""
LEAST_SHORT_LINES, LEAST_SHORT_GLYPHS = 2, 6
"""A short block beside another one has so many lines, with so many glyphs in the mean."""
UNKNOWN = -1
"""The order of what was read on an image. Only its form tells columns of text from those of a table."""
LEAST_COLUMN_GLYPHS = 15
"""The fewest glyphs in the lines of such a column, in the mean."""


@dataclass(slots=True)
class TextSegment:
    """A piece of a line without a wide gap. Coordinates are in units of kernels/pdf/glyphs.py; y grows downwards."""

    text: str
    left: int
    top: int
    right: int
    bottom: int
    base: int
    size: int
    glyphs: int
    mono: int
    bold: int
    italic: int
    math: int
    """Glyphs in fonts for formulas."""
    word_right: int
    """Where its first word ends."""
    hyphen: bool
    """Whether its last character is a hyphen at the end of a line."""
    order: int
    """Its place in the page's content, or UNKNOWN."""
    rows: list[list[str]] | None = None
    """The cells of a table (rules.py); lines of a cell are separated by line ends."""


def regions(segments: list[TextSegment], depth: int = 0) -> list[list[TextSegment]]:
    """The parts of a page without columns, in reading order."""
    if depth < MOST_DEPTH and len(segments) >= 2 * LEAST_LINES:
        for start, stop in _gutters(segments):
            found = _split(segments, start, stop)
            if found is not None:
                return [region for part in found for region in regions(part, depth + 1)]
        above, band, below = _largest_band(segments)
        if len(band) >= 2 * LEAST_LINES and (above or below):
            inside = regions(band, depth + 1)
            if len(inside) > 1:
                return [*(regions(above, depth + 1) if above else ()), *inside, *([below] if below else ())]
    return _with_short_columns(segments)


def _with_short_columns(segments: list[TextSegment]) -> list[list[TextSegment]]:
    """A region as what is above short blocks side by side, these blocks, and what is below."""
    if segments[0].order == UNKNOWN:
        return [segments]
    runs: list[list[TextSegment]] = []
    for one in sorted(segments, key=lambda one: one.order):
        if not runs or runs[-1][-1].base - one.base > one.size // 2:
            runs.append([])
        runs[-1].append(one)
    found = list(itertools.islice(_short_columns(runs), MOST_SHORT + 1))
    found = found if len(found) <= MOST_SHORT else []
    parts: list[list[TextSegment]] = []
    left = segments
    for blocks in found:
        inside = {id(one) for block in blocks for one in block}
        free = {id(one) for other in found if not _are_rows(blocks, other) for block in other for one in block}
        if _are_alone([one for one in segments if id(one) not in inside | free], blocks):
            left = [one for one in left if id(one) not in inside]
            top = min(one.base for block in blocks for one in block)
            parts += [[one for one in left if one.base < top], *blocks]
            left = [one for one in left if one.base >= top]
    return [part for part in (*parts, left) if part]


def _short_columns(runs: Sequence[list[TextSegment]]) -> Iterator[list[list[TextSegment]]]:
    """Short blocks that are side by side. A run goes down the page; the next one begins further up."""
    at = 0
    while at + 1 < len(runs):
        top = runs[at + 1][0].base - runs[at + 1][0].size // 2
        blocks = [[one for one in runs[at] if one.base >= top]]
        for run in runs[at + 1 :]:
            block = _right_of(blocks[-1], run)
            if not _is_block(block):
                break
            blocks.append(block)
            if len(block) < len(run):
                break
        if len(blocks) > 1 and _is_block(blocks[0]):
            yield blocks
        at += max(len(blocks) - 1, 1)


def _right_of(block: Sequence[TextSegment], run: Sequence[TextSegment]) -> list[TextSegment]:
    """The beginning of a run that is to the right of a block."""
    edge = max((one.right for one in block), default=1 << 30)
    return [*itertools.takewhile(lambda one: one.left >= edge + one.size, run)]


def _is_block(segments: Sequence[TextSegment]) -> bool:
    """Whether some segments are lines of words right below each other, not the parts of a formula or labels."""
    bases = sorted({one.base for one in segments})
    glyphs = sum(one.glyphs for one in segments)
    return (
        len(bases) >= LEAST_SHORT_LINES
        and all(
            4 * one.size <= 5 * (b - a) <= 10 * one.size for one in segments[:1] for a, b in itertools.pairwise(bases)
        )
        and glyphs >= LEAST_SHORT_GLYPHS * len(segments)
        and 4 * sum(one.math for one in segments) < glyphs
        and 2 * sum(one.text.endswith(":") for one in segments) < len(segments)
    )


def _are_rows(blocks: Sequence[Sequence[TextSegment]], others: Sequence[Sequence[TextSegment]]) -> bool:
    """Whether short blocks are rows of one table: their second columns begin at the same edge, or some are short."""
    lefts = [min(one.left for one in found[1]) for found in (blocks, others)]
    least = min(len(block) for block in (*blocks, *others))
    return abs(lefts[0] - lefts[1]) * 2 <= blocks[0][0].size or least <= LEAST_SHORT_LINES


def _are_alone(others: Sequence[TextSegment], blocks: Sequence[Sequence[TextSegment]]) -> bool:
    """Whether nothing else is beside short blocks, and no row of the same table is above or below them: up to a line
    that crosses the gutter between them."""
    bases = [one.base for block in blocks for one in block]
    start, stop = max(one.right for one in blocks[0]), min(one.left for one in blocks[1])
    across = [one.base for one in others if one.left < start and one.right > stop]
    first = max((base for base in across if base < min(bases)), default=-1 << 30)
    last = min((base for base in across if base > max(bases)), default=1 << 30)
    rows: dict[int, set[bool]] = {}
    for one in others:
        if min(bases) <= one.base <= max(bases):
            return False
        if first < one.base < last and (one.right <= stop or one.left >= start):
            rows.setdefault(one.base // one.size, set()).add(one.left >= start)
    return all(len(sides) < 2 for sides in rows.values())


def _largest_band(segments: list[TextSegment]) -> tuple[list[TextSegment], list[TextSegment], list[TextSegment]]:
    """The largest part of a page between two wide lines, such as the columns below a title and an abstract, with what
    is above and below it."""
    width = max(one.right for one in segments) - min(one.left for one in segments)
    wide = sorted(one.base for one in segments if one.right - one.left > WIDE_SHARE * width)
    bases = sorted(one.base for one in segments)
    edges = list(itertools.pairwise([bases[0] - 1, *wide, bases[-1] + 1]))
    counts = [bisect.bisect_left(bases, stop) - bisect.bisect_right(bases, start) for start, stop in edges]
    start, stop = edges[counts.index(max(counts))]
    above = [one for one in segments if one.base <= start]
    return above, [one for one in segments if start < one.base < stop], [one for one in segments if one.base >= stop]


def _gutters(segments: Sequence[TextSegment]) -> list[tuple[int, int]]:
    """Vertical strips that few segments cross, the widest first."""
    first, last = min(one.left for one in segments), max(one.right for one in segments)
    count = max((last - first) // UNITS + 2, 2)
    crossing = np.zeros(count + 1, np.int64)
    for one in segments:
        crossing[(one.left - first) // UNITS] += 1
        crossing[(one.right - first) // UNITS + 1] -= 1
    is_free = np.cumsum(crossing)[:count] <= MOST_CROSSING_SHARE * len(segments)
    size = int(np.median([one.size for one in segments]))
    edges = np.flatnonzero(np.diff(np.concatenate([[0], is_free, [0]])))
    found = []
    for start, stop in edges.reshape(-1, 2).tolist():
        is_inside = start > 0 and stop < count - 1
        if is_inside and (stop - start) * UNITS >= LEAST_GUTTER_SHARE * size:
            found.append((first + start * UNITS, first + stop * UNITS))
    return sorted(found, key=lambda strip: (strip[0] - strip[1], strip[0]))[:8]


def _split(segments: list[TextSegment], start: int, stop: int) -> list[list[TextSegment]] | None:
    """The parts to the left and right of a gutter and those that cross it, in reading order; None for no columns."""
    sides = _sides(segments, start, stop)
    ordered = sorted(range(len(segments)), key=lambda at: (segments[at].base, segments[at].left))
    bands: list[list[int]] = [[]]
    for at in ordered:
        if (sides[at] < 0) != (bool(bands[-1]) and sides[bands[-1][-1]] < 0):
            bands.append([])
        bands[-1].append(at)
    lines = [0, 0]
    steps = crossing = 0
    is_ordered = segments[0].order != UNKNOWN
    for band in bands:
        if not band or sides[band[0]] < 0:
            crossing += _lines(segments, band)
            continue
        by_content = [sides[at] for at in sorted(band, key=lambda at: segments[at].order)]
        both = [_lines(segments, [at for at in band if sides[at] == side]) for side in (0, 1)]
        if all(both):
            lines = [lines[0] + both[0], lines[1] + both[1]]
            steps += sum(a != b for a, b in itertools.pairwise(by_content)) - 1 if is_ordered else 0
    if min(lines) < LEAST_LINES or 4 * steps > min(lines) or 2 * crossing > sum(lines):
        return None
    is_clear = is_ordered and min(lines) >= CLEAR_LINES and 20 * steps <= min(lines)
    if not is_clear and not _is_filled(segments, sides):
        return None
    parts: list[list[TextSegment]] = []
    for band in bands:
        across, left, right = ([segments[at] for at in band if sides[at] == side] for side in (-1, 0, 1))
        before, after = _around(left, right) if is_ordered and right else (left, [])
        parts += [part for part in (across, before, right, after) if part]
    return parts


def _around(left: Sequence[TextSegment], right: Sequence[TextSegment]) -> tuple[list[TextSegment], list[TextSegment]]:
    """The left side, and of it what is below the right side and was written after it: the heading of what follows."""
    order, base = max(one.order for one in right), max(one.base + one.size for one in right)
    found: tuple[list[TextSegment], list[TextSegment]] = [], []
    for one in left:
        found[one.order > order and one.base > base].append(one)
    return found


def _sides(segments: Sequence[TextSegment], start: int, stop: int) -> list[int]:
    """On which side of a gutter each segment is: 0, 1, or -1 if it crosses it. So does a row whose parts are written
    from side to side. A line that sticks out of the left column, after another one of that column, does not."""
    middle = (start + stop) // 2
    first, last = min(one.left for one in segments), max(one.right for one in segments)
    sides = [
        -1 if one.left < start - UNITS and one.right > stop + UNITS else int(one.left + one.right > 2 * middle)
        for one in segments
    ]
    if segments[0].order == UNKNOWN:
        return sides
    rows: list[list[int]] = []
    for at in sorted(range(len(segments)), key=lambda at: segments[at].order):
        one, before = segments[at], rows[-1][-1] if rows else at
        is_out = 2 * (start - one.left) >= start - first and STICKING_SHARE * (one.right - stop) <= last - stop
        if sides[at] < 0 and sides[before] == 0 and is_out:
            sides[at] = 0
        if rows and abs(one.base - segments[before].base) * 2 <= one.size:
            rows[-1].append(at)
        else:
            rows.append([at])
    for row in rows:
        if sides[row[0]] == 0 and any(sides[at] == 1 for at in row):
            for at in row:
                sides[at] = -1
    return sides


def _lines(segments: Sequence[TextSegment], chosen: Sequence[int]) -> int:
    """The number of lines of some segments in order of their base lines."""
    count, last = 0, -(1 << 30)
    for at in chosen:
        if segments[at].base - last > segments[at].size // 2:
            count, last = count + 1, segments[at].base
    return count


def _is_filled(segments: Sequence[TextSegment], sides: Sequence[int]) -> bool:
    """Whether both sides look like text: lines as wide as the side, with several words, not numbers in a table."""
    for side in (0, 1):
        chosen = [one for one, its in zip(segments, sides, strict=True) if its == side]
        width = max(one.right for one in chosen) - min(one.left for one in chosen)
        filled = sum(min(one.right - one.left, width) * one.glyphs for one in chosen)
        glyphs = sum(one.glyphs for one in chosen)
        if filled < 0.35 * width * glyphs:
            return False
        if chosen[0].order == UNKNOWN and glyphs < LEAST_COLUMN_GLYPHS * len(chosen):
            return False
    return True

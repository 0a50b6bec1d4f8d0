"""Joins the segments of a region to lines, and lines to blocks: paragraphs, headings, items, code, tables."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median_low

from gristmill.kernels.pdf.segments import BACK_SHARE, MOST_CODE_SPACES, SPACE_SHARE
from gristmill.stages.pdf.columns import TextSegment

MOST_TABLE_COLUMNS = 64
_BULLET = re.compile(r"(?:[•◦▪▫■□●○‣⁃∙·–—*\-]|[oO§]|[\uf0b7\uf0a7\uf0d8])$")
_NUMBER = re.compile(r"(?:\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,5})[.)]|\[\w{1,6}\])$")
_ITEM = re.compile(
    r"(?:[•◦▪▫■□●○‣⁃∙\uf0b7\uf0a7]\s*|[–—*\-·]\s+|\(?(?:\d{1,3}|[a-z]|[ivx]{1,4})\)\s|\d{1,3}\.\s|\[\w{1,12}\]\s)"
)
MARK = re.compile("[\U00100030-\U00100039¹²³⁰⁴-⁹]+")
"""The mark of a footnote: raised digits (kernels/pdf/segments.py) or their own characters."""
_PLAIN_MARK = re.compile(r"\d{1,3}(?=[^\W\d_a-z])")
"""The same from a font with raised digits, whose codes are those of plain digits."""
_LEADERS = re.compile(r"(?<!\s)\s*+(?:\.\s*+){4,}")
_CAPTION = re.compile(r"(?:figure|fig\.|table|tabelle|tableau|abbildung|listing|algorithm)\s*\d", re.I)


@dataclass(slots=True)
class Cell:
    """A part of a line without a wide gap."""

    text: str
    left: int
    right: int


@dataclass(slots=True)
class TextLine:
    """All segments on one base line of a region, from left to right."""

    segments: list[TextSegment]
    base: int
    size: int
    left: int = 0
    right: int = 0
    top: int = 0
    bottom: int = 0
    cells: list[Cell] = field(default_factory=list)
    text: str = ""
    glyphs: int = 0
    is_mono: bool = False
    is_bold: bool = False
    hyphen: bool = False
    word_width: int = 0


@dataclass(slots=True)
class Block:
    """Consecutive lines of one kind."""

    kind: str
    lines: list[TextLine]
    rows: list[list[str]] = field(default_factory=list)
    """The cells of a table."""

    @property
    def box(self) -> tuple[int, int, int, int]:
        return (
            min(line.left for line in self.lines),
            min(line.top for line in self.lines),
            max(line.right for line in self.lines),
            max(line.bottom for line in self.lines),
        )

    @property
    def size(self) -> int:
        return max(self.lines, key=lambda line: line.glyphs).size


def lines_of(segments: Sequence[TextSegment]) -> list[TextLine]:
    """The lines of a region, from top to bottom."""
    rows: list[TextLine] = []
    for one in sorted(segments, key=lambda one: (one.base, one.left)):
        for row in rows[:-5:-1]:
            height = min(one.size, row.size)
            overlap = min(one.base + one.size // 8, row.base + row.size // 8) - max(
                one.base - one.size * 5 // 8, row.base - row.size * 5 // 8
            )
            if overlap * 2 > height:
                row.segments.append(one)
                if one.size > row.size:
                    row.base, row.size = one.base, one.size
                break
        else:
            rows.append(TextLine([one], one.base, one.size))
    rows.sort(key=lambda row: row.base)
    for row in rows:
        _finish(row)
    return [row for row in rows if row.text]


def _finish(row: TextLine) -> None:
    row.segments.sort(key=lambda one: (one.left, one.order))
    row.left, row.right = row.segments[0].left, max(one.right for one in row.segments)
    row.glyphs = sum(one.glyphs for one in row.segments)
    row.top, row.bottom = row.base - row.size, row.base + row.size // 4
    row.is_mono = 10 * sum(one.mono for one in row.segments) > 9 * row.glyphs
    row.is_bold = 2 * sum(one.bold for one in row.segments) > row.glyphs
    row.hyphen = row.segments[-1].hyphen
    last: TextSegment | None = None
    for one in row.segments:
        gap = 0 if last is None else one.left - last.right
        em = max(one.size, last.size if last else 0)
        if last is None or (gap > em and not row.is_mono):
            row.cells.append(Cell(one.text, one.left, one.right))
        else:
            cell = row.cells[-1]
            if row.is_mono:
                advance = max((last.right - last.left) // max(len(last.text), 1), 1)
                space = " " * min(max(round(gap / advance), 0), MOST_CODE_SPACES)
            else:
                space = " " if gap * 100 > SPACE_SHARE * em else ""
            if not space and gap * 100 < -BACK_SHARE * em and abs(one.size - last.size) * 8 < em:
                space = " "  # one cell sticks out into the next
            cell.text += space + one.text
            cell.right = max(cell.right, one.right)
        last = one
    while len(row.cells) > 1 and (_BULLET.match(row.cells[0].text) or _NUMBER.match(row.cells[0].text)):
        label = row.cells.pop(0)
        row.cells[0].text = f"{label.text} {row.cells[0].text}"
        row.cells[0].left = label.left
    row.text = " ".join(cell.text for cell in row.cells).strip()
    if not row.is_mono:
        row.text = _LEADERS.sub(" … ", row.text) if _LEADERS.search(row.text) else row.text
    row.word_width = row.segments[0].word_right - row.left


def blocks_of(lines: list[TextLine], body_size: int) -> list[Block]:
    """The blocks of a region."""
    blocks: list[Block] = []
    at = 0
    right = _right_edge(lines)
    leading = _leading(lines)
    while at < len(lines):
        stop = _table_end(lines, at)
        if stop > at:
            blocks.append(_table(lines[at:stop]))
            at = stop
            continue
        line = lines[at]
        kind = _kind(line, body_size)
        if blocks and _continues(blocks[-1], line, kind, right, leading):
            blocks[-1].lines.append(line)
        else:
            blocks.append(Block(kind, [line]))
        at += 1
    for block in blocks:
        _judge(block, body_size, right)
    return blocks


def _kind(line: TextLine, body_size: int) -> str:
    if line.is_mono:
        return "code"
    if note_mark(line, body_size):
        return "note"
    if " … " in line.text and line.text[-1:].isalnum():
        return "entry"
    return "item" if _ITEM.match(line.text) else "text"


def note_mark(line: TextLine, body_size: int) -> str | None:
    """The mark with which a footnote begins."""
    found = MARK.match(line.text)
    if found is None and line.size * 100 <= 93 * body_size:
        found = _PLAIN_MARK.match(line.text)
    return found[0] if found else None


def _right_edge(lines: Sequence[TextLine]) -> int:
    """Where full lines end: the ninth decile, since single lines stick out."""
    edges = sorted(line.right for line in lines if not line.is_mono) or [line.right for line in lines]
    return edges[len(edges) * 9 // 10]


def _leading(lines: Sequence[TextLine]) -> int:
    """The usual distance of base lines."""
    steps = [b.base - a.base for a, b in itertools.pairwise(lines) if 0 < b.base - a.base < 3 * b.size]
    return median_low(steps) if steps else 0


def _continues(block: Block, line: TextLine, kind: str, right: int, leading: int) -> bool:
    """Whether a line belongs to the block before it."""
    last = block.lines[-1]
    step = line.base - last.base
    most = max(leading, line.size * 6 // 5)
    if kind == "code" and block.kind in ("text", "item", "note") and _is_wrapped(block, line, right, most):
        return True
    if block.kind in ("table", "entry") or kind == "entry" or (block.kind == "code") != (kind == "code"):
        return False
    if kind == "code":
        return abs(line.size - last.size) * 8 <= last.size and 0 < step <= 3 * most
    if not 0 < step * 20 <= 27 * most or abs(line.size - last.size) * 8 > max(line.size, last.size):
        return False
    if kind == "item" or (line.is_bold != last.is_bold and (last.is_bold or line.left <= last.left)):
        return False
    first = block.lines[0]
    em = line.size
    if block.kind == "item" and line.left * 2 < first.left * 2 - em:
        return False
    if line.left - last.left > em * 3 // 4 and (
        len(block.lines) > 1 or (block.kind == "text" and last.right > right - em)
    ):
        is_indented = block.kind != "item" or len(block.lines) > 1
        if is_indented and abs(line.left + line.right - last.left - last.right) > em:  # centred lines are not indented
            return False
    # If the first word of the line would have fitted on the last line, a paragraph ends there.
    return right - last.right <= line.word_width + em * 3 // 2 or last.hyphen


def _is_wrapped(block: Block, line: TextLine, right: int, most: int) -> bool:
    """Whether a line of code font is the rest of a sentence that names a command or a path."""
    last = block.lines[-1]
    is_below = 0 < (line.base - last.base) * 20 <= 23 * most and abs(line.size - last.size) * 6 <= last.size
    left = block.lines[-1].left if len(block.lines) > 1 else line.left
    return is_below and right - last.right <= 2 * line.size and abs(line.left - left) <= line.size // 2


def _judge(block: Block, body_size: int, right: int) -> None:
    """Finds headings and captions."""
    if block.kind != "text" or len(block.lines) > 3:
        return
    text = block.lines[0].text
    if _CAPTION.match(text):
        block.kind = "caption"
        return
    is_larger = block.size * 100 > 112 * body_size
    is_bold = all(line.is_bold for line in block.lines) and block.size * 100 >= 95 * body_size
    if (is_larger or is_bold) and sum(line.glyphs for line in block.lines) <= 200 and any(map(str.isalpha, text)):
        block.kind = "heading"


def _table_end(lines: Sequence[TextLine], at: int) -> int:
    """Where the table that begins with a line ends, or `at` if none begins there."""
    if not _may_be_row(lines[at]) or len(lines[at].cells) < 2:
        return at
    strips = _strips([lines[at]])
    stop, rows = at + 1, 1
    while stop < len(lines):
        line = lines[stop]
        if not _may_be_row(line) or line.base - lines[stop - 1].base > 3 * line.size:
            break
        common = _common(strips, _strips([line]) if len(line.cells) > 1 else _around(line), line.size // 2)
        is_wide = len(line.cells) < 2 and line.left < strips[0][0]
        if not common or (is_wide and line.right > strips[0][0]):
            break
        strips, stop, rows = common, stop + 1, rows + (len(line.cells) > 1)
    while stop > at and len(lines[stop - 1].cells) < 2 and lines[stop - 1].left < strips[0][0]:
        stop -= 1
    return stop if rows >= 3 or (rows == 2 and len(strips) > 1 and stop - at == 2) else at


def _may_be_row(line: TextLine) -> bool:
    return not line.is_mono and len(line.cells) <= MOST_TABLE_COLUMNS and " … " not in line.text


Strip = tuple[int, int]


def _strips(lines: Sequence[TextLine]) -> list[Strip]:
    """The gaps between the cells of a line."""
    cells = lines[0].cells
    return [(a.right, b.left) for a, b in itertools.pairwise(cells)]


def _around(line: TextLine) -> list[Strip]:
    return [(-(1 << 30), line.left), (line.right, 1 << 30)]


def _common(strips: Sequence[Strip], others: Sequence[Strip], least: int) -> list[Strip]:
    """The parts of gaps that both lines have."""
    found = []
    for start, stop in strips:
        for first, last in others:
            if min(stop, last) - max(start, first) >= least:
                found.append((max(start, first), min(stop, last)))
    return found


def _table(lines: list[TextLine]) -> Block:
    strips: list[Strip] = _strips([next(line for line in lines if len(line.cells) > 1)])
    for line in lines:
        strips = _common(strips, _strips([line]) if len(line.cells) > 1 else _around(line), 1) or strips
    edges = [(start + stop) // 2 for start, stop in strips]
    rows: list[list[str]] = []
    last: TextLine | None = None
    for line in lines:
        row = [""] * (len(edges) + 1)
        for cell in line.cells:
            at = sum((cell.left + cell.right) // 2 > edge for edge in edges)
            row[at] = f"{row[at]} {cell.text}".strip()
        if last is not None and rows and not row[0] and line.base - last.base <= 3 * line.size // 2:
            rows[-1] = [f"{a} {b}".strip() for a, b in zip(rows[-1], row, strict=True)]
        else:
            rows.append(row)
        last = line
    return Block("table", lines, rows)

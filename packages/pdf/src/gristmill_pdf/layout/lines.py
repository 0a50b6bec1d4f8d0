"""Joins the segments of a region to lines."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from gristmill_pdf.kernels.segments import BACK_SHARE, MOST_CODE_SPACES, RAISED, SEGMENT_SHARE, SPACE_SHARE
from gristmill_pdf.layout.characters import logical
from gristmill_pdf.layout.columns import TextSegment

BULLETS = "•‣⁃∙\uf0b7\uf0a7\uf0d8\u2460-\u24ff\u25a0-\u25ff\u2605-\u2612\u2700-\u27bf\u2b00-\u2bff"
"""Signs before the items of a list: circled numbers, triangles and boxes, stars, ticks and arrows among them."""
_BULLET = re.compile(rf"[{BULLETS}·–—*\-oO§]$")
_LIGATURE = re.compile("^[\ufb00-\ufb04](?= +[^\\W\ufb00-\ufb04])")
"""A ligature alone before an item is a sign of a font that does not tell its characters."""
_NUMBER = re.compile(r"(?:\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,5})[.)]|\[\w{1,6}\])$")
MARK = re.compile("[\U00100030-\U00100039¹²³⁰⁴-⁹]+")
"""The mark of a footnote: raised digits (kernels/pdf/segments.py) or their own characters."""
_MARK_NUMBER = re.compile("[0-9]{1,3}")
_PLAIN_MARK = re.compile(r"\d{1,3}(?=[^\W\d_a-z](?!\d))")
"""The same from a font with raised digits, whose codes are those of plain digits; not a code such as 1R15."""
_LEADERS = re.compile(r"(?<!\s)\s*+(?:\.\s*+){4,}")
LEADER = " … "
"""What is written for the dots between the entry of a table of contents and its page."""
_PAGE_NUMBER = re.compile(r"\d{1,4}|[ivxlc]{1,7}")
LEAST_ENTRIES = 3
_WIDE_GAP = " " * 3
_PIECE = re.compile(r"\S+(?: {1,2}\S+)*")
_LONG_WORD = re.compile(r"[^\W\d_]{3,}")
MOST_DROP_CAPS = 50
"""A page with more large letters has none."""
LEAST_DROP_CAP = 180
"""The least size of a drop cap, in hundredths of the font size of its paragraph."""


@dataclass(slots=True)
class Cell:
    """A part of a line without a wide gap."""

    text: str
    left: int
    right: int
    spaces: int = 1
    """The spaces before it in the text of its line."""


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
    math: int = 0
    told: str = "text"
    """Its kind as kinds.py tells it."""

    @property
    def is_table(self) -> bool:
        """Whether the line is a table with a grid (rules.py)."""
        return self.segments[0].rows is not None


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
        for row in rows[:-5:-1] if one.rows is None else ():
            if row.is_table:
                continue
            if _is_mark_of(row, one):
                mark = row.segments[0]
                mark.text = "".join(chr(RAISED + ord(digit)) for digit in mark.text)
                row.segments.append(one)
                row.base, row.size = one.base, one.size
                break
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
    _mark_entries(rows)
    return [row for row in rows if row.text]


def _is_mark_of(row: TextLine, one: TextSegment) -> bool:
    """Whether a row is a number alone, raised to the left of a line: the mark of a footnote."""
    mark = row.segments[0]
    return (
        len(row.segments) == 1
        and _MARK_NUMBER.fullmatch(mark.text) is not None
        and 100 * mark.size <= 85 * one.size
        and one.size <= 5 * (one.base - mark.base) <= 3 * one.size
        and 0 <= one.left - mark.right <= one.size
    )


def _mark_entries(rows: Sequence[TextLine]) -> None:
    """Finds the entries without dots, such as chapters, among those of a table of contents: a number ends where the
    numbers of the others do."""
    ends = [row.right for row in rows if LEADER in row.text and row.text[-1:].isalnum()]
    if len(ends) < LEAST_ENTRIES:
        return
    right = sorted(ends)[len(ends) // 2]
    for row in rows:
        is_entry = len(row.cells) > 1 and abs(row.right - right) <= row.size // 2
        if is_entry and LEADER not in row.text and _PAGE_NUMBER.fullmatch(row.cells[-1].text):
            row.text = " ".join(cell.text for cell in row.cells[:-1]) + LEADER + row.cells[-1].text


def _finish(row: TextLine) -> None:
    row.segments.sort(key=lambda one: (one.left, one.order))
    row.left, row.right = row.segments[0].left, max(one.right for one in row.segments)
    row.glyphs = sum(one.glyphs for one in row.segments)
    row.top, row.bottom = row.base - row.size, row.base + row.size // 4
    if row.is_table:
        row.top, row.bottom = row.segments[0].top, row.segments[0].bottom
    row.math = sum(one.math for one in row.segments)
    row.is_mono = 10 * sum(one.mono for one in row.segments) > 9 * row.glyphs
    row.is_bold = 2 * sum(one.bold for one in row.segments) > row.glyphs
    row.hyphen = row.segments[-1].hyphen
    last: TextSegment | None = None
    for spaces, one in _pieces(row):
        gap = 0 if last is None else one.left - last.right
        em = max(one.size, last.size if last else 0)
        if last is None or (gap * 100 > SEGMENT_SHARE * em and not row.is_mono):
            row.cells.append(Cell(one.text, one.left, one.right, spaces))
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
    text = "".join(" " * cell.spaces + cell.text for cell in row.cells)
    for cell in row.cells:
        cell.text = logical(cell.text)
    row.text = _LIGATURE.sub("•", logical(text).strip())
    if not row.is_mono:
        row.text = _LEADERS.sub(LEADER, row.text) if _LEADERS.search(row.text) else row.text
    row.word_width = row.segments[0].word_right - row.left


def _pieces(row: TextLine) -> Iterator[tuple[int, TextSegment]]:
    """The segments of a line, each with the spaces before it. One in a code font has wide gaps as spaces, where it ends
    if the rest of the line is not code."""
    for one in row.segments:
        if row.is_mono or _WIDE_GAP not in one.text:
            yield 1, one
            continue
        advance, last = (one.right - one.left) / len(one.text), -1
        for found in _PIECE.finditer(one.text):
            left, right = (one.left + round(advance * place) for place in found.span())
            yield found.start() - last, replace(one, text=found[0], left=left, right=right)
            last = found.end()


def note_mark(line: TextLine, body_size: int) -> str | None:
    """The mark with which a footnote begins."""
    found = MARK.match(line.text)
    if found is None and line.size * 100 <= 93 * body_size:
        found = _PLAIN_MARK.match(line.text)
    return found[0] if found else None


def is_formula(line: TextLine) -> bool:
    """Whether a line is mathematics: glyphs of such fonts, signs, and hardly a word. The dots of a table of contents
    may be in such a font."""
    if line.math * 4 < line.glyphs or line.is_mono or line.is_table or LEADER in line.text:
        return False
    letters = sum(len(word) for word in _LONG_WORD.findall(line.text))
    return letters * 4 < line.glyphs


def with_drop_caps(segments: list[TextSegment], body_size: int) -> list[TextSegment]:
    """The segments of a page, where a large first letter beside several lines is part of the first of them."""
    caps = [
        one
        for one in segments
        if len(one.text) <= 2 and one.text[:1].isalpha() and one.size * 100 >= LEAST_DROP_CAP * body_size
    ]
    for cap in caps if len(caps) <= MOST_DROP_CAPS else ():
        beside = [
            one
            for one in segments
            if cap.base - cap.size < one.base <= cap.base + body_size // 4
            and -cap.size // 4 <= one.left - cap.right <= 3 * body_size // 2
            and one.size * 100 * 10 < LEAST_DROP_CAP * 6 * cap.size
            and one is not cap
        ]
        lines = {one.base for one in beside}
        if len(lines) >= 2:
            first = min(beside, key=lambda one: (one.base, one.left))
            first.text = cap.text + first.text
            segments = [one for one in segments if one is not cap]
    return segments

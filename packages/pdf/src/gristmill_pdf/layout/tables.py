"""Tables without lines between all cells, which are found by the white space between columns."""

import itertools
import re
from collections.abc import Iterable, Sequence

from gristmill_pdf.layout.characters import HYPHENS
from gristmill_pdf.layout.kinds import is_caption
from gristmill_pdf.layout.lines import LEADER, Block, Cell, TextLine, is_formula

MOST_COLUMNS = 64
_SECTION = re.compile(r"\d+(?:\.\d+)*\.?")
LEAST_FORMULA_GAPS = 3
"""A line of nothing but formulas that has so many gaps of a table is a row of it."""
FAR = 1 << 30
WIDE_CELL = 8
"""A cell whose text goes on in the next line is at least half as many font sizes wide."""


def table_end(lines: Sequence[TextLine], at: int) -> int:
    """Where the table that begins with a line ends, or `at` if none begins there."""
    if not _may_be_row(lines[at]) or is_formula(lines[at]) or len(lines[at].cells) < 2:
        return at
    gaps = _gaps(lines[at])
    strips = _between(gaps)
    stop = at + 1
    while stop < len(lines):
        line = lines[stop]
        if not _may_be_row(line) or line.base - lines[stop - 1].base > 3 * line.size:
            break
        own = _gaps(line)
        is_last_cell = len(strips) > 1 and line.left > strips[-1][0]
        shared = _common(strips, own if is_last_cell or len(line.cells) < 2 else _between(own), line.size // 2)
        is_single = len(line.cells) < 2 or line.right <= strips[0][0]
        if is_single and line.is_bold and not lines[stop - 1].is_bold:
            break
        if is_formula(line) and len(shared) < LEAST_FORMULA_GAPS:
            break
        if not shared or (is_single and line.left < strips[0][0] < line.right):
            break
        gaps = _common(gaps, own, line.size // 2)
        strips, stop = _between(gaps), stop + 1
    while stop > at and lines[stop - 1].right <= strips[0][0]:
        stop -= 1
    rows = [line for line in lines[at:stop] if len(line.cells) > 1 and line.right > strips[0][0]]
    if len(rows) == 2:
        first, second = (_between(_gaps(line)) for line in rows)
        return stop if len(_common(first, second, lines[at].size // 2)) > 1 else at
    return stop if len(rows) > 2 else at


def _may_be_row(line: TextLine) -> bool:
    return (
        not line.is_mono
        and not line.is_table
        and len(line.cells) <= MOST_COLUMNS
        and LEADER not in line.text
        and not (line.told == "heading" and _SECTION.fullmatch(line.cells[0].text))
    )


Strip = tuple[int, int]


def _gaps(line: TextLine) -> list[Strip]:
    """The gaps between the cells of a line, and those at its sides, where the line may lack cells."""
    lefts, rights = [cell.left for cell in line.cells], [cell.right for cell in line.cells]
    return list(zip((-FAR, *rights), (*lefts, FAR), strict=True))


def _between(gaps: Sequence[Strip]) -> list[Strip]:
    """The gaps that have cells on both sides."""
    return [gap for gap in gaps if gap[0] > -FAR and gap[1] < FAR]


def _common(strips: Sequence[Strip], others: Sequence[Strip], least: int) -> list[Strip]:
    """The parts of gaps that both lines have."""
    found = []
    for start, stop in strips:
        for first, last in others:
            if min(stop, last) - max(start, first) >= least:
                found.append((max(start, first), min(stop, last)))
    return found


def _shared(lines: Sequence[TextLine]) -> list[Strip]:
    """The gaps between the columns of a table."""
    gaps = _gaps(next((line for line in lines if len(line.cells) > 1), lines[0]))
    for line in lines:
        gaps = _common(gaps, _gaps(line), 1) if _common(_between(gaps), _gaps(line), 1) else gaps
    return _between(gaps)


def terms_of(lines: Sequence[TextLine], at: int, stop: int, right: int) -> list[Block]:
    """The entries of a list of terms that is set like a table of two columns; nothing for a table. The lines of its
    definitions end at the right edge of the text. A table has a caption or a head."""
    rows = lines[at:stop]
    left, em = next(line for line in rows if len(line.cells) > 1).cells[1].left, rows[0].size
    near = [*lines[max(at - 4, 0) : at], *lines[stop : stop + 1]]
    if len(_shared(rows)) != 1 or any(is_caption(line.text) for line in near) or _is_head(rows[0], rows[1]):
        return []
    entries: list[Block] = []
    reached = False
    for last, line in zip([rows[0], *rows], rows, strict=False):
        if 2 * abs(line.left - left) <= em and entries:
            if right - last.right > 4 * em:
                return []
            entries[-1].lines.append(line)
            reached = True
        elif len(line.cells) > 1 and 2 * abs(line.cells[1].left - left) <= em:
            entries.append(Block("text", [line]))
        else:
            return []
    return entries if reached else []


def _is_head(line: TextLine, after: TextLine) -> bool:
    """Whether a line is the head of a table: bold, or one or two words in each column, without a sign after them."""
    is_short = all(
        cell.text[:1].isupper() and cell.text[-1:].isalnum() and cell.text.count(" ") < 2 for cell in line.cells
    )
    return line.is_bold > after.is_bold or is_short


def table_of(lines: list[TextLine]) -> Block:
    """The table that some lines form. Lines of a cell are separated by line ends."""
    strips = _shared(lines)
    edges = [(start + stop) // 2 for start, stop in strips]
    placed = [
        [(sum((cell.left + cell.right) // 2 > edge for edge in edges), cell) for cell in one.cells] for one in lines
    ]
    rights = [
        max((cell.right for row in placed for at, cell in row if at == column), default=0)
        for column in range(len(edges) + 1)
    ]
    rows: list[list[str]] = []
    for number, (line, row) in enumerate(zip(lines, placed, strict=True)):
        texts = [""] * (len(edges) + 1)
        for at, cell in row:
            texts[at] = f"{texts[at]} {cell.text}".strip()
        if number and _is_rest(row, placed[number - 1], rights, line, lines[number - 1]):
            rows[-1] = ["\n".join(filter(None, pair)) for pair in zip(rows[-1], texts, strict=True)]
        else:
            rows.append(texts)
    return Block("table", lines, rows)


def _is_rest(
    row: Sequence[tuple[int, Cell]],
    above: Sequence[tuple[int, Cell]],
    rights: Sequence[int],
    line: TextLine,
    last: TextLine,
) -> bool:
    """Whether the cells of a line continue those of the line above: it has none in the first column, or the first word
    of each would not have fitted there."""
    if line.base - last.base > 3 * line.size // 2:
        return False
    if all(at > 0 for at, _ in row):
        return True
    before = dict(above)
    for at, cell in row:
        one = before.get(at)
        word = cell.text.split(" ", 1)[0]
        width = (cell.right - cell.left) * len(word) // max(len(cell.text), 1)
        if one is None or (one.right + width < rights[at] and not one.text.endswith(HYPHENS)):
            return False
        if one.right - one.left < WIDE_CELL * line.size // 2:
            return False
    return len(row) < len(above)


def join_tables(pages: Iterable[Sequence[Block]]) -> None:
    """Removes the heads that a table repeats on the next pages. A first row below one that has no first cell is the
    rest of the last row of the page before."""
    head: list[list[str]] = []
    last: Block | None = None
    for blocks in pages:
        is_rest = False
        if blocks and last is not None and blocks[0].kind == last.kind == "table":
            is_rest = _join(head, last.rows, blocks[0])
        tables = list(itertools.takewhile(lambda block: block.kind == "table", reversed(blocks)))
        if tables and not (is_rest and len(tables) == len(blocks)):
            head = list(tables[-1].rows)
        if not (is_rest and len(blocks) == 1 and not blocks[0].rows):
            last = blocks[-1] if blocks else None


def _join(head: Sequence[list[str]], before: list[list[str]], block: Block) -> bool:
    """Whether a table begins with the head of the one before it, whose rest it then is."""
    pairs = zip(head, block.rows, strict=False)
    count = next((at for at, (one, other) in enumerate(pairs) if one != other), 0)
    if not 0 < count < len(block.rows):
        return False
    block.rows = block.rows[count:]
    if before and not block.rows[0][0] and len(block.rows[0]) == len(before[-1]):
        rest = block.rows.pop(0)
        before[-1] = ["\n".join(filter(None, pair)) for pair in zip(before[-1], rest, strict=True)]
    return True

"""Entries of a table of contents or an index. They lose their dots and page numbers, and the lines of a long one are
joined."""

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from gristmill_pdf.layout.lines import LEADER, LEAST_ENTRIES, Block, TextLine

MOST_LINES, MOST_PLACES = 4, 20
"""The most lines of an entry, and the most pages that have its words as a line."""
_PAGE = re.compile(r"(?:[A-Z\d]{1,3}[-–])?\d{1,4}|[ivxlcIVXLC]{1,7}")
_NUMBERED = re.compile(r"^(?:[^\W\d_]+\s)?(?:[A-Z]|\d+|[ivxIVX]+)(?:\.\d+)*\.?\s+")
LEAST_DOTS, FEW_DOTS = 5, 2
"""So many dots show an entry; fewer do where a number ends at the same edge as those of entries."""


def without_page_numbers(pages: Sequence[list[Block]]) -> list[list[Block]]:
    """The blocks of all pages, with the entries of a table of contents as such.

    Their numbers go up, or their titles do. Without dots, the numbers also end at the same edge, and titles occur on
    the pages with these numbers, which those of other tables are not.
    """
    places: dict[str, set[int]] = {}
    for number, blocks in enumerate(pages):
        for block in blocks:
            for line in block.lines:
                places.setdefault(_bare(line.text), set()).add(number)
    found: list[list[Block]] = []
    goes_on = False
    for number, blocks in enumerate(pages):
        lines = [line for block in blocks for line in block.lines if not line.is_table]
        dotted, plain = _dotted(lines), _plain(lines)
        titles = _by_dots(dotted, plain, goes_on) or _by_places([*dotted, *plain], places, number)
        goes_on = bool(titles)
        found.append(_with_entries(blocks, titles) if titles else blocks)
    return found


def _bare(title: str) -> str:
    return _NUMBERED.sub("", title).replace(" ", "").casefold()


class _Entry(NamedTuple):
    """A line that may be the entry of a table of contents."""

    line: TextLine
    title: str
    page: str


def _dotted(lines: Sequence[TextLine]) -> list[_Entry]:
    """The lines with dots before a number."""
    found = []
    for line in lines:
        title, dots, page = line.text.rpartition(LEADER)
        if line.is_mono:
            title, page, count = _parts(line.text)
            dots = LEADER if count >= LEAST_DOTS else ""
        if dots and all(map(_PAGE.fullmatch, page.split(", "))):
            found.append(_Entry(line, title, page))
    return found


def _plain(lines: Sequence[TextLine]) -> list[_Entry]:
    """The lines with a number after a wide gap or a few dots."""
    found = []
    for line in lines:
        if LEADER in line.text or line.told == "code":
            continue
        title, page, count = _parts(line.text)
        if len(line.cells) > 1 and _PAGE.fullmatch(line.cells[-1].text):
            found.append(_Entry(line, " ".join(cell.text for cell in line.cells[:-1]), line.cells[-1].text))
        elif (count >= FEW_DOTS or line.text.endswith(f" . {page}")) and _PAGE.fullmatch(page):
            found.append(_Entry(line, title, page))
    return found


def _parts(text: str) -> tuple[str, str, int]:
    """A line without its last word and the dots before that, the word, and the number of dots."""
    at = max(text.rfind(" "), text.rfind(".")) + 1
    title = text[:at].rstrip(" .")
    return title, text[at:], text.count(".", len(title), at)


def _by_dots(dotted: Sequence[_Entry], plain: Sequence[_Entry], goes_on: bool) -> dict[int, str]:
    """The titles of entries by the identity of their lines, if enough have dots; fewer on the last page of several."""
    names = [one.title.casefold() for one in dotted]
    unordered = min(_steps_down(dotted), sum(b < a for a, b in itertools.pairwise(names)))
    if len(dotted) < (1 if goes_on else LEAST_ENTRIES) or 4 * unordered > len(dotted):
        return {}
    return {id(one.line): one.title for one in [*dotted, *_aligned(plain, _edge(dotted))]}


def _by_places(rows: Sequence[_Entry], places: dict[str, set[int]], page: int) -> dict[int, str]:
    """The same for entries whose titles are on the pages that they say."""
    rows = _aligned(rows, _edge(rows)) if rows else rows
    found = [(int(one.page), places.get(_bare(one.title), set())) for one in rows if one.page.isdecimal()]
    offsets = Counter(
        place - value for value, some in found if len(some) <= MOST_PLACES for place in some if place != page
    )
    known = max(offsets.values(), default=0)
    rows = sorted(rows, key=lambda one: one.line.base)
    if len(rows) < LEAST_ENTRIES or 2 * known < len(rows) or _steps_down(rows):
        return {}
    return {id(one.line): one.title for one in rows}


def _edge(rows: Sequence[_Entry]) -> int:
    return sorted(one.line.right for one in rows)[len(rows) // 2]


def _aligned(rows: Sequence[_Entry], right: int) -> list[_Entry]:
    return [one for one in rows if abs(one.line.right - right) * 2 <= one.line.size]


def _steps_down(rows: Sequence[_Entry]) -> int:
    """How often a number is less than the one before it."""
    values = [int(one.page) for one in rows if one.page.isdecimal()]
    return sum(b < a for a, b in itertools.pairwise(values))


def _with_entries(blocks: Sequence[Block], titles: dict[int, str]) -> list[Block]:
    """The blocks of a page, where lines with these titles are entries."""
    right = max(line.right for block in blocks for line in block.lines if id(line) in titles)
    found: list[Block] = []
    for block in blocks:
        count = sum(id(line) in titles for line in block.lines)
        if not count or (block.kind == "table" and 2 * count < len(block.lines)):
            found.append(block)
            continue
        kind = "text" if block.kind in ("table", "entry") else block.kind
        is_first = True
        for line in block.lines:
            if id(line) in titles:
                line.text = titles[id(line)]
                entry = [line]
                while found and len(entry) < MOST_LINES and _is_begun(found[-1], entry[0], right):
                    entry = [*found.pop().lines, *entry]
                found.append(Block("entry", entry))
                is_first = True
            elif is_first:
                found.append(Block(kind, [line]))
                is_first = False
            else:
                found[-1].lines.append(line)
    return found


def _is_begun(block: Block, line: TextLine, right: int) -> bool:
    """Whether a block is the first lines of an entry: they are long, right above its last one, and have a number if it
    has one."""
    last = block.lines[-1]
    return (
        block.kind in ("text", "item", "heading")
        and len(block.lines) < MOST_LINES
        and 0 < 2 * (line.base - last.base) <= 3 * line.size
        and abs(line.size - last.size) * 8 <= line.size
        and 5 * (last.right - last.left) >= 3 * (right - last.left)
        and line.left >= last.left
        and not _NUMBERED.match(line.text)
    )

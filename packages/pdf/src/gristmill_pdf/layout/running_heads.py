"""Finds running heads and page numbers: lines at the edges of a page that the pages near it have, too.

A line has the same text on the other page, except for one number that counts the pages: the digits of a section tell
its heading from that of the next one. It has no text further out, and is apart from the text further in.
"""

import bisect
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, takewhile
from typing import NamedTuple

from gristmill_pdf.kernels.glyphs import UNITS
from gristmill_pdf.layout.lines import TextLine
from gristmill_pdf.layout.page import Page

EDGE_LINES = 3
"""How many lines at the top and at the bottom of a page may be running heads."""
MARGIN = 4
"""Running heads are in the first and the last of so many equal parts of a page's height."""
NEAR_PAGES = 6
"""A running head occurs again within this many pages."""
PLACE_SHARE, INNER_SHARE = 40, 67
"""On this share of the pages near it, in hundredths, there is a running head at the height of one; or one that is apart
from a line further out. Else it is a line of text that repeats by chance where a page begins or ends."""
APART_SHARE = 150
"""A running head is further from the text than this share of its font size, in hundredths."""
LEAST_CELL = 6
"""The fewest characters of a cell that repeats beside another one."""
MOST_NUMBERED_WORDS = 12
LEAST_MENU_LINES = 3
_NUMBER = re.compile(r"(?<![\d.,])(?:\d{1,4}|\b[ivxlcIVXLC]{1,7}\b)(?![.,]?\d)")
"""What may be the number of a page: no part of `2.1`."""
_SECTION = re.compile(r"[A-Z]?[\d.]+$")
_ROMAN = re.compile(r"[ivxlcIVXLC]{1,7}$")
_GOES_ON = re.compile(
    r"\W*+(?:[^\W\d_]++\s(?:[A-Z]\.?)?\d[\d.\-–]*+\W*+)?(?:"
    r"contin\w+\s(?:from|on|to)\s(?:the\s)?(?:(?:previous|next|preceding|following|last)\spage|page\s\d+)"
    r"|fortsetzung\s(?:von\s|auf\s)?(?:der\s)?(?:vorherigen|vorigen|nächsten|nächster|folgenden)\sseite"
    r"|suite\s(?:de|sur|à)\sla\spage\s(?:précédente|suivante)"
    r"|(?:proviene|contin\w+)\s(?:\w+\s){1,2}(?:p[áa]gina\s\w+|próxima\spágina)"
    r"|продолж\w+\s\w+\s(?:предыдущей|следующей)\sстраниц\w"
    r"|前のページからの続き|次のページに続く|续上页|下页继续)\W*$"
    r"|(?:table|tabelle|tableau|tabla|tabela|tabella|таблица)\s[\w.\-–]+\W(?:.{,80}\W)?"
    r"(?:continued|cont\.|cont['’]d|fortsetzung|suite|continuaci[óo]n|continuação|continua|продолжение)\W*$",
    re.I,
)
"""A line that only says that a table or a listing goes on."""
_ROMAN_DIGITS = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}


class _Edge(NamedTuple):
    """A line at the edge of a page."""

    page: int
    side: int
    """0 at the top, 1 at the bottom."""
    level: int
    """How many levels of lines are further out."""
    line: TextLine
    is_inner: bool
    """Whether it is apart from the level further out."""
    is_apart: bool
    """Whether it is apart from the level further in."""
    is_large: bool
    keys: frozenset[str]


def running_heads(pages: Sequence[Page], body: int) -> dict[int, set[int]]:
    """By page: the identities of the lines that are running heads, page numbers, or menus of slides. A large line, such
    as the title of a chapter with its number, is not one because of its place or its number, and its first occurrence
    stays.

    A page that is the same as a whole, such as a form, says nothing about heads.
    """
    if len(pages) < 2:
        return {}
    heads = {
        number: {id(line) for block in page.blocks for line in block.lines if _GOES_ON.match(line.text)}
        for number, page in enumerate(pages)
    }
    edges = [
        edge
        for number, page in enumerate(pages)
        for side in (0, 1)
        for edge in _edges(page, number, side, body, heads[number])
    ]
    repeated, numbered = _repeated(edges, pages), _numbered(edges, len(pages))
    of_tables = _of_tables(edges, pages)
    chosen = _shared(edges, (repeated | numbered | _titled(edges, pages, body)) - of_tables, numbered, pages)
    found = _outside(edges, chosen, numbered)
    # A line where a third of all pages have their running head is one, too, although its words occur once; and so is
    # the next line of such a head.
    bases = Counter((edge.side, edge.line.base) for edge in edges if id(edge.line) in found)
    for edge in edges:
        usual = (10 if edge.level else 3) * bases[edge.side, edge.line.base] >= len(pages) >= 6
        if usual and not edge.is_inner and not edge.is_large and id(edge.line) not in of_tables:
            chosen.add(id(edge.line))
    found = _outside(edges, chosen, numbered)
    for edge in edges:
        if id(edge.line) in found:
            heads[edge.page].add(id(edge.line))
    for number, lines in _menus(pages):
        heads[number].update(id(line) for line in lines)
    return heads


def _of_tables(edges: Sequence[_Edge], pages: Sequence[Page]) -> set[int]:
    """The identities of lines that begin a table wherever they are at the edge of a page, on several pages: its head,
    repeated where it goes on."""
    blocks = [block for page in pages for block in page.blocks if block.kind == "table" and len(block.lines) > 1]
    firsts = {id(block.lines[0]) for block in blocks}
    others = {edge.line.text for edge in edges if id(edge.line) not in firsts}
    counts = Counter(edge.line.text for edge in edges)
    return {id(edge.line) for edge in edges if edge.line.text not in others and counts[edge.line.text] > 1}


def _edges(page: Page, number: int, side: int, body: int, without: set[int]) -> Iterator[_Edge]:
    """The lines at one edge of a page, from the outside inwards."""
    lines = [line for block in page.blocks for line in block.lines if id(line) not in without]
    lines.sort(key=lambda line: (line.base, line.left), reverse=side == 1)
    levels: list[list[TextLine]] = []
    for line in lines:
        if not levels or abs(line.base - levels[-1][0].base) > line.size // 2:
            if len(levels) > EDGE_LINES:
                break
            levels.append([])
        levels[-1].append(line)
    for level, chosen in enumerate(levels[:EDGE_LINES]):
        is_inner = level > 0 and _are_apart(levels[level - 1], chosen)
        is_apart = level + 1 == len(levels) or _are_apart(chosen, levels[level + 1])
        for line in chosen:
            if MARGIN * abs(line.base - page.top - page.height * side) <= page.height:
                is_large = _is_large(line, body)
                keys = frozenset([line.text] if is_large else _keys(line, number))
                yield _Edge(number, side, level, line, is_inner, is_apart, is_large, keys)


def _are_apart(level: Sequence[TextLine], other: Sequence[TextLine]) -> bool:
    return 100 * abs(other[0].base - level[0].base) > APART_SHARE * level[0].size


def _is_large(line: TextLine, body: int) -> bool:
    return line.size * 4 > 5 * body and any(map(str.isalpha, line.text))


def _keys(line: TextLine, number: int) -> Iterator[str]:
    """What may be the same in a running head of another page: the whole line, or one of its long cells, also with a
    number that is counted from that of the page. Engines for page images miss spaces."""
    cells: list[str] = []
    for cell in line.cells:
        cells[-1:] = [f"{cells[-1]} {cell.text}"] if cells and _SECTION.match(cells[-1]) else [*cells[-1:], cell.text]
    for text in (line.text, *(cell for cell in cells if len(cell) >= LEAST_CELL)):
        yield text.replace(" ", "")
        for one in [*_NUMBER.finditer(text)][:8]:
            rest = f"{text[: one.start()]}\0{_value(one[0]) - number}\0{text[one.end() :]}"
            yield rest.replace(" ", "")


def _value(digits: str) -> int:
    """The value of a number in Arabic or Roman digits."""
    if digits.isdecimal():
        return int(digits)
    values = [_ROMAN_DIGITS[char] for char in digits.lower()]
    return sum(-a if a < b else a for a, b in zip(values, [*values[1:], 0], strict=True))


def _repeated(edges: Sequence[_Edge], pages: Sequence[Page]) -> set[int]:
    """The identities of lines that are the same on other pages."""
    wholes = [hash(tuple(line.text for block in page.blocks for line in block.lines)) for page in pages]
    seen: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for edge in edges:
        for key in edge.keys:
            seen.setdefault((edge.side, key), []).append((edge.page, edge.line.base))
    found = set()
    for edge in edges:
        near = max(_near(edge, seen[edge.side, key], wholes, pages[edge.page].shift) for key in edge.keys)
        if near >= 2 or (near == 1 and len(pages) <= 4 and len(edge.line.text) > 3):
            found.add(id(edge.line))
    return found


def _near(edge: _Edge, places: Sequence[tuple[int, int]], wholes: Sequence[int], shift: int) -> int:
    """On how many pages near it a line is at the same place. The first of large lines stays."""
    start = bisect.bisect_left(places, (edge.page - NEAR_PAGES, -1 << 30))
    stop = bisect.bisect_right(places, (edge.page + (0 if edge.is_large else NEAR_PAGES), 1 << 30))
    return sum(
        other != edge.page and abs(base - edge.line.base) <= shift and wholes[other] != wholes[edge.page]
        for other, base in places[start:stop]
    )


def _numbered(edges: Sequence[_Edge], count: int) -> set[int]:
    """The identities of lines with the number of their page, which is as far from the place of the page in the file as
    on a quarter of all pages, where it is on the same level: lists that begin again on each page count down it."""
    offsets: dict[tuple[int, int, int], set[int]] = {}
    for edge in edges:
        for value in _end_numbers(edge.line):
            offsets.setdefault((value - edge.page, edge.side, edge.level), set()).add(edge.page)
    usual = {offset for (offset, _, _), found in offsets.items() if len(found) >= max(3, count // 4)}
    found = set()
    for edge in edges:
        words = edge.line.text.count(" ") + 1
        is_counted = any(value - edge.page in usual for value in _end_numbers(edge.line))
        is_roman = edge.side == 1 and words == 1 and _ROMAN.match(edge.line.text)
        if is_roman or (is_counted and not edge.is_large and words <= MOST_NUMBERED_WORDS):
            found.add(id(edge.line))
    return found


def _end_numbers(line: TextLine) -> list[int]:
    """The numbers at the ends of a line."""
    words = line.text.split()
    both = (word.strip("-–—[]()·|") for word in (*words[:1], *words[-1:]))
    return [int(word) for word in both if word.isdecimal() and len(word) < 5]


def _titled(edges: Sequence[_Edge], pages: Sequence[Page], body: int) -> set[int]:
    """The identities of lines whose words are those of a title on the same page or the two pages before it."""
    titles = [
        "".join(_bare(line.text) for block in page.blocks for line in block.lines if _is_large(line, body))
        for page in pages
    ]
    found = set()
    for edge in edges:
        words = _bare(edge.line.text)
        near = titles[max(edge.page - 2, 0) : edge.page + 1]
        if not edge.is_large and len(words) >= LEAST_CELL and any(words in title for title in near):
            found.add(id(edge.line))
    return found


def _bare(text: str) -> str:
    return text.replace(" ", "").rstrip("-").casefold()


def _is_number(edge: _Edge) -> bool:
    """Whether a line is nothing but the number of a page; a Roman one, of a page near the beginning of the file."""
    text = edge.line.text
    return text.isdecimal() or (_ROMAN.match(text) is not None and abs(_value(text) - edge.page) <= NEAR_PAGES)


def _shared(edges: Sequence[_Edge], chosen: set[int], numbered: set[int], pages: Sequence[Page]) -> set[int]:
    """Of some lines, those at whose height enough pages near them have such lines. A large line needs no others, and
    neither does a number alone: the first page of a chapter has it elsewhere."""
    heights: list[dict[int, list[int]]] = [{}, {}]
    for edge in edges:
        held = heights[edge.side].setdefault(edge.page, [])
        held += [edge.line.base] if id(edge.line) in chosen else []
    found = set()
    for edge in edges:
        near = [
            heights[edge.side][number]
            for number in range(edge.page - NEAR_PAGES, edge.page + NEAR_PAGES + 1)
            if number in heights[edge.side]
        ]
        count = sum(any(abs(base - edge.line.base) <= pages[edge.page].shift for base in bases) for bases in near)
        share = INNER_SHARE if edge.is_inner else PLACE_SHARE
        is_alone = edge.is_large or (id(edge.line) in numbered and _is_number(edge))
        if id(edge.line) in chosen and (is_alone or 100 * count >= share * len(near)):
            found.add(id(edge.line))
    return found


def _outside(edges: Sequence[_Edge], chosen: set[int], numbered: set[int]) -> set[int]:
    """Of some lines, those without text further out and apart from the text further in, as all but numbers are."""
    found: set[int] = set()
    for _, group in groupby(edges, key=lambda edge: (edge.page, edge.side)):
        levels = [list(level) for _, level in groupby(group, key=lambda edge: edge.level)]
        heads = list(takewhile(lambda level: any(id(edge.line) in chosen for edge in level), levels))
        while heads and not any(edge.is_apart or id(edge.line) in numbered for edge in heads[-1]):
            heads.pop()
        found |= {id(edge.line) for level in heads for edge in level if id(edge.line) in chosen}
    return found


def _menus(pages: Sequence[Page]) -> Iterator[tuple[int, list[TextLine]]]:
    """The lines of menus at the side of slides, by page: those that most slides near it have as far to the left."""
    sides: list[list[TextLine]] = []
    places: dict[tuple[str, int], set[int]] = {}
    for number, page in enumerate(pages):
        width = page.width // MARGIN if page.width > page.height else -1
        lines = [line for block in page.blocks for line in block.lines]
        first, last = page.left + width, page.left + page.width - width
        sides.append([line for line in lines if width > 0 and (line.right <= first or line.left >= last)])
        for line in sides[-1]:
            places.setdefault((line.text, line.left // UNITS), set()).add(number)
    for number, lines in enumerate(sides):
        near = [other for other in range(number - NEAR_PAGES, number + NEAR_PAGES + 1) if 0 <= other < len(pages)]
        menu = [
            line
            for line in lines
            if 2 * sum(one in places[line.text, line.left // UNITS] for one in near) > max(len(near), LEAST_MENU_LINES)
        ]
        if len(menu) >= LEAST_MENU_LINES:
            yield number, menu

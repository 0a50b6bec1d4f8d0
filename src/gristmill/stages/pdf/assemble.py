"""Joins the pages of a document to one text: without running heads, with paragraphs that continue on the next page."""

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gristmill.kernels.pdf.glyphs import UNITS
from gristmill.stages.pdf.characters import base_chars, joined, plain, seam, words_of
from gristmill.stages.pdf.lines import MARK, Block, TextLine, note_mark
from gristmill.stages.pdf.page import Page
from gristmill.stages.pdf.rules import RuledLine
from gristmill.stages.pdf.tables import table_of
from gristmill.stages.shared.normalise import normalise

EDGE_LINES = 2
"""How many lines at the top and at the bottom of a page may be running heads."""
MARGIN = 4
"""Running heads are in the first and the last of so many equal parts of a page's height."""
NEAR_PAGES = 6
"""A running head occurs again within this many pages."""
LEAST_MENU_LINES = 3
_DIGITS = re.compile(r"\d+")
_ROMAN = re.compile(r"(?:page\s+)?[ivxlc]{1,7}$", re.I)
_NUMBERS = re.compile(r"\d+|\b[ivxl]+$|^[ivxl]+\b")
_GLUED = re.compile(r"(?:(?<=[^\W\d_])|(?<=[.,;:!?)”’] )|(?<![0-9].)(?<=[.,;:!?)”’]))\d{1,3}(?![\w.,])")
"""Digits right after a word or a sentence, which may be the mark of a footnote in a font with raised digits."""
_ENDS = tuple(".!?:;。！？")
_MARKED_END = re.compile(r"[^\W\d_][.!?](?:\d{1,2}|\[\d{1,3}\])$")
"""The end of a sentence with the mark of a footnote."""


class PlacedBlock(NamedTuple):
    """A block in the text: where it begins, its page, its box there (points from the top left corner), its kind."""

    start: int
    page: int
    box: tuple[int, int, int, int]
    kind: str


class Assembled(NamedTuple):
    """The text of a document; offsets are in bytes of UTF-8."""

    text: str
    page_starts: list[int]
    pieces: list[PlacedBlock]


def assemble(pages: Sequence[Page], markdown: bool) -> Assembled:
    """The text of all pages."""
    known = words_of([line.text for page in pages for block in page.blocks for line in block.lines])
    out = _Text()
    for number, block, notes in placed(pages):
        page = pages[number]
        out.add(block, block_text(block, known, markdown), number, page, known)
        out.waiting += [(note, block_text(note, known, markdown), number, page) for note in notes]
    out.end()
    starts: list[int] = []
    for piece in out.pieces:
        starts += [piece.start] * (piece.page + 1 - len(starts))
    starts += [out.at] * (len(pages) - len(starts))
    return Assembled("".join(out.parts), starts, out.pieces)


def placed(pages: Sequence[Page]) -> Iterator[tuple[int, Block, list[Block]]]:
    """The blocks of all pages without running heads and notes, each with its page and with the notes that follow it."""
    body = _body_size(pages)
    heads = _running_heads(pages, body)
    for number, page in enumerate(pages):
        blocks, notes = _with_notes(list(_without(page.blocks, heads, number)), body, page.rules)
        for block in blocks:
            yield number, block, notes.get(id(block), [])


class _Text:
    """The text as it grows."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.pieces: list[PlacedBlock] = []
        self.at = 0
        self.last: tuple[str, str, int] | None = None
        """Kind, text and font size of the last block."""
        self.waiting: list[tuple[Block, str, int, Page]] = []
        """Footnotes, which wait until the paragraph that they belong to is complete."""

    def add(self, block: Block, text: str, number: int, page: Page, known: Counter[str]) -> None:
        """Adds a block, as a new one or as the rest of the last one."""
        if not text:
            return
        if self.last is not None and _goes_on(*self.last, block, text):
            cut, glue = seam(self.last[1], text, known)
            if cut:
                self.parts[-1] = self.parts[-1][:-1]
                self.at -= 1
            self._put(glue, block, text, number, page)
        else:
            self.end()
            self._put(self._glue(block.kind), block, text, number, page)

    def end(self) -> None:
        """Ends the paragraph: its footnotes follow."""
        for note, text, number, page in self.waiting:
            if text:
                self._put(self._glue("note"), note, text, number, page)
        self.waiting = []

    def _glue(self, kind: str) -> str:
        if self.last is None:
            return ""
        return "\n" if kind == self.last[0] and kind in ("item", "code", "table", "entry", "note") else "\n\n"

    def _put(self, glue: str, block: Block, text: str, number: int, page: Page) -> None:
        self.parts.append(glue + text)
        self.at += len(glue.encode())
        self.pieces.append(PlacedBlock(self.at, number, _box(block, page), block.kind))
        self.at += len(text.encode())
        self.last = block.kind, text, block.size


def _body_size(pages: Sequence[Page]) -> int:
    """The font size of most text."""
    sizes: Counter[int] = Counter()
    for page in pages:
        for block in page.blocks:
            for line in block.lines:
                sizes[line.size] += 0 if line.is_mono else line.glyphs
    return max(sizes, key=lambda size: (sizes[size], size)) if sizes else 0


def _with_notes(
    blocks: list[Block], body: int, rules: Sequence[RuledLine]
) -> tuple[list[Block], dict[int, list[Block]]]:
    """The blocks of a page without its footnotes, and these by the identity of the block that they follow: the one
    that has their mark, or the last one before them. Marks become `[1]`."""
    below = _below_rule(blocks, rules)
    others = [block for block in blocks if block.kind != "note" or not (_is_small(block, body) or id(block) in below)]
    raised, glued = _marks(others, MARK), _marks(others, _GLUED)
    kept: list[Block] = []
    notes: dict[int, list[Block]] = {}
    cited: list[tuple[int, int, TextLine, str]] = []
    last: Block | None = None
    owner: Block | None = None
    inside = _above_text(blocks, body)
    for block in blocks:
        is_note = id(block) in below or (_is_small(block, body) and id(block) not in inside)
        if block.kind == "note" and is_note:
            first = block.lines[0]
            mark = note_mark(first, body) or ""
            number = _digits(mark)
            first.text = f"[{number}] {first.text[len(mark) :].lstrip(' )')}"
            owner = kept[-1] if kept else None
            found = raised.get(number, []) if MARK.match(mark) else glued.get(number, [])
            if found:
                owner, line, start, stop = found[0]
                if len(found) == 1 or number in raised:
                    cited.append((start, stop, line, number))
        elif owner is None or last is None or not _extends_note(last, block):
            owner = None
        block.kind = "note" if owner is not None else "text" if block.kind == "note" else block.kind
        if owner is not None:
            notes.setdefault(id(owner), []).append(block)
        else:
            kept.append(block)
        last = block
    for start, stop, line, number in sorted(cited, key=lambda one: -one[0]):
        line.text = f"{line.text[:start].rstrip()}[{number}]{line.text[stop:]}"
    return kept, notes


def _is_small(block: Block, body: int) -> bool:
    return block.size * 100 <= 97 * body


def _below_rule(blocks: Sequence[Block], rules: Sequence[RuledLine]) -> set[int]:
    """The identities of the blocks below the lowest short line that has a footnote right below it and nothing but text
    after that. Some programs write footnotes as large as the text."""
    for rule in sorted(rules, reverse=True):
        under = [one for one in blocks if one.box[1] + one.size // 2 > rule.place and one.box[0] < rule.stop]
        first = min(under, key=lambda one: one.box[1], default=None)
        if first is not None and first.kind == "note" and abs(first.box[0] - rule.start) <= 3 * first.size:
            is_near = first.box[1] - rule.place <= 2 * first.size
            return (
                {id(one) for one in under} if is_near and all(one.kind in ("note", "text") for one in under) else set()
            )
    return set()


def _above_text(blocks: Sequence[Block], body: int) -> set[int]:
    """The identities of what looks like a footnote but has text below it, such as the items of a numbered list."""
    found: set[int] = set()
    after: Block | None = None
    for block in reversed(blocks):
        left, top, right, _ = block.box
        if after is not None and after.box[1] > top and after.box[0] < right and left < after.box[2]:
            found.add(id(block))
        if not _is_small(block, body) and any(map(str.isalpha, block.lines[0].text)):
            after = block
    return found


def _marks(blocks: Sequence[Block], pattern: re.Pattern[str]) -> dict[str, list[tuple[Block, TextLine, int, int]]]:
    """What may be the marks of footnotes, by their number: block, line, start and end."""
    marks: dict[str, list[tuple[Block, TextLine, int, int]]] = {}
    for block in blocks:
        if block.kind not in ("code", "table", "formula"):
            for line in block.lines:
                for found in pattern.finditer(line.text):
                    marks.setdefault(_digits(found[0]), []).append((block, line, *found.span()))
    return marks


def _digits(mark: str) -> str:
    return unicodedata.normalize("NFKC", base_chars(mark))


def _extends_note(note: Block, block: Block) -> bool:
    """Whether a block is the next paragraph of a footnote."""
    is_below = block.box[1] > note.box[1] and block.box[1] - note.box[3] < block.size
    return is_below and block.kind == "text" and abs(block.size - note.size) * 12 <= note.size


def _goes_on(kind: str, before: str, size: int, block: Block, text: str) -> bool:
    """Whether a block continues the paragraph before it: on the next page, in the next column, after a figure."""
    if kind not in ("text", "item") or block.kind != "text" or abs(size - block.size) * 8 > size:
        return False
    if before.endswith("-") and text[:1].islower():
        return True
    is_ended = before.endswith(_ENDS) or _MARKED_END.search(before[-8:])
    return not is_ended and (text[:1].islower() or before.endswith(","))


def block_text(block: Block, known: Counter[str], markdown: bool) -> str:
    """The text of a block."""
    if block.kind == "table":
        rows = [[joined(cell.split("\n"), known).replace("|", "\\|") for cell in row] for row in block.rows]
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)
    if block.kind == "code":
        text = "\n".join(_code_lines(block.lines))
        return f"```\n{text}\n```" if markdown else text
    text = joined((line.text for line in block.lines), known)
    return f"## {text}" if markdown and block.kind == "heading" else text


def _code_lines(lines: Sequence[TextLine]) -> Iterator[str]:
    """Lines of code with their indentation, and blank lines where the page has them."""
    left = min(line.left for line in lines)
    widths = sorted((line.right - line.left) // max(len(line.text), 1) for line in lines)
    advance = max(widths[len(widths) // 2], 1)
    steps = sorted(b.base - a.base for a, b in itertools.pairwise(lines))
    step = max(steps[len(steps) // 2] if steps else 0, 1)
    last: TextLine | None = None
    for line in lines:
        if last is not None and (line.base - last.base) * 2 > 3 * step:
            yield ""
        last = line
        yield " " * min((line.left - left + advance // 2) // advance, 80) + normalise(plain(line.text), 0)


def _box(block: Block, page: Page) -> tuple[int, int, int, int]:
    left, top, right, bottom = block.box
    return (
        (left - page.left) // UNITS,
        (top - page.top) // UNITS,
        -(-(right - page.left) // UNITS),
        -(-(bottom - page.top) // UNITS),
    )


def _without(blocks: Sequence[Block], heads: dict[int, set[int]], number: int) -> Iterator[Block]:
    """The blocks of a page without its running heads, which are given by the identity of their lines."""
    found = heads.get(number)
    for block in blocks:
        if found and any(id(line) in found for line in block.lines):
            lines = [line for line in block.lines if id(line) not in found]
            if block.kind == "table" and lines:
                yield block if any(line.is_table for line in lines) else table_of(lines)
            elif lines:
                yield Block(block.kind, lines)
        else:
            yield block


def _edges(page: Page) -> tuple[list[TextLine], list[TextLine]]:
    """The first and the last lines of a page, from the outside inwards, as far as they are near its edge."""
    lines = sorted((line for block in page.blocks for line in block.lines), key=lambda line: (line.base, line.left))
    sides: list[list[TextLine]] = []
    for ordered in (lines, lines[::-1]):
        chosen: list[TextLine] = []
        levels: list[int] = []
        for line in ordered:
            if MARGIN * (abs(line.base - page.top - (page.height if sides else 0))) > page.height:
                break
            if not levels or abs(line.base - levels[-1]) > line.size // 2:
                if len(levels) == EDGE_LINES:
                    break
                levels.append(line.base)
            chosen.append(line)
        sides.append(chosen)
    return sides[0], sides[1]


def _running_heads(pages: Sequence[Page], body: int) -> dict[int, set[int]]:
    """By page: the lines at its edges that other pages near it have too, and page numbers. A large line, such as the
    title of a chapter with its number, is none because of its place or its number, and its first occurrence stays.

    A page that is the same as a whole, such as a form, says nothing about heads.
    """
    if len(pages) < 2:
        return {}
    edges = [_edges(page) for page in pages]
    wholes = [hash(tuple(line.text for block in page.blocks for line in block.lines)) for page in pages]
    offsets: Counter[tuple[int, int]] = Counter()
    seen: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for number, sides in enumerate(edges):
        for side, lines in enumerate(sides):
            for line in lines:
                for text in _keys(line, _is_large(line, body)):
                    seen.setdefault((side, text), []).append((number, line.base))
            for value in {int(one) for line in lines for one in _DIGITS.findall(line.text)[:8] if len(one) < 5}:
                offsets[side, value - number] += 1
    found: dict[int, set[int]] = {}
    bases: Counter[tuple[int, int]] = Counter()
    for number, sides in enumerate(edges):
        for side, lines in enumerate(sides):
            for line in lines:
                if _is_head(line, number, side, seen, offsets, wholes, _is_large(line, body), pages[number].shift):
                    found.setdefault(number, set()).add(id(line))
                    bases[side, line.base] += 1
    # The outermost line where most pages have their running head is one, too, although its words occur once.
    for number, sides in enumerate(edges):
        for side, lines in enumerate(sides):
            if lines and 3 * bases[side, lines[0].base] >= len(pages) >= 6:
                level = [line for line in lines if line.base == lines[0].base and not _is_large(line, body)]
                found.setdefault(number, set()).update(id(line) for line in level)
    for number, lines in _menus(pages):
        found.setdefault(number, set()).update(id(line) for line in lines)
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


def _is_large(line: TextLine, body: int) -> bool:
    return line.size * 4 > 5 * body and any(map(str.isalpha, line.text))


def _keys(line: TextLine, is_large: bool) -> set[str]:
    """What may be the same in a running head of another page: the whole line, or one of its long cells. The number of a
    chapter tells its title from the next one. Engines for page images miss spaces."""
    if is_large:
        return {line.text}
    cells = [cell.text for cell in line.cells if len(cell.text) > 5] if len(line.cells) > 1 else []
    return {_NUMBERS.sub("0", text).replace(" ", "") for text in (line.text, *cells)}


def _is_head(
    line: TextLine,
    number: int,
    side: int,
    seen: dict[tuple[int, str], list[tuple[int, int]]],
    offsets: Counter[tuple[int, int]],
    wholes: Sequence[int],
    is_large: bool,
    shift: int,
) -> bool:
    pages = len(wholes)
    near = max(
        sum(
            0 < (number - other if is_large else abs(other - number)) <= NEAR_PAGES
            and abs(base - line.base) <= shift
            and wholes[other] != wholes[number]
            for other, base in seen[side, text][:2000]
        )
        for text in _keys(line, is_large)
    )
    if near >= 2 or (near == 1 and pages <= 4 and len(line.text) > 3):
        return True
    if is_large:
        return False
    least = max(3, pages // 4)
    numbers = _DIGITS.findall(line.text)
    words = line.text.split()
    both = (word.strip("-–—[]()·|") for word in (*words[:1], *words[-1:]))
    ends = [word for word in both if word.isdecimal() and len(word) < 5]
    if any(offsets[side, int(word) - number] >= least for word in ends):
        return len(words) <= 12
    return len(numbers) == 0 and len(words) == 1 and bool(_ROMAN.match(line.text)) and side == 1

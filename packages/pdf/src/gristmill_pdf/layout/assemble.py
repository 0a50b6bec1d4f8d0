"""Joins the pages of a document to one text: without running heads, with paragraphs that continue on the next page."""

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gristmill.stages.shared.normalise import normalise
from gristmill_pdf.kernels.glyphs import UNITS
from gristmill_pdf.layout.characters import base_chars, joined, plain, seam, words_of
from gristmill_pdf.layout.contents import without_page_numbers
from gristmill_pdf.layout.lines import MARK, Block, TextLine, note_mark
from gristmill_pdf.layout.page import Page
from gristmill_pdf.layout.rules import RuledLine
from gristmill_pdf.layout.running_heads import running_heads
from gristmill_pdf.layout.tables import join_tables, table_of

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
    heads = running_heads(pages, body)
    kept = [list(_without(page.blocks, heads, number)) for number, page in enumerate(pages)]
    both = zip(pages, without_page_numbers(kept), strict=True)
    separate = [_with_notes(blocks, body, page.rules) for page, blocks in both]
    join_tables([blocks for blocks, _ in separate])
    for number, (blocks, notes) in enumerate(separate):
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
    cited: dict[tuple[int, int], tuple[int, int, TextLine, str]] = {}
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
                    cited[id(line), start] = start, stop, line, number
        elif owner is None or last is None or not _extends_note(last, block):
            owner = None
        block.kind = "note" if owner is not None else "text" if block.kind == "note" else block.kind
        if owner is not None:
            notes.setdefault(id(owner), []).append(block)
        else:
            kept.append(block)
        last = block
    for start, stop, line, number in sorted(cited.values(), key=lambda one: -one[0]):
        line.text = f"{line.text[:start].rstrip()}[{number}]{line.text[stop:]}"
    return kept, notes


def _is_small(block: Block, body: int) -> bool:
    return block.size * 100 <= 97 * body


def _below_rule(blocks: Sequence[Block], rules: Sequence[RuledLine]) -> set[int]:
    """The identities of the blocks below the lowest short line that has a footnote right below it and nothing but text
    after that. Some programs write footnotes as large as the text."""
    if not any(one.kind == "note" for one in blocks):
        return set()
    places = [(one.box, one) for one in blocks]
    for rule in sorted(rules, reverse=True):
        under = [(box, one) for box, one in places if box[1] + one.size // 2 > rule.place and box[0] < rule.stop]
        if not under:
            continue
        box, first = min(under, key=lambda place: place[0][1])
        if first.kind == "note" and abs(box[0] - rule.start) <= 3 * first.size:
            is_near = box[1] - rule.place <= 2 * first.size
            return (
                {id(one) for _, one in under}
                if is_near and all(one.kind in ("note", "text") for _, one in under)
                else set()
            )
    return set()


def _above_text(blocks: Sequence[Block], body: int) -> set[int]:
    """The identities of what looks like a footnote but has text below it, such as the items of a numbered list."""
    found: set[int] = set()
    after: tuple[int, int, int, int] | None = None
    for block in reversed(blocks):
        left, top, right, _ = block.box
        if after is not None and after[1] > top and after[0] < right and left < after[2]:
            found.add(id(block))
        if not _is_small(block, body) and any(map(str.isalpha, block.lines[0].text)):
            after = block.box
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

"""Joins the lines of a region to blocks: paragraphs, headings, items, code, formulas, tables."""

import itertools
from collections.abc import Sequence
from statistics import median_low

from gristmill_pdf.layout.columns import TextSegment, regions
from gristmill_pdf.layout.kinds import EXAMPLE, ITEM, is_caption, kinds_of
from gristmill_pdf.layout.lines import LEADER, Block, TextLine, lines_of, note_mark, with_drop_caps
from gristmill_pdf.layout.rules import Grid, take_tables
from gristmill_pdf.layout.tables import table_end, table_of, terms_of


def page_blocks(segments: list[TextSegment], tables: Sequence[Grid] = ()) -> list[Block]:
    """The blocks of a page in reading order. The font size of most of its text, without code, is that of the body."""
    sizes = sorted((one.size, one.glyphs) for one in segments if 2 * one.mono <= one.glyphs)
    sizes = sizes or [(one.size, one.glyphs) for one in segments]
    half, body = sum(glyphs for _, glyphs in sizes) // 2, sizes[-1][0]
    for size, glyphs in sizes:
        half -= glyphs
        if half <= 0:
            body = size
            break
    segments = with_drop_caps(take_tables(segments, tables), body)
    return [block for region in regions(segments) for block in blocks_of(lines_of(region), body)]


def blocks_of(lines: list[TextLine], body_size: int) -> list[Block]:
    """The blocks of a region."""
    if not lines:
        return []  # nothing but spaces
    blocks: list[Block] = []
    at = 0
    right = _right_edge(lines)
    leading = _leading(lines)
    for line, told in zip(lines, kinds_of(lines, body_size), strict=True):
        line.told = told
    while at < len(lines):
        stop = table_end(lines, at)
        if stop > at:
            blocks += terms_of(lines, at, stop, right) or [table_of(lines[at:stop])]
            at = stop
            continue
        line = lines[at]
        at += 1
        if line.is_table:
            blocks.append(Block("table", [line], line.segments[0].rows or []))
            continue
        kind = _kind(line, body_size)
        if blocks and _continues(blocks[-1], line, kind, right, leading, body_size):
            blocks[-1].lines.append(line)
        else:
            blocks.append(Block(kind, [line]))
    for block in blocks:
        _judge(block)
    return blocks


def _kind(line: TextLine, body_size: int) -> str:
    if note_mark(line, body_size):
        return "note"
    if line.told in ("code", "formula"):
        return line.told
    if LEADER in line.text and line.text[-1:].isalnum():
        return "entry"
    return "item" if ITEM.match(line.text) else "text"


def _right_edge(lines: Sequence[TextLine]) -> int:
    """Where full lines end: the ninth decile, since single lines stick out."""
    edges = sorted(line.right for line in lines if not line.is_mono) or [line.right for line in lines]
    return edges[len(edges) * 9 // 10]


def _leading(lines: Sequence[TextLine]) -> int:
    """The usual distance of base lines."""
    steps = [b.base - a.base for a, b in itertools.pairwise(lines) if 0 < b.base - a.base < 3 * b.size]
    return median_low(steps) if steps else 0


def _continues(block: Block, line: TextLine, kind: str, right: int, leading: int, body_size: int) -> bool:
    """Whether a line belongs to the block before it."""
    last = block.lines[-1]
    step = line.base - last.base
    most = max(leading, line.size * 6 // 5)
    if kind == "formula" and block.kind in ("text", "item") and _is_wrapped(block, line, right, most):
        return True
    if kind == "formula" or block.kind == "formula":
        return kind == block.kind and step <= 2 * most
    if kind == "code" and block.kind in ("text", "item", "note") and _is_wrapped(block, line, right, most):
        return True
    if block.kind in ("table", "entry") or kind == "entry" or (block.kind == "code") != (kind == "code"):
        return False
    if kind == "code":
        return abs(line.size - last.size) * 8 <= last.size and 0 < step <= 3 * most
    if not 0 < step * 20 <= 27 * most or abs(line.size - last.size) * 8 > max(line.size, last.size):
        return False
    if kind == "note" and block.kind in ("text", "item") and line.size * 100 > 97 * body_size:
        is_inside = step * 20 <= 23 * most and not last.text.endswith((".", "!", "?", ":"))
        kind = "text" if is_inside else kind  # the mark of a footnote came first in the line
    if kind in ("item", "note") or (line.is_bold != last.is_bold and (last.is_bold or line.left <= last.left)):
        return False
    first = block.lines[0]
    em = line.size
    if block.kind == "item" and line.left * 2 < first.left * 2 - em:
        return False
    if (
        not _hangs(block, line)
        and line.left - last.left > em * 3 // 4
        and (len(block.lines) > 1 or (block.kind == "text" and last.right > right - em))
    ):
        is_indented = block.kind != "item" or len(block.lines) > 1
        if is_indented and abs(line.left + line.right - last.left - last.right) > em:  # centred lines are not indented
            return False
    if _is_long_heading(block, line, body_size):
        return True
    # If the first word of the line would have fitted on the last line, a paragraph ends there.
    return right - last.right <= line.word_width + em * 3 // 2 or last.hyphen


def _hangs(block: Block, line: TextLine) -> bool:
    """Whether a line begins below the text of the first line, to the right of its number."""
    starts = [one.left for one in block.lines[0].segments[1:2]]
    return len(block.lines) == 1 and any(abs(line.left - start) * 3 <= line.size for start in starts)


def _is_long_heading(block: Block, line: TextLine, body_size: int) -> bool:
    """Whether a line is the rest of a heading, which may be broken long before the edge of the page."""
    last = block.lines[-1]
    is_large = min(line.size, last.size) * 100 > 112 * body_size and abs(line.size - last.size) * 20 <= line.size
    is_level = (
        abs(line.left - last.left) * 2 <= line.size
        or abs(line.left + line.right - last.left - last.right) <= line.size
        or _hangs(block, line)
    )
    is_ended = last.text.endswith((".", "!", "?", ":")) or line.text[:1].isdigit() or LEADER in last.text
    is_near = (line.base - last.base) * 2 <= 3 * line.size
    return is_large and is_near and is_level and not is_ended and len(block.lines) < 3


def _is_wrapped(block: Block, line: TextLine, right: int, most: int) -> bool:
    """Whether a line of code font is the rest of a sentence that names a command or a path."""
    last = block.lines[-1]
    is_below = 0 < (line.base - last.base) * 20 <= 23 * most and abs(line.size - last.size) * 6 <= last.size
    left = block.lines[-1].left if len(block.lines) > 1 else line.left
    return is_below and right - last.right <= 2 * line.size and abs(line.left - left) <= line.size // 2


def _judge(block: Block) -> None:
    """Finds headings and captions."""
    is_numbered = block.kind == "item" and block.lines[0].text[:1].isdigit()
    text = block.lines[0].text
    if block.kind == "text" and is_caption(text):
        block.kind = "caption"
        return
    if not (block.kind == "text" or is_numbered) or len(block.lines) > 3:
        return
    glyphs = sum(line.glyphs for line in block.lines)
    is_heading = 2 * sum(line.glyphs for line in block.lines if line.told == "heading") > glyphs
    if is_heading and any(map(str.isalpha, text)):
        block.kind = "caption" if EXAMPLE.match(text) else "heading"

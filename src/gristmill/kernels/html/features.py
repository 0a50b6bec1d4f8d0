"""The features of each block for the model: bytes, computed from integers only, so they are the same on any machine."""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.html import layout
from gristmill.kernels.html.hashes import in_title, slot_of, text_hash, title_words
from gristmill.kernels.memory import borrow, view

_OWN = [
    "chars",
    "words",
    "link_density",
    "links",
    "word_length",
    "ends",
    "ends_a_word",
    "commas_a_word",
    "digits",
    "upper",
    "capitals",
    "short_words",
    "signs",
    "breaks",
    "images",
    "tags",
    "strong",
    "first",
    "last",
    "kind",
    "level",
    "verbatim",
    "quote",
    "lists",
    "copies",
    "gap",
    "place",
    "place_chars",
    "from_start",
    "from_end",
    "alike",
    "alike_chars",
    "alike_prose",
    "alike_links",
    "in_title",
    "depth",
    "prose",
]
_BOX = ["chars", "links", "blocks", "prose", "mean"]
_PAGE = [
    *("main_away", "since_prose", "until_prose", "chars_since", "chars_until", "heading_since", "title_away"),
    "since_title",
]
_WHOLE = ["blocks", "chars", "link_density", "prose", "prose_share", "main_share"]
_NEAR = ["chars", "link_density", "ends", "kind", "level", "last", "prose"]
SHIFTS = (-3, -2, -1, 1, 2, 3)
FEATURES = [
    *_OWN,
    *(f"box{level}_{name}" for level in (1, 2, 3) for name in _BOX),
    *_PAGE,
    *(f"page_{name}" for name in _WHOLE),
    *(f"hint_{name}" for name in layout.HINTS),
    *(f"in_{name}" for name in [*layout.ANCESTRY, "heading"]),
    *(f"{'next' if shift > 0 else 'before'}{abs(shift)}_{name}" for shift in SHIFTS for name in _NEAR),
    *(f"same_box_{'next' if shift > 0 else 'before'}{abs(shift)}" for shift in (-1, 1)),
]
"""Names of the features, in order."""
_BOX_AT = len(_OWN)
_PAGE_AT = _BOX_AT + 3 * len(_BOX)
_WHOLE_AT = _PAGE_AT + len(_PAGE)
_HINTS_AT = _WHOLE_AT + len(_WHOLE)
_ANCESTRY_AT = _HINTS_AT + len(layout.HINTS)
_NEAR_AT = _ANCESTRY_AT + len(layout.ANCESTRY) + 1
_SAME_AT = _NEAR_AT + len(SHIFTS) * len(_NEAR)
_NEAR_SOURCES = np.array([_OWN.index(name) for name in _NEAR], np.int64)
_SHIFTS = np.array(SHIFTS, np.int64)
_PROSE = _OWN.index("prose")
_IN_TITLE = _OWN.index("in_title")
PROSE, SINCE_TITLE = FEATURES.index("prose"), FEATURES.index("since_title")
AT_TITLE = 128
"""The feature since_title of the block with the page's title."""
_HINT_COUNT, _ANCESTRY_COUNT = len(layout.HINTS), len(layout.ANCESTRY) + 1

_KIND_ORDER = [
    "p",
    "blockquote",
    "pre",
    "listing",
    "xmp",
    "dd",
    "dt",
    "li",
    "ul",
    "ol",
    "menu",
    "dir",
    "figcaption",
    "figure",
    "caption",
    "td",
    "th",
    "tr",
    "table",
    "tbody",
    "thead",
    "tfoot",
    "div",
    "section",
    "article",
    "main",
    "body",
    "center",
    "details",
    "summary",
    "header",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hgroup",
    "address",
    "fieldset",
    "legend",
    "form",
    "button",
    "aside",
    "nav",
    "footer",
    "dl",
    "dialog",
]
_KIND_CODE = np.zeros(len(layout.BOX_NAMES), np.int64)
for _name in layout.BOX_NAMES:
    _KIND_CODE[layout.BOX_NAMES.index(_name)] = _KIND_ORDER.index(_name) if _name in _KIND_ORDER else len(_KIND_ORDER)
LEVEL = np.zeros(len(layout.BOX_NAMES), np.int64)
for _number in range(1, 7):
    LEVEL[layout.BOX_NAMES.index(f"h{_number}")] = _number

MIN_PROSE_WORDS = 12


@njit(nogil=True, cache=True, forceinline=True)
def log(value: int) -> int:
    """Returns a logarithm in quarters of a doubling."""
    if value < 4:
        return value
    bits = 0
    rest = value
    # Halve the value to three bits.
    while rest >= 8:
        rest >>= 1
        bits += 1
    return min(255, 4 * bits + rest)


@njit(nogil=True, cache=True, forceinline=True)
def share(part: int, whole: int) -> int:
    return min(255, 255 * part // whole) if whole > 0 else 0


@njit(nogil=True, cache=True, forceinline=True)
def _is_prose(block: np.ndarray) -> bool:
    """Whether a block is running text: a sentence of a dozen words, most of them not links."""
    long: bool = block[layout.B_WORDS] >= MIN_PROSE_WORDS and block[layout.B_ENDS] > 0
    return long and block[layout.B_LINK_CHARS] * 3 < block[layout.B_CHARS]


(SUM_CHARS, SUM_LINKS, SUM_PROSE, SUM_ROWS) = range(4)
G_COUNT, G_CHARS, G_LINKS, G_PROSE, G_COLUMNS = range(5)


@njit(nogil=True, cache=True)
def branch_off(elements: np.ndarray, count: int, box: int, away: np.ndarray) -> None:
    """Computes how far up from a box each box branches off; 0: it is inside."""
    for element in range(count):
        away[element] = -1
    steps = 0
    # The boxes around the given one branch off at 0, 1, 2, ...
    while True:
        away[box] = steps
        if box == 0:
            break
        box = elements[box, layout.E_PARENT]
        steps += 1
    # A parent comes before its children, so its number is known.
    for element in range(1, count):
        if away[element] < 0:
            away[element] = away[elements[element, layout.E_PARENT]]


@njit(nogil=True, cache=True)
def main_box(elements: np.ndarray, count: int, sums: np.ndarray, blocks: int, away: np.ndarray) -> int:
    """Returns the deepest box that has most of the prose, and computes how far up from it each box branches off."""
    main = 0
    total = sums[SUM_PROSE, blocks]
    # The deepest box with three fifths of the prose.
    for element in range(1, count):
        held = sums[SUM_PROSE, elements[element, layout.E_LAST]] - sums[SUM_PROSE, elements[element, layout.E_FIRST]]
        if held * 5 >= total * 3 and elements[element, layout.E_DEPTH] > elements[main, layout.E_DEPTH]:
            main = element
    branch_off(elements, count, main, away)
    return main


@njit(nogil=True, cache=True)
def _near_title(
    blocks: np.ndarray, count: int, elements: np.ndarray, element_count: int, away: np.ndarray, out: np.ndarray
) -> None:
    """Computes the position of each block relative to the block with the page's title, or else the best heading."""
    best: Any = 0
    found = -1
    # A heading with the title counts more, the higher it is.
    for row in range(count):
        told: Any = np.int64(out[_IN_TITLE, row])
        if told >= 128 and blocks[row, layout.B_WORDS] >= 2:
            level = LEVEL[blocks[row, layout.B_KIND]]
            told += 300 - 20 * level if level else 0
            if told > best:
                best, found = told, row
    if found < 0:
        for row in range(count):
            out[_PAGE_AT + 6, row] = out[_PAGE_AT + 7, row] = 255
        return
    branch_off(elements, element_count, elements[blocks[found, layout.B_ELEMENT], layout.E_PARENT], away)
    # The distance in boxes and in blocks.
    for row in range(count):
        out[_PAGE_AT + 6, row] = min(254, away[blocks[row, layout.B_ELEMENT]])
        out[_PAGE_AT + 7, row] = min(254, max(0, AT_TITLE + row - found))


@njit(nogil=True, cache=True)
def measure(
    blocks: np.ndarray,
    count: int,
    elements: np.ndarray,
    element_count: int,
    texts: np.ndarray,
    data: np.ndarray,
    title: int,
    title_end: int,
    page_bytes: int,
    sums: np.ndarray,
    away: np.ndarray,
    keys: np.ndarray,
    groups: np.ndarray,
    mask: int,
    slots: np.ndarray,
    out: np.ndarray,
) -> None:
    """Fills `out[feature, block]`.

    `sums` has SUM_ROWS rows of `count` + 1, `away` as many places as there are elements and blocks; `keys` and `groups`
    are tables of `mask` + 1 places, a power of two, at least four times `count`; `slots` has TITLE_SLOTS.
    """
    text = view(texts)
    blocks, elements, sums, away = borrow(blocks), borrow(elements), borrow(sums), borrow(away)
    keys, groups, slots, out = borrow(keys), borrow(groups), borrow(slots), borrow(out)
    for field in range(SUM_ROWS):
        sums[field, 0] = 0
    words = 0
    # Sums up to each block, so that a box needs only two of them.
    for row in range(count):
        prose = blocks[row, layout.B_CHARS] if _is_prose(blocks[row]) else 0
        sums[SUM_CHARS, row + 1] = sums[SUM_CHARS, row] + blocks[row, layout.B_CHARS]
        sums[SUM_LINKS, row + 1] = sums[SUM_LINKS, row] + blocks[row, layout.B_LINK_CHARS]
        sums[SUM_PROSE, row + 1] = sums[SUM_PROSE, row] + prose
        words += blocks[row, layout.B_WORDS]
    chars, links, prose_chars = sums[SUM_CHARS, count], sums[SUM_LINKS, count], sums[SUM_PROSE, count]
    main = main_box(elements, element_count, sums, count, away)
    main_prose = sums[SUM_PROSE, elements[main, layout.E_LAST]] - sums[SUM_PROSE, elements[main, layout.E_FIRST]]
    named = title_words(data, title, title_end, slots)

    # Empty the table of groups.
    for slot in range(mask + 1):
        keys[slot] = -1
        for field in range(G_COLUMNS):
            groups[slot, field] = 0
    # Count blocks by the path of their box, and by their text.
    for row in range(count):
        path = np.int64(elements[blocks[row, layout.B_ELEMENT], layout.E_PATH])
        slot = slot_of(keys, path << 1, mask)
        groups[slot, G_COUNT] += 1
        groups[slot, G_CHARS] += blocks[row, layout.B_CHARS]
        groups[slot, G_LINKS] += blocks[row, layout.B_LINK_CHARS]
        groups[slot, G_PROSE] += sums[SUM_PROSE, row + 1] - sums[SUM_PROSE, row]
        code = (
            np.int64(text_hash(text, blocks[row, layout.B_START], blocks[row, layout.B_STOP]) >> np.uint64(2)) << 1 | 1
        )
        slot = slot_of(keys, code, mask)
        groups[slot, G_COUNT] += 1
        away[element_count + row] = slot

    since, chars_since, heading = 255, 0, 255
    # Forward: the features of each block, and what came before it.
    for row in range(count):
        block = blocks[row]
        size, count_words = block[layout.B_CHARS], max(1, block[layout.B_WORDS])
        element = block[layout.B_ELEMENT]
        kind = block[layout.B_KIND]
        out[0, row] = log(size)
        out[1, row] = log(block[layout.B_WORDS])
        out[2, row] = share(block[layout.B_LINK_CHARS], size)
        out[3, row] = log(block[layout.B_LINKS])
        out[4, row] = min(255, 16 * size // count_words)
        out[5, row] = log(block[layout.B_ENDS])
        out[6, row] = share(8 * block[layout.B_ENDS], count_words)
        out[7, row] = share(4 * block[layout.B_COMMAS], count_words)
        out[8, row] = share(block[layout.B_DIGITS], size)
        out[9, row] = share(block[layout.B_UPPER], size)
        out[10, row] = share(block[layout.B_CAPITALS], count_words)
        out[11, row] = share(block[layout.B_SHORT], count_words)
        out[12, row] = share(4 * block[layout.B_SIGNS], count_words)
        out[13, row] = log(block[layout.B_BREAKS])
        out[14, row] = log(block[layout.B_IMAGES])
        out[15, row] = log(block[layout.B_TAGS])
        out[16, row] = share(block[layout.B_STRONG], size)
        out[17, row] = block[layout.B_FIRST]
        out[18, row] = block[layout.B_LAST]
        out[19, row] = _KIND_CODE[kind]
        out[20, row] = LEVEL[kind]
        out[21, row] = block[layout.B_VERBATIM]
        out[22, row] = min(255, block[layout.B_QUOTE])
        out[23, row] = block[layout.B_MARKER] >> layout.DEPTH_BIT & layout.DEPTHS
        out[24, row] = log(groups[away[element_count + row], G_COUNT])
        before = blocks[row - 1, layout.B_HTML] if row else 0
        out[25, row] = log(max(0, block[layout.B_HTML] - before))
        out[26, row] = share(block[layout.B_HTML], page_bytes)
        out[27, row] = share(sums[SUM_CHARS, row], chars)
        out[28, row] = min(255, row)
        out[29, row] = min(255, count - 1 - row)
        group = slot_of(keys, np.int64(elements[element, layout.E_PATH]) << 1, mask)
        out[30, row] = log(groups[group, G_COUNT])
        out[31, row] = share(groups[group, G_CHARS], chars)
        out[32, row] = share(groups[group, G_PROSE], prose_chars)
        out[33, row] = share(groups[group, G_LINKS], groups[group, G_CHARS])
        out[34, row] = 0
        if named and block[layout.B_STOP] - block[layout.B_START] <= 300:
            out[34, row] = in_title(text, block[layout.B_START], block[layout.B_STOP], slots)
        out[35, row] = min(255, elements[element, layout.E_DEPTH])
        is_prose = sums[SUM_PROSE, row + 1] > sums[SUM_PROSE, row]
        out[_PROSE, row] = is_prose
        box = element
        near = block[layout.B_HINTS]
        # The box of the block, and the two around it.
        for level in range(3):
            at = _BOX_AT + 5 * level
            if level == 1:
                near = elements[element, layout.E_HINTS] | elements[box, layout.E_HINTS]
            if level or elements[box, layout.E_LAST] - elements[box, layout.E_FIRST] <= 1:
                box = elements[box, layout.E_PARENT]
            first, last = elements[box, layout.E_FIRST], elements[box, layout.E_LAST]
            held = sums[SUM_CHARS, last] - sums[SUM_CHARS, first]
            out[at, row] = share(held, chars)
            out[at + 1, row] = share(sums[SUM_LINKS, last] - sums[SUM_LINKS, first], held)
            out[at + 2, row] = log(last - first)
            out[at + 3, row] = share(sums[SUM_PROSE, last] - sums[SUM_PROSE, first], prose_chars)
            out[at + 4, row] = log(held // max(1, last - first))
        out[_PAGE_AT, row] = min(255, away[element])
        out[_PAGE_AT + 1, row] = since
        out[_PAGE_AT + 3, row] = log(chars_since)
        out[_PAGE_AT + 5, row] = heading
        since = 0 if is_prose else min(255, since + 1)
        chars_since = 0 if is_prose else chars_since + size
        heading = 0 if LEVEL[kind] else min(255, heading + 1)
        at = _WHOLE_AT
        out[at, row] = log(count)
        out[at + 1, row] = log(chars)
        out[at + 2, row] = share(links, chars)
        out[at + 3, row] = log(prose_chars)
        out[at + 4, row] = share(prose_chars, chars)
        out[at + 5, row] = share(main_prose, prose_chars)
        around, inline = elements[element, layout.E_ALL_HINTS], block[layout.B_HINTS]
        # The nearest place of each hint: the text itself, its boxes, or any box around them.
        for bit in range(_HINT_COUNT):
            out[_HINTS_AT + bit, row] = (
                3 if inline >> bit & 1 else 2 if near >> bit & 1 else 1 if around >> bit & 1 else 0
            )
        for bit in range(_ANCESTRY_COUNT):
            out[_ANCESTRY_AT + bit, row] = elements[element, layout.E_ANCESTRY] >> bit & 1
    _near_title(blocks, count, elements, element_count, away, out)
    since, chars_since = 255, 0
    # Backward: the distance to the next prose.
    for row in range(count - 1, -1, -1):
        out[_PAGE_AT + 2, row] = since
        out[_PAGE_AT + 4, row] = log(chars_since)
        is_prose = out[_PROSE, row] != 0
        since = 0 if is_prose else min(255, since + 1)
        chars_since = 0 if is_prose else chars_since + blocks[row, layout.B_CHARS]
    column = _NEAR_AT
    # Features of the blocks before and after.
    for shift in _SHIFTS:
        # Only some features are copied.
        for source in _NEAR_SOURCES:
            # Where there is no such block, the value is 255.
            for row in range(count):
                other = row + shift
                out[column, row] = out[source, other] if 0 <= other < count else 255
            column += 1
    # Whether the neighbours are in the same box.
    for row in range(count):
        box = elements[blocks[row, layout.B_ELEMENT], layout.E_PARENT]
        # The block before, then the block after.
        for side in range(2):
            other = row - 1 if side == 0 else row + 1
            same = 0
            if 0 <= other < count:
                same = 1 + (elements[blocks[other, layout.B_ELEMENT], layout.E_PARENT] == box)
            out[_SAME_AT + side, row] = same

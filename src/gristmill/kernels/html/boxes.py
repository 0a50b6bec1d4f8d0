"""The open boxes while a page is cut into blocks: what a tag opens and closes, and the block that ends there."""

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.html import block_text, layout
from gristmill.kernels.html.attributes import (
    A_CLASS,
    A_HINTS,
    A_REVERSED,
    A_START,
    A_TYPE,
)
from gristmill.kernels.memory import Bytes
from gristmill.kernels.text.ascii import LF, SP
from gristmill.kernels.text.words import PIECE_LETTERS

MAX_DEPTH = 512
MAX_NUMBER = 500_000
"""The largest number of a list item; an item with a larger or a negative number has none."""
(
    S_TOP,
    S_BLOCKS,
    S_ELEMENTS,
    S_END,
    S_OVER,
    S_LINK,
    S_STRONG,
    S_LINKS,
    S_LINK_CHARS,
    S_STRONG_CHARS,
    S_BREAKS,
    S_IMAGES,
    S_TAGS,
    S_HINTS,
    S_HTML,
    S_ROWS,
    S_CELLS,
    S_VERBATIM,
    S_QUOTES,
    S_LISTS,
    S_TITLE,
    S_TITLE_END,
    S_MARKDOWN,
    S_LINK_FROM,
    S_STRONG_FROM,
    S_LINK_AT,
    S_STRONG_AT,
    S_SLANT_AT,
    S_MONO_AT,
    S_HREF,
    S_HREF_END,
    S_FULL,
    S_MATH,
    S_RUBY,
    S_QUOTED,
    S_SCRIPTS,
    S_SCRIPT_LINKS,
    S_CODE_LINES,
    S_EXPECTED_F1,
    STATES,
) = range(40)
"""The state of the scan. TOP: number of open boxes; END: end of the text so far; OVER: boxes too deep to note; LINK,
STRONG, SLANT, MONO: 1 + the number of boxes that were open where a link or bold, slanted, monospaced text began, or 0;
MARK: the end of the text when its part inside links was last counted; RUBY: a reading is open; QUOTED: open <q>;
SCRIPTS: open <sub> and <sup>; SCRIPT_LINKS: the links before the outermost of them, -1 if it is all that a link has;
MATH: which of the following formulas the page has; CODE_LINES: open <div> in one that is code, and itself;
EXPECTED_F1: that of the text, in thousandths, once it is chosen."""
WITHOUT_TEX, TEX_IN_TEXT = 1, 2

K_KIND, K_ELEMENT, K_ROW, K_CELL, K_NUMBER, K_ITEM, K_FORM, K_STEP, STACK_ROWS = range(9)
"""Rows of the stack: the kind of the open box, its row in the table of elements, its table row and cell, the number of
a list's next item, whether an item has had a block, the form of its number, and what each item of a list adds to it."""
_FORM_LETTERS = np.frombuffer(layout.LIST_FORMS, np.uint8)


@njit(nogil=True, cache=True, forceinline=True)
def flush(state: np.ndarray, tally: np.ndarray, stack: np.ndarray, blocks: np.ndarray, text: Bytes) -> None:
    """Ends the block; a block without a character is dropped."""
    if tally[block_text.T_CHARS] == 0:
        state[S_END] = tally[block_text.T_BEGIN]
        tally[block_text.T_GAP] = state[S_LINKS] = state[S_SCRIPTS] = 0
        return
    block_text.end_word(tally)
    if state[S_LINK]:
        state[S_LINK_CHARS] += tally[block_text.T_CHARS] - state[S_LINK_FROM]
    if state[S_STRONG]:
        state[S_STRONG_CHARS] += tally[block_text.T_CHARS] - state[S_STRONG_FROM]
    begin, end = tally[block_text.T_BEGIN], state[S_END]
    while text[end - 1] <= SP:
        end -= 1
    first = begin
    while text[first] <= SP:  # drop blank lines; keep the indentation of the first other line
        first += 1
        if text[first - 1] == LF:
            begin = first
    top = state[S_TOP] - 1
    if state[S_BLOCKS] < blocks.shape[0]:
        row = state[S_BLOCKS]
        state[S_BLOCKS] = row + 1
        blocks[row, layout.B_START], blocks[row, layout.B_STOP], blocks[row, layout.B_HTML] = (
            begin,
            end,
            state[S_HTML],
        )
        blocks[row, layout.B_KIND], blocks[row, layout.B_ELEMENT] = stack[K_KIND, top], stack[K_ELEMENT, top]
        blocks[row, layout.B_CHARS] = tally[block_text.T_CHARS]
        pieces = (tally[block_text.T_PIECES] + PIECE_LETTERS - 1) // PIECE_LETTERS
        blocks[row, layout.B_WORDS] = tally[block_text.T_WORDS] + (tally[block_text.T_UNITS] + 1 >> 1) + pieces
        blocks[row, layout.B_LINK_CHARS], blocks[row, layout.B_LINKS] = state[S_LINK_CHARS], state[S_LINKS]
        blocks[row, layout.B_ENDS], blocks[row, layout.B_COMMAS] = (
            tally[block_text.T_ENDS],
            tally[block_text.T_COMMAS],
        )
        blocks[row, layout.B_DIGITS], blocks[row, layout.B_UPPER] = (
            tally[block_text.T_DIGITS],
            tally[block_text.T_UPPER],
        )
        blocks[row, layout.B_SHORT], blocks[row, layout.B_SIGNS] = (
            tally[block_text.T_SHORT],
            tally[block_text.T_SIGNS],
        )
        blocks[row, layout.B_BREAKS], blocks[row, layout.B_IMAGES] = state[S_BREAKS], state[S_IMAGES]
        blocks[row, layout.B_TAGS], blocks[row, layout.B_STRONG] = state[S_TAGS], state[S_STRONG_CHARS]
        blocks[row, layout.B_HINTS] = state[S_HINTS]
        blocks[row, layout.B_ROW], blocks[row, layout.B_CELL] = stack[K_ROW, top], stack[K_CELL, top]
        blocks[row, layout.B_QUOTE], blocks[row, layout.B_VERBATIM] = state[S_QUOTES], state[S_VERBATIM] > 0
        blocks[row, layout.B_FIRST], blocks[row, layout.B_LAST] = (
            tally[block_text.T_FIRST],
            tally[block_text.T_LAST],
        )
        blocks[row, layout.B_UNITS], blocks[row, layout.B_CAPITALS] = (
            tally[block_text.T_UNITS],
            tally[block_text.T_CAPITALS],
        )
        marker = 0
        item = top
        while item > 0 and stack[K_KIND, item] != layout.BOX_LI and top - item < 8:
            item -= 1
        if stack[K_KIND, item] == layout.BOX_LI:
            marker = stack[K_FORM, item] << layout.FORM_BIT | min(state[S_LISTS], layout.DEPTHS) << layout.DEPTH_BIT
            marker |= stack[K_NUMBER, item] << 1 | (stack[K_ITEM, item] == 0)
            stack[K_ITEM, item] = 1
        blocks[row, layout.B_MARKER] = marker
        state[S_END] = end + 3  # room for the separator of the cells of a row
    else:
        state[S_FULL] = 1
        state[S_END] = begin
    for field in range(block_text.TALLIES):
        tally[field] = 0
    tally[block_text.T_BEGIN] = state[S_END]
    for field in range(S_LINKS, S_HINTS + 1):
        state[field] = 0
    state[S_LINK_FROM] = state[S_STRONG_FROM] = state[S_RUBY] = state[S_SCRIPTS] = 0
    state[S_LINK_AT] = state[S_STRONG_AT] = state[S_SLANT_AT] = state[S_MONO_AT] = -1


@njit(nogil=True, cache=True, forceinline=True)
def pop_to(state: np.ndarray, stack: np.ndarray, counts: np.ndarray, elements: np.ndarray, height: int) -> None:
    """Closes all boxes at `height` and above."""
    # From the innermost box outward. A box without a block that was the last one gives its place back.
    for place in range(state[S_TOP] - 1, height - 1, -1):
        kind = stack[K_KIND, place]
        counts[kind] -= 1
        element = stack[K_ELEMENT, place]
        if elements[element, layout.E_FIRST] == state[S_BLOCKS] and element == state[S_ELEMENTS] - 1:
            state[S_ELEMENTS] = element
        else:
            elements[element, layout.E_LAST] = state[S_BLOCKS]
        flags = layout.BOX_FLAGS[kind]
        if flags & (layout.LISTS | layout.VERBATIM):
            state[S_LISTS] -= flags & layout.LISTS != 0
            if flags & layout.VERBATIM:
                state[S_VERBATIM] -= 1
                state[S_CODE_LINES] = 0
        elif kind == layout.BOX_BLOCKQUOTE:
            state[S_QUOTES] -= 1
    state[S_TOP] = height
    if state[S_LINK] > height:
        state[S_LINK] = 0
    if state[S_STRONG] > height:
        state[S_STRONG] = 0


@njit(nogil=True, cache=True, forceinline=True)
def push(
    state: np.ndarray,
    tally: np.ndarray,
    stack: np.ndarray,
    counts: np.ndarray,
    elements: np.ndarray,
    noted: np.ndarray,
    kind: int,
) -> None:
    top = state[S_TOP]
    element = state[S_ELEMENTS]
    if top >= MAX_DEPTH or element >= elements.shape[0]:
        state[S_OVER] += 1
        return
    parent = stack[K_ELEMENT, top - 1]
    elements[element, layout.E_PARENT], elements[element, layout.E_KIND] = parent, kind
    elements[element, layout.E_HINTS] = noted[A_HINTS]
    # The class of <body> describes the page: sites write article, news and home there.
    own = 0 if kind == layout.BOX_BODY else noted[A_HINTS]
    elements[element, layout.E_ALL_HINTS] = elements[parent, layout.E_ALL_HINTS] | own
    elements[element, layout.E_ANCESTRY] = elements[parent, layout.E_ANCESTRY] | layout.ANCESTRY_BIT[kind]
    elements[element, layout.E_FIRST] = elements[element, layout.E_LAST] = state[S_BLOCKS]
    elements[element, layout.E_DEPTH], elements[element, layout.E_CLASS] = top, noted[A_CLASS] & 0x7FFFFFFF
    outer = elements[parent, layout.E_PARENT]
    path = np.uint64(kind) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(noted[A_CLASS])
    path = path * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(elements[parent, layout.E_KIND])
    path = path * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(elements[parent, layout.E_CLASS])
    path = path * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(elements[outer, layout.E_KIND])
    path = path * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(elements[outer, layout.E_CLASS])
    elements[element, layout.E_PATH] = np.int64(path >> np.uint64(33))
    state[S_ELEMENTS] = element + 1
    stack[K_KIND, top], stack[K_ELEMENT, top] = kind, element
    stack[K_ROW, top], stack[K_CELL, top] = stack[K_ROW, top - 1], stack[K_CELL, top - 1]
    stack[K_NUMBER, top] = stack[K_ITEM, top] = stack[K_FORM, top] = 0
    flags = layout.BOX_FLAGS[kind]
    if kind == layout.BOX_TR:
        state[S_ROWS] += 1
        stack[K_ROW, top], stack[K_CELL, top] = state[S_ROWS], 0
    elif flags & layout.CELL:
        state[S_CELLS] += 1
        stack[K_CELL, top] = layout.UNCOUNTED + state[S_CELLS] % layout.UNCOUNTED
        if stack[K_KIND, top - 1] == layout.BOX_TR and stack[K_CELL, top - 1] < layout.UNCOUNTED - 1:
            if stack[K_CELL, top - 1] and stack[K_ITEM, top - 1] == state[S_BLOCKS]:
                # The cell before is empty: room for its separator, taken from three of the four bytes of its tag.
                state[S_END] += 3
                tally[block_text.T_BEGIN] = state[S_END]
            stack[K_CELL, top - 1] += 1
            stack[K_ITEM, top - 1] = state[S_BLOCKS]
            stack[K_CELL, top] = stack[K_CELL, top - 1]
    elif kind == layout.BOX_TABLE:
        stack[K_ROW, top] = stack[K_CELL, top] = 0
    elif kind == layout.BOX_OL:
        stack[K_NUMBER, top] = noted[A_START] - 1 if noted[A_START] > 0 else 1
        if noted[A_START] < 0 or (noted[A_REVERSED] and not noted[A_START]):  # the number of items is not known yet
            stack[K_NUMBER, top] = MAX_NUMBER
        for form in range(1, _FORM_LETTERS.size):
            if noted[A_TYPE] == _FORM_LETTERS[form]:
                stack[K_FORM, top] = form
        stack[K_STEP, top] = -1 if noted[A_REVERSED] else 1
    elif kind == layout.BOX_LI:
        # Look for the list of the item, a few boxes up.
        for place in range(top - 1, max(0, top - 8), -1):
            if layout.BOX_FLAGS[stack[K_KIND, place]] & layout.LISTS:
                if stack[K_KIND, place] == layout.BOX_OL:
                    if noted[A_START]:
                        stack[K_NUMBER, place] = noted[A_START] - 1 if noted[A_START] > 0 else MAX_NUMBER
                    if 0 <= stack[K_NUMBER, place] < MAX_NUMBER:
                        stack[K_NUMBER, top] = stack[K_NUMBER, place] + 1
                        stack[K_NUMBER, place] += stack[K_STEP, place]
                    stack[K_FORM, top] = stack[K_FORM, place]
                break
    elif kind == layout.BOX_BLOCKQUOTE:
        state[S_QUOTES] += 1
    state[S_LISTS] += flags & layout.LISTS != 0
    state[S_VERBATIM] += flags & layout.VERBATIM != 0
    counts[kind] += 1
    state[S_TOP] = top + 1


@njit(nogil=True, cache=True, forceinline=True)
def imply(state: np.ndarray, stack: np.ndarray, counts: np.ndarray, elements: np.ndarray, kind: int) -> None:
    """Adds the end tags that a start tag implies."""
    flags = layout.BOX_FLAGS[kind]
    top = state[S_TOP] - 1
    if flags & layout.ENDS_PARAGRAPH and stack[K_KIND, top] == layout.BOX_P:
        pop_to(state, stack, counts, elements, top)
        top -= 1
    if flags & layout.HEADINGS:
        if layout.BOX_FLAGS[stack[K_KIND, top]] & layout.HEADINGS:
            pop_to(state, stack, counts, elements, top)
        return
    if kind == layout.BOX_LI and counts[layout.BOX_LI]:
        place = top
        # Close the item before it, unless a new list or a cell is between.
        while place > 0 and not layout.BOX_FLAGS[stack[K_KIND, place]] & (layout.LISTS | layout.BARRIER):
            if stack[K_KIND, place] == layout.BOX_LI:
                pop_to(state, stack, counts, elements, place)
                return
            place -= 1
    elif kind in (layout.BOX_DT, layout.BOX_DD):
        place = top
        # The same for terms and their definitions.
        while (
            place > 0
            and stack[K_KIND, place] != layout.BOX_DL
            and not layout.BOX_FLAGS[stack[K_KIND, place]] & layout.BARRIER
        ):
            if stack[K_KIND, place] == layout.BOX_DT or stack[K_KIND, place] == layout.BOX_DD:
                pop_to(state, stack, counts, elements, place)
                return
            place -= 1
    elif flags & layout.CELL or kind in (
        layout.BOX_TR,
        layout.BOX_TBODY,
        layout.BOX_THEAD,
        layout.BOX_TFOOT,
    ):
        if not counts[layout.BOX_TABLE]:
            return
        place = top
        found = -1
        # A cell closes cells, a row also closes rows, and a part of a table all of these.
        while place > 0 and stack[K_KIND, place] != layout.BOX_TABLE:
            open_kind = stack[K_KIND, place]
            if open_kind == layout.BOX_TR:
                if flags & layout.CELL:
                    break
                found = place
            elif layout.BOX_FLAGS[open_kind] & layout.CELL:
                found = place
            elif open_kind in (layout.BOX_TBODY, layout.BOX_THEAD, layout.BOX_TFOOT):
                if flags & layout.CELL or kind == layout.BOX_TR:
                    break
                found = place
            place -= 1
        if found > 0:
            pop_to(state, stack, counts, elements, found)


@njit(nogil=True, cache=True, forceinline=True)
def close(state: np.ndarray, stack: np.ndarray, counts: np.ndarray, elements: np.ndarray, kind: int) -> None:
    """Handles the end tag of a box: closes the nearest box of its name; a cell hides the boxes around its table."""
    if counts[kind] == 0:
        return
    if state[S_OVER] > 0:
        state[S_OVER] -= 1
        return
    table_part = kind in (
        layout.BOX_TABLE,
        layout.BOX_TR,
        layout.BOX_TBODY,
        layout.BOX_THEAD,
        layout.BOX_TFOOT,
    )
    heading = layout.BOX_FLAGS[kind] & layout.HEADINGS != 0
    place = state[S_TOP] - 1
    # Look for the box from the innermost one outward.
    while place > 0:
        open_kind = stack[K_KIND, place]
        if open_kind == kind or (heading and layout.BOX_FLAGS[open_kind] & layout.HEADINGS):
            pop_to(state, stack, counts, elements, place)
            return
        if open_kind == layout.BOX_TABLE or (not table_part and layout.BOX_FLAGS[open_kind] & layout.BARRIER):
            return
        place -= 1


@njit(nogil=True, cache=True)
def begin_page(
    state: np.ndarray,
    tally: np.ndarray,
    stack: np.ndarray,
    counts: np.ndarray,
    missing: np.ndarray,
    noted: np.ndarray,
    elements: np.ndarray,
) -> None:
    """Resets the state for a new page: one box is open, the page itself."""
    for field in range(STATES):
        state[field] = 0
    for field in range(noted.size):
        noted[field] = 0
    for field in range(block_text.TALLIES):
        tally[field] = 0
    for kind in range(counts.size):
        counts[kind] = missing[kind] = 0
    for row in range(STACK_ROWS):
        stack[row, 0] = 0
    for field in range(layout.ELEMENT_COLUMNS):
        elements[0, field] = 0
    state[S_TOP] = state[S_ELEMENTS] = 1
    state[S_LINK_AT] = state[S_STRONG_AT] = state[S_SLANT_AT] = state[S_MONO_AT] = -1

"""Joins the cells of a table row into one block, as a reader sees them."""

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.html import layout
from gristmill.kernels.memory import Bytes, borrow, view
from gristmill.kernels.text.ascii import BAR, SP

MAX_CELL_BYTES = 200
"""A row with a longer cell is layout, not data."""


@njit(nogil=True, cache=True, forceinline=True)
def _is_one_line(blocks: np.ndarray, row: int) -> bool:
    return bool(not blocks[row, layout.B_BREAKS] and not blocks[row, layout.B_VERBATIM])


@njit(nogil=True, cache=True)
def _part(text: Bytes, at: int, times: int) -> int:
    """Writes the separator of cells, once and once more for each empty cell; returns the end."""
    # Three bytes for each cell: space, bar, space.
    for _ in range(times):
        text[at] = SP
        text[at + 1] = BAR
        text[at + 2] = SP
        at += 3
    return at


@njit(nogil=True, cache=True)
def join_rows(
    blocks: np.ndarray, count: int, elements: np.ndarray, element_count: int, texts: np.ndarray, moved: np.ndarray
) -> int:
    """Joins the cells of each row into one block if each cell is short; returns the new number of blocks.

    Empty cells have left room for their separators (boxes.py), so the others stay in their columns.
    """
    text = view(texts)
    blocks, elements, moved = borrow(blocks), borrow(elements), borrow(moved)
    read = write = 0
    tried = 0  # rows up to here were checked, and are not data
    # Each turn takes a row, or a block that is not in one.
    while read < count:
        last = read + 1
        if blocks[read, layout.B_ROW] and read >= tried:
            size = blocks[read, layout.B_STOP] - blocks[read, layout.B_START]
            simple = _is_one_line(blocks, read) and size <= MAX_CELL_BYTES
            # Cells of a row are short, or it is not data.
            while last < count and blocks[last, layout.B_ROW] == blocks[read, layout.B_ROW]:
                is_same = blocks[last, layout.B_CELL] == blocks[last - 1, layout.B_CELL]
                size = size + 1 if is_same else 0
                if is_same:  # a heading and its text
                    simple &= (
                        not (
                            layout.BOX_FLAGS[blocks[last, layout.B_KIND]]
                            | layout.BOX_FLAGS[blocks[last - 1, layout.B_KIND]]
                        )
                        & layout.HEADINGS
                    )
                size += blocks[last, layout.B_STOP] - blocks[last, layout.B_START]
                simple &= _is_one_line(blocks, last) and size <= MAX_CELL_BYTES
                last += 1
            if not simple or blocks[read, layout.B_CELL] == blocks[last - 1, layout.B_CELL]:
                tried, last = last, read + 1
        for field in range(blocks.shape[1]):
            blocks[write, field] = blocks[read, field]
        moved[read] = write
        if last > read + 1:
            if blocks[write, layout.B_KIND] == layout.BOX_LI:
                blocks[write, layout.B_MARKER] = 0
            blocks[write, layout.B_KIND] = layout.BOX_TR
            if blocks[read, layout.B_CELL] > 1 and blocks[read, layout.B_CELL] < layout.UNCOUNTED:
                begin = blocks[read, layout.B_START] - 3 * (blocks[read, layout.B_CELL] - 1)
                _part(text, begin, blocks[read, layout.B_CELL] - 1)
                blocks[write, layout.B_START] = begin + 1
            cell = blocks[read, layout.B_CELL]
            # Append each cell, with separators for the empty ones before it.
            for other in range(read + 1, last):
                moved[other] = write
                end = blocks[write, layout.B_STOP]
                if blocks[other, layout.B_CELL] == cell:
                    text[end] = SP
                    end += 1
                else:
                    empty = min(blocks[other, layout.B_CELL] - cell, (blocks[other, layout.B_START] - end) // 3) - 1
                    cell = blocks[other, layout.B_CELL]
                    end = _part(text, end, 1 + max(0, empty))
                size = blocks[other, layout.B_STOP] - blocks[other, layout.B_START]
                for at in range(size):
                    text[end + at] = text[blocks[other, layout.B_START] + at]
                blocks[write, layout.B_STOP] = end + size
                for field in range(layout.B_CHARS, layout.B_HINTS):
                    blocks[write, field] += blocks[other, field]
                blocks[write, layout.B_HINTS] |= blocks[other, layout.B_HINTS]
                blocks[write, layout.B_UNITS] += blocks[other, layout.B_UNITS]
                blocks[write, layout.B_CAPITALS] += blocks[other, layout.B_CAPITALS]
                blocks[write, layout.B_LAST] = blocks[other, layout.B_LAST]
            box = blocks[write, layout.B_ELEMENT]
            while (
                layout.BOX_FLAGS[elements[box, layout.E_KIND]] & layout.CELL == 0 and elements[box, layout.E_DEPTH] > 1
            ):
                box = elements[box, layout.E_PARENT]
            blocks[write, layout.B_ELEMENT] = elements[box, layout.E_PARENT]
        write += 1
        read = last
    moved[count] = write
    if write < count:
        # Boxes name blocks by number, and the numbers have changed.
        for element in range(element_count):
            elements[element, layout.E_FIRST] = moved[elements[element, layout.E_FIRST]]
            elements[element, layout.E_LAST] = moved[elements[element, layout.E_LAST]]
    return write

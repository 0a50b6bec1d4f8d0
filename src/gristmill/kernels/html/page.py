"""Extracts the main text of a page from its bytes: cuts it into blocks, measures and scores them, chooses, writes."""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.html import assemble, boxes
from gristmill.kernels.html.attributes import NOTED
from gristmill.kernels.html.block_text import TALLIES
from gristmill.kernels.html.blocks import cut_page
from gristmill.kernels.html.context import CONTEXT_FEATURES, measure_scores
from gristmill.kernels.html.features import (
    FEATURES,
    G_COLUMNS,
    PROSE,
    SINCE_TITLE,
    SUM_ROWS,
    measure,
)
from gristmill.kernels.html.hashes import TITLE_SLOTS
from gristmill.kernels.html.layout import BLOCK_COLUMNS, BOX_NAMES, ELEMENT_COLUMNS
from gristmill.kernels.html.table_rows import join_rows
from gristmill.kernels.html.trees import score_columns

MAX_BLOCKS = 200_000
"""The most blocks of a page; 3,353 real pages have 110 on average, and at most 12,000."""
_WIDE = 32
_FIRST = len(FEATURES)
COLUMNS = len(FEATURES) + len(CONTEXT_FEATURES)


@njit(nogil=True, cache=True)
def _stride(count: int) -> int:
    return (count + _WIDE - 1) // _WIDE * _WIDE


@njit(nogil=True, cache=True)
def columns_of(flat: np.ndarray, count: int) -> np.ndarray:
    """Returns the columns of a page of `count` blocks, with room for as many as are scored at once."""
    stride = _stride(count)
    return flat[: COLUMNS * stride].reshape((COLUMNS, stride))


@njit(nogil=True, cache=True)
def cut_and_measure(
    data: np.ndarray,
    words: np.ndarray,
    begin: int,
    stop: int,
    markdown: bool,
    small: Any,
    tables: Any,
    texts: np.ndarray,
    flat: np.ndarray,
) -> tuple[int, int]:
    """Cuts a page into blocks and computes the features of the first model; returns the numbers of blocks and elements.

    `flat` has COLUMNS columns of as many rows as there are blocks, rounded up to 32.
    """
    state, tally, stack, counts, missing, noted, slots = small
    blocks, elements, moved, sums, away, keys, groups = tables
    boxes.begin_page(state, tally, stack, counts, missing, noted, elements)
    state[boxes.S_MARKDOWN] = markdown
    cut_page(data, words, begin, stop, state, tally, stack, counts, missing, noted, blocks, elements, texts)
    count = join_rows(blocks, state[boxes.S_BLOCKS], elements, state[boxes.S_ELEMENTS], texts, moved)
    columns = columns_of(flat, count)
    mask = 15
    while mask < 4 * count:
        mask = 2 * mask + 1
    title, title_end = state[boxes.S_TITLE], state[boxes.S_TITLE_END]
    # fmt: off
    measure(
        blocks, count, elements, state[boxes.S_ELEMENTS], texts, data, title, title_end, stop - begin,
        sums, away, keys, groups, mask, slots, columns,
    )
    # fmt: on
    return count, mask


@njit(nogil=True, cache=True)
def tell_scores(count: int, mask: int, scores: np.ndarray, small: Any, tables: Any, flat: np.ndarray) -> None:
    """Computes the additional features of the second model."""
    blocks, elements, _, sums, away, keys, groups = tables
    number = small[0][boxes.S_ELEMENTS]
    columns = columns_of(flat, count)
    measure_scores(scores, blocks, count, elements, number, sums, away, keys, groups, mask, columns, _FIRST)


@njit(nogil=True, cache=True)
def score_page(
    count: int, mask: int, small: Any, tables: Any, flat: np.ndarray, first: Any, second: Any, scores: np.ndarray
) -> None:
    """Writes the score of the second model for each block, based on the first model's scores of all blocks, to `scores`
    (int32).

    It returns no array: Numba loses what it needs for that if a kernel that Python calls is part of another.
    """
    columns = columns_of(flat, count)
    score_columns(first.features, first.thresholds, first.leaves, first.bias, columns, scores)
    tell_scores(count, mask, scores, small, tables, flat)
    score_columns(second.features, second.thresholds, second.leaves, second.bias, columns, scores)


@njit(nogil=True, cache=True)
def decide(
    scores: np.ndarray,
    more: np.ndarray,
    count: int,
    mask: int,
    tables: Any,
    texts: np.ndarray,
    flat: np.ndarray,
    keep: np.ndarray,
) -> int:
    """Marks the blocks that form the text; returns the expected F1 of the choice, in thousandths.

    `more` are scores by which further blocks may be chosen; it may be empty.
    """
    blocks, elements, _, _, _, keys, groups = tables
    promised = assemble.choose(scores, blocks, count, keep)
    if more.size:
        others = np.empty(count, np.uint8)
        assemble.choose(more, blocks, count, others)
        for row in range(count):
            keep[row] |= others[row]
    assemble.close_gaps(blocks, count, elements, keep)
    assemble.keep_formulas(blocks, count, texts, keep)
    assemble.keep_terms(blocks, count, elements, keep)
    columns = columns_of(flat, count)
    assemble.keep_headline(blocks, count, columns[SINCE_TITLE], columns[PROSE], keep)
    assemble.drop_controls(blocks, count, elements, more.size > 0, keep)
    assemble.drop_lone_links(blocks, count, elements, keep)
    assemble.drop_copies(blocks, count, elements, keep, texts, keys, groups, mask)
    return promised


@njit(nogil=True, cache=True)
def main_text(
    data: np.ndarray,
    words: np.ndarray,
    begin: int,
    stop: int,
    markdown: bool,
    small: Any,
    tables: Any,
    texts: np.ndarray,
    flat: np.ndarray,
    first: Any,
    second: Any,
    with_comments: Any,
    comments: bool,
    out: np.ndarray,
) -> int:
    """Writes the main text of `data[begin:stop]` to `out`; returns its end, or -1 for a page with too many blocks.

    The state S_EXPECTED_F1 has what `decide` expects.
    """
    count, mask = cut_and_measure(data, words, begin, stop, markdown, small, tables, texts, flat)
    if small[0][boxes.S_FULL]:
        return -1
    if count == 0:
        return 0
    scores = np.empty(count, np.int32)
    score_page(count, mask, small, tables, flat, first, second, scores)
    keep = np.empty(count, np.uint8)
    more = np.empty(count if comments else 0, np.int32)
    if comments:
        score_page(count, mask, small, tables, flat, first, with_comments, more)
    small[0][boxes.S_EXPECTED_F1] = decide(scores, more, count, mask, tables, texts, flat, keep)
    return assemble.write_text(tables[0], count, tables[1], keep, texts, out, markdown)


class PageBuffers:
    """Buffers for pages of up to `page_bytes`, used again for each page."""

    def __init__(self, page_bytes: int, max_blocks: int = MAX_BLOCKS) -> None:
        self.page_bytes = page_bytes
        blocks = min(page_bytes // 4 + 8, max_blocks)
        elements = min(page_bytes // 3 + 8, 2 * MAX_BLOCKS)
        slots = 16
        while slots <= 4 * blocks:
            slots *= 2
        kinds = len(BOX_NAMES)
        self.small = (
            np.empty(boxes.STATES, np.int64),
            np.empty(TALLIES, np.int64),
            np.empty((boxes.STACK_ROWS, boxes.MAX_DEPTH + 1), np.int64),
            np.empty(kinds, np.int64),
            np.empty(kinds, np.int64),
            np.empty(NOTED, np.int64),
            np.empty(TITLE_SLOTS, np.int64),
        )
        self.tables = (
            np.empty((blocks, BLOCK_COLUMNS), np.int32),
            np.empty((elements, ELEMENT_COLUMNS), np.int32),
            np.empty(blocks + 1, np.int32),
            np.empty((SUM_ROWS, blocks + 1), np.int64),
            np.empty(elements + blocks + 1, np.int64),
            np.empty(slots, np.int64),
            np.empty((slots, G_COLUMNS), np.int64),
        )
        # Bytes of the page pay for bytes that are written, and none pays twice: a character for itself, a reference of
        # 5 bytes and more for 6 per 5, a <br>, <q>, <rt> or line of code with its tag, the signs around a link or
        # formula with its tag and the name of its attribute, the 3 bytes after a block with the tag that ends it. In
        # Markdown, repeated `<b>x` is the worst case: the four signs and the x are 5 bytes for 4.
        self.texts = np.empty(page_bytes * 5 // 4 + 64, np.uint8)
        self.flat = np.empty(COLUMNS * (blocks + _WIDE), np.uint8)
        self.out = np.empty(3 * self.texts.size + assemble.BLOCK_ROOM * blocks, np.uint8)

    def columns(self, count: int) -> np.ndarray:
        """Returns the features of a page of `count` blocks (uint8, a row for each feature), valid until the
        next page.
        """
        stride = -(-count // _WIDE) * _WIDE
        return self.flat[: COLUMNS * stride].reshape(COLUMNS, stride)[:, :count]

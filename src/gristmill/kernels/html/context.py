"""The features of a second model for each block: the first model's scores of it, of its neighbours and of its boxes."""

from decimal import Decimal, localcontext

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.html import features, layout
from gristmill.kernels.html.hashes import slot_of
from gristmill.kernels.memory import borrow

_CONTEXT = [
    "score",
    "before1",
    "before2",
    "before3",
    "before4",
    "next1",
    "next2",
    "next3",
    "next4",
    "box1",
    "box2",
    "box3",
    "alike",
    "window2",
    "window5",
    "window12",
    "ahead",
    "behind",
    "page_best",
    "page_mean",
    "page_content",
    "since_kept",
    "until_kept",
    "away",
    "after_heading",
    "rank",
]
CONTEXT_FEATURES = [f"score_{name}" for name in _CONTEXT]
"""The additional features of the second model: the first model's scores of the block, of its neighbours and of its
boxes."""


def _chances() -> np.ndarray:
    """Returns the probability, in thousandths, of a score of one byte, which is 128 + 32 times a logit."""
    with localcontext() as context:
        context.prec = 30
        return np.array(
            [round(Decimal(1000) / (1 + (Decimal(128 - byte) / 32).exp())) for byte in range(256)], np.int64
        )


CHANCES = _chances()
_CHANCE_SUM = 3


@njit(nogil=True, cache=True)
def measure_scores(
    scores: np.ndarray,
    blocks: np.ndarray,
    count: int,
    elements: np.ndarray,
    element_count: int,
    sums: np.ndarray,
    away: np.ndarray,
    keys: np.ndarray,
    groups: np.ndarray,
    mask: int,
    out: np.ndarray,
    first_column: int,
) -> None:
    """Fills the columns of CONTEXT_FEATURES, from `first_column` on, after `measure`, whose tables it uses."""
    scores, blocks, elements, sums = borrow(scores), borrow(blocks), borrow(elements), borrow(sums)
    away, keys, groups, out = borrow(away), borrow(keys), borrow(groups), borrow(out)
    column = first_column
    best = 0
    for slot in range(mask + 1):
        groups[slot, features.G_LINKS] = 0
    # Expected content replaces prose.
    sums[features.SUM_PROSE, 0] = 0
    # Turn scores into expected content: for each block, as sums, and for each path.
    for row in range(count):
        byte = min(255, max(0, (scores[row] >> 5) + 128))
        out[column, row] = byte
        best = max(best, byte)
        held = CHANCES[byte] * blocks[row, layout.B_CHARS]
        sums[features.SUM_PROSE, row + 1] = sums[features.SUM_PROSE, row] + held
        groups[
            slot_of(keys, np.int64(elements[blocks[row, layout.B_ELEMENT], layout.E_PATH]) << 1, mask),
            features.G_LINKS,
        ] += held
    total = sums[features.SUM_PROSE, count]
    chars = sums[features.SUM_CHARS, count]
    features.main_box(elements, element_count, sums, count, away)
    # The scores of four blocks before and after each block.
    for shift in range(1, 5):
        # Columns of blocks that are not there stay 0.
        for row in range(count):
            out[column + shift, row] = out[column, row - shift] if row >= shift else 0
            out[column + 4 + shift, row] = out[column, row + shift] if row + shift < count else 0
    since = 255
    heading = 255
    # Forward: what is around a block, and what came before it.
    for row in range(count):
        element = blocks[row, layout.B_ELEMENT]
        box = element
        # The share of content in the box of the block, and in the two around it.
        for level in range(3):
            if level or elements[box, layout.E_LAST] - elements[box, layout.E_FIRST] <= 1:
                box = elements[box, layout.E_PARENT]
            first, last = elements[box, layout.E_FIRST], elements[box, layout.E_LAST]
            held = sums[features.SUM_PROSE, last] - sums[features.SUM_PROSE, first]
            out[column + 9 + level, row] = features.share(
                held // 1000, sums[features.SUM_CHARS, last] - sums[features.SUM_CHARS, first]
            )
        group = slot_of(keys, np.int64(elements[element, layout.E_PATH]) << 1, mask)
        out[column + 12, row] = features.share(groups[group, features.G_LINKS] // 1000, groups[group, features.G_CHARS])
        place = column + 13
        # The same within a few blocks on either side.
        for reach in (2, 5, 12):
            first, last = max(0, row - reach), min(count, row + reach + 1)
            held = sums[features.SUM_PROSE, last] - sums[features.SUM_PROSE, first]
            out[place, row] = features.share(
                held // 1000, sums[features.SUM_CHARS, last] - sums[features.SUM_CHARS, first]
            )
            place += 1
        out[column + 16, row] = features.share(total - sums[features.SUM_PROSE, row + 1], total)
        out[column + 17, row] = features.share(sums[features.SUM_PROSE, row], total)
        out[column + 18, row] = best
        out[column + 19, row] = features.share(total // 1000, chars)
        out[column + 20, row] = features.log(total // 1000)
        out[column + 21, row] = since
        since = 0 if out[column, row] >= 128 else min(255, since + 1)
        out[column + 23, row] = min(255, away[element])
        out[column + 24, row] = heading
        if features.LEVEL[blocks[row, layout.B_KIND]]:
            heading = out[column, row]
        out[column + 25, row] = max(0, 128 + (out[column, row] - best) // 2)
    since = 255
    # Backward: the distance to the next block that is probably content.
    for row in range(count - 1, -1, -1):
        out[column + 22, row] = since
        since = 0 if out[column, row] >= 128 else min(255, since + 1)

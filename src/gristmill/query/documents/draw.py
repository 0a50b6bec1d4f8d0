"""The order in which documents are drawn: the same everywhere, at random, and the same in every run.

The rank of a document is a hash of the content hash of its part and of its row, so it is known without reading
anything, and a part that stays in the next version keeps its ranks. `inspect`, `audit` and the explorer show the
documents of the lowest ranks among those that they select.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from gristmill.engine.schedule.corpus_view import DocumentPart
from gristmill.shardformat.splitmix import ALL, GOLDEN, mix_all

Ranks = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]

FIRST = 64
"""Documents that a draw looks at first, for each that it needs up to this many: enough if most match."""
GROWTH = 16
"""How many times as many it looks at next."""


def ranks(document: DocumentPart) -> Ranks:
    """The rank of each row of a part: SplitMix64, seeded by the hash of the part."""
    seed, steps = int(document.part.hash[:16], 16), np.arange(document.part.rows, dtype=np.uint64)
    return mix_all(np.uint64(seed) + steps * np.uint64(GOLDEN))


def draw_rows(
    documents: Sequence[DocumentPart], matching: Callable[[DocumentPart, Rows], Sequence[int]], skip: int, number: int
) -> list[tuple[DocumentPart, Rows]]:
    """The matching rows of the lowest ranks, after the first `skip`: for each part its rows, ascending.

    It looks at few rows first, and at all others once it would open most parts anyway, so the work is at most twice
    that of reading everything once, and usually that of a few parts.
    """
    total, needed = sum(document.part.rows for document in documents), skip + number
    looks_at, low = max(FIRST, 4 * needed), 0
    found: list[tuple[int, int, int]] = []
    while low <= ALL and len(found) < needed:
        is_rest = looks_at >= total or (low > 0 and looks_at > len(documents))
        high = ALL if is_rest else low + ALL * looks_at // total
        for index, document in enumerate(documents):
            of_part = ranks(document)
            rows = np.flatnonzero((of_part >= np.uint64(low)) & (of_part <= np.uint64(high)))
            if len(rows):
                found += ((int(of_part[row]), index, row) for row in matching(document, rows))
            if len(found) > 4 * needed:
                found = sorted(found)[:needed]
        low, looks_at = high + 1, looks_at * GROWTH
    chosen: dict[int, list[int]] = {}
    for _, index, row in sorted(found)[skip:needed]:
        chosen.setdefault(index, []).append(row)
    return [(documents[index], np.sort(chosen[index])) for index in sorted(chosen)]

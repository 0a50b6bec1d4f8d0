"""The support that a short question needs nearby to flag a document: its answer or its choices."""

from collections.abc import Iterator, Sequence, Set
from typing import Any

import numpy as np

from gristmill.kernels.decontaminate.support import Support
from gristmill.stages.decontaminate.matching.passage import pieces_of
from gristmill.stages.decontaminate.matching.units import QUESTION, SUPPORT, Unit
from gristmill.stages.decontaminate.suite.form import Item

Array = np.ndarray[Any, Any]

NEAR_WORDS = 60
"""The most words between a question and its support, not counting the words of its choices."""
MOST = 0.8
"""The share of an item's words that counts as the item."""


def support_of(items: Sequence[Item], units: Sequence[Unit], with_more: Set[int]) -> Support:
    """A lower bound, for each unit, on the different words of its support that must follow it; the kernel drops hits
    below it. Questions of the items `with_more`, and units that may flag without support, are never dropped.
    """
    least, reach = np.zeros(len(units), np.int64), np.zeros(len(units), np.int64)
    bags: list[Array] = []
    for number, unit in enumerate(units):
        bags.append(np.zeros(0, np.uint64))
        if unit.piece == QUESTION and unit.needs == SUPPORT and unit.item not in with_more:
            item = items[unit.item]
            answer, *others = (piece.words for piece in pieces_of(item.answer, *(item.choices or (item.answer,))))
            bags[-1] = np.unique(np.concatenate([answer, *others]))
            reach[number] = NEAR_WORDS + 2 * sum(map(len, others))
            least[number] = min(_bounds(item, answer, others), default=len(bags[-1]) + 1)
    starts = np.cumsum([0, *map(len, bags)]).astype(np.int64)
    return Support(least, reach, starts, np.concatenate([*bags, np.zeros(0, np.uint64)]))


def _bounds(item: Item, answer: Array, others: Sequence[Array]) -> Iterator[int]:
    """The least number of different words that each kind of support takes."""
    if len(answer):
        yield len(np.unique(answer))
    if not item.choices:
        return
    named = sorted(len(np.unique(one)) for one in others if len(one))
    if len(named) > 1:
        yield named[1]  # two of the choices
    together = np.concatenate(others)
    missing = int((1 - MOST) * len(together) + 1e-6)
    yield max(len(np.unique(together)) - missing, 1)

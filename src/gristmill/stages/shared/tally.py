"""Counts verdicts by rule, in total and by source, snapshot or language; the engine adds them up over parts.

Every value of the column is counted, however rare: a list of the most frequent ones would differ from part to part and
could not be added up.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

LANGUAGES = {"language": "language.label"}
"""Columns that have another name in `count_by`."""
NOTHING = "(none)"
"""The key for null."""

Counts = dict[str, Any]
_Ints = npt.NDArray[np.int64]


class Tally:
    """The verdicts of a batch: which rules each row failed, and how large it is."""

    def __init__(self, reasons: Sequence[str], failed: pa.Array, text_bytes: pa.Array) -> None:
        self.reasons = list(reasons)
        self.sizes = text_bytes.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        lengths = failed.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        rows = np.repeat(np.arange(len(failed)), lengths)
        values = failed.flatten()
        rules = pc.index_in(values, value_set=pa.array(self.reasons, pa.string()))
        rules = rules.to_numpy(zero_copy_only=False).astype(np.int64)
        starts = np.zeros(len(rows), np.bool_)
        starts[(np.cumsum(lengths) - lengths)[lengths > 0]] = True
        self.pairs = {
            "all": (rows, rules),
            "first": (rows[starts], rules[starts]),
            "alone": (rows[lengths[rows] == 1], rules[lengths[rows] == 1]),
        }
        """Rows and the indices of their rules."""

    def judged(self) -> Counts:
        return {"documents": len(self.sizes), "text_bytes": int(self.sizes.sum())}

    def rules(self) -> Counts:
        """For each rule that some row fails: all, first, alone; each in documents and bytes of text."""
        return self._grouped(np.zeros(len(self.sizes), np.int64), 1)[0]

    def by(self, column: pa.Array) -> Counts:
        """The same for each value of a column, with the number of judged documents."""
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        names = [*encoded.dictionary.to_pylist(), NOTHING]
        indices = encoded.indices.fill_null(len(names) - 1)
        group: _Ints = indices.to_numpy(zero_copy_only=False).astype(np.int64)
        documents = np.bincount(group, minlength=len(names))
        sizes = _sum(group, self.sizes, len(names))
        rules = self._grouped(group, len(names))
        return {
            name: {
                "judged": {"documents": int(documents[place]), "text_bytes": int(sizes[place])},
                "rules": rules[place],
            }
            for place, name in enumerate(names)
            if documents[place]
        }

    def _grouped(self, group: _Ints, groups: int) -> list[Counts]:
        found: list[Counts] = [{} for _ in range(groups)]
        size = groups * len(self.reasons)
        for name, (rows, rules) in self.pairs.items():
            cells = group[rows] * len(self.reasons) + rules
            documents = np.bincount(cells, minlength=size)
            text_bytes = _sum(cells, self.sizes[rows], size)
            for cell in np.flatnonzero(documents):
                place, rule = divmod(int(cell), len(self.reasons))
                counts = {"documents": int(documents[cell]), "text_bytes": int(text_bytes[cell])}
                found[place].setdefault(self.reasons[rule], {})[name] = counts
        return found


def _sum(cells: _Ints, sizes: _Ints, size: int) -> _Ints:
    """Sums of sizes by cell. Sums of integers below 2^53 in float64 are exact."""
    return np.bincount(cells, weights=sizes, minlength=size).astype(np.int64)

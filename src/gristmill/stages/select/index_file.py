"""A file of sorted keys that locate documents (shared/arrow_file.py): mapped into memory, and searched by bisection.

    counts   the number of entries of each kind, in the order of KINDS
    keys     keys of each kind in turn, sorted
    parts    names of parts as in the records of an exchange, sorted
    numbers  for each key: the number of its part among these
    rows     for each key: its row in that part

Entries with the same key are sorted by part and row, so equal entries give equal bytes.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from gristmill.kernels.hash.radix import sort_order
from gristmill.stages.shared.arrow_file import ArrowFile, write_arrays

Array = np.ndarray[Any, Any]

KINDS = ("doc_id", "url", "domain", "content", "sketch")
"""What keys are made of; the kind of an entry is its position here."""


class IndexMatches(NamedTuple):
    """The locations of documents that may match a search."""

    part: Array
    """The names of their parts (uint64)."""
    row: Array


def write_file(path: Path, kind: Array, key: Array, part: Array, row: Array) -> None:
    """Write a file from entries in any order: their kinds, keys, parts and rows."""
    order = sort_order(kind.astype(np.uint64), key, part, row.astype(np.uint64))
    parts, numbers = np.unique(part, return_inverse=True)
    arrays = {
        "counts": np.bincount(kind, minlength=len(KINDS)),
        "keys": key[order],
        "parts": parts,
        "numbers": numbers[order].astype(np.uint32),
        "rows": row[order].astype(np.uint32),
    }
    write_arrays(path, {}, arrays)


class IndexFile:
    """A file of keys that reads only the pages that a search needs."""

    def __init__(self, data: pa.Buffer) -> None:
        """`data` is already verified by its hash."""
        file = ArrowFile(data)
        self._ends = np.concatenate([[0], np.cumsum(file.array("counts"))])
        self._keys, self._parts, self._numbers, self._rows = map(file.array, ("keys", "parts", "numbers", "rows"))

    def search(self, kind: str, first: int, last: int) -> IndexMatches:
        """The entries of a kind with a key from `first` to `last`, inclusive."""
        place = KINDS.index(kind)
        begin = int(self._ends[place])
        keys = self._keys[begin : int(self._ends[place + 1])]
        low = begin + int(np.searchsorted(keys, np.uint64(first), "left"))
        high = begin + int(np.searchsorted(keys, np.uint64(last), "right"))
        return IndexMatches(self._parts[self._numbers[low:high]], self._rows[low:high].astype(np.int64))

"""A file of sorted keys that locate documents: mapped into memory, and searched by bisection.

    8 bytes     FORMAT
    uint64      number of entries of each kind, in the order of KINDS
    uint64      number of parts
    uint64      keys of each kind in turn, sorted
    uint64      parts, sorted, named as in the records of an exchange
    uint32      for each key: the number of its part among these
    uint32      for each key: its row in that part

All numbers are little-endian. Entries with the same key are sorted by part and row, so equal entries give equal bytes.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from gristmill.kernels.hash.radix import sort_order

Array = np.ndarray[Any, Any]

FORMAT = b"gristix1"
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
    counts = np.bincount(kind, minlength=len(KINDS)).astype("<u8")
    with path.open("wb") as file:
        file.write(FORMAT)
        for column in (counts, np.array([len(parts)], "<u8"), key[order].astype("<u8"), parts.astype("<u8")):
            file.write(column.tobytes())
        for column in (numbers[order], row[order]):
            file.write(column.astype("<u4").tobytes())


class IndexFile:
    """A file of keys that reads only the pages that a search needs."""

    def __init__(self, data: pa.Buffer) -> None:
        """`data` is already verified by its hash."""
        view = memoryview(data)
        if bytes(view[: len(FORMAT)]) != FORMAT:
            raise ValueError(f"not an index of this version: it begins with {bytes(view[: len(FORMAT)])!r}")
        self._at, self._view = len(FORMAT), view
        self._ends = np.concatenate([[0], np.cumsum(self._take("<u8", len(KINDS)))]).astype(np.int64)
        parts = int(self._take("<u8", 1)[0])
        entries = int(self._ends[-1])
        self._keys, self._parts = self._take("<u8", entries), self._take("<u8", parts)
        self._numbers, self._rows = self._take("<u4", entries), self._take("<u4", entries)

    def _take(self, kind: str, count: int) -> Array:
        found = np.frombuffer(self._view, kind, count, self._at)
        self._at += found.nbytes
        return found

    def search(self, kind: str, first: int, last: int) -> IndexMatches:
        """The entries of a kind with a key from `first` to `last`, inclusive."""
        place = KINDS.index(kind)
        begin = int(self._ends[place])
        keys = self._keys[begin : int(self._ends[place + 1])]
        low = begin + int(np.searchsorted(keys, np.uint64(first), "left"))
        high = begin + int(np.searchsorted(keys, np.uint64(last), "right"))
        return IndexMatches(self._parts[self._numbers[low:high]], self._rows[low:high].astype(np.int64))

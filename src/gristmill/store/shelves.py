"""Which parts an object store has, by listing a folder where that is cheaper than a lookup of each part.

One page of a listing has 1,000 parts and costs as much as a dozen lookups. So lookups are counted for every folder, and
another page is read after each dozen: the total never exceeds twice the cost of the cheaper way. A part that the
listing did not show is looked up individually.
"""

import threading
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator

PAGE_PAYS = 13
"""Lookups that cost as much as a page: 1,000 lookups cost 0.0004 USD, 1,000 pages 0.005 (`objects/requests.py`)."""

Page = list[tuple[str, int]]


class Shelves:
    """Folders of parts, as far as they were listed; needs 16 bytes per part."""

    def __init__(self, pages: Callable[[str], Iterator[Page]]) -> None:
        """`pages` lists (name, size) of a folder, sorted by name."""
        self._pages = pages
        self._shelves: dict[str, _Shelf] = {}
        self._lock = threading.Lock()

    def has(self, name: str, size: int) -> bool:
        """Whether a listing showed a part of this size; False means unknown."""
        return self._of(name).has(name, size)

    def expect(self, name: str) -> None:
        """Announce a lookup, so that a batch of lookups can start with a listing."""
        self._of(name).expected += 1

    def forget(self, name: str) -> None:
        """Forget the listing of the folder, because a file of it is removed."""
        with self._lock:
            self._shelves.pop(name.rpartition("/")[0], None)

    def _of(self, name: str) -> "_Shelf":
        folder = name.rpartition("/")[0]
        with self._lock:
            if folder not in self._shelves:
                self._shelves[folder] = _Shelf(self._pages(folder))
            return self._shelves[folder]


class _Shelf:
    def __init__(self, pages: Iterator[Page]) -> None:
        self._lookups = 0
        self.expected = 0
        self._pages: Iterator[Page] | None = pages
        self._read = 0
        self._numbers = array("Q")
        """The first 64 bits of the hashes, ascending; `_sizes` has their sizes."""
        self._sizes = array("q")
        self._lock = threading.Lock()

    def has(self, name: str, size: int) -> bool:
        number = _number(name)
        with self._lock:
            self._lookups += 1
            while self._pages is not None and max(self._lookups, self.expected) >= PAGE_PAYS * (self._read + 1):
                page = next(self._pages, None)
                self._read += 1
                if page is None:
                    self._pages = None
                for one, bytes_there in page or ():
                    self._numbers.append(_number(one))
                    self._sizes.append(bytes_there)
            at = bisect_left(self._numbers, number)
            # Two parts share their first 64 bits with a chance of one in 2^64, and then their sizes still differ.
            return at < len(self._numbers) and self._numbers[at] == number and self._sizes[at] == size


def _number(name: str) -> int:
    return int(name.rpartition("/")[2][:16], 16)

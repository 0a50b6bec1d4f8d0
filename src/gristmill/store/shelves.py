"""Which parts an object store has, by listing where that is cheaper than asking for each.

A page of a listing tells of 1,000 parts and costs as much as a dozen questions. So of every folder of parts the
questions are counted, and for each dozen another page is read: whatever is asked, it costs twice the cheaper way at
most. What a listing did not show is asked for by itself.
"""

import threading
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator

PAGE_PAYS = 13
"""Questions that cost as much as a page: a thousand of them 0.0004 USD against 0.005 (`objects/requests.py`)."""

Page = list[tuple[str, int]]


class Shelves:
    """Folders of parts, as far as they were listed: 16 bytes a part."""

    def __init__(self, pages: Callable[[str], Iterator[Page]]) -> None:
        """`pages`: (name, size) of what lies in a folder, in the order of the names."""
        self._pages = pages
        self._shelves: dict[str, _Shelf] = {}
        self._lock = threading.Lock()

    def has(self, name: str, size: int) -> bool:
        """Whether a listing showed a part of this size; False says nothing."""
        return self._of(name).has(name, size)

    def expect(self, name: str) -> None:
        """It will be asked for: whoever asks for many at once need not ask a dozen times first."""
        self._of(name).expected += 1

    def forget(self, name: str) -> None:
        """Something of its folder goes away."""
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
        """The first 64 bits of the hashes, rising, and the sizes."""
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
            # A part and its verdicts may begin alike only by a chance of one in 2^64; the size tells them apart, too.
            return at < len(self._numbers) and self._numbers[at] == number and self._sizes[at] == size


def _number(name: str) -> int:
    return int(name.rpartition("/")[2][:16], 16)

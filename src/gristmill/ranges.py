"""Ranges of a file as one file: the selected bytes, concatenated. Nearby ranges are fetched together."""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any

import numpy as np

from gristmill.objects.reader import SeekableFile

SPAN_BYTES = 4 << 20
"""The most bytes that one request fetches."""
GAP_BYTES = 256 << 10
"""Ranges with at most this many bytes between them are fetched together: reading that much costs less than a request.
"""


def pack_ranges(ranges: Iterable[tuple[int, int]]) -> bytes:
    return np.array(sorted(ranges), np.int64).reshape(-1, 2).tobytes()


def unpack_ranges(data: bytes) -> list[tuple[int, int]]:
    """(start, stop) of each range, in order."""
    return [(start, stop) for start, stop in np.frombuffer(data, np.int64).reshape(-1, 2).tolist()]


def merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges in order, each once; those that overlap are joined."""
    found: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if found and start < found[-1][1]:
            found[-1] = found[-1][0], max(stop, found[-1][1])
        elif not found or (start, stop) != found[-1]:
            found.append((start, stop))
    return found


class RangesFile(SeekableFile):
    """Reads the ranges of a file; `fetch` returns the bytes from a start to a stop."""

    def __init__(self, ranges: bytes, fetch: Callable[[int, int], bytes], close: Callable[[], None]) -> None:
        self._ranges = [one for one in unpack_ranges(ranges) if one[0] < one[1]]
        self._starts = [0, *accumulate(stop - start for start, stop in self._ranges)]
        super().__init__(self._starts[-1])
        self._fetch, self._close = fetch, close
        self._span = (0, b"")
        """The offset of the bytes that were fetched last, and the bytes."""

    def readinto(self, target: Any) -> int:
        if self._at >= self._size:
            return 0
        view = memoryview(target).cast("B")
        number = bisect_right(self._starts, self._at) - 1
        offset = self._ranges[number][0] + self._at - self._starts[number]
        base, held = self._span
        if not base <= offset < base + len(held):
            base, held = self._span = offset, self._fetch(offset, self._span_end(number, offset))
        stop = min(len(view), self._ranges[number][1] - offset)
        found = held[offset - base : offset - base + stop]
        view[: len(found)] = found
        self._at += len(found)
        return len(found)

    def _span_end(self, number: int, offset: int) -> int:
        end = self._ranges[number][1]
        for start, stop in self._ranges[number + 1 :]:
            if start - end > GAP_BYTES or stop - offset > SPAN_BYTES:
                break
            end = stop
        return min(end, offset + SPAN_BYTES)

    def forget(self) -> None:
        """Drop the fetched bytes, because they were wrong."""
        self._span = (0, b"")

    def close(self) -> None:
        self._close()
        super().close()

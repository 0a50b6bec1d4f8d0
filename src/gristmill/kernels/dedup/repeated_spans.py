"""Finds spans of texts that are, byte for byte, in an earlier text too.

Byte i of a text is repeated if it is in a window of N bytes that equals some window of an earlier text. The answer is
exact, as hashes only say where to look. It takes one pass and a table entry for every N / 4 bytes of text, where a
suffix array takes 8 bytes for each.

The pass computes a rolling hash of stretches of L = N - w + 1 bytes; every window has w of them. The stretch with the
least hash is the window's anchor (winnowing: Schleimer, Wilkerson, Aiken 2003, *Local Algorithms for Document
Fingerprinting*), and `known_windows` finds windows by their anchors. After a match, the search continues where the
match ends.
"""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.dedup import known_windows
from gristmill.kernels.hash.splitmix import GOLDEN, mix
from gristmill.kernels.memory import Bytes, Uint64s, borrow, view

Array = np.ndarray[Any, Any]

_BASE = 0x5851F42D4C957F2D
_MIX = np.uint64(0x9FB21C651E98DF25)
_HALF = np.uint64(32)
_AT_ONCE = 4096
_COUNT, _ENTRIES, _NUMBER, _AT, _FILLED, _ORIGIN, _KNOWN, _LOW, _BEFORE, _LEAST_AT = range(10)
"""Fields of the state from which `_find` continues: spans found, entries of the table, the text (in the order), and its
variables there."""


_VALUES = np.asarray(mix.py_func(np.arange(1, 257, dtype=np.uint64) * GOLDEN))  # type: ignore[arg-type]
"""A number for each byte, by SplitMix64."""


@njit(nogil=True, cache=True)
def _hash_on(
    text: Bytes,
    rolled: np.uint64,
    first: int,
    stop: int,
    length: int,
    into: Uint64s,
    out_of: Uint64s,
    values: Array,
    width: int,
) -> np.uint64:
    """Hashes the stretches of `length` bytes that begin at first..stop - 1, and writes them after the `width` hashes
    before them.

    This is a separate loop: with the choice of anchors in it, it ran at a third of the speed.
    """
    base = np.uint64(_BASE)
    # Roll the hash: one byte comes in, one goes out.
    for at in range(first, stop):
        came, went = text[at + length - 1], text[at - 1]
        rolled = rolled * base + (into[came] - out_of[went])
        values[np.uint64(at - first + width)] = (rolled ^ (rolled >> _HALF)) * _MIX
    return rolled


@njit(nogil=True, cache=True)
def _find(
    data: Array,
    offsets: Array,
    order: Array,
    size: int,
    width: int,
    within: bool,
    byte_values: Array,
    leaving: Array,
    table: Array,
    stack: Array,
    spans: Array,
    values: Array,
    state: Array,
    marks: Array,
) -> bool:
    """Writes spans (row, start, stop). Returns False if the space for spans or the table is full; with more space, it
    continues. `state` (int64) and `marks` (uint64) say where; zeros at first.
    """
    text, into, out_of = view(data), view(byte_values), view(leaving)
    length = size - width + 1
    windows, search = (
        known_windows.Windows(borrow(offsets), size, length, within),
        known_windows.WindowSearch(borrow(table), borrow(stack), borrow(spans)),
    )
    hashes = view(values)
    count, entries, started = state[_COUNT], state[_ENTRIES], state[_NUMBER]
    # Texts in their order, so the best one keeps its bytes.
    for number in range(started, len(order)):
        row = order[number]
        begin, end = offsets[row], offsets[row + 1]
        if end - begin < size:
            continue
        last = end - length
        if number == started and state[_AT]:
            at, filled, origin, known = state[_AT], state[_FILLED], state[_ORIGIN], state[_KNOWN]
            low, before, least_at = state[_LOW], state[_BEFORE], state[_LEAST_AT]
            rolled, least, hash_before = marks[0], marks[1], marks[2]
        else:
            rolled = np.uint64(0)
            for place in range(begin, begin + length):
                rolled = rolled * np.uint64(_BASE) + into[text[place]]
            least, least_at = (rolled ^ (rolled >> _HALF)) * _MIX, begin
            values[width - 1] = least
            filled = at = begin + 1
            origin = at - width  # the position of values[0]
            known = low = begin
            before, hash_before = begin, np.uint64(0)
        # Each turn is one anchor: the least hash among `width` positions, which stays until it leaves the window or a
        # smaller one comes in.
        while True:
            stop = min(filled, least_at + width)
            while at < stop and hashes[at - origin] > least:
                at += 1
            if at == filled and filled <= last:
                for place in range(width):
                    values[place] = values[filled - width + place - origin]
                origin = filled - width
                filled = min(last + 1, filled + len(values) - width)
                rolled = _hash_on(text, rolled, at, filled, length, into, out_of, borrow(values), width)
                continue
            # The windows that began at low..at - width have the anchor least_at; the next one has another, or is not a
            # window. If two consecutive anchors are equal, the text is usually periodic (a line of dashes: 1). Windows
            # in it equal those one period before; if none of those is in an earlier text, neither are these. Without
            # this, each byte of such a stretch is an anchor that is looked up, at 5 MB/s.
            first = max(low, known - size + 1)
            if first <= at - width and least == hash_before and not within:
                period = least_at - before
                if first - period >= begin and _unmarked(spans, count, row, first - period + size):
                    known = max(known, first + known_windows.same_ahead(text, first - period, first, end - first))
                    first = max(first, known - size + 1)
            if first <= at - width:
                if _is_full(spans, count, width) or (entries + width) * 10 > len(table) * 7:
                    state[_COUNT], state[_ENTRIES], state[_NUMBER] = count, entries, number
                    state[_AT], state[_FILLED], state[_ORIGIN], state[_KNOWN] = at, filled, origin, known
                    state[_LOW], state[_BEFORE], state[_LEAST_AT] = low, before, least_at
                    marks[0], marks[1], marks[2] = rolled, least, hash_before
                    return False
                anchor = known_windows.Anchor(row, least_at, least)
                count, added, reached = known_windows.look_up(text, windows, anchor, first, at - width, search, count)
                entries += added
                known = max(known, reached)
            if at > last:
                break
            low = max(begin, at - width + 1)
            before, hash_before = least_at, least
            if at < least_at + width:
                least, least_at = hashes[at - origin], at
            else:
                least = hashes[low - origin]
                # The old anchor left: find the least hash of the window again, the last one of equals.
                for place in range(low, at + 1):
                    value = hashes[place - origin]
                    if value <= least:
                        least, least_at = value, place
            at += 1
    state[_COUNT] = count
    return True


@njit(nogil=True, cache=True)
def _unmarked(spans: Array, count: int, row: int, stop: int) -> bool:
    """Whether no visited window of the row that ends at `stop` or later is repeated."""
    return not count or spans[count - 1, 0] != row or spans[count - 1, 2] < stop


@njit(nogil=True, cache=True)
def _is_full(spans: Array, count: int, width: int) -> bool:
    return len(spans) - count < width + 2


def window_width(size: int) -> int:
    """Returns the number of stretches from which a window of `size` bytes chooses its anchor.

    More of them mean fewer entries (0.4 bytes of table per byte of text at a quarter of 500, 0.2 at a half) and a
    faster scan (128 and 158 MB/s), and more walks where short stretches are repeated.
    """
    return max(1, min(size // 2, known_windows.MOST_CONTEXT))


def repeated_spans(
    data: Array, offsets: Array, order: Array, size: int, within: bool = False, width: int | None = None
) -> tuple[Array, int]:
    """Returns the repeated bytes of the texts `data[offsets[i] : offsets[i + 1]]`, and the bytes of the table.

    `order` says which texts are compared, the best first. The spans are rows of (text, start, stop), start and stop in
    `data`, in the order of the texts and increasing in each; they do not touch, and none is shorter than `size` bytes.
    """
    width = window_width(size) if width is None else width
    data, offsets, order = _fixed(data, np.uint8), _fixed(offsets, np.int64), _fixed(order, np.int64)
    leaving = _VALUES * np.uint64(pow(_BASE, size - width + 1, 1 << 64))
    texts = int((offsets[order + 1] - offsets[order]).sum())
    table = known_windows.new_table(2 * texts // (width + 1) + 4 * width)
    stack, spans = known_windows.new_stack(width), np.empty((4 * width + 64, 3), np.int64)
    values = np.zeros(width + max(width, _AT_ONCE), np.uint64)
    state, marks = np.zeros(_LEAST_AT + 1, np.int64), np.zeros(3, np.uint64)
    # Each turn continues with twice the space for the buffers that were full.
    while not _find(
        data, offsets, order, size, width, within, _VALUES, leaving, table, stack, spans, values, state, marks
    ):
        if _is_full(spans, state[_COUNT], width):
            spans = np.concatenate([spans, np.empty_like(spans)])
        else:
            table = known_windows.grown(table)
    return spans[: state[_COUNT]].copy(), int(table.nbytes)


def _fixed(array: Array, kind: type) -> Array:
    """Returns a read-only view, for which kernels are compiled: Numba compiles again for writable arrays."""
    view: Array = np.ascontiguousarray(array, kind).view()
    view.setflags(write=False)
    return view

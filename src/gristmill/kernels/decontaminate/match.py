"""Where a document contains text of eval items: seeds, runs of equal words, and alignments with few edits.

A seed of a unit (`units`) that is found in a text is extended, word by word, to the *run* of equal words around it.

    run        at least `ngram` words, or the whole unit
    alignment  if the run is shorter and the unit has `allowed` edits: the whole unit with at most that many edits
               (words inserted, deleted or replaced), next to the seed

Work is bounded: a text has at most a thousand runs of a unit (one repeated word has one at every place), and the runs
and alignments of one text may each look at 64 words or cells per word of the text, plus a million. Texts that reach a
bound are counted.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.decontaminate import units as layout
from gristmill.kernels.decontaminate.units import Units
from gristmill.kernels.dedup.shingles import word_at
from gristmill.kernels.memory import Uint64s, borrow, tail, view

Array = np.ndarray[Any, Any]

FIELDS = 8
ROW, UNIT, IS_RUN, UNIT_FROM, UNIT_TO, TEXT_FROM, TEXT_TO, EDITS = range(FIELDS)
"""Columns of a hit; positions count words."""

_CELLS_PER_WORD = 64
_CELLS = 1_000_000
RUNS = 1000
"""The most runs of one unit in one text."""
_RUN_COST = 16
"""The cost of a run, in words, beyond the words that it has."""
_REACH = 2
"""Words that an alignment may be shifted beyond its edits."""

_SEEN = np.dtype([(name, np.int64) for name in ("row", "diagonal", "end", "near", "near_row", "runs_row", "runs")])
"""What `match` remembers of a unit: row, diagonal and end of the last run; diagonal and row of the last alignment; the
row whose runs are counted, and their number."""


class MatchScratch(NamedTuple):
    """What `match` works in; `make_scratch` allocates it."""

    seen: Array
    """One record of `_SEEN` for each unit."""
    rows: npt.NDArray[np.int64]
    """Rows of the table of an alignment: cost and start, the old ones and the new ones."""


class TextWords(NamedTuple):
    """The words of one text."""

    sums: Uint64s
    """Rolled sums, see `shingles.sums_of`."""
    size: int
    row: int
    """The number of the text."""


class UnitWords(NamedTuple):
    """The words of one unit."""

    number: int
    words: Uint64s
    size: int


@njit(nogil=True, cache=True)
def _align(text: TextWords, unit: UnitWords, diagonal: int, allowed: int, rows: Array) -> tuple[int, int, int]:
    """Returns the edits of the best alignment of a whole unit near a diagonal, its begin and its end in the text.

    Word k of the unit is compared with words near word k + diagonal of the text. Of equal alignments the first one is
    taken. More edits than `allowed` mean that there is no alignment.
    """
    reach = allowed + _REACH
    width = 2 * reach + 1
    far = unit.size + 1
    cost, start, new_cost, new_start = rows[0], rows[1], rows[2], rows[3]
    # Before the first word of the unit, an alignment may begin at each place of the text at no cost.
    for c in range(width):
        start[c] = diagonal - reach + c
        cost[c] = 0 if 0 <= start[c] <= text.size else far
    # Edit distance in a band around the diagonal: each turn computes the row of one word of the unit.
    for k in range(unit.size):
        wanted = unit.words[k]
        least = far
        # A cell is the cheapest of: keep or replace a word, skip one of the text, skip one of the unit.
        for c in range(width):
            place = diagonal + k - reach + c  # the word of the text that is compared with word k
            best = far
            begun = 0
            if 0 <= place < text.size:
                best = cost[c] + (0 if word_at(text.sums, place) == wanted else 1)
                begun = start[c]
                if c > 0 and new_cost[c - 1] + 1 < best:
                    best, begun = new_cost[c - 1] + 1, new_start[c - 1]
            if c + 1 < width and cost[c + 1] + 1 < best and place + 1 >= 0 and place < text.size:
                best, begun = cost[c + 1] + 1, start[c + 1]
            new_cost[c], new_start[c] = best, begun
            least = min(least, best)
        if least > allowed:
            return far, 0, 0
        cost, new_cost = new_cost, cost
        start, new_start = new_start, start
    best, place = far, 0
    # The first of the cheapest ends.
    for c in range(width):
        if cost[c] < best:
            best, place = cost[c], c
    return best, start[place], diagonal + unit.size - reach + place


@njit(nogil=True, cache=True)
def _put(hits: Array, found: int, values: tuple[int, int, int, int, int, int, int, int]) -> Array:
    if found == len(hits):
        grown = np.empty((2 * len(hits), FIELDS), np.int64)
        grown[:found] = hits
        hits = grown
    for k in range(FIELDS):
        hits[found, k] = values[k]
    return hits


@njit(nogil=True, cache=True)
def make_scratch(units: Units) -> MatchScratch:
    """Allocates the scratch memory of `match`."""
    most = 0
    for unit in range(len(units.allowed)):
        most = max(most, units.allowed[unit])
    seen = np.empty(max(len(units.ngram), 1), _SEEN)
    for unit in range(len(seen)):
        seen[unit].row = seen[unit].near_row = seen[unit].runs_row = -1
    return MatchScratch(seen, np.zeros((4, 2 * (most + _REACH) + 4), np.int64))


@njit(nogil=True, cache=True)
def match(
    sums: Array, count: int, row: int, leads: Array, units: Units, scratch: MatchScratch, hits: Array, found: int
) -> tuple[Array, int, bool]:
    """Adds the hits of one text, whose words have the rolled sums `sums`, to the hits found so far.

    `leads` is the result of `follow`; `row` increases from call to call. Returns the hits, their number, and whether
    the bound on work was reached.
    """
    text = TextWords(view(sums), count, row)
    leads, seen, rows = borrow(leads), borrow(scratch.seen), borrow(scratch.rows)
    postings, starts, all_words = borrow(units.postings), borrow(units.starts), view(units.words)
    ngram, allowed = borrow(units.ngram), borrow(units.allowed)
    length = units.seed_words
    cells = steps = _CELLS + _CELLS_PER_WORD * count
    is_bounded = False
    # Each turn of the inner loop takes one posting of a seed: a word `at_word` of a unit that is at word `at` here.
    for lead in range(len(leads)):
        at, posting = leads[lead, 0], leads[lead, 1]
        # The postings of a seed are consecutive; the last one has a flag.
        while posting >= 0:
            head = postings[posting]
            posting = -1 if head & layout.LAST else posting + 1
            number, at_word = (
                int(np.int64(head & layout.UNIT_BITS)),
                int(np.int64(head >> layout.AT_WORD & layout.WORD_BITS)),
            )
            unit = UnitWords(number, tail(all_words, starts[number]), starts[number + 1] - starts[number])
            if head & layout.GOES_ON:
                # A run that is longer than the seed has an equal word on either side. A run with edits on both sides
                # is left to the other seeds of its unit, except for the seeds at its ends.
                behind = at_word + length
                goes_on = (
                    behind < unit.size and at + length < count and word_at(text.sums, at + length) == unit.words[behind]
                )
                if not goes_on and not (at_word and at and word_at(text.sums, at - 1) == unit.words[at_word - 1]):
                    continue
            memory = seen[number]
            if steps <= 0 or (memory.runs_row == row and memory.runs >= RUNS):
                is_bounded = True
                continue
            diagonal = at - at_word
            low, high = _run(text, unit, at, at_word, length, seen)
            if low == high:
                continue
            steps -= high - low + _RUN_COST
            if high - low >= ngram[number] or high - low == unit.size:
                hits = _put(hits, found, (row, number, 1, low, high, low + diagonal, high + diagonal, 0))
                found += 1
                memory.runs = memory.runs + 1 if memory.runs_row == row else 1
                memory.runs_row = row
            edits = allowed[number]
            if edits < 0 or high - low == unit.size or cells <= 0:
                continue
            if memory.near_row == row and abs(memory.near - diagonal) <= _REACH:
                continue  # an alignment here was tried
            memory.near, memory.near_row = diagonal, row
            made, start, stop = _align(text, unit, diagonal, edits, rows)
            cells -= unit.size * (2 * edits + 5)
            if made <= edits:
                hits = _put(hits, found, (row, number, 0, 0, unit.size, start, stop, made))
                found += 1
    return hits, found, is_bounded or cells <= 0


@njit(nogil=True, cache=True)
def _run(text: TextWords, unit: UnitWords, at: int, at_word: int, length: int, seen: Array) -> tuple[int, int]:
    """Returns first and last word (exclusive) of the run of a unit around a seed; 0, 0 if it was found before."""
    memory = seen[unit.number]
    diagonal = at - at_word
    if memory.row == text.row and memory.diagonal == diagonal and at < memory.end:
        return 0, 0
    low, high = at_word, at_word
    while high < unit.size and high + diagonal < text.size and word_at(text.sums, high + diagonal) == unit.words[high]:
        high += 1
    if high - at_word < length:
        return 0, 0  # another seed with the same hash
    while low > 0 and low + diagonal > 0 and word_at(text.sums, low + diagonal - 1) == unit.words[low - 1]:
        low -= 1
    memory.row, memory.diagonal, memory.end = text.row, diagonal, high + diagonal
    return low, high

"""Where a document has what eval items say: seeds, runs of equal words, and alignments with few edits.

Items are *units*, lists of words (64-bit hashes). Of each unit some short windows, the *seeds*, are in a hash table,
and before it stands a filter of a few hundred kilobytes, in two halves: a document costs one look into the first for
each of its words, a second look for one in thirty, and almost all of them end there. A seed that is found is extended,
word by word, to the *run* of equal words around it. Seeds lie so close that a run of `ngram` words holds one, whatever
its place: no such run is missed.

    run        at least `ngram` words, or the whole unit
    alignment  where a run is shorter and the unit has `allowed` edits: the whole unit with no more edits than that
               (words put in, left out or exchanged), next to the seed

Work is bounded: a text has a thousand runs of a unit at most (one word repeated has one at every place), and runs and
alignments of one text may each look at 64 words or cells for every word of it, and at a million besides. Texts that
reach a bound are counted.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.dedup.shingles import ROLL
from gristmill.kernels.memory import borrow

Array = np.ndarray[Any, Any]

FIELDS = 8
ROW, UNIT, IS_RUN, UNIT_FROM, UNIT_TO, TEXT_FROM, TEXT_TO, EDITS = range(FIELDS)
"""Columns of a hit; places count words."""

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
LENGTH = np.uint64(0xC0AC29B7C97C50DD)
_ONE = np.uint64(1)
UPPER = np.uint64(0xFFFFFFFF00000000)
LOWER = np.uint64(0xFFFFFFFF)
_SIX_BITS = np.uint64(63)
_CELLS_PER_WORD = 64
_CELLS = 1_000_000
RUNS = 1000
"""Of one unit in one text."""
_RUN_COST = 16
"""Of a run, in words, beside the words that it has."""
LAST, GOES_ON, IS_PART = (np.uint64(1 << bit) for bit in (63, 62, 61))
UNIT_BITS, WORD_BITS, AT_WORD = LOWER, np.uint64((1 << 27) - 1), np.uint64(32)
"""Of the first number of a posting."""
FIVE_BITS = np.uint64(31)
AT_COUNT, AT_MISSES = np.uint64(55), np.uint64(59)
"""Of the third number of a posting: how many words behind the seed are in it, eleven at most, and how many of all may
be missing."""
AROUND = 12
"""Words from the start of a seed, on either side, that are looked at before an alignment is tried."""


class Units(NamedTuple):
    """What is looked for; made by `make_units`."""

    seed_words: int
    """Words of a seed."""
    gate: npt.NDArray[np.uint64]
    """One bit for each seed of one word, and for each mark; none for longer seeds."""
    filter: npt.NDArray[np.uint64]
    """Two halves of equal size: three bits of one number of each for every seed."""
    slots: npt.NDArray[np.uint64]
    """Hash table of seeds, open addressing: the upper half of one, and 1 + the place of its first posting; 0: free."""
    postings: npt.NDArray[np.uint64]
    """Those of a seed together, three numbers each: see `pack_postings`."""
    starts: npt.NDArray[np.int64]
    """Unit u has the words starts[u] to starts[u + 1]."""
    words: npt.NDArray[np.uint64]
    ngram: npt.NDArray[np.int64]
    """Of each unit: words of a run that counts."""
    allowed: npt.NDArray[np.int64]
    """Of each unit: edits of an alignment; -1: none is looked for."""


@njit(nogil=True, cache=True)
def _seed(words: Array, at: int, length: int) -> np.uint64:
    total = np.uint64(0)
    for k in range(length):
        total = total * ROLL + words[at + k]
    return total + np.uint64(length) * LENGTH


@njit(nogil=True, cache=True)
def three_bits(seed: np.uint64) -> np.uint64:
    """Of a number of the filter, those of a seed."""
    one, two, three = seed & _SIX_BITS, seed >> np.uint64(6) & _SIX_BITS, seed >> np.uint64(12) & _SIX_BITS
    return _ONE << one | _ONE << two | _ONE << three


@njit(nogil=True, cache=True)
def seeds_of(words: Array, at: Array, length: int) -> Array:
    """The hash of each window of words."""
    found = np.empty(len(at), np.uint64)
    for k in range(len(at)):
        found[k] = _seed(words, at[k], length)
    return found


@njit(nogil=True, cache=True)
def choose_seeds(starts: Array, counts: Array, width: int, steps: Array) -> tuple[Array, Array]:
    """Units and words where seeds of `width` words begin; `counts` says of every word how often all units have it.

    No two seeds of a unit that follow each other are more than its step apart, and the first lies within the first
    step. Among the windows in the later half of a step the one is taken whose rarest word is the rarest, of equal ones
    the first.
    """
    most = 0
    for unit in range(len(starts) - 1):
        most += max(starts[unit + 1] - starts[unit] - width + 1, 0)
    of_unit, at_word = np.empty(most, np.int64), np.empty(most, np.int64)
    found = 0
    for unit in range(len(starts) - 1):
        begin, last = starts[unit], starts[unit + 1] - starts[unit] - width
        low = 0
        while low <= last and (low == 0 or low + steps[unit] - 1 <= last):
            best, best_count = low, np.int64(1) << 62
            half = 0 if steps[unit] > last else steps[unit] // 2
            for at in range(min(low + half, last), min(low + steps[unit] - 1, last) + 1):
                count = counts[begin + at]
                for k in range(1, width):
                    count = min(count, counts[begin + at + k])
                if count < best_count:
                    best, best_count = at, count
            of_unit[found], at_word[found] = unit, best
            found += 1
            low = best + 1
    return of_unit[:found].copy(), at_word[:found].copy()


@njit(nogil=True, cache=True)
def fill_table(sorted_seeds: Array, filter_: Array, slots: Array) -> None:
    """Puts seeds, sorted as their postings are, into filter and table."""
    mask = len(slots) - 1
    shift = np.uint64(64 - table_bits(len(slots)))
    half = len(filter_) // 2
    narrow = np.uint64(64 - table_bits(half))
    for at in range(len(sorted_seeds)):
        seed = sorted_seeds[at]
        if at and seed == sorted_seeds[at - 1]:
            continue
        spread = seed * GOLDEN
        filter_[np.int64(seed >> narrow)] |= three_bits(seed)
        filter_[half + np.int64(spread >> narrow)] |= three_bits(spread)
        place = np.int64(spread >> shift)
        while slots[place]:
            place = (place + 1) & mask
        slots[place] = seed & UPPER | np.uint64(at + 1)


@njit(nogil=True, cache=True)
def pack_postings(
    of_unit: Array, at_word: Array, length: int, starts: Array, words: Array, ngram: Array, allowed: Array
) -> Array:
    """Postings as three numbers that lie together, so that most are passed over without a look at their unit.

    The first: unit, word of it where the seed begins, flags (the last of its seed; whether a word beside the seed has
    to be equal; whether there is more to the unit than the seed). The second: five bits of each word before the seed,
    the nearest in the lowest; the third: the same of those behind it, their number, and how many of all may be missing
    where a run of `ngram` words or an alignment (`_is_near`) goes through the seed.

    `at_word` of the last posting of a seed is -1 - the word.
    """
    packed = np.zeros((len(of_unit), 3), np.uint64)
    for posting in range(len(of_unit)):
        unit, at = of_unit[posting], at_word[posting]
        head = np.uint64(unit) | (LAST if at < 0 else np.uint64(0))
        at = at if at >= 0 else -1 - at
        begin, size = starts[unit], starts[unit + 1] - starts[unit]
        needed = min(ngram[unit], size)
        if needed > length:
            is_inside = at > 0 and at + length < size
            head |= IS_PART | (GOES_ON if is_inside or allowed[unit] < 0 else np.uint64(0))
        packed[posting, 0] = head | np.uint64(at) << AT_WORD
        before, behind = min(at, AROUND), min(max(size - at, 0), AROUND) - length
        for k in range(before):
            packed[posting, 1] |= (words[begin + at - 1 - k] & FIVE_BITS) << np.uint64(5 * k)
        for k in range(behind):
            packed[posting, 2] |= (words[begin + at + length + k] & FIVE_BITS) << np.uint64(5 * k)
        misses = before + behind - min(needed, AROUND) + length
        if allowed[unit] >= 0:
            misses = max(misses, 2 * (before + length + behind) // 5)
        packed[posting, 2] |= np.uint64(behind) << AT_COUNT | np.uint64(max(misses, 0)) << AT_MISSES
    return packed


@njit(nogil=True, cache=True)
def fill_gate(seeds: Array, gate: Array) -> None:
    """Sets the bits of seeds, of which the upper half is enough."""
    shift = np.uint64(58 - table_bits(len(gate)))
    for seed in seeds:
        place = seed >> shift
        gate[place >> np.uint64(6)] |= _ONE << (place & _SIX_BITS)


def unpack_postings(packed: Array) -> tuple[Array, Array]:
    """Units and words, as `pack_postings` takes them."""
    head = packed[:, 0]
    at_word = (head >> AT_WORD & WORD_BITS).astype(np.int64)
    return (head & UNIT_BITS).astype(np.int64), np.where(head & LAST, -1 - at_word, at_word)


@njit(nogil=True, cache=True)
def table_bits(size: int) -> int:
    """Of the places of a table."""
    bits = 0
    while 1 << bits < size:
        bits += 1
    return bits


@njit(nogil=True, cache=True)
def _word(sums: Array, at: int) -> np.uint64:
    return np.uint64(sums[at + 1] - sums[at] * ROLL)


@njit(nogil=True, cache=True)
def _is_near(sums: Array, count: int, words: Array, begin: int, size: int, at: int, diagonal: int) -> bool:
    """Whether three of five words around a place are in the text, there or one word further on either side."""
    low, high = max(0, at - AROUND), min(size, at + AROUND)
    misses = 2 * (high - low) // 5
    for k in range(low, high):
        wanted = words[begin + k]
        for place in range(max(0, k + diagonal - 1), min(count, k + diagonal + 2)):
            if _word(sums, place) == wanted:
                break
        else:
            misses -= 1
            if misses < 0:
                return False
    return True


@njit(nogil=True, cache=True)
def _align(
    sums: Array, count: int, words: Array, begin: int, size: int, diagonal: int, allowed: int, rows: Array
) -> tuple[int, int, int]:
    """Edits (more than `allowed`: too many), and the stretch of the text, of the best alignment of a whole unit whose
    word k lies within some places of word k + diagonal of the text. Of equal ones the first.
    """
    reach = allowed + 2
    width = 2 * reach + 1
    far = size + 1
    cost, start, new_cost, new_start = rows[0], rows[1], rows[2], rows[3]
    for c in range(width):
        start[c] = diagonal - reach + c
        cost[c] = 0 if 0 <= start[c] <= count else far
    for k in range(size):
        wanted = words[begin + k]
        least = far
        for c in range(width):
            place = diagonal + k - reach + c  # of the word of the text that unit word k is put beside
            best = far
            begun = 0
            if 0 <= place < count:
                best = cost[c] + (0 if _word(sums, place) == wanted else 1)
                begun = start[c]
                if c > 0 and new_cost[c - 1] + 1 < best:
                    best, begun = new_cost[c - 1] + 1, new_start[c - 1]
            if c + 1 < width and cost[c + 1] + 1 < best and place + 1 >= 0 and place < count:
                best, begun = cost[c + 1] + 1, start[c + 1]
            new_cost[c], new_start[c] = best, begun
            least = min(least, best)
        if least > allowed:
            return far, 0, 0
        cost, new_cost = new_cost, cost
        start, new_start = new_start, start
    best, place = far, 0
    for c in range(width):
        if cost[c] < best:
            best, place = cost[c], c
    return best, start[place], diagonal + size - reach + place


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
def make_scratch(units: Units) -> tuple[Array, Array]:
    """What `match` remembers of each unit, and rows for alignments."""
    most = 0
    for unit in range(len(units.allowed)):
        most = max(most, units.allowed[unit])
    # Row, diagonal and end of the last run; diagonal and row of the last alignment; row and number of runs.
    return np.full((max(len(units.ngram), 1), 7), -1, np.int64), np.zeros((4, 2 * most + 8), np.int64)


@njit(nogil=True, cache=True)
def match(
    sums: Array,
    count: int,
    row: int,
    length: int,
    leads: Array,
    units: Units,
    seen: Array,
    rows: Array,
    hits: Array,
    found: int,
) -> tuple[Array, int, bool]:
    """Adds the hits of one text, whose words have the rolled sums `sums`, to those found so far.

    `leads`: what `follow` found. `seen` and `rows` are of `make_scratch`; `row` rises from call to call.
    Returns hits, their number, and whether the bound on work was reached.
    """
    sums, leads, seen, rows = borrow(sums), borrow(leads), borrow(seen), borrow(rows)
    postings, starts, words = borrow(units.postings), borrow(units.starts), borrow(units.words)
    ngram, allowed = borrow(units.ngram), borrow(units.allowed)
    cells = steps = _CELLS + _CELLS_PER_WORD * count
    is_bounded = False
    for lead in range(len(leads)):
        at, posting = leads[lead, 0], leads[lead, 1]
        while posting >= 0:
            head = postings[posting, 0]
            posting = -1 if head & LAST else posting + 1
            unit, at_word = int(np.int64(head & UNIT_BITS)), int(np.int64(head >> AT_WORD & WORD_BITS))
            begin, end = starts[unit], starts[unit + 1]
            if head & GOES_ON:
                # A run that is longer than the seed has an equal word on either side. One with edits on both sides is
                # left to other seeds of its unit, but for those at its ends.
                behind = begin + at_word + length
                goes_on = behind < end and at + length < count and _word(sums, at + length) == words[behind]
                if not goes_on and not (at_word and at and _word(sums, at - 1) == words[begin + at_word - 1]):
                    continue
            if steps <= 0 or (seen[unit, 5] == row and seen[unit, 6] >= RUNS):
                is_bounded = True
                continue
            size, diagonal = end - begin, at - at_word
            low, high = _run(sums, count, row, at, length, unit, at_word, words, begin, size, seen)
            if low == high:
                continue
            steps -= high - low + _RUN_COST
            if high - low >= ngram[unit] or high - low == size:
                hits = _put(hits, found, (row, unit, 1, low, high, low + diagonal, high + diagonal, 0))
                found += 1
                seen[unit, 6] = seen[unit, 6] + 1 if seen[unit, 5] == row else 1
                seen[unit, 5] = row
            edits = allowed[unit]
            if edits < 0 or high - low == size or cells <= 0:
                continue
            cells -= AROUND
            if not _is_new(sums, count, row, unit, at_word, diagonal, words, begin, size, seen):
                continue
            made, start, stop = _align(sums, count, words, begin, size, diagonal, edits, rows)
            cells -= size * (2 * edits + 5)
            if made <= edits:
                hits = _put(hits, found, (row, unit, 0, 0, size, start, stop, made))
                found += 1
    return hits, found, is_bounded or cells <= 0


@njit(nogil=True, cache=True)
def _run(
    sums: Array,
    count: int,
    row: int,
    at: int,
    length: int,
    unit: int,
    at_word: int,
    words: Array,
    begin: int,
    size: int,
    seen: Array,
) -> tuple[int, int]:
    """The words of a unit that are equal, on both sides of a seed of it; none where they were seen before."""
    diagonal = at - at_word
    if seen[unit, 0] == row and seen[unit, 1] == diagonal and at < seen[unit, 2]:
        return 0, 0
    low, high = at_word, at_word
    while high < size and high + diagonal < count and _word(sums, high + diagonal) == words[begin + high]:
        high += 1
    if high - at_word < length:
        return 0, 0  # another seed with the same hash
    while low > 0 and low + diagonal > 0 and _word(sums, low + diagonal - 1) == words[begin + low - 1]:
        low -= 1
    seen[unit, 0], seen[unit, 1], seen[unit, 2] = row, diagonal, high + diagonal
    return low, high


@njit(nogil=True, cache=True)
def _is_new(
    sums: Array,
    count: int,
    row: int,
    unit: int,
    at_word: int,
    diagonal: int,
    words: Array,
    begin: int,
    size: int,
    seen: Array,
) -> bool:
    """Whether an alignment is likely, and none was tried close by."""
    if seen[unit, 4] == row and abs(seen[unit, 3] - diagonal) <= 2:
        return False
    if not _is_near(sums, count, words, begin, size, at_word, diagonal):
        return False
    seen[unit, 3], seen[unit, 4] = diagonal, row
    return True

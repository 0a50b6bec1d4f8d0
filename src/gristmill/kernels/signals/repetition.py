"""Repetition inside one document: interning, duplicate lines and paragraphs, duplicate and most frequent n-grams.

A table with open addressing has pairs of words: key, and generation << 32 | number. Slots of an older generation are
empty, so nothing is cleared between documents. A table starts small for each use and grows with the distinct entries,
so short documents stay in cache and one huge repetitive document stays in memory.

n-grams are numbered level by level: an n-gram is (number of its first n - 1 tokens, number of its last token), which is
exact, and only a position where both (n - 1)-grams inside occur twice can have an n-gram that does. In prose a
twentieth of the positions reach n = 5, so all 2..10-grams together cost about two table lookups per token.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.signals.columns import DUP_5_GRAM_CHARS, TOP_2_GRAM_CHARS

MAX_NGRAM = 10
FIRST_SLOTS = 1 << 15  # 512 KB of table: fits into the second-level cache
_MUL = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_64 = np.uint64(64)


class TokenNumbers(NamedTuple):
    """The tokens of a document."""

    ids: npt.NDArray[np.int32]
    """The number of each token."""
    tokens: int
    chars: npt.NDArray[np.int32]
    occurrences: npt.NDArray[np.int32]
    """By token number, like `chars`."""


class GramScratch(NamedTuple):
    """Scratch memory for n-grams, with room for all tokens."""

    places: npt.NDArray[np.int32]
    numbers: npt.NDArray[np.int32]
    times: npt.NDArray[np.int32]
    keys: npt.NDArray[np.uint64]


@njit(nogil=True, cache=True)
def slot_bits(expected: int) -> int:
    """Returns the slots as a power of two: twice the expected number, within 256 and FIRST_SLOTS."""
    bits = 8
    while (1 << bits) < 2 * expected and (1 << bits) < FIRST_SLOTS:
        bits += 1
    return bits


@njit(nogil=True, cache=True, forceinline=True)
def intern(table: npt.NDArray[np.uint64], bits: int, generation: int, key: np.uint64, fresh: int) -> int | np.int64:
    """Returns the number of `key` in this generation; an unknown key gets the number `fresh`."""
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    slot = (key * _MUL) >> (_64 - np.uint64(bits))
    current = np.uint64(generation)
    # Open addressing: an entry of an older generation counts as free.
    while True:
        held = table[np.uint64(2) * slot + np.uint64(1)]
        if held >> _HALF != current:
            table[np.uint64(2) * slot] = key
            table[np.uint64(2) * slot + np.uint64(1)] = current << _HALF | np.uint64(fresh)
            return fresh
        if table[np.uint64(2) * slot] == key:
            return np.int64(held & _LOW)
        slot = (slot + np.uint64(1)) & mask


@njit(nogil=True, cache=True)
def fill(table: npt.NDArray[np.uint64], bits: int, generation: int, keys: npt.NDArray[np.uint64], count: int) -> None:
    """Puts keys[:count], which are distinct, into an empty generation, numbered by their index."""
    for number in range(count):
        intern(table, bits, generation, keys[number], number)


@njit(nogil=True, cache=True)
def new_table(
    table: npt.NDArray[np.uint64],
    bits: int,
    clock: npt.NDArray[np.int64],
    keys: npt.NDArray[np.uint64],
    count: int,
) -> npt.NDArray[np.uint64]:
    """Returns a table with 2 ** bits slots of a new generation, clock[0], that contains keys[:count]."""
    if len(table) < 2 << bits:
        table = np.zeros(2 << bits, np.uint64)
    clock[0] += 1
    fill(table, bits, clock[0], keys, count)
    return table


@njit(nogil=True, cache=True)
def _number_some(
    table: npt.NDArray[np.uint64],
    bits: int,
    generation: int,
    keys: npt.NDArray[np.uint64],
    numbers: npt.NDArray[np.int32],
    at: int,
    count: int,
    distinct: int,
) -> tuple[int, int]:
    """Numbers keys from `at` on until the table is half full; returns where it stopped, and the number of distinct
    keys.
    """
    limit = 1 << (bits - 1)
    # Number key by key.
    while at < count and distinct < limit:
        key = keys[at]
        number = intern(table, bits, generation, key, distinct)
        numbers[at] = number
        keys[distinct] = key  # distinct <= at: the entry there has been read
        distinct += number == distinct
        at += 1
    return at, distinct


@njit(nogil=True, cache=True)
def number_keys(
    table: npt.NDArray[np.uint64],
    clock: npt.NDArray[np.int64],
    keys: npt.NDArray[np.uint64],
    numbers: npt.NDArray[np.int32],
    count: int,
) -> tuple[npt.NDArray[np.uint64], int]:
    """Numbers keys[:count] by first appearance; returns the table and the number of distinct keys, which are moved to
    the front of `keys`.
    """
    bits = slot_bits(count)
    table = new_table(table, bits, clock, keys, 0)
    at, distinct = _number_some(table, bits, clock[0], keys, numbers, 0, count, 0)
    # Double the table twice and go on where it was half full.
    while at < count:
        bits += 2
        table = new_table(table, bits, clock, keys, distinct)
        at, distinct = _number_some(table, bits, clock[0], keys, numbers, at, count, distinct)
    return table, distinct


@njit(nogil=True, cache=True)
def repeated_chars(numbers: npt.NDArray[np.int32], chars: npt.NDArray[np.int32], count: int) -> int:
    """Counts the characters of the items whose number came before."""
    fresh = 0
    total = 0
    # A number that is not the next new one came before.
    for at in range(count):
        if numbers[at] == fresh:
            fresh += 1
        else:
            total += chars[at]
    return total


@njit(nogil=True, cache=True)
def _span_chars(ids: npt.NDArray[np.int32], chars: npt.NDArray[np.int32], at: int, n: int) -> int:
    total = 0
    for k in range(at, at + n):
        total += chars[ids[k]]
    return total


@njit(nogil=True, cache=True)
def _top_gram(
    ids: npt.NDArray[np.int32],
    chars: npt.NDArray[np.int32],
    n: int,
    places: npt.NDArray[np.int32],
    numbers: npt.NDArray[np.int32],
    times: npt.NDArray[np.int32],
    distinct: int,
) -> int:
    """Returns the characters of the most frequent n-gram with a space between tokens, times its count; the first among
    equals.
    """
    most = 1
    top = 0
    # The first of the most frequent n-grams.
    for number in range(distinct):
        if times[number] > most:
            most = times[number]
            top = number
    first = 0
    if most > 1:
        at = 0
        while numbers[at] != top:
            at += 1
        first = places[at]
    return most * (_span_chars(ids, chars, first, n) + n - 1)


@njit(nogil=True, cache=True)
def _met_before(
    ids: npt.NDArray[np.int32],
    chars: npt.NDArray[np.int32],
    n: int,
    places: npt.NDArray[np.int32],
    numbers: npt.NDArray[np.int32],
    count: int,
    times: npt.NDArray[np.int32],
) -> int:
    """Counts the characters in n-grams that were seen before, skipping each one found. Negates `times` of those
    seen.
    """
    total = 0
    free = 0
    # An n-gram that is found twice counts from the second time on; the next one may not overlap it.
    for at in range(count):
        place = places[at]
        number = numbers[at]
        if place < free or times[number] == 1:
            continue
        if times[number] < 0:
            total += _span_chars(ids, chars, place, n)
            free = place + n
        else:
            times[number] = -times[number]
    return total


@njit(nogil=True, cache=True)
def _keep_repeated(
    places: npt.NDArray[np.int32], numbers: npt.NDArray[np.int32], count: int, times: npt.NDArray[np.int32]
) -> int:
    """Keeps the positions where this n-gram and the one a token later both occur more than once."""
    kept = 0
    # A longer n-gram can only be repeated where both of these are.
    for at in range(count - 1):
        place = places[at]
        number = numbers[at]
        repeats = (abs(times[number]) > 1) & (abs(times[numbers[at + 1]]) > 1)
        follows = places[at + 1] == place + 1
        places[kept] = place  # kept <= at: no branch to mispredict
        numbers[kept] = number
        kept += repeats & follows
    return kept


@njit(nogil=True, cache=True)
def _pair_keys(
    ids: npt.NDArray[np.int32],
    n: int,
    places: npt.NDArray[np.int32],
    numbers: npt.NDArray[np.int32],
    count: int,
    keys: npt.NDArray[np.uint64],
) -> None:
    for at in range(count):
        keys[at] = np.uint64(numbers[at]) << _HALF | np.uint64(ids[places[at] + n - 1])


@njit(nogil=True, cache=True)
def _tally(numbers: npt.NDArray[np.int32], count: int, times: npt.NDArray[np.int32], distinct: int) -> None:
    times[:distinct] = 0
    for at in range(count):
        times[numbers[at]] += 1


@njit(nogil=True, cache=True)
def _repeated_pairs(
    ids: npt.NDArray[np.int32],
    tokens: int,
    occurrences: npt.NDArray[np.int32],
    places: npt.NDArray[np.int32],
    numbers: npt.NDArray[np.int32],
) -> int:
    """Returns the positions of two tokens that both occur more than once, with the number of the first."""
    count = 0
    # A pair can only be repeated if both of its tokens are.
    for at in range(tokens - 1):
        places[count] = at
        numbers[count] = ids[at]
        count += (occurrences[ids[at]] > 1) & (occurrences[ids[at + 1]] > 1)
    return count


@njit(nogil=True, cache=True)
def ngram_signals(
    table: npt.NDArray[np.uint64],
    clock: npt.NDArray[np.int64],
    document: TokenNumbers,
    scratch: GramScratch,
    row: npt.NDArray[np.int64],
) -> npt.NDArray[np.uint64]:
    """Writes top 2..4-gram and duplicate 5..10-gram characters to `row`; returns the table, which may have grown."""
    ids, tokens, chars, occurrences = document
    places, numbers, times, keys = scratch
    count = _repeated_pairs(ids, tokens, occurrences, places, numbers)
    # Only positions that may be repeated are left for each longer n-gram.
    for n in range(2, MAX_NGRAM + 1):
        if tokens < n or (count == 0 and n > 4):
            break
        _pair_keys(ids, n, places, numbers, count, keys)
        table, distinct = number_keys(table, clock, keys, numbers, count)
        _tally(numbers, count, times, distinct)
        if n <= 4:
            row[TOP_2_GRAM_CHARS + n - 2] = _top_gram(ids, chars, n, places, numbers, times, distinct)
        else:
            row[DUP_5_GRAM_CHARS + n - 5] = _met_before(ids, chars, n, places, numbers, count, times)
        count = _keep_repeated(places, numbers, count, times)
    return table

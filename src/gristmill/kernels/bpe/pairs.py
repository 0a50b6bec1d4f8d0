"""Pairs of neighbouring tokens during the training of byte-pair encoding: their counts, their positions, and the next
merge.

A pair gets its count and the list of all its positions when the newer of its two tokens is created; after that its
count only falls. So each pair is in the queue once, and its count there is never too low: a popped pair is compared
with its true count and put back if the count has fallen. The next pair is the one with the highest count; among equals,
the one with the smallest ids, the left id first. That is the rule of Hugging Face `tokenizers` (`BpeTrainer`), and it
makes the order of merges a function of the counts only.
"""

from typing import Any, NamedTuple

import numpy as np

from gristmill.kernels.compile import njit

Array = np.ndarray[Any, Any]

KEY, COUNT, FIRST, PLACES = range(4)
"""Columns of a record: left id << 32 | right id, occurrences, the begin of its list of positions, and its length."""

_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class Pairs(NamedTuple):
    """Every pair that was ever frequent enough to be merged."""

    records: Array
    """int64, four per pair."""
    slots: Array
    """int32: a hash table of record numbers with open addressing; its size is a power of two, and -1 is empty."""
    queue: Array
    """int64: a heap of (count when it was added, record number)."""
    used: Array
    """int64: the numbers of records and of entries in the queue."""


@njit(nogil=True, cache=True)
def no_pairs(room: int) -> Pairs:
    """Returns an empty set with room for some pairs; it grows."""
    slots = 16
    while slots < 2 * room:
        slots *= 2
    return Pairs(
        np.empty((slots // 2, 4), np.int64),
        np.full(slots, -1, np.int32),
        np.empty((slots // 2, 2), np.int64),
        np.zeros(2, np.int64),
    )


@njit(nogil=True, cache=True, forceinline=True)
def _slot(slots: Array, records: Array, key: int) -> int:
    """Returns the slot of a key, or the empty slot where it belongs."""
    mask = len(slots) - 1
    mixed = np.uint64(key) * _SPREAD
    slot = int(np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(mask)))
    while slots[slot] >= 0 and records[slots[slot], KEY] != key:
        slot = (slot + 1) & mask
    return slot


@njit(nogil=True, cache=True)
def with_room(pairs: Pairs, more: int) -> Pairs:
    """Returns the same pairs with room for `more`."""
    records, entries = pairs.used
    if records + more <= len(pairs.records):
        return pairs
    grown = no_pairs(records + max(more, records))
    # Copy the records, then the queue; only the hash table is built again.
    for at in range(records):
        for field in range(pairs.records.shape[1]):
            grown.records[at, field] = pairs.records[at, field]
    # Entries of the queue keep their places, so the heap stays valid.
    for at in range(entries):
        for field in range(pairs.queue.shape[1]):
            grown.queue[at, field] = pairs.queue[at, field]
    grown.used[0], grown.used[1] = records, entries
    for record in range(records):
        grown.slots[_slot(grown.slots, grown.records, grown.records[record, KEY])] = record
    return grown


@njit(nogil=True, cache=True, forceinline=True)
def _before(records: Array, queue: Array, count: int, record: int, at: int) -> bool:
    """Whether a pair is merged before that of another entry in the queue."""
    other = queue[at, 0]
    return bool(count > other or (count == other and records[record, KEY] < records[queue[at, 1], KEY]))


@njit(nogil=True, cache=True, forceinline=True)
def _move(queue: Array, source: int, target: int) -> None:
    queue[target, 0], queue[target, 1] = queue[source, 0], queue[source, 1]


@njit(nogil=True, cache=True)
def put(pairs: Pairs, key: int, count: int, first: int, places: int) -> None:
    """Adds a new pair; there must be room for it."""
    records, queue, used = pairs.records, pairs.queue, pairs.used
    record, at = used[0], used[1]
    pairs.slots[_slot(pairs.slots, records, key)] = record
    records[record, KEY], records[record, COUNT], records[record, FIRST], records[record, PLACES] = (
        key,
        count,
        first,
        places,
    )
    used[0] += 1
    used[1] += 1
    # Move the entries that come later down until the new one fits.
    while at > 0 and _before(records, queue, count, record, (at - 1) >> 1):
        _move(queue, (at - 1) >> 1, at)
        at = (at - 1) >> 1
    queue[at, 0], queue[at, 1] = count, record


@njit(nogil=True, cache=True, forceinline=True)
def lower(pairs: Pairs, key: int, by: int) -> None:
    """Reduces the count of a pair; a pair that was never frequent enough is not there."""
    record = pairs.slots[_slot(pairs.slots, pairs.records, key)]
    if record >= 0:
        pairs.records[record, COUNT] -= by


@njit(nogil=True, cache=True)
def _sink(pairs: Pairs, count: int, record: int) -> None:
    """Replaces the first entry of the queue."""
    records, queue, entries = pairs.records, pairs.queue, pairs.used[1]
    at = 0
    # Move the child that comes first up until the entry fits.
    while True:
        child = 2 * at + 1
        if child >= entries:
            break
        if child + 1 < entries and _before(records, queue, queue[child + 1, 0], queue[child + 1, 1], child):
            child += 1
        if _before(records, queue, count, record, child):
            break
        _move(queue, child, at)
        at = child
    queue[at, 0], queue[at, 1] = count, record


@njit(nogil=True, cache=True)
def pop(pairs: Pairs, floor: int) -> int:
    """Takes the next pair to merge out of the queue; returns its record number, or -1 if none reaches `floor`."""
    records, queue, used = pairs.records, pairs.queue, pairs.used
    # A count in the queue may be too high by now. Such a pair goes back with its count, and the next one is tried.
    while used[1] > 0:
        record = queue[0, 1]
        count, current = queue[0, 0], records[record, COUNT]
        if count != current and current >= floor:
            _sink(pairs, current, record)
            continue
        used[1] -= 1
        if used[1] > 0:
            _sink(pairs, queue[used[1], 0], queue[used[1], 1])
        if current >= floor:
            return int(record)
    return -1

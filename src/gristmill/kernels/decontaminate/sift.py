"""Which places of a text may hold a unit: words are read, sifted through filters, and followed to postings.

Of all words of a text one in a hundred passes the filters. What is done for every word stands here, with addresses for
arrays, a stretch of a thousand bytes at a time: its sums are still in the first-level cache when they are sifted.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.decontaminate.marks import leads_to_code
from gristmill.kernels.decontaminate.match import (
    AROUND,
    AT_COUNT,
    AT_MISSES,
    AT_WORD,
    FIVE_BITS,
    GOES_ON,
    GOLDEN,
    IS_PART,
    LAST,
    LENGTH,
    LOWER,
    UPPER,
    WORD_BITS,
    Units,
    table_bits,
    three_bits,
)
from gristmill.kernels.dedup.shingles import ROLL, WordTables, roll_power, room_for, scan_words
from gristmill.kernels.memory import address_of, byte_at, eight_bytes_at
from gristmill.kernels.memory_blocks import BLOCK, prefetch
from gristmill.kernels.memory_writes import put_eight_bytes

Array = np.ndarray[Any, Any]

STRETCH = 1024
"""Bytes of text whose words are looked for before the next are read."""
_TOGETHER = 64
"""Places that are followed to their postings at once, so that memory is asked for all of them before it is needed."""


class Room(NamedTuple):
    """What reading a text leaves; made by `make_room`."""

    sums: npt.NDArray[np.uint64]
    edge: npt.NDArray[np.uint8]
    maybe: npt.NDArray[np.uint64]
    maybe_short: npt.NDArray[np.uint64]
    leads: npt.NDArray[np.int64]
    """Places of units, and the first posting of the seed there."""
    leads_short: npt.NDArray[np.int64]
    """The same, of units that one word leads to."""
    stretches: npt.NDArray[np.int64]
    """First byte and first word of each stretch of the text."""
    ranges: npt.NDArray[np.int64]
    """First and last byte (exclusive) of what lies around words that lead to code."""


@njit(nogil=True, cache=True)
def make_room(longest: int) -> Room:
    """For texts of so many bytes."""
    words, stretches = room_for(longest), longest // STRETCH + 1
    sums = np.empty(words, np.uint64)
    sums[0] = 0
    return Room(
        sums,
        np.empty(BLOCK, np.uint8),
        np.empty(words, np.uint64),
        np.empty(words, np.uint64),
        np.empty((words, 2), np.int64),
        np.empty((words, 2), np.int64),
        np.empty((stretches, 2), np.int64),
        np.empty((stretches, 2), np.int64),
    )


@njit(nogil=True, cache=True)
def _passes(filter_: int, narrow: np.uint64, seed: np.uint64) -> bool:
    bits = three_bits(seed)
    return bool(eight_bytes_at(filter_, 8 * np.int64(seed >> narrow)) & bits == bits)


@njit(nogil=True, cache=True)
def sift(sums: Array, begin: int, end: int, length: int, filter_: Array, maybe: Array) -> int:
    """Puts the places from `begin` to `end` where a window of `length` words may be a seed into `maybe`; how many."""
    narrow = np.uint64(64 - table_bits(len(filter_) // 2))
    power = roll_power(length)
    kind = np.uint64(length) * LENGTH
    at_sums, at_filter, at_maybe = address_of(sums), address_of(filter_), address_of(maybe)
    found = 0
    for at in range(begin, end):
        seed = eight_bytes_at(at_sums, 8 * (at + length)) - eight_bytes_at(at_sums, 8 * at) * power + kind
        if _passes(at_filter, narrow, seed):
            put_eight_bytes(at_maybe, 8 * found, np.uint64(at))
            found += 1
    return found


@njit(nogil=True, cache=True)
def _bit(gate: int, shift: np.uint64, seed: np.uint64) -> int:
    """1 where a gate is open for a seed."""
    place = seed >> shift
    bits = eight_bytes_at(gate, 8 * np.int64(place >> np.uint64(6)))
    return int(np.int64(bits >> (place & np.uint64(63)) & np.uint64(1)))


@njit(nogil=True, cache=True)
def _is_at(sums: int, at: int, count: int, wanted: np.uint64) -> bool:
    """Whether a word of a text may be one of a unit, by five bits."""
    if at < 0 or at >= count:
        return False
    word = eight_bytes_at(sums, 8 * (at + 1)) - eight_bytes_at(sums, 8 * at) * ROLL
    return bool((word ^ wanted) & FIVE_BITS == 0)


@njit(nogil=True, cache=True)
def _leads_on(
    head: np.uint64, before: np.uint64, behind: np.uint64, sums: int, at: int, length: int, count: int
) -> bool:
    """Whether words around a seed are there, or one place further, as a run or an alignment through it has them."""
    words_behind = int(np.int64(behind >> AT_COUNT & np.uint64(15)))
    words_before = min(int(np.int64(head >> AT_WORD & WORD_BITS)), AROUND)
    misses = int(np.int64(behind >> AT_MISSES))
    for k in range(words_behind):
        place = at + length + k
        is_there = _is_at(sums, place, count, behind)
        if not is_there:
            is_there = _is_at(sums, place - 1, count, behind) or _is_at(sums, place + 1, count, behind)
        misses -= not is_there
        behind >>= np.uint64(5)
    for k in range(words_before):
        if misses < 0:
            break
        place = at - 1 - k
        is_there = _is_at(sums, place, count, before)
        if not is_there:
            is_there = _is_at(sums, place - 1, count, before) or _is_at(sums, place + 1, count, before)
        misses -= not is_there
        before >>= np.uint64(5)
    return bool(misses >= 0)


@njit(nogil=True, cache=True)
def _follow(
    sums: int,
    count: int,
    length: int,
    power: np.uint64,
    maybe: int,
    known: int,
    second: int,
    narrow: np.uint64,
    slots: int,
    bits: int,
    postings: int,
    leads: int,
    led: int,
) -> int:
    """Adds to `leads` those of `known` places whose window is a seed that a posting may go on from; how many. `second`:
    the second half of the filter.
    """
    shift, mask = np.uint64(64 - bits), (1 << bits) - 1
    kind = np.uint64(length) * LENGTH
    passed = 0
    for k in range(known):
        at = int(np.int64(eight_bytes_at(maybe, 8 * k)))
        seed = eight_bytes_at(sums, 8 * (at + length)) - eight_bytes_at(sums, 8 * at) * power + kind
        put_eight_bytes(maybe, 8 * passed, np.uint64(at))
        passed += int(_passes(second, narrow, seed * GOLDEN))
    for k in range(passed):
        at = int(np.int64(eight_bytes_at(maybe, 8 * k)))
        seed = eight_bytes_at(sums, 8 * (at + length)) - eight_bytes_at(sums, 8 * at) * power + kind
        prefetch(slots, 8 * np.int64(seed * GOLDEN >> shift))
    for k in range(passed):
        at = int(np.int64(eight_bytes_at(maybe, 8 * k)))
        seed = eight_bytes_at(sums, 8 * (at + length)) - eight_bytes_at(sums, 8 * at) * power + kind
        place = int(np.int64(seed * GOLDEN >> shift))
        slot = eight_bytes_at(slots, 8 * place)
        while slot and (slot ^ seed) & UPPER:
            place = (place + 1) & mask
            slot = eight_bytes_at(slots, 8 * place)
        if not slot:
            continue
        first = posting = int(np.int64(slot & LOWER)) - 1
        next_, last = min(at + length, count - 1), max(at - 1, 0)
        next_word = eight_bytes_at(sums, 8 * (next_ + 1)) - eight_bytes_at(sums, 8 * next_) * ROLL
        last_word = eight_bytes_at(sums, 8 * (last + 1)) - eight_bytes_at(sums, 8 * last) * ROLL
        while posting >= 0:
            head = eight_bytes_at(postings, 24 * posting)
            before = eight_bytes_at(postings, 24 * posting + 8)
            behind = eight_bytes_at(postings, 24 * posting + 16)
            may_go_on = (
                not head & GOES_ON or not (behind ^ next_word) & FIVE_BITS or not (before ^ last_word) & FIVE_BITS
            )
            if may_go_on and (not head & IS_PART or _leads_on(head, before, behind, sums, at, length, count)):
                put_eight_bytes(leads, 16 * led, np.uint64(at))
                put_eight_bytes(leads, 16 * led + 8, np.uint64(first))
                led += 1
                break
            posting = -1 if head & LAST else posting + 1
    return led


@njit(nogil=True, cache=True)
def follow(sums: Array, count: int, maybe: Array, known: int, units: Units, leads: Array) -> int:
    """`_follow` of all places of a text that `sift` found."""
    return _follow(
        address_of(sums),
        count,
        units.seed_words,
        roll_power(units.seed_words),
        address_of(maybe),
        known,
        address_of(units.filter) + 4 * len(units.filter),
        np.uint64(64 - table_bits(len(units.filter) // 2)),
        address_of(units.slots),
        table_bits(len(units.slots)),
        address_of(units.postings),
        address_of(leads),
        0,
    )


@njit(nogil=True, cache=True)
def _cut(text: int, at: int, end: int) -> int:
    """The end of a stretch: a space, which is in no word, or that of the text."""
    stop = at + STRETCH
    while stop < end and byte_at(text, stop) != 32:
        stop += 1
    return min(stop, end)


@njit(nogil=True, cache=True)
def _ready(maybe: int, known: int, most: int) -> int:
    """How many places lie before `most`. The others wait until the words behind them are read."""
    while known > 0 and np.int64(eight_bytes_at(maybe, 8 * (known - 1))) >= most:
        known -= 1
    return known


@njit(nogil=True, cache=True)
def _keep(maybe: int, begin: int, end: int) -> int:
    """Moves places from `begin` to `end` to the front; how many they are."""
    for k in range(begin, end):
        put_eight_bytes(maybe, 8 * (k - begin), eight_bytes_at(maybe, 8 * k))
    return end - begin


@njit(nogil=True, cache=True)
def read_text(
    data: Array,
    begin: int,
    end: int,
    tables: WordTables,
    units: Units,
    short: Units,
    marks: Array,
    room: Room,
) -> tuple[int, int, int, int, int]:
    """Reads data[begin:end]; how many words, leads, short leads, stretches and ranges are in `room` then."""
    text, size = address_of(data), len(data)
    addresses = (
        address_of(tables.pages),
        address_of(tables.classes),
        address_of(tables.lower_pages),
        address_of(tables.lowers),
        address_of(tables.short),
    )
    sums, maybe, maybe_short = address_of(room.sums), address_of(room.maybe), address_of(room.maybe_short)
    leads, leads_short = address_of(room.leads), address_of(room.leads_short)
    filter_, narrow = address_of(units.filter), np.uint64(64 - table_bits(len(units.filter) // 2))
    second, second_short = filter_ + 4 * len(units.filter), address_of(short.filter) + 4 * len(short.filter)
    narrow_short = np.uint64(64 - table_bits(len(short.filter) // 2))
    gate, gate_shift = address_of(short.gate), np.uint64(58 - table_bits(len(short.gate)))
    slots, bits, postings = address_of(units.slots), table_bits(len(units.slots)), address_of(units.postings)
    slots_short, bits_short = address_of(short.slots), table_bits(len(short.slots))
    postings_short = address_of(short.postings)
    marked, marked_mask = address_of(marks), len(marks) // 2 - 1
    length = units.seed_words
    power = roll_power(length)
    kind = np.uint64(length) * LENGTH
    count = known = shorts = led = led_short = stretches = ranges = 0
    at = begin
    while at < end:
        stop = _cut(text, at, end)
        room.stretches[stretches, 0], room.stretches[stretches, 1] = at - begin, count
        stretches += 1
        first = count
        count = scan_words(text, at, stop, size, addresses, sums, count, room.edge)
        waiting = shorts
        before = eight_bytes_at(sums, 8 * first)
        for place in range(first, count):
            after = eight_bytes_at(sums, 8 * (place + 1))
            if _bit(gate, gate_shift, after - before * ROLL + LENGTH):
                put_eight_bytes(maybe_short, 8 * shorts, np.uint64(place))
                shorts += 1
            before = after
        for place in range(max(first, length - 1), count):
            start = place + 1 - length
            seed = eight_bytes_at(sums, 8 * (place + 1)) - eight_bytes_at(sums, 8 * start) * power + kind
            put_eight_bytes(maybe, 8 * known, np.uint64(start))
            known += int(_passes(filter_, narrow, seed))
        if leads_to_code(text, begin, end, size, at, sums, first, maybe_short, waiting, shorts, marked, marked_mask):
            low, high = max(at - STRETCH, begin), min(stop + STRETCH, end)
            if ranges and low <= room.ranges[ranges - 1, 1]:
                room.ranges[ranges - 1, 1] = high
            else:
                room.ranges[ranges, 0], room.ranges[ranges, 1] = low, high
                ranges += 1
        at = stop
        ahead = AROUND + 1 if at < end else 0  # words that `_leads_on` looks at
        if shorts:
            ready = _ready(maybe_short, shorts, count - ahead)
            led_short = _follow(
                sums,
                count,
                1,
                ROLL,
                maybe_short,
                ready,
                second_short,
                narrow_short,
                slots_short,
                bits_short,
                postings_short,
                leads_short,
                led_short,
            )
            shorts = _keep(maybe_short, ready, shorts)
        if known >= _TOGETHER or (known and at == end):
            ready = _ready(maybe, known, count - length - ahead + 1)
            led = _follow(sums, count, length, power, maybe, ready, second, narrow, slots, bits, postings, leads, led)
            known = _keep(maybe, ready, known)
    return count, led, led_short, stretches, ranges

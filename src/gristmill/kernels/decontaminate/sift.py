"""Finds the places of a text where a unit may begin: reads the words, filters them, and looks up their postings.

About one in a hundred words passes the filters. The loops that run for every word are in this file. They work on
about a thousand bytes of text at a time, so that the rolled sums are still in the first-level cache when they are
filtered.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.decontaminate import units as layout
from gristmill.kernels.decontaminate.units import Units, table_bits, three_bits
from gristmill.kernels.dedup import shingles
from gristmill.kernels.dedup.shingles import WordTables, room_for, window_sum, word_at
from gristmill.kernels.memory import Bytes, Ints, Uint64s, tail, view
from gristmill.kernels.memory_blocks import BLOCK, prefetch

Array = np.ndarray[Any, Any]

STRETCH = 1024
"""Bytes of text whose words are filtered before the next ones are read."""
_TOGETHER = 64
"""Candidates that are looked up together, so that their memory is prefetched before it is needed."""
_SPACE = ord(" ")
_UINT64_BYTES = 8


class TextBuffers(NamedTuple):
    """What `read_text` writes for one text; `make_buffers` allocates it."""

    sums: npt.NDArray[np.uint64]
    """Rolled sums of the words, as `shingles.sums_of` has them."""
    edge: npt.NDArray[np.uint8]
    """Scratch of `scan_words`."""
    maybe: npt.NDArray[np.uint64]
    """Candidates that passed the first half of the filter and wait to be looked up."""
    maybe_short: npt.NDArray[np.uint64]
    """The same for units with seeds of one word."""
    leads: npt.NDArray[np.int64]
    """Pairs of the word where a seed begins in the text, and the first posting of the seed."""
    leads_short: npt.NDArray[np.int64]
    """The same for units with seeds of one word."""
    stretches: npt.NDArray[np.int64]
    """First byte and first word of each stretch of the text."""


class TextCounts(NamedTuple):
    """How many entries of `TextBuffers` one text has filled."""

    words: int
    leads: int
    leads_short: int
    stretches: int


class SeedLookup(NamedTuple):
    """Views of the filter and the hash table of `Units`, with the constants to look up a seed."""

    seed_words: int
    power: np.uint64
    """`shingles.roll_power(seed_words)`."""
    kind: np.uint64
    """Added to a rolled sum, so that seeds of different lengths differ."""
    first_filter: Uint64s
    second_filter: Uint64s
    filter_shift: np.uint64
    """A seed shifted right by this many bits is its index in a half of the filter."""
    slots: Uint64s
    slot_bits: int
    postings: Uint64s


class TextSearch(NamedTuple):
    """Views of everything that `read_text` looks up; built once for all texts by `text_search`."""

    words: WordTables
    seeds: SeedLookup
    short_seeds: SeedLookup
    """For units with seeds of one word."""
    gate: Uint64s
    gate_shift: np.uint64
    """A seed shifted right by this many bits is the number of its bit in the gate."""


@njit(nogil=True, cache=True)
def make_buffers(longest: int) -> TextBuffers:
    """Allocates buffers for texts of up to `longest` bytes."""
    words, stretches = room_for(longest), longest // STRETCH + 1
    sums = np.empty(words, np.uint64)
    sums[0] = 0
    return TextBuffers(
        sums,
        np.empty(BLOCK, np.uint8),
        np.empty(words, np.uint64),
        np.empty(words, np.uint64),
        np.empty((words, 2), np.int64),
        np.empty((words, 2), np.int64),
        np.empty((stretches, 2), np.int64),
    )


@njit(nogil=True, cache=True)
def _lookup_of(units: Units, seed_words: int) -> SeedLookup:
    half = len(units.filter) // 2
    return SeedLookup(
        seed_words,
        shingles.roll_power(seed_words),
        np.uint64(seed_words) * layout.LENGTH,
        view(units.filter),
        tail(view(units.filter), half),
        np.uint64(64 - table_bits(half)),
        view(units.slots),
        table_bits(len(units.slots)),
        view(units.postings),
    )


@njit(nogil=True, cache=True)
def text_search(tables: WordTables, units: Units, short: Units) -> TextSearch:
    """Views for `read_text` of arrays that the caller's caller keeps alive; `short`: units with seeds of one word."""
    # A number of the gate has 64 bits: its index takes six bits fewer than that of a bit.
    gate_shift = np.uint64(58 - table_bits(len(short.gate)))
    long_seeds, short_seeds = _lookup_of(units, units.seed_words), _lookup_of(short, 1)
    return TextSearch(view(tables), long_seeds, short_seeds, view(short.gate), gate_shift)


@njit(nogil=True, cache=True)
def _seed_at(sums: Uint64s, at: int, lookup: SeedLookup) -> np.uint64:
    """The seed of the window that begins at word `at`."""
    return window_sum(sums, at, lookup.seed_words, lookup.power) + lookup.kind


@njit(nogil=True, cache=True)
def _passes(filter_: Uint64s, shift: np.uint64, seed: np.uint64) -> bool:
    """Whether the three bits of a seed are set in one half of the filter."""
    bits = three_bits(seed)
    return bool(filter_[np.int64(seed >> shift)] & bits == bits)


@njit(nogil=True, cache=True)
def _bit(gate: Uint64s, shift: np.uint64, seed: np.uint64) -> int:
    """The bit of a seed in the gate: 1 if the seed may be one of a unit."""
    place = seed >> shift
    bits = gate[np.int64(place >> np.uint64(6))]
    return int(np.int64(bits >> (place & np.uint64(63)) & np.uint64(1)))


@njit(nogil=True, cache=True)
def _is_at(sums: Uint64s, at: int, count: int, wanted: np.uint64) -> bool:
    """Whether word `at` of the text agrees with a word of a unit in its lowest five bits."""
    if at < 0 or at >= count:
        return False
    return bool((word_at(sums, at) ^ wanted) & layout.FIVE_BITS == 0)


@njit(nogil=True, cache=True)
def _is_close(sums: Uint64s, at: int, count: int, wanted: np.uint64) -> bool:
    """Whether word `at` of the text, or one of its two neighbours, agrees with a word of a unit."""
    if _is_at(sums, at, count, wanted):
        return True
    return _is_at(sums, at - 1, count, wanted) or _is_at(sums, at + 1, count, wanted)


@njit(nogil=True, cache=True)
def _leads_on(
    head: np.uint64, before: np.uint64, behind: np.uint64, sums: Uint64s, at: int, seed_words: int, count: int
) -> bool:
    """Whether enough words around a seed agree with the unit for a run or an alignment through the seed."""
    words_behind = int(np.int64(behind >> layout.AT_COUNT & layout.COUNT_BITS))
    words_before = min(int(np.int64(head >> layout.AT_WORD & layout.WORD_BITS)), layout.AROUND)
    misses = int(np.int64(behind >> layout.AT_MISSES))
    # Five bits of each word, the nearest to the seed first; each word that does not agree is one miss.
    for k in range(words_behind):
        misses -= not _is_close(sums, at + seed_words + k, count, behind)
        behind >>= np.uint64(5)
    # The same for the words before the seed.
    for k in range(words_before):
        if misses < 0:
            break
        misses -= not _is_close(sums, at - 1 - k, count, before)
        before >>= np.uint64(5)
    return bool(misses >= 0)


@njit(nogil=True, cache=True)
def _follow(sums: Uint64s, count: int, lookup: SeedLookup, maybe: Uint64s, known: int, leads: Ints, led: int) -> int:
    """Adds the candidates whose window is a seed with a promising posting to `leads`; returns the number of leads.

    `maybe` has `known` candidates, and `leads` has `led` leads before the call.
    """
    shift, mask = np.uint64(64 - lookup.slot_bits), (1 << lookup.slot_bits) - 1
    # The second half of the filter. A candidate is always written and counted only if it passes: no branch.
    passed = 0
    # One look for each candidate.
    for k in range(known):
        at = int(np.int64(maybe[k]))
        maybe[passed] = at
        passed += int(_passes(lookup.second_filter, lookup.filter_shift, _seed_at(sums, at, lookup) * layout.GOLDEN))
    # Request the memory of all slots before the first one is read.
    for k in range(passed):
        seed = _seed_at(sums, int(np.int64(maybe[k])), lookup)
        prefetch(lookup.slots, _UINT64_BYTES * np.int64(seed * layout.GOLDEN >> shift))
    # Look up the seeds that are left.
    for k in range(passed):
        at = int(np.int64(maybe[k]))
        seed = _seed_at(sums, at, lookup)
        place = int(np.int64(seed * layout.GOLDEN >> shift))
        slot = lookup.slots[place]
        # Open addressing: the upper half of a slot has to be that of the seed.
        while slot and (slot ^ seed) & layout.UPPER:
            place = (place + 1) & mask
            slot = lookup.slots[place]
        if not slot:
            continue
        # The first posting that can be extended makes the seed a lead; `match` goes through all of its postings.
        first = posting = int(np.int64(slot & layout.LOWER)) - 1
        next_word = word_at(sums, min(at + lookup.seed_words, count - 1))
        last_word = word_at(sums, max(at - 1, 0))
        # Postings carry bits of the words around the seed, so most are rejected without reading their unit.
        while posting >= 0:
            head = lookup.postings[layout.POSTING_NUMBERS * posting]
            before = lookup.postings[layout.POSTING_NUMBERS * posting + 1]
            behind = lookup.postings[layout.POSTING_NUMBERS * posting + 2]
            may_go_on = (
                not head & layout.GOES_ON
                or not (behind ^ next_word) & layout.FIVE_BITS
                or not (before ^ last_word) & layout.FIVE_BITS
            )
            if may_go_on and (
                not head & layout.IS_PART or _leads_on(head, before, behind, sums, at, lookup.seed_words, count)
            ):
                leads[2 * led], leads[2 * led + 1] = at, first
                led += 1
                break
            posting = -1 if head & layout.LAST else posting + 1
    return led


@njit(nogil=True, cache=True)
def _cut(text: Bytes, at: int, end: int) -> int:
    """The end of a stretch: the first space after STRETCH bytes, since no word contains one, or the end of the text."""
    stop = at + STRETCH
    while stop < end and text[stop] != _SPACE:
        stop += 1
    return min(stop, end)


@njit(nogil=True, cache=True)
def _ready(maybe: Uint64s, known: int, most: int) -> int:
    """How many candidates are before word `most`. The others wait until the words after them are read."""
    while known > 0 and np.int64(maybe[known - 1]) >= most:
        known -= 1
    return known


@njit(nogil=True, cache=True)
def _keep(maybe: Uint64s, begin: int, end: int) -> int:
    """Moves the candidates from `begin` to `end` to the front and returns their number."""
    for k in range(begin, end):
        maybe[k - begin] = maybe[k]
    return end - begin


@njit(nogil=True, cache=True)
def read_text(data: Array, begin: int, end: int, search: TextSearch, buffers: TextBuffers) -> TextCounts:
    """Reads data[begin:end] into `buffers` and returns the number of entries there."""
    text, seeds = view(data), search.seeds
    sums, maybe, maybe_short = view(buffers.sums), view(buffers.maybe), view(buffers.maybe_short)
    leads, leads_short = view(buffers.leads), view(buffers.leads_short)
    length = seeds.seed_words
    count = known = shorts = led = led_short = stretches = 0
    at = begin
    # Each turn reads a stretch of words and follows up its candidates while its sums are in the cache.
    while at < end:
        stop = _cut(text, at, end)
        buffers.stretches[stretches, 0], buffers.stretches[stretches, 1] = at - begin, count
        stretches += 1
        first = count
        count = shingles.scan_words(text, at, stop, len(data), search.words, sums, count, buffers.edge)
        # Seeds of one word: each word costs one look into the gate, a bitmap.
        before = sums[first]
        # A word whose bit is set is a candidate.
        for place in range(first, count):
            after = sums[place + 1]
            if _bit(search.gate, search.gate_shift, after - before * shingles.ROLL + layout.LENGTH):
                maybe_short[shorts] = place
                shorts += 1
            before = after
        # Longer seeds: each window costs one look into the first half of the filter, without a branch.
        for place in range(max(first, length - 1), count):
            start = place + 1 - length
            maybe[known] = start
            known += int(_passes(seeds.first_filter, seeds.filter_shift, _seed_at(sums, start, seeds)))
        at = stop
        ahead = layout.AROUND + 1 if at < end else 0  # words after a candidate that `_leads_on` reads
        if shorts:
            ready = _ready(maybe_short, shorts, count - ahead)
            led_short = _follow(sums, count, search.short_seeds, maybe_short, ready, leads_short, led_short)
            shorts = _keep(maybe_short, ready, shorts)
        if known >= _TOGETHER or (known and at == end):
            ready = _ready(maybe, known, count - length - ahead + 1)
            led = _follow(sums, count, seeds, maybe, ready, leads, led)
            known = _keep(maybe, ready, known)
    return TextCounts(count, led, led_short, stretches)
